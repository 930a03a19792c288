//! Detach requests, on live runtimes and their models.
//!
//! The profiler is `tests/probe`, which follows the test's orders on the thread of each callback. Remora takes no part.
//! To show that something does not happen, a test watches the runtime's detach thread: it wakes, checks, and sleeps again.
#![forbid(unsafe_code)]

use remora_conformance::probe::{DetachStep, Seat, Stage};
use remora_conformance::{in_every_world, in_live_worlds, on_runtimes, worlds};
use remora_e2e::until;
use remora_holds::holds;

const FAIL: u32 = 0x8000_4005;
const UNSUPPORTED_SEQUENCE: u32 = 0x8013_1363;
const DETACHING: u32 = 0x8013_1367;
const ALREADY_ACTIVE: u32 = 0x8013_136A;
const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;
const GC: u32 = 0x10;
/// The keyword of the runtime's exception events.
const EXCEPTION_KEYWORD: u64 = 0x8000;

/// Calls that the runtime answers with success as long as it answers at all.
const QUESTIONS: [&str; 6] = ["modules", "functions", "threads", "getmask", "runtime", "mask 4 0"];
/// Detaches of one target whose ends race.
const RACES: usize = 10;
/// After this many sleeps of the detach thread, it must have found the profiler busy. Each check has at most two sleeps.
const CHECKS: u64 = 6;

#[test]
fn det_05_det_08_the_asking_thread_ends_before_the_runtime_lets_the_library_go() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, held) = stage.held_in_load();
        own.done("detach 300");
        let asked = own.thread();
        own.leave(0);
        until("the asking thread has ended", || !stage.threads().contains(&asked));
        holds!([DET_05 DET_08] sim clr, stage.is_mapped());
        held.leave(0);
        stage.gone();
        holds!(DET_08 sim clr, stage.act("finish a") == "obedient");
    });
}

#[test]
fn det_05_det_08_the_asking_thread_ends_after_the_runtime_has_let_the_library_go() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS, 0);
        own.done("detach 300");
        stage.seat("ProfilerDetachSucceeded");
        stage.seat("Released");
        // If the probe itself refuses the next attach, the last detach is over, and its library freed.
        until("the next attach is served", || match stage.refused_attach() {
            Err(FAIL) => true,
            Err(ALREADY_ACTIVE) => false,
            other => panic!("the attach was answered {other:?}"),
        });
        holds!([DET_05 DET_08] sim clr, stage.is_mapped(), "the thread's own reference does not hold the library");
        holds!([DET_05 DET_08] sim clr, own.count("ProfilerDetachSucceeded") == 1, "the thread can still run the library's code");
        own.leave(0);
        until("the library is unmapped", || !stage.is_mapped());
        holds!(DET_08 sim clr, stage.act("a load") == "obedient");
    });
}

#[test]
fn det_08_the_asking_thread_and_the_runtime_race_to_let_the_library_go() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        for round in 0..RACES {
            let mut own = stage.attached(MODULE_LOADS | JIT, GC);
            own.done("detach 300");
            // Even rounds end the thread before the runtime's report, odd rounds just after it, so that both ends race.
            if round % 2 == 0 {
                own.leave(0);
                stage.gone();
            } else {
                stage.seat("ProfilerDetachSucceeded");
                own.leave(0);
                stage.gone_after_command();
            }
            holds!(DET_08 sim clr, stage.act("a load") == "obedient");
        }
    });
}

#[test]
fn det_06_after_the_request_every_question_is_refused_and_no_callback_comes() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("b jit");
        let (mut own, held) = stage.held_in_load();
        own.done(&format!("mask {:#x} {GC:#x}", MODULE_LOADS | JIT));
        stage.act("b jit");
        stage.act("b gc");
        assert!(own.count("JITCompilationFinished") > 0 && own.count("GarbageCollectionFinished") > 0);
        for question in QUESTIONS {
            own.done(question);
        }
        own.done("detach 300");
        let before = own.done("counts");
        for question in QUESTIONS.iter().chain(&["gc", "mask 0 0"]) {
            holds!(DET_06 sim clr, own.refused(question) == DETACHING, "{question}");
        }
        for verb in ["jit", "load", "gc", "dynamic", "throw"] {
            stage.act(&format!("b {verb}"));
        }
        holds!(DET_06 sim clr, own.done("counts") == before);
        own.done("hold ProfilerDetachSucceeded");
        held.leave(0);
        let mut succeeded = stage.seat("ProfilerDetachSucceeded");
        stage.act("b load");
        let mut after = before;
        after.push("ProfilerDetachSucceeded=1".to_owned());
        holds!(DET_06 sim clr, sorted(succeeded.done("counts")) == sorted(after));
        succeeded.leave(0);
        own.leave(0);
        stage.gone_after_command();
    });
}

#[test]
fn det_06_events_of_a_session_of_the_profilers_own_still_come_after_the_request() {
    on_runtimes(&worlds(|world| world.major() >= 8), |runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, held) = stage.held_in_load();
        let session = own.done(&format!("listen {EXCEPTION_KEYWORD:#x}"));
        stage.act("b throw");
        let before = own.count("EventPipeEventDelivered");
        assert!(before > 0);
        own.done("detach 300");
        holds!(DET_06 sim clr, own.refused(&format!("unlisten {}", session[0])) == DETACHING, "the session can be stopped too late");
        stage.act("b throw");
        holds!(DET_06 sim clr, own.count("EventPipeEventDelivered") > before, "the seal holds for events as well");
        // They would return into an unmapped library: the target has to end before the detach does.
        drop(stage);
        drop((own, held));
    });
}

#[test]
fn det_06_a_session_that_is_stopped_before_the_request_brings_no_more_events() {
    on_runtimes(&worlds(|world| world.major() >= 8), |runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, held) = stage.held_in_load();
        let session = own.done(&format!("listen {EXCEPTION_KEYWORD:#x}"));
        stage.act("b throw");
        own.done(&format!("unlisten {}", session[0]));
        let before = own.count("EventPipeEventDelivered");
        assert!(before > 0);
        own.done("detach 300");
        stage.act("b throw");
        holds!(DET_06 sim clr, own.count("EventPipeEventDelivered") == before);
        own.leave(0);
        held.leave(0);
        stage.gone();
        assert_eq!(stage.act("finish a"), "obedient");
    });
}

#[test]
fn det_07_a_running_callback_holds_the_unload_back_however_long_it_takes() {
    in_every_world(|runtime| {
        for (verb, callback) in [("load", "ModuleLoadFinished"), ("jit", "JITCompilationFinished")] {
            let mut stage = Stage::start(runtime);
            stage.act("a load");
            stage.act("a jit");
            let (mut own, detacher) = stage.attached_with_detach_thread(MODULE_LOADS | JIT);
            own.done(&format!("hold {callback}"));
            stage.act(&format!("start a {verb}"));
            let mut held = stage.seat(callback);
            own.done("detach 300");
            own.leave(0);
            let from = detacher.sleeps();
            until("the detach thread has looked again and again", || detacher.sleeps() >= from + CHECKS);
            holds!(DET_07 sim clr, !stage.has_come("ProfilerDetachSucceeded"), "{callback} did not hold the unload back");
            holds!(DET_07 sim clr, stage.is_mapped());
            assert_eq!(held.count(callback), 1);
            held.leave(0);
            assert_eq!(stage.gone(), detacher.thread());
            assert_ne!(stage.act("finish a"), "");
        }
    });
}

#[test]
fn det_07_each_of_two_running_callbacks_holds_the_unload_back() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a load");
        let (mut own, detacher) = stage.attached_with_detach_thread(MODULE_LOADS);
        let mut held = Vec::new();
        for worker in ["a", "b"] {
            own.done("hold ModuleLoadFinished");
            stage.act(&format!("start {worker} load"));
            held.push(stage.seat("ModuleLoadFinished"));
        }
        own.done("detach 300");
        own.leave(0);
        for seat in held {
            let from = detacher.sleeps();
            until("the detach thread has looked again and again", || detacher.sleeps() >= from + CHECKS);
            holds!(DET_07 sim clr, !stage.has_come("ProfilerDetachSucceeded"));
            seat.leave(0);
        }
        stage.gone();
    });
}

#[test]
fn det_07_attach_complete_is_not_waited_for_by_a_detach_that_another_thread_asks_for() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        stage.attach_that_breaks_off();
        let mut init = stage.seat("InitializeForAttach");
        init.done("hold ProfilerAttachComplete");
        init.done("thread");
        init.leave(0);
        // It runs on the diagnostics server's thread, which the runtime does not count.
        let mut complete = stage.seat("ProfilerAttachComplete");
        let mut own = stage.seat("Thread");
        own.done("detach 300");
        stage.seat("ProfilerDetachSucceeded");
        stage.seat("Released");
        holds!(DET_07 sim clr, complete.count("ProfilerDetachSucceeded") == 1, "the callback still runs");
        // The callback would return into an unmapped library: the target has to end before it does.
        drop(stage);
        drop((complete, own));
    });
}

#[test]
fn det_10_det_12_reported_once_then_released_then_unmapped_however_often() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        for _ in 0..3 {
            let mut own = stage.attached(0, 0);
            own.done("hold ProfilerDetachSucceeded");
            own.done("detach 300");
            own.leave(0);
            let mut succeeded = stage.seat("ProfilerDetachSucceeded");
            holds!([DET_10 DET_12] sim clr, succeeded.count("ProfilerDetachSucceeded") == 1);
            holds!(DET_10 sim clr, !stage.has_come("Released"), "released before it was told of the detach");
            assert!(stage.is_mapped());
            succeeded.leave(0);
            stage.gone_after_command();
            holds!(DET_10 sim clr, !stage.has_come("ProfilerDetachSucceeded"), "told twice");
            holds!([DET_10 DET_12] sim clr, !stage.has_come("Released"), "released twice");
        }
    });
}

#[test]
fn det_11_until_it_is_gone_it_counts_as_loaded() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (held, detacher) = stage.held_in_detach(DetachStep::Evacuation);
        let attaching = stage.attach(&[]);
        if runtime.major() < 6 {
            holds!(DET_11 sim clr, attaching.answer() == Err(ALREADY_ACTIVE));
            held.leave(0);
            stage.gone();
        } else {
            // The request waits, and with it the diagnostics server.
            until("the request is taken", || stage.waiting_requests() == 0);
            let from = detacher.sleeps();
            until("the detach thread has looked again and again", || detacher.sleeps() >= from + CHECKS);
            holds!(DET_11 sim clr, !stage.has_come("InitializeForAttach") && attaching.is_pending());
            held.leave(0);
            stage.seat("ProfilerDetachSucceeded");
            stage.seat("Released");
            stage.seat("InitializeForAttach").leave(0);
            holds!(DET_11 sim clr, attaching.answer() == Ok(()));
        }
        assert_eq!(stage.act("finish a"), "obedient");
    });
}

#[test]
fn det_19_asked_from_inside_a_callback_that_callback_is_waited_for() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (own, mut held, detacher) = stage.held_in_load_with_detach_thread();
        own.leave(0);
        held.done("detach 300");
        let from = detacher.sleeps();
        until("the detach thread has looked again and again", || detacher.sleeps() >= from + CHECKS);
        holds!(DET_19 sim clr, !stage.has_come("ProfilerDetachSucceeded"), "the asking callback is not waited for");
        assert_eq!(held.refused("modules"), DETACHING);
        held.leave(0);
        stage.gone();
        assert_eq!(stage.act("finish a"), "obedient");
    });
}

#[test]
fn det_19_on_dotnet_core_3_1_a_callback_that_may_not_trigger_a_collection_cannot_ask() {
    on_runtimes(&worlds(|world| world.major() == 3), |runtime| {
        let mut stage = Stage::start(runtime);
        let (own, _) = stage.attached_with_detach_thread(0);
        let (own, mut collecting) = held_in_collection(&mut stage, own);
        assert_eq!(collecting.refused("modules"), UNSUPPORTED_SEQUENCE);
        holds!(DET_19 sim clr, collecting.refused("detach 300") == UNSUPPORTED_SEQUENCE);
        end_collection(&mut stage, collecting);
        stage.leave(own);
    });
}

#[test]
fn det_19_since_dotnet_8_a_callback_that_may_not_trigger_a_collection_can_ask_and_is_waited_for() {
    on_runtimes(&worlds(|world| world.major() >= 8), |runtime| {
        let mut stage = Stage::start(runtime);
        let (own, detacher) = stage.attached_with_detach_thread(0);
        let (own, mut collecting) = held_in_collection(&mut stage, own);
        assert_eq!(collecting.refused("modules"), UNSUPPORTED_SEQUENCE, "it is such a callback");
        let from = detacher.sleeps();
        collecting.done("detach 300");
        own.leave(0);
        // It sleeps for the expected time, and then waits for the thread list, which the GC has locked.
        until("the detach thread has looked", || detacher.sleeps() >= from + 2);
        holds!(DET_19 sim clr, !stage.has_come("ProfilerDetachSucceeded"));
        end_collection(&mut stage, collecting);
        stage.gone();
    });
}

#[test]
fn det_20_in_a_callback_that_still_runs_every_question_is_refused() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, mut held) = stage.held_in_load();
        let module = format!("module {}", held.id());
        for question in QUESTIONS.iter().chain(&[module.as_str()]) {
            held.done(question);
        }
        own.done("detach 300");
        for question in QUESTIONS.iter().chain(&[module.as_str()]) {
            holds!(DET_20 sim clr, held.refused(question) == DETACHING, "{question}");
        }
        own.leave(0);
        held.leave(0);
        stage.gone();
        assert_eq!(stage.act("finish a"), "obedient");
    });
}

/// The model calls each of these a fault, so only live runtimes take part.
#[test]
fn det_20_outside_of_callbacks_every_question_is_refused_and_only_metadata_that_is_kept_escapes_the_seal() {
    const SCOPE: &str = "kept scope 64";
    in_live_worlds(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, held) = stage.held_in_load();
        let open_metadata = format!("keep {}", own.done("modules")[0]);
        own.done(&open_metadata);
        let scope = own.done(SCOPE);
        own.done("detach 300");
        for question in QUESTIONS.iter().chain(&[open_metadata.as_str()]) {
            holds!(DET_20 clr, own.refused(question) == DETACHING, "{question}");
        }
        assert_eq!(own.done(SCOPE), scope, "the runtime does not stop such a call: a profiler has to");
        held.leave(0);
        stage.seat("ProfilerDetachSucceeded");
        stage.seat("Released");
        assert_eq!(own.done(SCOPE), scope, "its own references on metadata and library outlive the profiler");
        own.done("give-back");
        own.leave(0);
        until("the library is unmapped", || !stage.is_mapped());
        assert_eq!(stage.act("finish a"), "obedient");
    });
}

#[test]
fn det_21_the_request_returns_before_evacuation_and_the_end_is_reported_on_a_thread_of_the_runtimes_own() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, held, detacher) = stage.held_in_load_with_detach_thread();
        own.done("detach 300");
        holds!(DET_21 sim clr, !stage.has_come("ProfilerDetachSucceeded"), "the request has waited for the evacuation");
        let (asked, called) = (own.thread(), held.thread());
        held.leave(0);
        let shown = stage.seat("ProfilerDetachSucceeded").thread();
        let released = stage.seat("Released").thread();
        own.leave(0);
        holds!(DET_21 sim clr, (shown, released) == (detacher.thread(), detacher.thread()));
        holds!(DET_21 sim clr, shown != asked && shown != called && shown != stage.pid());
        until("the library is unmapped", || !stage.is_mapped());
    });
}

#[test]
fn det_17_the_process_ends_in_the_middle_of_an_attach() {
    in_every_world(|runtime| {
        for place in ["InitializeForAttach", "ProfilerAttachComplete"] {
            let stage = Stage::start(runtime);
            stage.attach_that_breaks_off();
            let mut seat = stage.seat("InitializeForAttach");
            if place == "ProfilerAttachComplete" {
                seat.done(&format!("mask {:#x} {GC:#x}", MODULE_LOADS | JIT));
                seat.done("hold ProfilerAttachComplete");
                seat.leave(0);
                seat = stage.seat(place);
            }
            let status = stage.quit();
            holds!(DET_17 sim clr, status.success(), "in {place}: {status}");
            drop(seat);
        }
    });
}

#[test]
fn det_17_the_process_ends_while_it_is_profiled() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a jit");
        let mut own = stage.attached(MODULE_LOADS | JIT, GC);
        own.done("hold JITCompilationStarted");
        stage.act("start a jit");
        let held = stage.seat("JITCompilationStarted");
        own.done("hold Shutdown");
        stage.target().tell("quit");
        let mut shutdown = stage.seat("Shutdown");
        assert_eq!(shutdown.count("Shutdown"), 1);
        shutdown.leave(0);
        let status = stage.target().wait();
        holds!(DET_17 sim clr, status.success(), "{status}");
        drop((own, held));
    });
}

#[test]
fn det_17_the_process_ends_in_the_middle_of_a_detach() {
    in_every_world(|runtime| {
        for is_held in [true, false] {
            let mut stage = Stage::start(runtime);
            let (mut own, held) = stage.held_in_load();
            own.done("detach 300");
            let held = if is_held { Some(held) } else { None };
            let status = stage.quit();
            holds!(DET_17 sim clr, status.success(), "callback held: {is_held}: {status}");
            drop((own, held));
        }
        let mut stage = Stage::start(runtime);
        stage.act("a load");
        let mut own = stage.attached(MODULE_LOADS, 0);
        own.done("hold ProfilerDetachSucceeded");
        own.done("detach 300");
        let succeeded = stage.seat("ProfilerDetachSucceeded");
        let status = stage.quit();
        holds!(DET_17 sim clr, status.success(), "in ProfilerDetachSucceeded: {status}");
        drop((own, succeeded));
    });
}

/// A held GC callback on the target's thread `a`. All managed code is suspended until it returns.
fn held_in_collection(stage: &mut Stage, mut own: Seat) -> (Seat, Seat) {
    own.done(&format!("mask 0 {GC:#x}"));
    own.done("hold GarbageCollectionFinished");
    stage.target().tell("start a gc");
    let held = stage.seat("GarbageCollectionFinished");
    (own, held)
}

/// Lets that GC end.
fn end_collection(stage: &mut Stage, held: Seat) {
    held.leave(0);
    assert_eq!(stage.target().read_line(), "started");
    assert_eq!(stage.act("finish a"), "collected");
}

fn sorted(mut words: Vec<String>) -> Vec<String> {
    words.sort();
    words
}
