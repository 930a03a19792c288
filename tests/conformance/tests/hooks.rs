//! Hooks of functions, set by a profiler from startup, on live runtimes and their models: they end every way to detach.
//!
//! The profiler is `tests/probe`. Remora takes no part. What the hooks are handed is in `crates/model/clr-model/tests/hooks.rs` for models,
//! and in `tests/e2e/tests/tracing.rs` for Remora's own.
#![forbid(unsafe_code)]

use remora_conformance::probe::Stage;
use remora_conformance::{in_every_world, in_live_worlds};
use remora_holds::holds;

/// COR_PRF_MONITOR_ENTERLEAVE, and module loads.
const ENTERLEAVE: u32 = 0x1004;
/// COR_PRF_ENABLE_FRAME_INFO, an immutable flag: hooks with info need one of three.
const FRAME_INFO: u32 = 0x800_0000;
const IMMUTABLE_FLAGS_SET: u32 = 0x8013_1372;
const IRREVERSIBLE_INSTRUMENTATION_PRESENT: u32 = 0x8013_1370;

/// The mapper leaves every function without hooks, so that none is ever called.
const MAPPER: &str = "SetFunctionIDMapper2";

/// COR_PRF_ENABLE_FUNCTION_ARGS and COR_PRF_ENABLE_FUNCTION_RETVAL.
const ARGUMENTS: u32 = 0x200_0000 | 0x400_0000;

/// In models no hook is called with a place in memory: `crates/model/clr-model/tests/hooks.rs` has what they do.
#[test]
fn elt_01_hooks_with_info_get_the_mappers_number_and_arguments_and_results_of_the_methods_that_it_chose() {
    in_live_worlds(|runtime| {
        let mut stage = Stage::start_profiled(runtime);
        let mut init = stage.seat("Initialize");
        init.done(&format!("mask {:#x} 0", ENTERLEAVE | ARGUMENTS));
        init.done("hook Do");
        init.done("thread");
        init.leave(0);
        assert_eq!(stage.target().read_line(), "ready");
        let mut own = stage.seat("Thread");
        for (verb, answer) in [("rest", "rested"), ("gc", "collected"), ("nonsense", "unknown")] {
            assert_eq!(stage.act(&format!("a {verb}")), answer);
            let log = own.done("hooked").join(" ");
            // `Do` is static and has one argument: its place has the eight bytes of a reference.
            holds!(ELT_01 clr, log == format!("enter 1 0x00000000 8:{verb};leave 1 0x00000000 8:{answer};"), "{}", runtime.name());
        }
        assert_eq!(own.refused("detach 300"), IMMUTABLE_FLAGS_SET, "{}", runtime.name());
        stage.is_alive(&mut own);
    });
}

#[test]
fn elt_02_hooks_from_initialize_refuse_the_detach_and_so_do_their_immutable_flags() {
    in_every_world(|runtime| {
        for (hooks, mask, refusal) in [
            ("SetEnterLeaveFunctionHooks3", ENTERLEAVE, IRREVERSIBLE_INSTRUMENTATION_PRESENT),
            ("SetEnterLeaveFunctionHooks3WithInfo", ENTERLEAVE | FRAME_INFO, IMMUTABLE_FLAGS_SET),
        ] {
            let mut stage = Stage::start_profiled(runtime);
            let mut init = stage.seat("Initialize");
            init.done(&format!("mask {mask:#x} 0"));
            init.done(&format!("call {MAPPER}"));
            init.done(&format!("call {hooks}"));
            init.done("thread");
            init.leave(0);
            assert_eq!(stage.target().read_line(), "ready");
            let mut own = stage.seat("Thread");
            holds!(ELT_02 sim clr, own.refused("detach 300") == refusal, "{hooks} on {}", runtime.name());
            stage.is_alive(&mut own);
        }
    });
}
