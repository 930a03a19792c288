//! Startup profilers, which the environment names, on live runtimes and their models.
//!
//! The profiler is `tests/probe`, which follows the test's orders on the thread of each callback. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::probe::Stage;
use remora_conformance::{in_every_world, on_runtimes, worlds};
use remora_holds::holds;
use std::os::unix::process::ExitStatusExt;

const NOT_YET_AVAILABLE: u32 = 0x8013_135B;
const CALLBACK3_REQUIRED: u32 = 0x8013_136E;
const MODULE_LOADS: u32 = 0x4;
const CALL_ONLY_FROM_INIT: u32 = 0x8013_1356;
/// Module loads, each object (two bits), and immutable flags: no inlining, no optimizing, frames for hooks.
const FULL: u32 = MODULE_LOADS | 0x80_0100 | 0x60_0000 | 0x800_0000;
/// COR_PRF_HIGH_DISABLE_TIERED_COMPILATION.
const DISABLE_TIERED: u32 = 0x8;
/// Without their flag in the mask, hooks are accepted and never called.
const HOOKS: [&str; 2] = ["SetFunctionIDMapper2", "SetEnterLeaveFunctionHooks3WithInfo"];
/// The signal of a process that reads an unmapped address.
const SEGMENTATION_FAULT: i32 = 11;
/// The variable by which a .NET Framework user admits a version 2 profiler, or excludes every profiler.
const COMPATIBILITY: &str = "COMPlus_ProfAPI_ProfilerCompatibilitySetting";
const COMPATIBILITY_SINCE_6: &str = "DOTNET_ProfAPI_ProfilerCompatibilitySetting";

#[test]
fn att_04_an_attach_to_a_runtime_that_is_held_at_its_start_is_too_early_and_loads_nothing() {
    // .NET Core 3.1 cannot be suspended at startup.
    on_runtimes(&worlds(|world| world.major() >= 5), |runtime| {
        let mut stage = Stage::start_held(runtime);
        for _ in 0..2 {
            holds!(ATT_04 sim clr, stage.attach(&[]).answer() == Err(NOT_YET_AVAILABLE));
            holds!(ATT_04 sim clr, !stage.is_mapped() && !stage.has_come("InitializeForAttach"));
        }
        stage.go_on();
        let mut own = stage.attached(MODULE_LOADS, 0);
        stage.is_alive(&mut own);
        stage.leave(own);
    });
}

#[test]
fn cmp_01_on_core_a_profiler_for_2_x_is_loaded_at_the_start_whatever_the_variable_says_of_it() {
    in_every_world(|runtime| {
        for setting in [None, Some("DisableV2Profiler"), Some("EnableV2Profiler")] {
            let variables: Vec<(&str, &str)> = setting.map(|value| (COMPATIBILITY, value)).into_iter().collect();
            let mut stage = Stage::start_profiled_by_old(runtime, &variables);
            let mut init = stage.seat("Initialize");
            init.done(&format!("mask {MODULE_LOADS:#x} 0"));
            init.done("thread");
            init.leave(0);
            holds!(CMP_01 sim clr, stage.target().read_line() == "ready", "{setting:?}");
            let mut own = stage.seat("Thread");
            stage.is_alive(&mut own);
            // It has no callback for the end of a detach.
            holds!(CMP_01 sim clr, own.refused("detach 300") == CALLBACK3_REQUIRED);
            stage.is_alive(&mut own);
        }
    });
}

#[test]
fn cmp_01_on_core_the_value_that_keeps_every_profiler_out_ends_the_process_by_a_fault() {
    in_every_world(|runtime| {
        let newer: &[&str] = if runtime.major() < 6 { &[] } else { &[COMPATIBILITY_SINCE_6] };
        for name in [COMPATIBILITY].iter().chain(newer) {
            let mut stage = Stage::start_profiled_by_old(runtime, &[(name, "PreventLoad")]);
            let status = stage.target().wait();
            holds!(CMP_01 sim clr, status.signal() == Some(SEGMENTATION_FAULT), "{name}: {status}");
            holds!(CMP_01 sim clr, !stage.has_come("Initialize"), "{name}");
        }
    });
}

#[test]
fn gch_02_in_initialize_there_is_no_collector_yet() {
    in_every_world(|runtime| {
        let mut stage = Stage::start_profiled(runtime);
        let mut init = stage.seat("Initialize");
        holds!(GCH_02 sim clr, init.refused("gc") == NOT_YET_AVAILABLE);
        init.done("thread");
        init.leave(0);
        assert_eq!(stage.target().read_line(), "ready");
        stage.seat("Thread").done("gc");
    });
}

#[test]
fn att_17_a_profiler_from_the_start_gets_initialize_and_may_do_what_an_attached_one_may_not() {
    in_every_world(|runtime| {
        let mut stage = Stage::start_profiled(runtime);
        let mut init = stage.seat("Initialize");
        init.done(&format!("mask {FULL:#x} {DISABLE_TIERED:#x}"));
        holds!(ATT_17 sim clr, init.done("getmask") == [format!("{FULL:#x}"), format!("{DISABLE_TIERED:#x}")]);
        for method in HOOKS {
            init.done(&format!("call {method}"));
        }
        init.done("thread");
        init.leave(0);
        assert_eq!(stage.target().read_line(), "ready");
        let mut own = stage.seat("Thread");
        let counts =
            ["Initialize", "InitializeForAttach", "ProfilerAttachComplete"].map(|callback| own.count(callback));
        holds!(ATT_17 sim clr, counts == [1, 0, 0]);
        stage.is_alive(&mut own);
        // Every object is reported, not only large ones (ATT-14).
        let before = own.count("ObjectAllocated");
        stage.act("a small");
        holds!(ATT_17 sim clr, own.count("ObjectAllocated") > before, "small objects are not told of");
        let [mapper, hooks] = HOOKS;
        assert_eq!(own.refused(&format!("call {hooks}")), CALL_ONLY_FROM_INIT);
        own.done(&format!("call {mapper}"));
    });
}
