//! Several profilers, at once and in sequence, on live runtimes and their models.
//!
//! The profilers are classes of `tests/probe`, one of them notification-only. Remora takes no part.
//! A detach request of an uncounted profiler crashes the process: one test shows it, in the others none makes one.
#![forbid(unsafe_code)]

use remora_conformance::probe::{CLASS, NOTIFIED_CLASS, OTHER_CLASS, Seat, Stage};
use remora_conformance::{in_every_world, on_runtimes, worlds};
use remora_e2e::Runtime;
use remora_holds::holds;
use std::os::unix::process::ExitStatusExt;

const FAIL: u32 = 0x8000_4005;
const DETACHING: u32 = 0x8013_1367;
const ALREADY_ACTIVE: u32 = 0x8013_136A;
const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;
/// Slots for notification-only profilers (source: profilepriv.h, MAX_NOTIFICATION_PROFILERS).
const PLACES: usize = 32;

#[test]
fn att_07_a_second_main_profiler_is_refused_while_the_first_goes_on() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut first = stage.attached(MODULE_LOADS, 0);
        // Before 6 there is one kind of profiler.
        let notified = if has_notified(runtime) { None } else { Some(NOTIFIED_CLASS) };
        for class in [CLASS, OTHER_CLASS].into_iter().chain(notified) {
            holds!(ATT_07 sim clr, stage.attach_class(&class, &[]).answer() == Err(ALREADY_ACTIVE));
            holds!(ATT_07 sim clr, !stage.has_come("InitializeForAttach"), "one that is refused was initialised");
            stage.is_alive(&mut first);
        }
        if has_notified(runtime) {
            // The runtime loads the library to query its kind, and does not release it after the refusal.
            stage.leave_beside(first);
            assert!(stage.is_mapped(), "what a refused attach took of the library was given back");
        } else {
            stage.leave(first);
        }
        let mut next = stage.attached_class(&OTHER_CLASS, MODULE_LOADS, 0);
        stage.is_alive(&mut next);
    });
}

#[test]
fn att_07_since_6_notified_profilers_stand_beside_the_main_one() {
    where_some_are_notified(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut all = vec![stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0)];
        all.push(stage.attached(MODULE_LOADS, 0));
        all.push(stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0));
        for own in &mut all {
            holds!(ATT_07 sim clr, own.count("ProfilerAttachComplete") == 1);
            stage.is_alive(own);
        }
        holds!(ATT_07 sim clr, stage.attach_class(&OTHER_CLASS, &[]).answer() == Err(ALREADY_ACTIVE));
        for own in &mut all {
            stage.is_alive(own);
        }
    });
}

#[test]
fn att_07_since_6_of_notified_profilers_there_is_room_for_so_many() {
    where_some_are_notified(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut all: Vec<Seat> = (0..PLACES).map(|_| stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0)).collect();
        holds!(ATT_07 sim clr, stage.attach_class(&NOTIFIED_CLASS, &[]).answer() == Err(ALREADY_ACTIVE));
        stage.leave_beside(all.remove(0));
        all.push(stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0));
        holds!(ATT_07 sim clr, stage.attach_class(&NOTIFIED_CLASS, &[]).answer() == Err(ALREADY_ACTIVE));
        // The main profiler has another slot.
        all.push(stage.attached(MODULE_LOADS, 0));
        let before: Vec<u64> = all.iter_mut().map(|own| own.count("ModuleLoadFinished")).collect();
        assert_eq!(stage.act("a load"), "obedient");
        let heard = all
            .iter_mut()
            .zip(before)
            .filter_map(|(own, before)| (own.count("ModuleLoadFinished") > before).then_some(()));
        holds!(ATT_07 sim clr, heard.count() == PLACES + 1);
    });
}

#[test]
fn sbs_03_a_main_and_a_notified_profiler_of_one_library_are_two_and_leave_one_by_one() {
    where_some_are_notified(|runtime| {
        let mut stage = Stage::start(runtime);
        // The first load and compilation also load and compile their own dependencies.
        stage.act("b load");
        stage.act("b jit");
        let mut main = stage.attached(MODULE_LOADS, 0);
        let mut notified = stage.attached_class(&NOTIFIED_CLASS, JIT, 0);
        for question in ["self", "info", "getmask"] {
            holds!(SBS_03 sim clr, main.done(question) != notified.done(question), "both have the same `{question}`");
        }
        hears_alone(&mut stage, "load", "ModuleLoadFinished", [&mut main, &mut notified]);
        hears_alone(&mut stage, "jit", "JITCompilationFinished", [&mut notified, &mut main]);

        // One is sealed, and the other still makes calls and gets callbacks.
        notified.done("hold JITCompilationFinished");
        stage.act("start a jit");
        let held = stage.seat("JITCompilationFinished");
        notified.done("detach 300");
        assert_eq!(notified.refused("getmask"), DETACHING);
        stage.is_alive(&mut main);
        held.leave(0);
        stage.seat("ProfilerDetachSucceeded");
        stage.seat("Released");
        holds!(SBS_03 sim clr, [&mut notified, &mut main].map(|own| own.count("ProfilerDetachSucceeded")) == [1, 0]);
        notified.leave(0);
        stage.detach_is_over();
        assert_eq!(stage.act("finish a"), "7");
        stage.is_alive(&mut main);
        assert!(stage.is_mapped());
        stage.leave(main);
    });
}

#[test]
fn det_12_afterwards_the_same_one_and_another_one_attach_any_number_of_times() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        // A notification-only profiler comes before the first main one: after it the runtime would not count it (DET-18).
        for class in [NOTIFIED_CLASS, NOTIFIED_CLASS, CLASS, CLASS, OTHER_CLASS, CLASS] {
            let mut own = stage.attached_class(&class, MODULE_LOADS, 0);
            holds!(DET_12 sim clr, own.count("ProfilerAttachComplete") == 1);
            stage.is_alive(&mut own);
            stage.leave(own);
            holds!(DET_12 sim clr, stage.act("a load") == "obedient");
        }
    });
}

#[test]
fn det_18_notified_profilers_come_and_go_alone_and_beside_a_main_one_and_main_ones_after_them() {
    where_some_are_notified(|runtime| {
        let mut stage = Stage::start(runtime);
        for _ in 0..3 {
            let mut own = stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0);
            is_found(&mut stage, &mut own);
            stage.leave(own);
        }
        let mut main = stage.attached(MODULE_LOADS, 0);
        for _ in 0..3 {
            let mut own = stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0);
            is_found(&mut stage, &mut own);
            stage.leave_beside(own);
            stage.is_alive(&mut main);
        }
        stage.leave(main);
        for _ in 0..2 {
            let mut own = stage.attached(MODULE_LOADS, 0);
            is_found(&mut stage, &mut own);
            stage.leave(own);
        }
        ends_as_it_would(stage);
    });
}

#[test]
fn det_18_a_notified_profiler_that_comes_after_a_main_one_has_left_is_lost_and_the_next_one_is_not() {
    where_some_are_notified(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.leave(stage.attached(MODULE_LOADS, 0));
        let mut lost = stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0);
        is_lost(&mut stage, &mut lost);
        for _ in 0..2 {
            let mut next = stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0);
            is_found(&mut stage, &mut next);
            holds!(DET_18 sim clr, hears(&mut stage, &mut lost), "what was lost is not found while another one is there");
            stage.leave_beside(next);
            assert!(!hears(&mut stage, &mut lost));
        }
        holds!(DET_18 sim clr, lost.count("ProfilerAttachComplete") == 0);
        ends_as_it_would(stage);
    });
}

/// The crash because of which Remora's agent stays inert there. Live only: the model reports it instead of crashing.
#[test]
fn det_18_a_lost_profiler_that_asks_for_its_detach_crashes_the_process() {
    on_runtimes(&worlds(|world| !world.is_model() && has_notified(world)), |runtime| {
        let mut stage = Stage::start(runtime);
        stage.leave(stage.attached(MODULE_LOADS, 0));
        let mut lost = stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0);
        is_lost(&mut stage, &mut lost);
        lost.begin("detach 300");
        let status = stage.target().wait();
        holds!(DET_18 clr, status.signal().is_some(), "{status}");
    });
}

#[test]
fn det_18_a_notified_profiler_whose_main_one_has_left_is_lost_and_the_next_one_is_not() {
    where_some_are_notified(|runtime| {
        let mut stage = Stage::start(runtime);
        let main = stage.attached(MODULE_LOADS, 0);
        let mut lost = stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0);
        is_found(&mut stage, &mut lost);
        stage.leave_beside(main);
        holds!(DET_18 sim clr, !hears(&mut stage, &mut lost));
        let mut next = stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0);
        is_found(&mut stage, &mut next);
        holds!(DET_18 sim clr, hears(&mut stage, &mut lost));
        stage.leave_beside(next);
        holds!(DET_18 sim clr, !hears(&mut stage, &mut lost));
        ends_as_it_would(stage);
    });
}

#[test]
fn det_18_as_many_are_lost_as_main_ones_have_left_or_failed_to_attach() {
    where_some_are_notified(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.leave(stage.attached(0, 0));
        assert_eq!(stage.refused_attach(), Err(FAIL));
        let mut lost = Vec::new();
        for _ in 0..2 {
            let mut own = stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0);
            is_lost(&mut stage, &mut own);
            lost.push(own);
        }
        let mut next = stage.attached_class(&NOTIFIED_CLASS, MODULE_LOADS, 0);
        is_found(&mut stage, &mut next);
        holds!(DET_18 sim clr, lost.iter_mut().all(|lost| hears(&mut stage, lost)));
        stage.leave_beside(next);
        ends_as_it_would(stage);
    });
}

/// Whether the runtime has notification-only profilers, and slots for them.
fn has_notified(runtime: &Runtime) -> bool {
    runtime.major() >= 6
}

/// Before 6 each is a main one.
fn where_some_are_notified(test: impl Fn(&Runtime)) {
    on_runtimes(&worlds(has_notified), test);
}

/// Whether it gets the callback of a load.
fn hears(stage: &mut Stage, own: &mut Seat) -> bool {
    let before = own.count("ModuleLoadFinished");
    assert_eq!(stage.act("b load"), "obedient");
    own.count("ModuleLoadFinished") > before
}

/// Of these two, the first gets the callback and the second does not.
#[track_caller]
fn hears_alone(stage: &mut Stage, verb: &str, callback: &str, pair: [&mut Seat; 2]) {
    let [hears, other] = pair;
    let before = [hears.count(callback), other.count(callback)];
    stage.act(&format!("b {verb}"));
    assert!(hears.count(callback) > before[0], "{callback} does not come to who asked for it");
    assert_eq!(other.count(callback), before[1], "{callback} comes to who did not ask for it");
}

/// It got ProfilerAttachComplete, and gets callbacks.
#[track_caller]
fn is_found(stage: &mut Stage, own: &mut Seat) {
    assert_eq!(own.count("ProfilerAttachComplete"), 1);
    stage.is_alive(own);
}

/// It is initialised, and its calls are answered; but it gets no callbacks.
#[track_caller]
fn is_lost(stage: &mut Stage, own: &mut Seat) {
    assert!(!hears(stage, own));
    stage.act("b jit");
    stage.act("b gc");
    own.done("modules");
    let counts: Vec<String> =
        own.done("counts").into_iter().filter(|count| count != "LoadAsNotificationOnly=1").collect();
    assert_eq!(counts, ["InitializeForAttach=1"]);
}

/// The attached profilers do not keep the program from running and ending.
#[track_caller]
fn ends_as_it_would(mut stage: Stage) {
    for (verb, answer) in [("load", "obedient"), ("jit", "7"), ("gc", "collected"), ("throw", "caught")] {
        holds!(DET_18 sim clr, stage.act(&format!("a {verb}")) == answer);
    }
    let status = stage.quit();
    holds!(DET_18 sim clr, status.success(), "{status}");
}
