//! A small world for one clause: a runtime, a scripted profiler, a trigger; run under many schedules.
#![allow(dead_code, reason = "each test file uses a part of it")]

use corprof::{Guid, HResult};
use remora_clr_sim::court::Court;
use remora_clr_sim::differences::Personality;
use remora_clr_sim::library::Library;
use remora_clr_sim::machine::Machine;
use remora_clr_sim::runtime::{Answer, AttachRequest, Profiler, Runtime};
use remora_clr_sim::schedule::{self, Chooser, End, Random, Timeline};
use remora_clr_sim::scripted::{self, Script};
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

    /// Attaches with success; the profiler as the runtime has it.
    pub fn attached(&self, script: Script) -> (Arc<Library>, Arc<Script>, Arc<Profiler>) {
        let (library, script) = self.library(script);
        assert_eq!(self.attach(&library), HResult::S_OK);
        let profiler = self.runtime.remembered().last().expect("attached").clone();
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
    judged(personality, seed, move |court| body(&Machine::new(personality, court)))
}

/// Runs one, and gives what the court found.
pub fn in_one(personality: Personality, seed: u64, body: impl Fn(&World) + 'static) -> Vec<String> {
    judged(personality, seed, move |court| {
        let runtime = Runtime::start(personality, court.clone());
        body(&World { runtime, court });
    })
}

fn judged(personality: Personality, seed: u64, body: impl Fn(Arc<Court>) + 'static) -> Vec<String> {
    let court = Arc::new(Court::default());
    let of_world = court.clone();
    let ran = schedule::run(Chooser::Random(Random::new(seed)), Timeline::recording(), move || {
        body(of_world);
        schedule::stop();
    });
    if let End::Complete = ran.end {
        court.findings().into_iter().map(|finding| format!("{}: {}", finding.clause, finding.what)).collect()
    } else {
        panic!("{personality:?}, seed {seed}: {:?}\n{}", ran.end, ran.timeline)
    }
}

/// Every Core.
pub const CORES: &[Personality] =
    &[Personality::Core3, Personality::Core6, Personality::Core8, Personality::Core9, Personality::Core10];
