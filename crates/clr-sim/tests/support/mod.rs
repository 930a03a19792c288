//! A small world for one clause: a runtime, a scripted profiler, a trigger; run under many schedules.
#![allow(dead_code, reason = "each test file uses a part of it")]

use corprof::{Guid, HResult};
use remora_clr_sim::court::Court;
use remora_clr_sim::differences::Personality;
use remora_clr_sim::library::Library;
use remora_clr_sim::machine::Machine;
use remora_clr_sim::runtime::{Answer, AttachRequest, Profiler, Runtime, Status};
use remora_clr_sim::schedule::{self, Chooser, End, Random, Task, Timeline};
use remora_clr_sim::scripted::{self, Script};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Schedules of each world: every test says what holds in all of them.
pub const SCHEDULES: u64 = 200;
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
        // The desktop answers before it, if it comes at all: a profiler that nobody finds, or that leaves at once, gets none.
        schedule::wait_until(Some(2 * SECOND), || {
            profiler.status() != Status::Active || script.count("ProfilerAttachComplete") == 1
        });
        (library, script, profiler)
    }
}

/// Runs a world under many schedules of each personality. What `body` asserts must hold in all of them, and nothing may be left that waits.
pub fn in_worlds(personalities: &[Personality], body: impl Fn(&World) + Clone + 'static) {
    for personality in personalities {
        for seed in 0..SCHEDULES {
            let findings = in_one(*personality, seed, body.clone());
            assert_eq!(findings, Vec::<String>::new(), "{personality:?}, seed {seed}");
        }
    }
}

/// The same with a machine on which nothing runs yet.
pub fn on_machines(personalities: &[Personality], body: impl Fn(&Arc<Machine>) + Clone + 'static) {
    for personality in personalities {
        for seed in 0..SCHEDULES {
            let findings = on_one(*personality, seed, body.clone());
            assert_eq!(findings, Vec::<String>::new(), "{personality:?}, seed {seed}");
        }
    }
}

/// Runs one, and gives what the court found.
pub fn on_one(personality: Personality, seed: u64, body: impl Fn(&Arc<Machine>) + 'static) -> Vec<String> {
    judged(personality, seed, move |court| body(&Machine::new(personality, court))).0
}

/// Runs one, and gives what the court found.
pub fn in_one(personality: Personality, seed: u64, body: impl Fn(&World) + 'static) -> Vec<String> {
    run(personality, seed, body).0
}

/// Runs one: what the court found, and the lines of the timeline.
pub fn run(personality: Personality, seed: u64, body: impl Fn(&World) + 'static) -> (Vec<String>, Vec<String>) {
    judged(personality, seed, move |court| {
        let runtime = Runtime::start(personality, court.clone());
        body(&World { runtime, court });
    })
}

fn judged(personality: Personality, seed: u64, body: impl Fn(Arc<Court>) + 'static) -> (Vec<String>, Vec<String>) {
    let court = Arc::new(Court::default());
    let of_world = court.clone();
    let ran = schedule::run(Chooser::Random(Random::new(seed)), Timeline::recording(), move || {
        body(of_world);
        schedule::stop();
    });
    if let End::Complete = ran.end {
        let findings = court.findings().into_iter().map(|finding| format!("{}: {}", finding.clause, finding.what));
        (findings.collect(), ran.timeline.lines().iter().map(|line| line.what.to_owned()).collect())
    } else {
        panic!("{personality:?}, seed {seed}: {:?}\n{}", ran.end, ran.timeline)
    }
}

/// Runs a world under many schedules of each personality; in how many of each `body` answered true.
/// Nothing may be found in any of them.
pub fn how_often(personalities: &[Personality], body: impl Fn(&World) -> bool + Clone + 'static) -> Vec<u64> {
    let reached = |personality: &Personality| {
        let count = Rc::new(RefCell::new(0));
        for seed in 0..SCHEDULES {
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
    for seed in 0..SCHEDULES {
        for finding in in_one(personality, seed, body.clone()) {
            let clause = finding.split(':').next().unwrap_or_default().to_owned();
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
