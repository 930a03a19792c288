//! Conditions for a detach, and refused detach requests, on live runtimes and their models.
//!
//! The profiler is `tests/probe`, which follows the test's orders on the thread of each callback. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::probe::Stage;
use remora_conformance::{in_every_world, on_runtimes, worlds};
use remora_holds::holds;

const FAIL: u32 = 0x8000_4005;
const DETACHING: u32 = 0x8013_1367;
const IRREVERSIBLE: u32 = 0x8013_1370;
const UNINITIALIZED: u32 = 0x8013_1371;
const IMMUTABLE_FLAGS: u32 = 0x8013_1372;
const NOT_YET_INITIALIZED: u32 = 0x8013_1373;
const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;
const REJIT: u32 = 0x4_0000;
const DISABLE_INLINING: u32 = 0x20_0000;
/// Immutable on every version.
const FRAME_INFO: u32 = 0x800_0000;

#[test]
fn det_02_immutable_flags_refuse_the_detach_of_a_profiler_from_the_start() {
    in_every_world(|runtime| {
        let (mut stage, mut own) = Stage::started(runtime, &[&format!("mask {:#x} 0", MODULE_LOADS | FRAME_INFO)]);
        holds!(DET_02 sim clr, own.refused("detach 300") == IMMUTABLE_FLAGS);
        stage.is_alive(&mut own);
        assert_eq!(own.refused(&format!("mask {MODULE_LOADS:#x} 0")), FAIL, "an immutable flag was cleared");
    });
}

#[test]
fn det_02_an_attached_profiler_cannot_set_what_is_immutable() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS, 0);
        holds!(DET_02 sim clr, own.refused(&format!("mask {:#x} 0", MODULE_LOADS | FRAME_INFO)) == FAIL);
        stage.is_alive(&mut own);
        stage.leave(own);
    });
}

#[test]
fn det_02_until_dotnet_9_a_profiler_that_disables_inlining_cannot_leave() {
    on_runtimes(&worlds(|world| world.major() < 10), |runtime| {
        let (mut stage, mut own) =
            Stage::started(runtime, &[&format!("mask {:#x} 0", MODULE_LOADS | DISABLE_INLINING)]);
        holds!(DET_02 sim clr, own.refused("detach 300") == IMMUTABLE_FLAGS);
        stage.is_alive(&mut own);
    });
}

#[test]
fn det_02_since_dotnet_10_inlining_is_disabled_after_attach_or_from_the_start_and_the_profiler_leaves() {
    on_runtimes(&worlds(|world| world.major() >= 10), |runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS | DISABLE_INLINING, 0);
        stage.is_alive(&mut own);
        stage.leave(own);
        holds!(DET_02 sim clr, !stage.is_mapped(), "it left though it disables inlining");
        let (mut stage, mut own) =
            Stage::started(runtime, &[&format!("mask {:#x} 0", MODULE_LOADS | DISABLE_INLINING)]);
        stage.is_alive(&mut own);
        stage.leave(own);
        holds!(DET_02 sim clr, !stage.is_mapped(), "it left though it disables inlining");
    });
}

#[test]
fn det_02_rejit_once_in_the_mask_refuses_every_detach() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS | REJIT, 0);
        holds!(DET_02 sim clr, own.refused("detach 300") == IRREVERSIBLE);
        own.done(&format!("mask {MODULE_LOADS:#x} 0"));
        holds!(DET_02 sim clr, own.refused("detach 300") == IRREVERSIBLE, "though ReJIT is no longer in the mask");
        stage.is_alive(&mut own);
    });
}

#[test]
fn det_02_a_changed_function_body_refuses_every_detach() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a jit");
        let mut own = stage.attached(MODULE_LOADS | JIT, 0);
        own.done("hold JITCompilationStarted");
        stage.act("start a throw");
        let mut compiling = stage.seat("JITCompilationStarted");
        let order = format!("body {}", compiling.id());
        compiling.done(&order);
        compiling.leave(0);
        assert_eq!(stage.act("finish a"), "caught");
        holds!(DET_02 sim clr, own.refused("detach 300") == IRREVERSIBLE);
        stage.is_alive(&mut own);
    });
}

#[test]
fn det_02_hooks_of_functions_refuse_every_detach() {
    in_every_world(|runtime| {
        let (mut stage, mut own) =
            Stage::started(runtime, &[&format!("mask {MODULE_LOADS:#x} 0"), "call SetEnterLeaveFunctionHooks3"]);
        holds!(DET_02 sim clr, own.refused("detach 300") == IRREVERSIBLE);
        stage.is_alive(&mut own);
    });
}

#[test]
fn det_03_a_profiler_from_the_start_detaches_on_the_same_terms() {
    in_every_world(|runtime| {
        let (mut stage, mut own) = Stage::started(runtime, &[&format!("mask {MODULE_LOADS:#x} 0")]);
        holds!(DET_03 sim clr, own.count("Initialize") == 1);
        assert_eq!(own.count("InitializeForAttach"), 0);
        stage.is_alive(&mut own);
        stage.leave(own);
        holds!(DET_03 sim clr, stage.act("a jit") == "7");
        // And the slot is free.
        let own = stage.attached(0, 0);
        stage.leave(own);
    });
}

#[test]
fn det_13_asking_twice_changes_nothing() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, mut held) = stage.held_in_load();
        own.done("detach 300");
        holds!(DET_13 sim clr, own.refused("detach 300") == DETACHING);
        holds!(DET_13 sim clr, held.refused("detach 300") == DETACHING);
        holds!(DET_13 sim clr, own.refused("detach 0") == DETACHING);
        held.leave(0);
        own.leave(0);
        stage.gone();
        let own = stage.attached(0, 0);
        stage.leave(own);
    });
}

#[test]
fn det_13_asking_inside_initialize_for_attach_is_too_early_and_changes_nothing() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let attaching = stage.attach(&[]);
        let mut init = stage.seat("InitializeForAttach");
        init.done(&format!("mask {MODULE_LOADS:#x} 0"));
        init.done("thread");
        holds!(DET_13 sim clr, init.refused("detach 300") == NOT_YET_INITIALIZED);
        let mut own = stage.seat("Thread");
        holds!(DET_13 sim clr, own.refused("detach 300") == NOT_YET_INITIALIZED, "from another thread");
        init.leave(0);
        assert_eq!(attaching.answer(), Ok(()));
        stage.is_alive(&mut own);
        stage.leave(own);
    });
}

#[test]
fn det_13_asking_inside_initialize_is_too_early_and_changes_nothing() {
    in_every_world(|runtime| {
        let mut stage = Stage::start_profiled(runtime);
        let mut init = stage.seat("Initialize");
        init.done(&format!("mask {MODULE_LOADS:#x} 0"));
        init.done("thread");
        // Not the code for a premature attach: here the runtime itself has not started.
        holds!(DET_13 sim clr, init.refused("detach 300") == UNINITIALIZED);
        init.leave(0);
        let mut own = stage.seat("Thread");
        assert_eq!(stage.target().read_line(), "ready");
        stage.is_alive(&mut own);
        stage.leave(own);
    });
}
