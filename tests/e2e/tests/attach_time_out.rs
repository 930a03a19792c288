//! The only use that .NET makes of a request's time-out: the wait for a background GC, when a profiler asks for all references.
#![forbid(unsafe_code)]

use remora_e2e::diagnostics::Wish;
use remora_e2e::probe::{CLASS, NOTIFIED_CLASS, Seat, Stage, library};
use remora_e2e::{Runtime, on_runtimes, until};
use remora_holds::holds;
use std::time::Duration;

/// COR_PRF_MONITOR_GC, and of the upper half COR_PRF_HIGH_BASIC_GC.
const MONITOR_GC: u32 = 0x80;
const BASIC_GC: u32 = 0x10;
/// CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC.
const TIMED_OUT: u32 = 0x8013_1379;
const FAIL: u32 = 0x8000_4005;

/// A notification-only profiler holds the end of the GC, so 3.1 cannot take part.
#[test]
fn att_08_the_time_out_of_a_request_bounds_the_wait_for_a_background_collection_and_nothing_else() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let mut stage = Stage::start_program(runtime, "gc", &["0"], &[]);
        let mut other = stage.attached_class(&NOTIFIED_CLASS, 0, BASIC_GC);
        until("collections run beside the program", || stage.act("full") == "background");
        let held = held_background_collection(&mut stage, &mut other);
        let wish = Wish { time_out: Duration::from_millis(100), ..Wish::of(&CLASS, &library().to_string_lossy(), &[]) };
        let attaching = stage.attach_as(wish);
        let mut init = stage.seat("InitializeForAttach");
        holds!(ATT_08 clr, init.refused(&format!("mask {MONITOR_GC:#x} 0")) == TIMED_OUT);
        init.leave(FAIL);
        holds!(ATT_08 clr, attaching.answer() == Err(FAIL));
        held.leave(0);
        stage.target().read_line();
    });
}

/// The end of a GC that runs beside the program.
fn held_background_collection(stage: &mut Stage, other: &mut Seat) -> Seat {
    other.done("hold GarbageCollectionFinished");
    stage.target().tell("full");
    stage.seat("GarbageCollectionFinished")
}
