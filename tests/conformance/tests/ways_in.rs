//! A profiler's entry points that the runtime does not know: a detach does not wait for them, so each must be closed before. On live
//! runtimes and their models.
//!
//! The profiler is `tests/probe`. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::probe::Stage;
use remora_conformance::{in_every_world, on_runtimes, worlds};
use remora_e2e::until;
use remora_holds::holds;
use std::os::unix::process::ExitStatusExt;

const FAIL: u32 = 0x8000_4005;
const ALREADY_ACTIVE: u32 = 0x8013_136A;
const MODULE_LOADS: u32 = 0x4;
/// The keyword of the runtime's exception events.
const EXCEPTION_KEYWORD: u64 = 0x8000;
/// After this many voluntary context switches, a thread counts as waiting.
const CHECKS: u64 = 20;
/// The signal of a process that executes an unmapped address.
const SEGMENTATION_FAULT: i32 = 11;

#[test]
fn det_04_the_runtime_waits_for_no_thread_of_the_profilers_own() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS, 0);
        own.done("thread");
        let mut other = stage.seat("Thread");
        own.done("detach 300");
        own.leave(0);
        stage.seat("ProfilerDetachSucceeded");
        stage.seat("Released");
        until("the next attach is served", || match stage.refused_attach() {
            Err(FAIL) => true,
            Err(ALREADY_ACTIVE) => false,
            other => panic!("the attach was answered {other:?}"),
        });
        // Only its own reference keeps the library mapped.
        holds!(DET_04 sim clr, stage.is_mapped() && stage.threads().contains(&other.thread()));
        assert_eq!(other.count("ProfilerDetachSucceeded"), 1);
        other.leave(0);
        until("the library is unmapped", || !stage.is_mapped());
        assert_eq!(stage.act("a load"), "obedient");
    });
}

#[test]
fn det_04_a_thread_that_is_in_the_library_when_it_is_freed_ends_the_target_by_a_fault() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS, 0);
        own.done("thread bare");
        let bare = stage.seat("Bare");
        until("it sleeps in the system", || stage.sleeps(bare.thread()));
        own.done("detach 300");
        own.leave(0);
        stage.gone();
        // As long as it does not wake, nothing shows.
        assert_eq!(stage.act("a load"), "obedient");
        assert!(stage.threads().contains(&bare.thread()));
        bare.leave(0);
        // It ends without a request, such as the end of its input.
        until("the target has ended", || !stage.target().is_alive());
        let status = stage.target().wait();
        holds!(DET_04 sim clr, status.signal() == Some(SEGMENTATION_FAULT), "{status}");
    });
}

#[test]
fn det_04_stopping_a_session_waits_for_who_writes_into_it() {
    on_runtimes(&worlds(|world| world.major() >= 8), |runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("b throw");
        let mut own = stage.attached(MODULE_LOADS, 0);
        let session = own.done(&format!("listen {EXCEPTION_KEYWORD:#x}"));
        own.done("hold EventPipeEventDelivered");
        stage.act("start b throw");
        let delivered = stage.seat("EventPipeEventDelivered");
        let stop = format!("unlisten {}", session[0]);
        let from = stage.yields(own.thread());
        own.begin(&stop);
        let waits = || own.is_answered() || stage.yields(own.thread()) >= from + CHECKS;
        until("the thread that stops it has looked again and again", waits);
        holds!(DET_04 sim clr, !own.is_answered(), "the session is stopped while a thread writes into it");
        delivered.leave(0);
        assert_eq!(own.answer(&stop), Ok(Vec::new()));
        let shown = own.count("EventPipeEventDelivered");
        assert_eq!(stage.act("finish b"), "caught");
        assert_eq!(stage.act("b throw"), "caught");
        holds!(DET_04 sim clr, own.count("EventPipeEventDelivered") == shown, "an event came after the stop");
        stage.leave(own);
        assert_eq!(stage.act("b throw"), "caught");
    });
}
