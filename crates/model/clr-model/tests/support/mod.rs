//! A small world for one clause: a runtime, a scripted profiler, a trigger. It runs under many schedules, each twice.
//!
//! With `REMORA_SCHEDULE=Core8:17` every world runs that one schedule: a failure prints the value that reproduces it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use corprof::{Guid, HResult};
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::explore::shortened;
use remora_clr_model::faults::Faults;
use remora_clr_model::library::Library;
use remora_clr_model::machine::Machine;
use remora_clr_model::runtime::{Answer, AttachRequest, Profiler, Runtime};
use remora_clr_model::schedule::{self, Chooser, End, Random, Schedule, Task, Timeline};
use remora_clr_model::scripted::{self, Script};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Schedules of each test, over all its runtime versions: the evidence for "any" and "every" in the contract. Mutation runs repeat all
/// tests many times, so they use fewer.
pub const SCHEDULES: u64 = if cfg!(feature = "mutations") { 1_000 } else { 10_000 };
/// Schedules per version for a misuse, which need not be found in each.
const SCHEDULES_OF_A_MISUSE: u64 = 60;
/// The variable with the single schedule to run.
const ONE: &str = "REMORA_SCHEDULE";
/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// The objects that a test works with.
pub struct World {
    pub runtime: Arc<Runtime>,
    pub faults: Arc<Faults>,
}

impl World {
    /// A library that plays a script, not loaded yet.
    pub fn library(&self, script: Script) -> (Arc<Library>, Arc<Script>) {
        scripted::library(script, &self.faults)
    }

    /// Requests an attach without waiting for the answer.
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

    /// Loads a profiler at startup.
    pub fn started(&self, script: Script) -> (Arc<Library>, Arc<Script>, Arc<Profiler>) {
        let (library, script) = self.library(script);
        assert_eq!(self.runtime.load_at_start(&library, &Guid::from_u128(1)), HResult::S_OK);
        let profiler = self.runtime.remembered().last().expect("loaded").clone();
        (library, script, profiler)
    }

    /// Attaches successfully; also returns the runtime's profiler.
    pub fn attached(&self, script: Script) -> (Arc<Library>, Arc<Script>, Arc<Profiler>) {
        let (library, script) = self.library(script);
        assert_eq!(self.attach(&library), HResult::S_OK);
        let profiler = self.runtime.remembered().last().expect("attached").clone();
        (library, script, profiler)
    }
}

/// Schedules per version for a test with this many versions.
pub fn schedules_of_each(runtime_versions: usize) -> u64 {
    SCHEDULES.div_ceil(runtime_versions as u64)
}

/// Runs a world under many schedules of each version. The assertions of `body` must hold in all, and no thread may remain waiting.
pub fn in_worlds(runtime_versions: &[RuntimeVersion], body: impl Fn(&World) + Clone + 'static) {
    hold_in_all(runtime_versions, |runtime_version| in_world(runtime_version, body.clone()));
}

/// The same with an empty machine.
pub fn on_machines(runtime_versions: &[RuntimeVersion], body: impl Fn(&Arc<Machine>) + Clone + 'static) {
    hold_in_all(runtime_versions, |runtime_version| {
        let body = body.clone();
        move |faults| body(&Machine::new(runtime_version, faults))
    });
}

/// Runs one schedule; returns its faults.
pub fn on_one(runtime_version: RuntimeVersion, seed: u64, body: impl Fn(&Arc<Machine>) + 'static) -> Vec<String> {
    let body = Rc::new(body);
    let world = || {
        let body = body.clone();
        move |faults| body(&Machine::new(runtime_version, faults))
    };
    complete(runtime_version, seed, world).findings
}

/// Runs one schedule; returns its faults.
pub fn in_one(runtime_version: RuntimeVersion, seed: u64, body: impl Fn(&World) + 'static) -> Vec<String> {
    complete(runtime_version, seed, worlds(runtime_version, body)).findings
}

/// Runs one schedule; returns its faults and the lines of the timeline.
pub fn run(runtime_version: RuntimeVersion, seed: u64, body: impl Fn(&World) + 'static) -> (Vec<String>, Vec<String>) {
    let judged = complete(runtime_version, seed, worlds(runtime_version, body));
    let lines = judged.ran.timeline.lines().iter().map(|line| line.what.to_owned()).collect();
    (judged.findings, lines)
}

/// Any number of worlds with the same body.
fn worlds<B: Fn(&World) + 'static>(runtime_version: RuntimeVersion, body: B) -> impl Fn() -> Box<dyn Fn(Arc<Faults>)> {
    let body = Rc::new(body);
    move || {
        let body = body.clone();
        Box::new(in_world(runtime_version, move |world| body(world)))
    }
}

fn in_world(runtime_version: RuntimeVersion, body: impl Fn(&World) + 'static) -> impl Fn(Arc<Faults>) + 'static {
    move |faults| {
        let runtime = Runtime::start(runtime_version, faults.clone());
        body(&World { runtime, faults });
    }
}

/// One schedule with its faults.
struct Judged {
    ran: Schedule,
    findings: Vec<String>,
}

impl Judged {
    fn holds(&self) -> bool {
        self.ran.end == End::Complete && self.findings.is_empty()
    }

    /// The kind of end and the clauses, without the values that differ between schedules: equal for similar failures.
    fn kind(&self) -> (std::mem::Discriminant<End>, Vec<String>) {
        let clauses = self.findings.iter().map(|finding| clause_of(finding).to_owned()).collect();
        (std::mem::discriminant(&self.ran.end), clauses)
    }
}

fn judge(chooser: Chooser, body: impl Fn(Arc<Faults>) + 'static) -> Judged {
    let faults = Arc::new(Faults::default());
    let of_world = faults.clone();
    let ran = schedule::run(chooser, Timeline::recording(), move || {
        body(of_world);
        schedule::stop();
    });
    let findings = faults.findings().into_iter().map(|finding| format!("{}: {}", finding.clause, finding.what));
    Judged { ran, findings: findings.collect() }
}

fn hold_in_all<B: Fn(Arc<Faults>) + 'static>(runtime_versions: &[RuntimeVersion], body: impl Fn(RuntimeVersion) -> B) {
    for runtime_version in runtime_versions {
        for seed in seeds_of(*runtime_version, schedules_of_each(runtime_versions.len())) {
            let judged = judge_twice(*runtime_version, seed, || body(*runtime_version));
            if !judged.holds() {
                fail(*runtime_version, seed, judged, || body(*runtime_version));
            }
        }
    }
}

/// The seeds of a test, or the single requested one.
fn seeds_of(runtime_version: RuntimeVersion, schedules: u64) -> Range<u64> {
    let Ok(one) = std::env::var(ONE) else { return 0..schedules };
    let (name, seed) = one.split_once(':').expect("a runtime_version, a colon, a seed");
    let seed: u64 = seed.parse().expect("a seed is a number");
    if name == format!("{runtime_version:?}") { seed..seed + 1 } else { 0..0 }
}

/// Runs one schedule twice; both runs must be the same.
fn judge_twice<B: Fn(Arc<Faults>) + 'static>(
    runtime_version: RuntimeVersion,
    seed: u64,
    body: impl Fn() -> B,
) -> Judged {
    let run = || judge(Chooser::Random(Random::new(seed)), body());
    let (judged, again) = (run(), run());
    let trace = |judged: &Judged| {
        (judged.ran.timeline.hash(), judged.ran.choices.clone(), judged.ran.time, judged.findings.clone())
    };
    let again_at = again_at(runtime_version, seed);
    assert_eq!(trace(&judged), trace(&again), "it is not the same when it is run again: {again_at}");
    judged
}

/// The command that repeats a schedule.
fn again_at(runtime_version: RuntimeVersion, seed: u64) -> String {
    let (file, thread) = (env!("CARGO_CRATE_NAME"), std::thread::current());
    let test = thread.name().unwrap_or_default();
    format!("{ONE}={runtime_version:?}:{seed} cargo test --package remora-clr-model --test {file} {test}")
}

fn fail<B: Fn(Arc<Faults>) + 'static>(
    runtime_version: RuntimeVersion,
    seed: u64,
    judged: Judged,
    body: impl Fn() -> B,
) -> ! {
    let kind = judged.kind();
    let hook = std::panic::take_hook();
    // Each try may panic like the first one: one report is enough.
    std::panic::set_hook(Box::new(|_| {}));
    let short = shortened(judged.ran.choices, |choices| {
        let again = judge(Chooser::Replay(choices), body());
        (again.kind() == kind).then_some(again.ran.choices)
    });
    let Judged { ran, findings } = judge(Chooser::Replay(short), body());
    std::panic::set_hook(hook);
    let again = again_at(runtime_version, seed);
    panic!(
        "{runtime_version:?}: {:?}, {findings:?}\nthe same in short:\n{}\nto see it again: {again}",
        ran.end, ran.timeline
    )
}

/// Runs one schedule that must complete, with any findings.
fn complete<B: Fn(Arc<Faults>) + 'static>(runtime_version: RuntimeVersion, seed: u64, body: impl Fn() -> B) -> Judged {
    let judged = judge_twice(runtime_version, seed, &body);
    if judged.ran.end != End::Complete {
        fail(runtime_version, seed, judged, body);
    }
    judged
}

fn clause_of(finding: &str) -> &str {
    finding.split(':').next().unwrap_or_default()
}

/// Runs a world under many schedules of each version, without findings. Returns how often `body` returned true in each.
pub fn how_often(runtime_versions: &[RuntimeVersion], body: impl Fn(&World) -> bool + Clone + 'static) -> Vec<u64> {
    let reached = |runtime_version: &RuntimeVersion| {
        let answered = Rc::new(Cell::new(false));
        let mut times = 0;
        for seed in seeds_of(*runtime_version, schedules_of_each(runtime_versions.len())) {
            let (body, answer) = (body.clone(), answered.clone());
            let findings = in_one(*runtime_version, seed, move |world| answer.set(body(world)));
            assert_eq!(findings, Vec::<String>::new(), "to see it again: {}", again_at(*runtime_version, seed));
            times += u64::from(answered.get());
        }
        times
    };
    runtime_versions.iter().map(reached).collect()
}

/// The faults of a misuse in many schedules: the clauses, each once.
pub fn faults_of(runtime_version: RuntimeVersion, body: impl Fn(&World) + Clone + 'static) -> Vec<String> {
    let mut clauses: Vec<String> = Vec::new();
    for seed in seeds_of(runtime_version, SCHEDULES_OF_A_MISUSE) {
        for finding in in_one(runtime_version, seed, body.clone()) {
            let clause = clause_of(&finding).to_owned();
            if !clauses.contains(&clause) {
                clauses.push(clause);
            }
        }
    }
    clauses
}

/// Whether a timeline contains these lines in this order, possibly with others in between.
pub fn in_order(timeline: &[String], lines: &[&str]) -> bool {
    let mut rest = timeline.iter();
    lines.iter().all(|wanted| rest.any(|line| line == wanted))
}

/// An application thread.
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

/// Waits until every profiler has detached.
pub fn gone(world: &World) {
    let is_gone = || world.runtime.profilers().is_empty();
    assert!(schedule::wait_until(Some(7200 * SECOND), is_gone), "the profiler never went");
}

/// Every Core version.
pub const CORES: &[RuntimeVersion] = &[
    RuntimeVersion::Core3,
    RuntimeVersion::Core6,
    RuntimeVersion::Core8,
    RuntimeVersion::Core9,
    RuntimeVersion::Core10,
    RuntimeVersion::Core11,
];
