//! A small world for one clause: a runtime, a scripted profiler, a trigger; run under many schedules.
#![allow(dead_code, reason = "each test file uses a part of it")]

use corprof::{Guid, HResult};
use remora_clr_sim::court::Court;
use remora_clr_sim::differences::Personality;
use remora_clr_sim::explore::shortened;
use remora_clr_sim::library::Library;
use remora_clr_sim::machine::Machine;
use remora_clr_sim::runtime::{Answer, AttachRequest, Profiler, Runtime};
use remora_clr_sim::schedule::{self, Chooser, End, Ran, Random, Task, Timeline};
use remora_clr_sim::scripted::{self, Script};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Schedules of each test, over all its personalities: what the contract says of "any" and "every" is shown by so many. While the model
/// is broken on purpose, all tests run again and again: then fewer.
pub const SCHEDULES: u64 = if cfg!(feature = "mutations") { 1_000 } else { 10_000 };
/// Of a misuse, in each personality: it need not be found in each of them.
const SCHEDULES_OF_A_MISUSE: u64 = 60;
/// So many of each personality are run twice, and must be identical.
const TWICE: u64 = 3;
/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// What a test works with.
pub struct World {
    pub runtime: Arc<Runtime>,
    pub court: Arc<Court>,
}

impl World {
    /// A library that plays a script, not loaded yet.
    pub fn library(&self, script: Script) -> (Arc<Library>, Arc<Script>) {
        scripted::library(script, &self.court)
    }

    /// Asks for an attach; the answer comes when it comes.
    pub fn asks(&self, library: &Arc<Library>, client_data: &[u8]) -> Answer {
        let request = AttachRequest {
            class: Guid::from_u128(1),
            library: Some(library.clone()),
            client_data: client_data.to_vec(),
        };
        self.runtime.ask_for_attach(request)
    }

    /// Attaches, and waits for the answer.
    pub fn attach(&self, library: &Arc<Library>) -> HResult {
        let answer = self.asks(library, &[]);
        schedule::wait_until(Some(3600 * SECOND), || answer.get().is_some());
        // The desktop answers before ProfilerAttachComplete.
        schedule::wait_until(Some(3600 * SECOND), || !self.runtime.is_attaching());
        answer.get().expect("the runtime answers within the hour")
    }

    /// Loads a profiler with the process.
    pub fn started(&self, script: Script) -> (Arc<Library>, Arc<Script>, Arc<Profiler>) {
        let (library, script) = self.library(script);
        assert_eq!(self.runtime.load_at_start(&library, &Guid::from_u128(1)), HResult::S_OK);
        let profiler = self.runtime.remembered().last().expect("loaded").clone();
        (library, script, profiler)
    }

    /// Attaches with success; the profiler as the runtime has it.
    pub fn attached(&self, script: Script) -> (Arc<Library>, Arc<Script>, Arc<Profiler>) {
        let (library, script) = self.library(script);
        assert_eq!(self.attach(&library), HResult::S_OK);
        let profiler = self.runtime.remembered().last().expect("attached").clone();
        (library, script, profiler)
    }
}

/// How many schedules of each of so many personalities a test runs.
pub fn schedules_of_each(personalities: usize) -> u64 {
    SCHEDULES.div_ceil(personalities as u64)
}

/// Runs a world under many schedules of each personality. What `body` asserts must hold in all of them, and nothing may be left that waits.
pub fn in_worlds(personalities: &[Personality], body: impl Fn(&World) + Clone + 'static) {
    hold_in_all(personalities, |personality| in_world(personality, body.clone()));
}

/// The same with a machine on which nothing runs yet.
pub fn on_machines(personalities: &[Personality], body: impl Fn(&Arc<Machine>) + Clone + 'static) {
    hold_in_all(personalities, |personality| {
        let body = body.clone();
        move |court| body(&Machine::new(personality, court))
    });
}

/// Runs one, and gives what the court found.
pub fn on_one(personality: Personality, seed: u64, body: impl Fn(&Arc<Machine>) + 'static) -> Vec<String> {
    complete(personality, seed, move |court| body(&Machine::new(personality, court))).findings
}

/// Runs one, and gives what the court found.
pub fn in_one(personality: Personality, seed: u64, body: impl Fn(&World) + 'static) -> Vec<String> {
    complete(personality, seed, in_world(personality, body)).findings
}

/// Runs one: what the court found, and the lines of the timeline.
pub fn run(personality: Personality, seed: u64, body: impl Fn(&World) + 'static) -> (Vec<String>, Vec<String>) {
    let judged = complete(personality, seed, in_world(personality, body));
    let lines = judged.ran.timeline.lines().iter().map(|line| line.what.to_owned()).collect();
    (judged.findings, lines)
}

fn in_world(personality: Personality, body: impl Fn(&World) + 'static) -> impl Fn(Arc<Court>) + 'static {
    move |court| {
        let runtime = Runtime::start(personality, court.clone());
        body(&World { runtime, court });
    }
}

/// One schedule, and what the court found in it.
struct Judged {
    ran: Ran,
    findings: Vec<String>,
}

impl Judged {
    fn holds(&self) -> bool {
        self.ran.end == End::Complete && self.findings.is_empty()
    }

    /// The end without the values that differ from schedule to schedule, and the clauses: what one failure has in common with another.
    fn kind(&self) -> (std::mem::Discriminant<End>, Vec<String>) {
        let clauses = self.findings.iter().map(|finding| clause_of(finding).to_owned()).collect();
        (std::mem::discriminant(&self.ran.end), clauses)
    }
}

fn judge(chooser: Chooser, body: impl Fn(Arc<Court>) + 'static) -> Judged {
    let court = Arc::new(Court::default());
    let of_world = court.clone();
    let ran = schedule::run(chooser, Timeline::recording(), move || {
        body(of_world);
        schedule::stop();
    });
    let findings = court.findings().into_iter().map(|finding| format!("{}: {}", finding.clause, finding.what));
    Judged { ran, findings: findings.collect() }
}

fn hold_in_all<B: Fn(Arc<Court>) + 'static>(personalities: &[Personality], body: impl Fn(Personality) -> B) {
    for personality in personalities {
        for seed in 0..schedules_of_each(personalities.len()) {
            holds(*personality, seed, || body(*personality));
        }
    }
}

/// Fails with a short timeline unless a schedule comes to its end with nothing found. The first ones must be identical when run again.
fn holds<B: Fn(Arc<Court>) + 'static>(personality: Personality, seed: u64, body: impl Fn() -> B) {
    let run = || judge(Chooser::Random(Random::new(seed)), body());
    let judged = run();
    if !judged.holds() {
        fail(personality, seed, judged, body);
    }
    if seed < TWICE {
        let again = run();
        let trace = |judged: &Judged| (judged.ran.timeline.hash(), judged.ran.choices.clone(), judged.ran.time);
        assert_eq!(
            trace(&judged),
            trace(&again),
            "{personality:?}, seed {seed}: it is not the same when it is run again"
        );
    }
}

fn fail<B: Fn(Arc<Court>) + 'static>(personality: Personality, seed: u64, judged: Judged, body: impl Fn() -> B) -> ! {
    let kind = judged.kind();
    let hook = std::panic::take_hook();
    // Each try may panic where the first one did: once told is enough.
    std::panic::set_hook(Box::new(|_| {}));
    let short = shortened(judged.ran.choices, |choices| {
        let again = judge(Chooser::Replay(choices), body());
        (again.kind() == kind).then_some(again.ran.choices)
    });
    let Judged { ran, findings } = judge(Chooser::Replay(short), body());
    std::panic::set_hook(hook);
    panic!("{personality:?}, seed {seed}: {:?}, {findings:?}\nthe same in short:\n{}", ran.end, ran.timeline)
}

/// One schedule that must come to its end, whatever is found in it.
fn complete(personality: Personality, seed: u64, body: impl Fn(Arc<Court>) + 'static) -> Judged {
    let judged = judge(Chooser::Random(Random::new(seed)), body);
    let Ran { end, timeline, .. } = &judged.ran;
    assert!(*end == End::Complete, "{personality:?}, seed {seed}: {end:?}\n{timeline}");
    judged
}

fn clause_of(finding: &str) -> &str {
    finding.split(':').next().unwrap_or_default()
}

/// Runs a world under many schedules of each personality; in how many of each `body` answered true.
/// Nothing may be found in any of them.
pub fn how_often(personalities: &[Personality], body: impl Fn(&World) -> bool + Clone + 'static) -> Vec<u64> {
    let reached = |personality: &Personality| {
        let count = Rc::new(RefCell::new(0));
        for seed in 0..schedules_of_each(personalities.len()) {
            let (body, of_body) = (body.clone(), count.clone());
            let findings = in_one(*personality, seed, move |world| *of_body.borrow_mut() += u64::from(body(world)));
            assert_eq!(findings, Vec::<String>::new(), "{personality:?}, seed {seed}");
        }
        count.take()
    };
    personalities.iter().map(reached).collect()
}

/// What the court finds in a misuse, in any of many schedules: the clauses, each once.
pub fn convicted(personality: Personality, body: impl Fn(&World) + Clone + 'static) -> Vec<String> {
    let mut clauses: Vec<String> = Vec::new();
    for seed in 0..SCHEDULES_OF_A_MISUSE {
        for finding in in_one(personality, seed, body.clone()) {
            let clause = clause_of(&finding).to_owned();
            if !clauses.contains(&clause) {
                clauses.push(clause);
            }
        }
    }
    clauses
}

/// Whether lines stand in a timeline in this order, others between them or not.
pub fn in_order(timeline: &[String], lines: &[&str]) -> bool {
    let mut rest = timeline.iter();
    lines.iter().all(|wanted| rest.any(|line| line == wanted))
}

/// A thread of the application.
pub fn application(world: &World, body: impl FnOnce(&Arc<Runtime>) + Send + 'static) -> Task {
    let runtime = world.runtime.clone();
    schedule::spawn("a thread of the application", move || {
        runtime.begin_thread();
        body(&runtime);
        runtime.end_thread();
    })
}

/// Waits until threads have ended.
pub fn join(tasks: &[Task]) {
    let all = || tasks.iter().all(|task| schedule::has_ended(*task));
    assert!(schedule::wait_until(Some(3600 * SECOND), all), "a thread never ends");
}

/// Waits until every profiler is gone.
pub fn gone(world: &World) {
    let is_gone = || world.runtime.profilers().is_empty();
    assert!(schedule::wait_until(Some(7200 * SECOND), is_gone), "the profiler never went");
}

/// Every Core.
pub const CORES: &[Personality] =
    &[Personality::Core3, Personality::Core6, Personality::Core8, Personality::Core9, Personality::Core10];
