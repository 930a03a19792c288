//! A profiler's session in a busy program: events arrive at any time, even around the detach.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::application::{self, Interrupt};
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::schedule::{self, Random};
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use support::{World, gone, in_worlds, join, run};

/// The versions with profiler sessions.
const WITH_SESSIONS: [RuntimeVersion; 4] =
    [RuntimeVersion::Core6, RuntimeVersion::Core8, RuntimeVersion::Core9, RuntimeVersion::Core10];
const DELIVERED: &str = "EventPipeEventDelivered";
/// Schedules per version in which a session is left open.
const SCHEDULES_OF_EACH: u64 = 100;
/// Threads of the program, and steps of each.
const BUSY: (usize, usize) = (2, 12);

/// A profiler attaches to a busy program, opens a session, and detaches. Returns the number of its events.
fn comes_listens_and_goes(world: &World) -> usize {
    let program = application::start(&world.runtime, &silent(), &mut Random::new(schedule::now() + 7), BUSY);
    let (_, script, _) = world.attached(Script::new());
    let session = script.start_session().unwrap();
    schedule::wait_until(Some(1_000_000), || script.count(DELIVERED) > 0);
    assert_eq!(script.stop_session(session), HResult::S_OK);
    let delivered = script.count(DELIVERED);
    assert_eq!(script.request_detach(1), HResult::S_OK);
    gone(world);
    join(&program);
    holds!([DET_04 DET_06] sim, script.count(DELIVERED) == delivered, "an event comes after the stop");
    delivered
}

#[test]
fn det_04_det_06_who_stops_its_session_gets_events_until_then_and_none_around_its_detach() {
    let delivered = Rc::new(Cell::new(0));
    let of_worlds = delivered.clone();
    in_worlds(&WITH_SESSIONS, move |world| of_worlds.set(of_worlds.get() + comes_listens_and_goes(world)));
    assert!(delivered.get() > 1_000, "{} events", delivered.get());
}

#[test]
fn det_06_a_session_that_is_left_open_brings_events_into_a_profiler_that_is_sealed() {
    for runtime_version in WITH_SESSIONS {
        let late = Rc::new(Cell::new(0));
        for seed in 0..SCHEDULES_OF_EACH {
            let of_world = late.clone();
            let (findings, _) = run(runtime_version, seed, move |world| {
                let program = application::start(&world.runtime, &silent(), &mut Random::new(seed), BUSY);
                let (_, script, _) = world.attached(Script::new());
                script.start_session().unwrap();
                assert_eq!(script.request_detach(1), HResult::S_OK);
                let sealed = script.count(DELIVERED);
                gone(world);
                join(&program);
                of_world.set(of_world.get() + usize::from(script.count(DELIVERED) > sealed));
            });
            // DET-07: an object released during a delivery. Each schedule reports at least the session itself.
            let is_known = |one: &String| one.starts_with("DET-04") || one.starts_with("DET-07");
            holds!(DET_06 sim, findings.iter().all(is_known) && !findings.is_empty(), "{findings:?}");
        }
        holds!(DET_06 sim, late.get() > 0, "{runtime_version:?}");
    }
}

/// No signals: no sampling.
fn silent() -> Interrupt {
    Arc::new(|| {})
}
