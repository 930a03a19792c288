//! What the runtime does with an attach, and with other requests, at each step of a detach. On live runtimes and their models.
//!
//! The profiler is `tests/probe`. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::in_every_world;
use remora_conformance::probe::{DetachStep, Stage};
use remora_e2e::{Runtime, diagnostics, until};
use remora_holds::holds;

const ALREADY_ACTIVE: u32 = 0x8013_136A;
const FAIL: u32 = 0x8000_4005;
const UNKNOWN_COMMAND: u32 = 0x8013_1385;
/// After this many sleeps of the detach thread, it must have found the profiler busy. Each check has at most two sleeps.
const CHECKS: u64 = 6;

#[test]
fn det_11_at_each_step_of_a_detach_an_attach_is_refused_or_waits_and_every_other_request_with_it() {
    in_every_world(|runtime| {
        for step in DetachStep::ALL {
            let mut stage = Stage::start(runtime);
            let (held, detacher) = stage.held_in_detach(step);
            let attaching = stage.attach(&[]);
            let pid = stage.pid();
            if is_refused_at_once(runtime, step) {
                holds!(DET_11 sim clr, attaching.answer() == Err(ALREADY_ACTIVE), "{step:?}");
                // It knows no such command, and says so.
                holds!(DET_11 sim clr, diagnostics::describe_process(pid) == Err(UNKNOWN_COMMAND), "{step:?}");
                held.leave(0);
                continue;
            }
            until("the request is taken", || stage.waiting_requests() == 0);
            let other = std::thread::spawn(move || diagnostics::describe_process(pid));
            until("the other request has come", || stage.waiting_requests() > 0);
            if step == DetachStep::Evacuation {
                let from = detacher.sleeps();
                until("the detach thread has looked again and again", || detacher.sleeps() >= from + CHECKS);
            }
            let is_served = other.is_finished() || !attaching.is_pending() || stage.has_come("InitializeForAttach");
            holds!(DET_11 sim clr, !is_served && stage.waiting_requests() > 0, "{step:?}");
            held.leave(0);
            stage.seat("InitializeForAttach").leave(FAIL);
            holds!(DET_11 sim clr, attaching.answer() == Err(FAIL), "{step:?}");
            let answered = other.join().is_ok_and(|answer| answer.is_ok() || answer == Err(UNKNOWN_COMMAND));
            holds!(DET_11 sim clr, answered, "{step:?}");
        }
    });
}

/// .NET Core 3.1 looks whether a profiler is there; from the end of the evacuation on it waits, too.
fn is_refused_at_once(runtime: &Runtime, step: DetachStep) -> bool {
    runtime.major() < 6 && step == DetachStep::Evacuation
}
