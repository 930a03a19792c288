//! A method that is called often is recompiled under the same id, and each of its bodies belongs to it.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::callback_data::CallbackData;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{FunctionId, ModuleId, OFTEN, Runtime};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::sync::Arc;
use support::{CORES, World, application, in_worlds, join};

/// COR_PRF_MONITOR_JIT_COMPILATION.
const JIT: u32 = 0x20;
/// COR_PRF_HIGH_DISABLE_TIERED_COMPILATION.
const DISABLE_TIERS: u32 = 0x8;

fn with_compilations() -> Script {
    Script::new().on("InitializeForAttach", |script| assert_eq!(script.set_mask_low(JIT), HResult::S_OK))
}

/// The program calls a function until a better body is made, and waits for it.
fn call_often(world: &World, function: FunctionId) {
    let before = world.runtime.address_of(function);
    join(&[application(world, move |runtime| runtime.count_calls(function, OFTEN))]);
    assert!(schedule::wait_until(None, || world.runtime.address_of(function) != before));
}

/// How often its compilation was reported.
fn compilations(script: &Script, function: FunctionId) -> usize {
    script.callback_data().iter().filter(|callback_data| **callback_data == CallbackData::Compiled(function.0)).count()
}

fn listed(script: &Script, function: FunctionId) -> usize {
    script.jitted_functions().unwrap().iter().filter(|one| **one == function.0).count()
}

fn made(world: &World, collectible: bool, jitted: bool) -> (ModuleId, FunctionId) {
    let module = world.runtime.load_module(collectible);
    (module, world.runtime.make_function(module, jitted))
}

#[test]
fn cat_03_cat_08_a_method_that_is_called_often_is_compiled_again_and_all_its_bodies_stay_its_own() {
    in_worlds(CORES, |world| {
        let (_, script, _) = world.attached(with_compilations());
        let (_, function) = made(world, false, true);
        let mut starts = vec![world.runtime.address_of(function).unwrap() as usize];
        let better = world.runtime.differences().better_bodies;
        for _ in 0..better {
            call_often(world, function);
            starts.push(world.runtime.address_of(function).unwrap() as usize);
        }
        schedule::wait_until(None, || compilations(&script, function) == 1 + better);
        holds!(CAT_03 sim, listed(&script, function) == 1 + better, "once for each body");
        for start in &starts {
            holds!(CAT_08 sim, script.function_at(*start as u64 + 4) == Ok(function.0));
        }
        assert_eq!(script.code_of(function.0).unwrap().0, starts[0], "who names none gets the first");
        if world.runtime.differences().info_version >= 9 {
            let mut all = [0; 4];
            assert_eq!(script.starts_of(function.0, 0, &mut all), (HResult::S_OK, starts.len() as u32));
            assert_eq!(all[..starts.len()], starts);
        }
    });
}

#[test]
fn cat_03_cat_08_a_precompiled_method_is_reported_when_a_better_body_of_it_is_made() {
    in_worlds(CORES, |world| {
        let (_, script, _) = world.attached(with_compilations());
        let (_, function) = made(world, false, false);
        let precompiled = world.runtime.address_of(function).unwrap();
        assert_eq!((compilations(&script, function), listed(&script, function)), (0, 0));
        call_often(world, function);
        schedule::wait_until(None, || compilations(&script, function) == 1);
        holds!(CAT_03 sim, listed(&script, function) == 1, "the precompiled body is still in no list");
        for address in [precompiled, world.runtime.address_of(function).unwrap()] {
            holds!(CAT_08 sim, script.function_at(address) == Ok(function.0));
        }
    });
}

/// Whether a function is recompiled after any number of calls.
fn is_compiled_again(runtime: &Arc<Runtime>, function: FunctionId) -> bool {
    let before = runtime.address_of(function);
    (0..10).for_each(|_| runtime.count_calls(function, OFTEN));
    // At most a second may be lost to other threads.
    schedule::sleep(10 * support::SECOND);
    runtime.address_of(function) != before
}

#[test]
fn what_can_be_unloaded_or_was_forbidden_or_is_on_the_desktop_is_not_compiled_again() {
    in_worlds(CORES, |world| {
        let (collectible, stays) = (made(world, true, true).1, made(world, false, true).1);
        let dynamic = world.runtime.make_dynamic_function();
        assert!(![collectible, dynamic].into_iter().any(|function| is_compiled_again(&world.runtime, function)));
        assert!(is_compiled_again(&world.runtime, stays));
    });
    in_worlds(&[RuntimeVersion::Desktop4], |world| {
        assert!(!is_compiled_again(&world.runtime, made(world, false, true).1));
    });
    in_worlds(&[RuntimeVersion::Core8], |world| {
        let forbid = |script: &Script| assert_eq!(script.set_mask(0, DISABLE_TIERS), HResult::S_OK);
        world.started(Script::new().on("Initialize", forbid));
        assert!(!is_compiled_again(&world.runtime, made(world, false, true).1));
    });
}
