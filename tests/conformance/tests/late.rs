//! A requester that has given up, or a profiler's user that has died: the runtime's behaviour. On live runtimes and their models.
//!
//! The profiler is `tests/probe`, whose channel a separate process can own: its user. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::in_every_world;
use remora_conformance::probe::{CLASS, Seat, Stage, library};
use remora_e2e::diagnostics::Wish;
use remora_e2e::until;
use remora_holds::holds;
use std::time::{Duration, Instant};

const DETACHING: u32 = 0x8013_1367;
const ALREADY_ACTIVE: u32 = 0x8013_136A;
const MODULE_LOADS: u32 = 0x4;
/// The timeout of a request, and how many times it has to pass.
const SHORT: Duration = Duration::from_millis(1);
const OFTEN: u32 = 100;
/// After this many sleeps of the detach thread, it must have found the profiler busy. Each check has at most two sleeps.
const CHECKS: u64 = 6;

#[test]
fn att_08_neither_the_requests_time_out_nor_a_blocked_finalizer_ends_an_attach() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        assert_eq!(stage.act("a block"), "blocked");
        let path = library().to_string_lossy().into_owned();
        let begun = Instant::now();
        let attaching = stage.attach_as(Wish { time_out: SHORT, ..Wish::of(&CLASS, &path, &[]) });
        let mut init = stage.seat("InitializeForAttach");
        init.done(&format!("mask {MODULE_LOADS:#x} 0"));
        init.done("thread");
        until("the time-out has passed many times", || begun.elapsed() > SHORT * OFTEN);
        holds!(ATT_08 sim clr, attaching.is_pending(), "the runtime has answered before the profiler has");
        init.leave(0);
        holds!(ATT_08 sim clr, attaching.answer() == Ok(()));
        let mut own = stage.seat("Thread");
        stage.is_alive(&mut own);
        stage.leave(own);
        assert_eq!(stage.act("b unblock"), "unblocked");
    });
}

#[test]
fn att_08_an_attach_whose_trigger_is_killed_succeeds_and_a_second_call_learns_of_it() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let trigger = stage.attach_from_another_process();
        let mut init = stage.seat("InitializeForAttach");
        init.done(&format!("mask {MODULE_LOADS:#x} 0"));
        init.done("hold ProfilerAttachComplete");
        init.done("thread");
        drop(trigger);
        init.leave(0);
        stage.seat("ProfilerAttachComplete").leave(0);
        let mut own = stage.seat("Thread");
        stage.is_alive(&mut own);
        // Since .NET 6 the second call has loaded the library again by then, and does not release it (att_07).
        holds!(ATT_08 sim clr, stage.attach(&[]).answer() == Err(ALREADY_ACTIVE));
        stage.is_alive(&mut own);
        own.done("detach 300");
        own.leave(0);
        stage.seat("ProfilerDetachSucceeded");
        stage.seat("Released");
        assert_eq!(stage.act("a load"), "obedient");
    });
}

#[test]
fn att_08_a_request_that_nobody_waits_for_any_more_is_served_and_its_profiler_leaves_by_itself() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.target().halt();
        stage.attach_and_leave();
        stage.target().go_on();
        let mut init = stage.seat("InitializeForAttach");
        init.done("thread");
        let mut own = stage.seat("Thread");
        own.done("devoted");
        // Nobody is on its channel either.
        own.hand_over().kill();
        init.leave(0);
        stage.gone();
        // The next one works normally.
        let own = stage.attached(0, 0);
        stage.leave(own);
        holds!(ATT_08 sim clr, stage.act("a load") == "obedient");
    });
}

#[test]
fn det_16_a_profiler_whose_user_is_killed_notices_on_its_own_channel_and_is_let_go() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        // Repeatedly: the dead user blocks nothing.
        for _ in 0..3 {
            let mut own = stage.attached(MODULE_LOADS, 0);
            stage.is_alive(&mut own);
            own.done("devoted");
            let user = own.hand_over();
            holds!(DET_16 sim clr, stage.act("a load") == "obedient");
            holds!(DET_16 sim clr, !stage.has_come("ProfilerDetachSucceeded") && stage.is_mapped(), "it left before its user was dead");
            user.kill();
            stage.gone();
            holds!(DET_16 sim clr, stage.act("a load") == "obedient");
        }
    });
}

#[test]
fn det_16_a_user_killed_before_the_attach_is_over_is_noticed_and_the_profiler_leaves_as_soon_as_it_may() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let attaching = stage.attach(&[]);
        let mut init = stage.seat("InitializeForAttach");
        init.done(&format!("mask {MODULE_LOADS:#x} 0"));
        init.done("thread");
        devoted(&stage).kill();
        // The detach is refused as long as this lasts (DET-13).
        holds!(DET_16 sim clr, init.count("ProfilerDetachSucceeded") == 0);
        assert!(stage.is_mapped() && attaching.is_pending());
        init.leave(0);
        assert_eq!(attaching.answer(), Ok(()));
        stage.gone();
        holds!(DET_16 sim clr, stage.act("a load") == "obedient");
    });
}

#[test]
fn det_16_a_user_killed_while_a_callback_runs_is_noticed_and_the_callback_is_waited_for() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, mut held, detacher) = stage.held_in_load_with_detach_thread();
        own.done("devoted");
        own.hand_over().kill();
        until("the profiler has asked for its detach", || held.ask("getmask") == Err(DETACHING));
        let from = detacher.sleeps();
        let has_looked = || detacher.sleeps() >= from + CHECKS || stage.has_come("ProfilerDetachSucceeded");
        until("the detach thread has looked again and again", has_looked);
        holds!(DET_16 sim clr, stage.is_mapped() && !stage.has_come("ProfilerDetachSucceeded"));
        held.leave(0);
        stage.gone();
        holds!(DET_16 sim clr, stage.act("finish a") == "obedient");
    });
}

/// The probe's own thread, which detaches when its user ends.
fn devoted(stage: &Stage) -> remora_conformance::probe::User {
    let mut own: Seat = stage.seat("Thread");
    own.done("devoted");
    own.hand_over()
}
