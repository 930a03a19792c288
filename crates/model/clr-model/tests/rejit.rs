//! ReJIT, clause by clause: requests, callbacks and versions, and what a profiler can do wrong.
//!
//! `tests/conformance/tests/rejit.rs` compares the model with live runtimes.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::{HResult, sys};
use remora_clr_model::callback_data::CallbackData;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::machine::{Account, Machine};
use remora_clr_model::runtime::{FunctionId, ModuleId};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};
use support::{CORES, World, application, faults_of, gone, in_worlds, join, on_machines};

/// COR_PRF_ENABLE_REJIT.
const ENABLE_REJIT: u32 = 0x0004_0000;
/// COR_PRF_MONITOR_JIT_COMPILATION.
const JIT: u32 = 0x20;
/// COR_PRF_MONITOR_SUSPENDS.
const SUSPENDS: u32 = 0x1_0000;
/// COR_PRF_MONITOR_THREADS.
const THREADS: u32 = 0x200;
/// COR_PRF_REJIT_BLOCK_INLINING and COR_PRF_REJIT_INLINING_CALLBACKS.
const BLOCK_INLINING: u32 = 1;
const INLINING_CALLBACKS: u32 = 2;
/// `ret` with a tiny header.
const WHOLE: [u8; 2] = [0x06, 0x2A];

/// A module that stays, and methods in it.
fn methods<const COUNT: usize>(world: &World) -> (ModuleId, [FunctionId; COUNT]) {
    let module = world.runtime.load_module(false);
    (module, std::array::from_fn(|_| world.runtime.make_function(module, true)))
}

/// An attached profiler that may change methods.
fn rejitting(world: &World, script: Script) -> Arc<Script> {
    let (_, script, _) = world.attached(script);
    assert_eq!(script.set_mask_low(ENABLE_REJIT | JIT), HResult::S_OK);
    script
}

fn token_of(script: &Script, function: FunctionId) -> u32 {
    script.function_info(function.0).unwrap().2
}

/// Each thread calls the functions once.
fn call(world: &World, threads: usize, functions: &[FunctionId]) {
    let start = |_| {
        let functions = functions.to_vec();
        application(world, move |runtime| {
            for function in functions {
                runtime.enter_function(function);
                runtime.leave_function(function);
            }
        })
    };
    join(&(0..threads).map(start).collect::<Vec<_>>());
}

#[test]
fn rjt_01_on_core_methods_of_a_running_process_are_compiled_again_and_the_detach_is_refused_for_good() {
    in_worlds(CORES, |world| {
        let made = Arc::new(Mutex::new(None));
        let of_thread = made.clone();
        join(&[application(world, move |runtime| {
            let module = runtime.load_module(false);
            let function = runtime.make_function(module, true);
            *of_thread.lock().unwrap() = Some((module, function));
        })]);
        let (module, function) = made.lock().unwrap().unwrap();
        let (_, script, _) = world.attached(Script::new());
        let (_, _, token) = script.function_info(function.0).unwrap();
        assert_eq!(script.request_rejit(module.0, token), HResult::CORPROF_E_REJIT_NOT_ENABLED);
        assert_eq!(script.set_mask_low(ENABLE_REJIT | JIT), HResult::S_OK);
        let first = world.runtime.address_of(function).unwrap();
        assert_eq!(script.request_rejit(module.0, token), HResult::S_OK);
        assert_eq!(script.callback_data(), [], "compiled when it is called, not before");
        let run = |world: &World| {
            join(&[application(world, move |runtime| {
                runtime.enter_function(function);
                runtime.leave_function(function);
            })]);
        };
        run(world);
        run(world);
        let second = world.runtime.address_of(function).unwrap();
        holds!(RJT_01 sim, script.callback_data() == [CallbackData::CompiledAgain(function.0, 1)]);
        let callbacks = ["GetReJITParameters", "ReJITCompilationStarted", "ReJITCompilationFinished"];
        assert_eq!(script.journal()[script.journal().len() - 3..], callbacks);
        assert_eq!(script.any_function_at(second), Ok((function.0, 1)));
        holds!(RJT_01 sim, script.any_function_at(first) == Ok((function.0, 0)), "the old code is still there");
        assert_eq!(script.request_revert(module.0, token), (HResult::S_OK, HResult::S_OK));
        assert_eq!(world.runtime.address_of(function), Some(first));
        assert_eq!(script.set_mask_low(0), HResult::S_OK);
        holds!(RJT_01 sim, script.request_detach(1) == HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT);
    });
}

#[test]
fn rjt_01_what_can_be_unloaded_cannot_be_compiled_again() {
    in_worlds(CORES, |world| {
        let module = world.runtime.load_module(true);
        let function = world.runtime.make_function(module, true);
        let (_, script, _) = world.attached(Script::new());
        let (_, _, token) = script.function_info(function.0).unwrap();
        assert_eq!(script.set_mask_low(ENABLE_REJIT), HResult::S_OK);
        assert_eq!(script.request_rejit(module.0, token), HResult::S_OK);
        let error = CallbackData::NotCompiledAgain(function.0, HResult::CORPROF_E_FUNCTION_IS_COLLECTIBLE.0);
        holds!(RJT_01 sim, script.callback_data() == [error]);
    });
}

#[test]
fn rjt_01_the_desktop_has_none() {
    in_worlds(&[RuntimeVersion::Desktop4], |world| {
        let (_, script, _) = world.attached(Script::new());
        assert_eq!(script.set_mask_low(ENABLE_REJIT), HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER);
        let mut newer: *mut c_void = std::ptr::null_mut();
        // SAFETY: Info is live; an identifier and a local place for the answer.
        let code =
            unsafe { sys::IUnknown::QueryInterface(script.raw().cast(), &sys::IID_ICorProfilerInfo4, &raw mut newer) };
        holds!(RJT_01 sim, (HResult(code), newer.is_null()) == (HResult::E_NOINTERFACE, true));
        let module = world.runtime.load_module(false);
        let replaced = script.replace_body(module.0, 0x0600_0001);
        assert_eq!(replaced, HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER);
    });
}

#[test]
fn rjt_01_threads_that_call_at_once_get_one_new_body() {
    in_worlds(CORES, |world| {
        let (module, [function]) = methods(world);
        let script = rejitting(
            world,
            Script::new().on("GetReJITParameters", |script| {
                assert_eq!(script.give_body(&WHOLE), HResult::S_OK);
            }),
        );
        let first = world.runtime.address_of(function);
        assert_eq!(script.request_rejit(module.0, token_of(&script, function)), HResult::S_OK);
        call(world, 3, &[function]);
        for callback in ["GetReJITParameters", "ReJITCompilationStarted", "ReJITCompilationFinished"] {
            holds!(RJT_01 sim, script.count(callback) == 1, "{callback}");
        }
        assert_ne!(world.runtime.address_of(function), first);
    });
}

#[test]
fn rjt_01_a_revert_while_a_method_is_compiled_again_wins() {
    in_worlds(CORES, |world| {
        let (module, [function]) = methods(world);
        let script = rejitting(
            world,
            Script::new().on("ReJITCompilationStarted", move |script| {
                assert_eq!(script.request_revert(module.0, token_of(script, function)).0, HResult::S_OK);
            }),
        );
        let first = world.runtime.address_of(function);
        assert_eq!(script.request_rejit(module.0, token_of(&script, function)), HResult::S_OK);
        call(world, 2, &[function]);
        holds!(RJT_01 sim, (world.runtime.address_of(function), script.count("GetReJITParameters")) == (first, 1));
    });
}

#[test]
fn rjt_01_callers_that_contain_a_method_are_compiled_again_with_it_if_that_is_asked_for() {
    in_worlds(CORES, |world| {
        let (module, [callee, caller]) = methods(world);
        let script = rejitting(world, Script::new());
        let token = token_of(&script, callee);
        assert!(world.runtime.inline(caller, callee));
        assert_eq!(script.count("JITInlining"), 1);
        assert_eq!(script.request_rejit(module.0, token), HResult::S_OK);
        call(world, 1, &[callee, caller]);
        assert!(world.runtime.is_inlined(caller, callee), "alone, it changes no caller");
        assert_eq!(script.request_rejit_with_inliners(0, module.0, token), HResult::E_INVALIDARG);
        assert_eq!(script.request_rejit_with_inliners(BLOCK_INLINING, module.0, token), HResult::S_OK);
        call(world, 1, &[callee, caller]);
        assert!(!world.runtime.is_inlined(caller, callee));
        assert_eq!((script.count("GetReJITParameters"), script.count("ReJITCompilationFinished")), (2, 3));
        let again = script.callback_data().into_iter().filter_map(|data| match data {
            CallbackData::CompiledAgain(function, _) => Some(function),
            _ => None,
        });
        holds!(RJT_01 sim, again.collect::<Vec<_>>() == [callee.0, callee.0, caller.0], "each keeps its id");
        assert!(!world.runtime.inline(caller, callee), "what a profiler has changed is not inlined");
    });
}

#[test]
fn rjt_01_a_profiler_is_asked_about_callers_if_it_wants_that() {
    in_worlds(CORES, |world| {
        let (module, [callee, caller]) = methods(world);
        let script = rejitting(world, Script::new());
        assert!(world.runtime.inline(caller, callee));
        let flags = BLOCK_INLINING | INLINING_CALLBACKS;
        let token = token_of(&script, callee);
        assert_eq!(script.request_rejit_with_inliners(flags, module.0, token), HResult::S_OK);
        call(world, 1, &[callee, caller]);
        holds!(RJT_01 sim, script.count("GetReJITParameters") == 2);
    });
}

#[test]
fn rjt_01_what_cannot_be_compiled_again_is_an_error_and_the_method_goes_on() {
    in_worlds(CORES, |world| {
        let (module, [function]) = methods(world);
        let script = rejitting(world, Script::new());
        let token = token_of(&script, function);
        script.answer_parameters(HResult::E_FAIL);
        assert_eq!(script.request_rejit(module.0, token), HResult::S_OK);
        assert_eq!(script.request_rejit(module.0, token + 99), HResult::S_OK);
        call(world, 2, &[function]);
        let errors: Vec<CallbackData> = script
            .callback_data()
            .into_iter()
            .filter(|data| matches!(data, CallbackData::NotCompiledAgain(..)))
            .collect();
        let expected = [(0, HResult::E_INVALIDARG), (function.0, HResult::E_FAIL)];
        holds!(RJT_01 sim, errors == expected.map(|(function, code)| CallbackData::NotCompiledAgain(function, code.0)));
        assert_eq!(script.count("GetReJITParameters"), 1, "it is not asked a second time");
    });
}

/// The faults of a profiler that does this in GetReJITParameters, and that in ReJITCompilationStarted.
fn faults_of_bodies(
    inside: impl Fn(&Script) + Send + Sync + Clone + 'static,
    after: impl Fn(&Script) + Send + Sync + Clone + 'static,
) -> Vec<String> {
    faults_of(RuntimeVersion::Core8, move |world| {
        let (module, [function]) = methods(world);
        let script =
            Script::new().on("GetReJITParameters", inside.clone()).on("ReJITCompilationStarted", after.clone());
        let script = rejitting(world, script);
        assert_eq!(script.request_rejit(module.0, token_of(&script, function)), HResult::S_OK);
        call(world, 1, &[function]);
    })
}

#[test]
fn rjt_01_what_is_wrong_with_a_new_body_is_found() {
    let give = |body: &'static [u8]| move |script: &Script| _ = script.give_body(body);
    let nothing = |_: &Script| {};
    let none: [&str; 0] = [];
    assert_eq!(faults_of_bodies(give(&WHOLE), nothing), none);
    assert_eq!(faults_of_bodies(nothing, nothing), none, "its own IL once more");
    holds!(RJT_01 sim, faults_of_bodies(give(&[]), nothing) == ["RJT-01"]);
    // A tiny header without its code; a fat header that is cut off; one for more code than there is.
    holds!(RJT_01 sim, faults_of_bodies(give(&[0x06]), nothing) == ["RJT-01"]);
    holds!(RJT_01 sim, faults_of_bodies(give(&[0x13, 0x30, 8, 0, 1, 0]), nothing) == ["RJT-01"]);
    holds!(RJT_01 sim, faults_of_bodies(give(&[0x13, 0x30, 8, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0x2A]), nothing) == ["RJT-01"]);
    let twice = |script: &Script| {
        script.give_body(&WHOLE);
        script.give_body(&WHOLE);
    };
    holds!(RJT_01 sim, faults_of_bodies(twice, nothing) == ["RJT-01"]);
    holds!(RJT_01 sim, faults_of_bodies(nothing, give(&WHOLE)) == ["RJT-01"], "freed");
    holds!(RJT_01 sim, faults_of_bodies(Script::keep_control, give(&WHOLE)) == ["RJT-01"], "kept, but too late");
}

#[test]
fn rjt_01_a_request_where_it_is_refused_or_for_an_unloaded_module_is_found() {
    let faults = faults_of(RuntimeVersion::Core8, |world| {
        let (module, [_]) = methods(world);
        let script = Script::new().on("RuntimeSuspendFinished", move |script| {
            assert_eq!(script.request_rejit(module.0, 0x0600_0001), HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE);
        });
        let (_, script, _) = world.attached(script);
        assert_eq!(script.set_mask_low(ENABLE_REJIT | SUSPENDS), HResult::S_OK);
        join(&[application(world, |runtime| runtime.collect_all())]);
    });
    holds!(RJT_01 sim, faults == ["RJT-01"]);
    let faults = faults_of(RuntimeVersion::Core8, |world| {
        let module = world.runtime.load_module(true);
        let function = world.runtime.make_function(module, true);
        let script = rejitting(world, Script::new());
        let token = token_of(&script, function);
        assert!(world.runtime.unload_module(module));
        assert_eq!(script.request_rejit(module.0, token), HResult::S_OK);
    });
    holds!(RJT_01 sim, faults == ["CAT-09"]);
}

/// A process with a variable.
fn process(machine: &Arc<Machine>, name: &str) -> World {
    let process = machine.start(Account::of_user(500), &[(name, "0")]);
    World { runtime: process.load_runtime().unwrap(), faults: machine.faults.clone() }
}

#[test]
fn rjt_01_a_setting_forbids_it_to_attached_profilers_unless_one_of_the_start_enables_it() {
    on_machines(CORES, |machine| {
        let world = process(machine, "COMPlus_ProfApi_RejitOnAttach");
        let (_, script, _) = world.attached(Script::new());
        holds!(RJT_01 sim, script.set_mask_low(ENABLE_REJIT | JIT) == HResult::CORPROF_E_REJIT_NOT_ENABLED);
        assert_eq!(script.set_mask_low(JIT), HResult::S_OK);
        holds!(RJT_01 sim, script.request_detach(1) == HResult::S_OK, "what was refused forbids no detach");
        gone(&world);
        let world = process(machine, "COMPlus_ProfApi_RejitOnAttach");
        let enables =
            Script::new().on("Initialize", |script| assert_eq!(script.set_mask_low(ENABLE_REJIT), HResult::S_OK));
        let (_, script, _) = world.started(enables);
        for mask in [JIT, ENABLE_REJIT | JIT] {
            holds!(RJT_01 sim, script.set_mask_low(mask) == HResult::S_OK);
        }
        // The runtime tracks no inlined methods then.
        let (module, [function]) = methods(&world);
        let token = token_of(&script, function);
        let answer = script.request_rejit_with_inliners(BLOCK_INLINING, module.0, token);
        holds!(RJT_01 sim, answer == HResult::CORPROF_E_REJIT_INLINING_DISABLED);
        assert_eq!(script.request_rejit(module.0, token), HResult::S_OK);
    });
}

#[test]
fn rjt_01_the_requesting_thread_is_a_managed_one_until_it_ends() {
    in_worlds(CORES, |world| {
        let script = rejitting(world, Script::new());
        assert_eq!(script.set_mask_low(ENABLE_REJIT | JIT | THREADS), HResult::S_OK);
        let (module, [function]) = methods(world);
        let token = token_of(&script, function);
        let known = world.runtime.os_threads().len();
        let (of_thread, runtime) = (script.clone(), world.runtime.clone());
        let begun = script.count("ThreadCreated");
        join(&[schedule::spawn("a thread of the profiler", move || {
            assert_eq!(runtime.this_thread(), None);
            assert_eq!(of_thread.request_rejit(module.0, token), HResult::S_OK);
            holds!(RJT_01 sim, runtime.this_thread().is_some() && runtime.os_threads().len() == known + 1);
            holds!(RJT_01 sim, (of_thread.count("ThreadCreated"), of_thread.count("ThreadDestroyed")) == (begun + 1, 0));
        })]);
        holds!(RJT_01 sim, script.count("ThreadDestroyed") == 1 && world.runtime.os_threads().len() == known);
    });
}
