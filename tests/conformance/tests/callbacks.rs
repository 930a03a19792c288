//! Callbacks about assemblies, exceptions, suspended threads and thread names, on live runtimes and their models.
//!
//! The profiler is `tests/probe`. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::in_every_world;
use remora_conformance::probe::{Seat, Stage};

/// Class, module, assembly loads, exceptions, threads, suspensions.
const MASK: u32 = 0x2 | 0x4 | 0x8 | 0x40 | 0x200 | 0x1_0000;

const LOADS: [&str; 5] = [
    "AssemblyLoadStarted",
    "ModuleLoadStarted",
    "ModuleLoadFinished",
    "ModuleAttachedToAssembly",
    "AssemblyLoadFinished",
];
const UNLOADS: [&str; 4] =
    ["AssemblyUnloadStarted", "ModuleUnloadStarted", "ModuleUnloadFinished", "AssemblyUnloadFinished"];
const EXCEPTION: [&str; 7] = [
    "ExceptionThrown",
    "ExceptionSearchFunctionEnter",
    "ExceptionSearchCatcherFound",
    "ExceptionSearchFunctionLeave",
    "ExceptionUnwindFunctionEnter",
    "ExceptionCatcherEnter",
    "ExceptionCatcherLeave",
];
const NAMED: [&str; 4] = ["ThreadCreated", "ThreadAssignedToOSThread", "ThreadNameChanged", "ThreadDestroyed"];

fn counts<const N: usize>(own: &mut Seat, callbacks: [&str; N]) -> [u64; N] {
    callbacks.map(|callback| own.count(callback))
}

/// How often each callback comes while the program does this.
fn of_act<const N: usize>(stage: &mut Stage, own: &mut Seat, verb: &str, callbacks: [&str; N]) -> [u64; N] {
    let before = counts(own, callbacks);
    stage.act(&format!("a {verb}"));
    let after = counts(own, callbacks);
    std::array::from_fn(|at| after[at] - before[at])
}

#[test]
fn an_assembly_is_reported_with_its_module_when_it_comes_and_when_it_goes() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MASK, 0);
        // The first load needs parts of the framework that are not loaded yet.
        stage.act("a load");
        assert_eq!(of_act(&mut stage, &mut own, "load", LOADS), [1; 5]);
        let begins = u64::from(runtime.major() > 3);
        assert_eq!(of_act(&mut stage, &mut own, "unload", UNLOADS), [begins, 1, 1, 1]);
        stage.leave(own);
    });
}

#[test]
fn an_exception_that_its_method_catches_is_reported_in_both_passes() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MASK, 0);
        assert_eq!(of_act(&mut stage, &mut own, "throw", EXCEPTION), [1; 7]);
        stage.leave(own);
    });
}

#[test]
fn an_exception_that_meets_a_finally_and_a_filter_is_reported_in_both() {
    const HANDLERS: [&str; 4] = [
        "ExceptionSearchFilterEnter",
        "ExceptionSearchFilterLeave",
        "ExceptionUnwindFinallyEnter",
        "ExceptionUnwindFinallyLeave",
    ];
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MASK, 0);
        assert_eq!(of_act(&mut stage, &mut own, "filter", HANDLERS), [1; 4]);
        assert_eq!(of_act(&mut stage, &mut own, "filter", EXCEPTION), [1; 7]);
        stage.leave(own);
    });
}

#[test]
fn a_thread_that_suspends_the_others_reports_itself() {
    in_every_world(|runtime| {
        let mut stage = Stage::start_without_concurrent_collector(runtime);
        let mut own = stage.attached(MASK, 0);
        let [begun, own_thread, resumed] = of_act(
            &mut stage,
            &mut own,
            "gc",
            ["RuntimeSuspendStarted", "RuntimeThreadSuspended", "RuntimeResumeStarted"],
        );
        assert!(own_thread >= begun && begun >= 1 && resumed == begun, "{begun} {own_thread} {resumed}");
        stage.leave(own);
    });
}

#[test]
fn a_thread_that_names_itself_is_reported_by_its_name() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MASK, 0);
        assert_eq!(of_act(&mut stage, &mut own, "name", NAMED), [1; 4]);
        stage.leave(own);
    });
}

#[test]
fn a_thread_of_a_profiler_that_forces_a_collection_is_a_managed_one_from_then_on() {
    const NOT_MANAGED: u32 = 0x8013_1355;
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(MASK, 0);
        let before = own.done("threads").len();
        assert_eq!(own.refused("thread current"), NOT_MANAGED);
        assert_eq!(own.count("ThreadCreated"), 0);
        own.done("gc");
        assert_eq!(own.count("ThreadCreated"), 1);
        let this = own.done("thread current").remove(0);
        let threads = own.done("threads");
        assert!(threads.len() == before + 1 && threads.contains(&this), "{threads:?}");
        stage.leave(own);
    });
}
