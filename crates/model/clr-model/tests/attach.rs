//! The runtime's side of the attach, clause by clause, under many schedules each.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "../../clr-abi/tests/support/mod.rs"]
mod slots;
mod support;

use corprof::{HResult, sys};
use remora_clr_model::differences::{Log, RuntimeVersion};
use remora_clr_model::runtime::{Entry, FREED, Status};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use support::{CORES, SECOND, World, in_one, in_worlds};

/// COR_PRF_MONITOR_MODULE_LOADS.
const MODULE_LOADS: u32 = 0x4;
/// The versions with notification-only profilers.
const WITH_NOTIFIED: &[RuntimeVersion] =
    &[RuntimeVersion::Core6, RuntimeVersion::Core8, RuntimeVersion::Core9, RuntimeVersion::Core10];
/// The versions with one profiler at a time.
const WITH_ONE: &[RuntimeVersion] = &[RuntimeVersion::Desktop4, RuntimeVersion::Core3];

fn code(answer: HResult) -> Entry {
    Entry::Failed(answer.0 as u32)
}

#[test]
fn att_07_a_second_profiler_is_refused_before_its_library_is_loaded() {
    in_worlds(WITH_ONE, |world| {
        let (_, first, profiler) = world.attached(Script::new());
        let (library, second) = world.library(Script::new());
        holds!(ATT_07 sim, world.attach(&library) == HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
        holds!(ATT_07 sim, (second.steps(), library.is_mapped()) == (vec![], false));
        assert_eq!((profiler.status(), first.count("InitializeForAttach")), (Status::Active, 1));
    });
}

#[test]
fn att_07_a_second_main_profiler_is_refused_after_its_library_is_loaded_and_a_notified_one_is_not() {
    in_worlds(WITH_NOTIFIED, |world| {
        let (_, _, main) = world.attached(Script::new());
        let (library, second) = world.library(Script::new());
        holds!(ATT_07 sim, world.attach(&library) == HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
        assert_eq!((second.journal(), library.is_mapped()), (vec!["LoadAsNotificationOnly"], true));
        let (_, notified, profiler) = world.attached(Script::new().only_notified());
        assert!(profiler.notification_only && !main.notification_only);
        schedule::wait_until(None, || notified.count("ProfilerAttachComplete") == 1);
        holds!(ATT_07 sim, (main.status(), profiler.status()) == (Status::Active, Status::Active));
    });
}

#[test]
fn att_07_of_notified_profilers_there_is_room_for_so_many() {
    in_worlds(WITH_NOTIFIED, |world| {
        let slots = world.runtime.differences().notification_slots;
        (0..slots).for_each(|_| {
            world.attached(Script::new().only_notified());
        });
        let (library, _) = world.library(Script::new().only_notified());
        holds!(ATT_07 sim, world.attach(&library) == HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
    });
}

#[test]
fn att_09_a_profiler_without_the_third_callback_cannot_attach() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (library, script) = world.library(Script::new().of_version(2));
        holds!(ATT_09 sim, world.attach(&library) == HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE);
        assert!(script.steps().contains(&"ICorProfilerCallback3"));
        assert_eq!(script.journal(), Vec::<&str>::new());
        assert_eq!(library.is_mapped(), world.runtime.differences().unattachable_leaks);
        assert_eq!(world.runtime.log(), [code(HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE)]);
        // The oldest version that can be attached.
        world.attached(Script::new().of_version(3));
    });
}

#[test]
fn att_10_an_error_of_initialize_for_attach_is_logged_and_reported_and_everything_goes() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let refusals = [HResult::E_FAIL, HResult::E_OUTOFMEMORY, HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION];
        for refusal in refusals {
            let (library, script) = world.library(Script::new().answering(refusal));
            holds!(ATT_10 sim, world.attach(&library) == refusal);
            holds!(ATT_10 sim, (script.count("InitializeForAttach"), script.count("Initialize")) == (1, 0));
            assert_eq!(script.count("ProfilerAttachComplete"), 0);
            let profiler = world.runtime.remembered().last().unwrap().clone();
            holds!(ATT_10 sim, (profiler.record().last_release, library.unmapped()) == (Some(0), 1));
            holds!(ATT_10 sim, world.runtime.log().last() == Some(&code(refusal)));
        }
        // The slot is free again.
        world.attached(Script::new());
    });
}

#[test]
fn att_10_not_implemented_reaches_the_trigger_as_it_is_or_as_not_attachable() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (library, _) = world.library(Script::new().answering(HResult::E_NOTIMPL));
        let expected = match world.runtime.runtime_version {
            RuntimeVersion::Desktop4 => HResult::E_NOTIMPL,
            _ => HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE,
        };
        holds!(ATT_10 sim, world.attach(&library) == expected);
    });
}

#[test]
fn att_11_client_data_arrives_whole_and_is_freed_when_the_call_is_over() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        for size in [0, 1, 20, 4096, 65_400] {
            let data: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            let expected = data.clone();
            let script = Script::new().on("InitializeForAttach", move |script| {
                schedule::point();
                holds!(ATT_11 sim, script.client_data_now() == expected);
            });
            let (library, script) = world.library(script);
            let answer = world.asks(&library, &data);
            drop(data);
            schedule::wait_until(None, || answer.get().is_some());
            assert_eq!(answer.get(), Some(HResult::S_OK));
            assert_eq!(script.request_detach(1), HResult::S_OK);
            schedule::wait_until(None, || world.runtime.profilers().is_empty());
            assert_eq!(script.client_data().len(), size);
            holds!(ATT_11 sim, script.client_data_now() == vec![FREED; size], "who kept the pointer reads freed memory");
        }
    });
}

/// COR_PRF_ALLOWABLE_AFTER_ATTACH by its flags, from the public header. ReJIT and MONITOR_GC are left to other clauses (RJT-01, GCH-05).
const AFTER_ATTACH: u32 = sys::COR_PRF_MONITOR_CLASS_LOADS
    | sys::COR_PRF_MONITOR_MODULE_LOADS
    | sys::COR_PRF_MONITOR_ASSEMBLY_LOADS
    | sys::COR_PRF_MONITOR_APPDOMAIN_LOADS
    | sys::COR_PRF_MONITOR_JIT_COMPILATION
    | sys::COR_PRF_MONITOR_EXCEPTIONS
    | sys::COR_PRF_MONITOR_THREADS
    | sys::COR_PRF_MONITOR_SUSPENDS
    | sys::COR_PRF_ENABLE_STACK_SNAPSHOT;
/// What .NET 10 also allows (contract-findings.md).
const SINCE_10: u32 = sys::COR_PRF_DISABLE_INLINING | sys::COR_PRF_DISABLE_OPTIMIZATIONS;
/// COR_PRF_MONITOR_IMMUTABLE by its flags, from the public header.
const IMMUTABLE: u32 = sys::COR_PRF_MONITOR_CODE_TRANSITIONS
    | sys::COR_PRF_MONITOR_REMOTING_COOKIE
    | sys::COR_PRF_MONITOR_REMOTING_ASYNC
    | sys::COR_PRF_ENABLE_INPROC_DEBUGGING
    | sys::COR_PRF_ENABLE_JIT_MAPS
    | sys::COR_PRF_DISABLE_INLINING
    | sys::COR_PRF_DISABLE_OPTIMIZATIONS
    | sys::COR_PRF_ENABLE_OBJECT_ALLOCATED
    | sys::COR_PRF_ENABLE_FUNCTION_ARGS
    | sys::COR_PRF_ENABLE_FUNCTION_RETVAL
    | sys::COR_PRF_ENABLE_FRAME_INFO
    | sys::COR_PRF_USE_PROFILE_IMAGES
    | sys::COR_PRF_DISABLE_TRANSPARENCY_CHECKS_UNDER_FULL_TRUST
    | sys::COR_PRF_DISABLE_ALL_NGEN_IMAGES;
/// COR_PRF_HIGH_ALLOWABLE_AFTER_ATTACH of .NET Core 3.1 by its flags. 5 added the events of EventPipe.
const HIGH_AFTER_ATTACH: u32 = sys::COR_PRF_HIGH_IN_MEMORY_SYMBOLS_UPDATED
    | sys::COR_PRF_HIGH_MONITOR_DYNAMIC_FUNCTION_UNLOADS
    | sys::COR_PRF_HIGH_BASIC_GC
    | sys::COR_PRF_HIGH_MONITOR_GC_MOVED_OBJECTS
    | sys::COR_PRF_HIGH_MONITOR_LARGEOBJECT_ALLOCATED;

/// The answer to a flag, and whether it is set: seed 001, and on Core E_FAIL for an immutable flag.
fn answer_after_attach(is_core: bool, is_allowable: bool, is_immutable: bool) -> HResult {
    match (is_allowable, is_immutable && is_core) {
        (true, _) => HResult::S_OK,
        (false, true) => HResult::E_FAIL,
        (false, false) => HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER,
    }
}

#[test]
fn att_12_att_19_after_attach_the_mask_takes_what_is_allowable_and_nothing_else() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (_, script, profiler) = world.attached(Script::new());
        let version = world.runtime.runtime_version;
        let is_core = version != RuntimeVersion::Desktop4;
        let is_since_10 = matches!(version, RuntimeVersion::Core10 | RuntimeVersion::Core11);
        let since_10 = if is_since_10 { SINCE_10 } else { 0 };
        let left_out = sys::COR_PRF_MONITOR_GC | sys::COR_PRF_ENABLE_REJIT;
        for bit in (0..32).map(|shift| 1_u32 << shift).filter(|bit| bit & left_out == 0) {
            let before = profiler.mask();
            let is_allowable = (AFTER_ATTACH | since_10) & bit != 0;
            let expected = answer_after_attach(is_core, is_allowable, IMMUTABLE & bit != 0);
            holds!([ATT_12 ATT_19] sim, script.set_mask_low(bit) == expected, "bit {bit:#x}");
            holds!(ATT_12 sim, profiler.mask() == if expected.is_success() { (bit, 0) } else { before });
        }
        assert_eq!(script.set_mask_low(0), HResult::S_OK);
    });
}

#[test]
fn att_12_att_19_the_high_half_of_the_mask_is_refused_alike() {
    in_worlds(CORES, |world| {
        let (_, script, _) = world.attached(Script::new());
        let is_3 = world.runtime.runtime_version == RuntimeVersion::Core3;
        let allowable = HIGH_AFTER_ATTACH | if is_3 { 0 } else { sys::COR_PRF_HIGH_MONITOR_EVENT_PIPE };
        for bit in (0..32).map(|shift| 1_u32 << shift) {
            let is_immutable = sys::COR_PRF_HIGH_DISABLE_TIERED_COMPILATION & bit != 0;
            let expected = answer_after_attach(true, allowable & bit != 0, is_immutable);
            holds!([ATT_12 ATT_19] sim, script.set_mask(0, bit) == expected, "high bit {bit:#x}");
        }
    });
}

#[test]
fn att_13_the_methods_of_the_table_are_refused_to_an_attached_profiler_and_no_other() {
    for runtime_version in RuntimeVersion::ALL {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let noted = answers.clone();
        // During the initialisation a detach is refused as well, so that every call is answered.
        let script = move || {
            let noted = noted.clone();
            Script::new().on("InitializeForAttach", move |script| {
                // SAFETY: Info is live, and the model accepts any argument.
                unsafe {
                    slots::generated::call_every_info_slot(script.raw().cast(), |name, answer| {
                        noted.lock().unwrap().push((name, answer));
                    });
                }
            })
        };
        // Other clauses check what else the model reports about these calls.
        let of_world = answers.clone();
        in_one(runtime_version, 1, move |world| {
            of_world.lock().unwrap().clear();
            world.attached(script());
        });
        let answers = std::mem::take(&mut *answers.lock().unwrap());
        let refused: Vec<&str> = answers
            .iter()
            .filter(|(_, answer)| *answer == HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER)
            .map(|(name, _)| *name)
            .collect();
        let mut expected = runtime_version.differences().refused_after_attach.to_vec();
        expected.sort_by_key(|name| answers.iter().position(|(known, _)| known == name));
        holds!(ATT_13 sim, refused == expected, "{runtime_version:?}");
        let of_seed = ["GetILFunctionBody", "SetILFunctionBody", "SetILInstrumentedCodeMap"];
        let is_desktop = runtime_version == RuntimeVersion::Desktop4;
        assert!(of_seed.iter().all(|name| refused.contains(name) == is_desktop), "seed 004 against Core");
    }
}

#[test]
fn att_15_every_attach_failure_and_detach_leaves_an_entry_where_the_runtime_writes_any() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (library, _) = world.library(Script::new().answering(HResult::E_OUTOFMEMORY));
        assert_eq!(world.attach(&library), HResult::E_OUTOFMEMORY);
        let (_, script, _) = world.attached(Script::new());
        assert_eq!(script.request_detach(1), HResult::S_OK);
        schedule::wait_until(None, || world.runtime.profilers().is_empty());
        let entries = vec![code(HResult::E_OUTOFMEMORY), Entry::Attached, Entry::Detached];
        holds!(ATT_15 sim, world.runtime.log() == entries);
        assert!(entries[0].to_string().contains(&HResult::E_OUTOFMEMORY.to_string()), "the reason is said");
        let is_written = world.runtime.differences().log != Log::None;
        holds!(ATT_15 sim, world.runtime.published_log() == (if is_written { entries } else { vec![] }));
    });
}

/// Loads a module on an application thread. Returns whether the script got a callback.
fn hears_of_a_module(world: &World, script: &Script) -> bool {
    let (runtime, heard) = (world.runtime.clone(), script.count("ModuleLoadFinished"));
    let loads = schedule::spawn("a thread of the application", move || {
        runtime.begin_thread();
        runtime.load_module(false);
        runtime.end_thread();
    });
    schedule::wait_until(None, || schedule::has_ended(loads));
    script.count("ModuleLoadFinished") > heard
}

/// A callback that waits until the test lets it continue.
fn waits_for(gate: &Arc<AtomicBool>) -> impl Fn() + use<> {
    let gate = gate.clone();
    move || {
        schedule::wait_until(None, || gate.load(Ordering::SeqCst));
    }
}

#[test]
fn att_20_object_then_initialisation_then_callbacks_then_the_word_that_they_are_on_then_the_answer() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let gates: [Arc<AtomicBool>; 3] = Default::default();
        let [is_masked, may_initialize, may_complete] = gates.clone();
        let (initialize, complete) = (waits_for(&may_initialize), waits_for(&may_complete));
        let masked = is_masked.clone();
        let script = Script::new()
            .on("InitializeForAttach", move |script| {
                assert_eq!(script.set_mask_low(MODULE_LOADS), HResult::S_OK);
                masked.store(true, Ordering::SeqCst);
                initialize();
            })
            .on("ProfilerAttachComplete", move |_| complete());
        let (library, script) = world.library(script);
        let answer = world.asks(&library, &[]);
        schedule::wait_until(None, || is_masked.load(Ordering::SeqCst));
        holds!(ATT_20 sim, !hears_of_a_module(world, &script), "callbacks are off while it initialises");
        holds!(ATT_20 sim, answer.get() == None, "nothing is answered before InitializeForAttach has returned");
        may_initialize.store(true, Ordering::SeqCst);
        schedule::wait_until(None, || script.count("ProfilerAttachComplete") == 1);
        holds!(ATT_20 sim, hears_of_a_module(world, &script), "callbacks are on before ProfilerAttachComplete");
        let is_answered = world.runtime.runtime_version == RuntimeVersion::Desktop4;
        assert_eq!(answer.get(), is_answered.then_some(HResult::S_OK));
        may_complete.store(true, Ordering::SeqCst);
        schedule::wait_until(None, || answer.get().is_some());
        let steps = script.steps();
        let at = |step: &str| steps.iter().position(|known| *known == step);
        // An object with a later version has the third. The runtime asks for the newest that it knows.
        let newest = world.runtime.differences().callback_version;
        let order = [
            at("DllGetClassObject"),
            at("CreateInstance"),
            at(&format!("ICorProfilerCallback{newest}")),
            at("InitializeForAttach"),
            at("ProfilerAttachComplete"),
        ];
        holds!(ATT_20 sim, order.iter().all(Option::is_some) && order.is_sorted(), "{steps:?}");
    });
}

#[test]
fn att_08_a_blocked_finalizer_makes_the_attach_time_out_and_it_may_still_succeed_later() {
    in_worlds(&[RuntimeVersion::Desktop4], |world| {
        let (library, script) = world.library(Script::new());
        world.runtime.block_finalizer(true);
        let answer = world.asks(&library, &[]);
        holds!(ATT_08 sim, world.runtime.wait_for(&answer, 5_000) == HResult::ERROR_TIMEOUT);
        assert!(script.steps().is_empty(), "nothing has begun");
        world.runtime.block_finalizer(false);
        schedule::wait_until(None, || script.count("ProfilerAttachComplete") == 1);
        let again = world.asks(&library, &[]);
        holds!(ATT_08 sim, world.runtime.wait_for(&again, 5_000) == HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
    });
}

#[test]
fn att_08_an_attach_that_timed_out_can_be_tried_again() {
    in_worlds(&[RuntimeVersion::Desktop4], |world| {
        let blocks = Arc::new(AtomicBool::new(false));
        let waits = waits_for(&blocks);
        let (library, _) =
            world.library(Script::new().on("InitializeForAttach", move |_| waits()).answering(HResult::E_FAIL));
        let slow = world.asks(&library, &[]);
        assert_eq!(world.runtime.wait_for(&slow, 10), HResult::ERROR_TIMEOUT);
        blocks.store(true, Ordering::SeqCst);
        let (library, _) = world.library(Script::new());
        let again = world.asks(&library, &[]);
        holds!(ATT_08 sim, world.runtime.wait_for(&again, 600_000) == HResult::S_OK);
    });
}

#[test]
fn att_08_on_core_neither_a_finalizer_nor_the_time_out_ends_an_attach() {
    in_worlds(CORES, |world| {
        let hour = 3600 * SECOND;
        let (library, script) = world.library(Script::new().on("InitializeForAttach", move |_| schedule::sleep(hour)));
        world.runtime.block_finalizer(true);
        let answer = world.asks(&library, &[]);
        holds!(ATT_08 sim, !schedule::wait_until(Some(hour / 2), || answer.get().is_some()), "no time-out of the runtime's");
        holds!(ATT_08 sim, world.runtime.wait_for(&answer, 1) == HResult::S_OK, "the trigger waits for as long as it takes");
        assert_eq!(script.count("ProfilerAttachComplete"), 1);
    });
}
