//! Stopped targets, and debuggers that attach and detach during profiling. On live runtimes and their models.
//!
//! The profiler is `tests/probe`. The debugger is a native one, `tests/targets/native/tracer.c`. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::in_every_world;
use remora_conformance::probe::{Seat, Stage, meanwhile};
use remora_e2e::{Debugger, until};
use remora_holds::holds;

const FAIL: u32 = 0x8000_4005;
const DETACHING: u32 = 0x8013_1367;
const MODULE_LOADS: u32 = 0x4;

#[test]
fn att_16_a_stopped_target_does_not_answer_and_does_when_it_goes_on() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.target().halt();
        let attaching = stage.attach(&[]);
        meanwhile(runtime);
        holds!(ATT_16 sim clr, !stage.is_mapped() && !stage.has_come("InitializeForAttach") && attaching.is_pending());
        stage.target().go_on();
        let mut init = stage.seat("InitializeForAttach");
        // In the middle of the attach.
        init.done(&format!("mask {MODULE_LOADS:#x} 0"));
        init.done("hold ProfilerAttachComplete");
        init.done("thread");
        // The thread has connected, so nothing is stopped half-way.
        let mut own = stage.seat("Thread");
        stage.target().halt();
        init.leave(0);
        meanwhile(runtime);
        assert!(!stage.has_come("ProfilerAttachComplete") && attaching.is_pending());
        stage.target().go_on();
        stage.seat("ProfilerAttachComplete").leave(0);
        holds!(ATT_16 sim clr, attaching.answer() == Ok(()));
        stage.is_alive(&mut own);
        stage.leave(own);
        assert_eq!(stage.act("a load"), "obedient");
    });
}

#[test]
fn att_16_a_stopped_target_is_called_back_nowhere_and_its_detach_waits() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, mut held) = stage.held_in_load();
        stage.target().halt();
        own.begin("detach 300");
        meanwhile(runtime);
        holds!(ATT_16 sim clr, !own.is_answered());
        stage.target().go_on();
        assert_eq!(own.answer("detach 300"), Ok(Vec::new()));
        assert_eq!(held.refused("modules"), DETACHING);
        stage.target().halt();
        own.leave(0);
        held.leave(0);
        meanwhile(runtime);
        holds!(ATT_16 sim clr, stage.is_mapped() && !stage.has_come("ProfilerDetachSucceeded"));
        stage.target().go_on();
        stage.gone();
        holds!(ATT_16 sim clr, stage.act("finish a") == "obedient");
    });
}

#[test]
fn att_16_a_debugger_comes_first_and_goes_before_the_profiler_or_after_it() {
    in_every_world(|runtime| {
        for goes_first in [true, false] {
            let mut stage = Stage::start(runtime);
            let mut debugger = Debugger::halt(stage.pid());
            let attaching = stage.attach(&[]);
            meanwhile(runtime);
            holds!(ATT_16 sim clr, !stage.is_mapped() && !stage.has_come("InitializeForAttach") && attaching.is_pending());
            debugger.let_run();
            let mut own = let_in(&stage);
            holds!(ATT_16 sim clr, attaching.answer() == Ok(()));
            stage.is_alive(&mut own);
            let mut debugger = Some(debugger);
            if goes_first {
                debugger.take().into_iter().for_each(Debugger::leave);
                stage.is_alive(&mut own);
            }
            stage.leave(own);
            holds!(ATT_16 sim clr, stage.act("a load") == "obedient");
            debugger.into_iter().for_each(Debugger::leave);
            holds!(ATT_16 sim clr, stage.act("a load") == "obedient");
        }
    });
}

#[test]
fn att_16_a_profiler_comes_first_and_goes_before_the_debugger_or_after_it() {
    in_every_world(|runtime| {
        for goes_first in [true, false] {
            let mut stage = Stage::start(runtime);
            let mut own = stage.attached(MODULE_LOADS, 0);
            let mut debugger = Debugger::halt(stage.pid());
            own.begin("modules");
            meanwhile(runtime);
            holds!(ATT_16 sim clr, !own.is_answered());
            debugger.let_run();
            holds!(ATT_16 sim clr, own.answer("modules").is_ok());
            stage.is_alive(&mut own);
            if goes_first {
                stage.leave(own);
                assert_eq!(stage.act("a load"), "obedient");
                debugger.leave();
            } else {
                debugger.leave();
                stage.is_alive(&mut own);
                stage.leave(own);
            }
            // A detached debugger does not block an attach.
            let own = stage.attached(0, 0);
            stage.leave(own);
        }
    });
}

#[test]
fn att_16_a_debugger_that_comes_during_an_attach_and_a_detach_only_holds_them_up() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let attaching = stage.attach(&[]);
        let init = stage.seat("InitializeForAttach");
        let debugger = Debugger::halt(stage.pid());
        init.leave(FAIL);
        meanwhile(runtime);
        holds!(ATT_16 sim clr, attaching.is_pending() && stage.is_mapped());
        debugger.leave();
        holds!(ATT_16 sim clr, attaching.answer() == Err(FAIL));
        until("the library is unmapped", || !stage.is_mapped());
        let (mut own, held) = stage.held_in_load();
        own.done("detach 300");
        own.leave(0);
        let mut debugger = Debugger::halt(stage.pid());
        held.leave(0);
        meanwhile(runtime);
        holds!(ATT_16 sim clr, stage.is_mapped() && !stage.has_come("ProfilerDetachSucceeded"));
        debugger.let_run();
        stage.gone();
        debugger.leave();
        assert_eq!(stage.act("finish a"), "obedient");
    });
}

/// Lets an attaching probe in; returns its own thread.
fn let_in(stage: &Stage) -> Seat {
    let mut init = stage.seat("InitializeForAttach");
    init.done(&format!("mask {MODULE_LOADS:#x} 0"));
    init.done("thread");
    init.leave(0);
    stage.seat("Thread")
}
