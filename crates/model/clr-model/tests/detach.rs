//! The runtime's side of the detach, clause by clause, under many schedules each.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{Entry, GcMode, Status};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{CORES, SECOND, application, gone, in_worlds, join};

/// COR_PRF_MONITOR_MODULE_LOADS.
const MODULE_LOADS: u32 = 0x4;

#[test]
fn det_10_det_23_reported_once_then_released_to_zero_then_freed_then_written_down() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (library, script, profiler) = world.attached(Script::new());
        let (runtime, of_reader) = (world.runtime.clone(), library.clone());
        let reader = schedule::spawn("who reads the log", move || {
            schedule::wait_until(None, || runtime.log().contains(&Entry::Detached));
            holds!(DET_23 sim, !of_reader.is_mapped(), "written down once it is freed");
        });
        assert_eq!(script.request_detach(1), HResult::S_OK);
        gone(world);
        join(&[reader]);
        holds!(DET_10 sim, script.count("ProfilerDetachSucceeded") == 1);
        holds!(DET_10 sim, script.journal().last() == Some(&"ProfilerDetachSucceeded"));
        holds!(DET_10 sim, (profiler.record().last_release, library.unmapped()) == (Some(0), 1));
        holds!(DET_23 sim, world.runtime.log() == [Entry::Attached, Entry::Detached]);
    });
}

#[test]
fn det_23_attaches_are_served_again_once_the_detach_is_written_down() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (_, script, _) = world.attached(Script::new());
        assert_eq!(script.request_detach(1), HResult::S_OK);
        if !world.runtime.differences().attach_waits_for_detach {
            gone(world);
        }
        world.attached(Script::new());
        holds!(DET_23 sim, world.runtime.log() == [Entry::Attached, Entry::Detached, Entry::Attached]);
    });
}

#[test]
fn det_12_afterwards_the_same_profiler_may_attach_any_number_of_times() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        for round in 1..=3 {
            let (library, script, _) = world.attached(Script::new());
            holds!(DET_12 sim, script.request_detach(1) == HResult::S_OK, "round {round}");
            gone(world);
            holds!(DET_12 sim, library.unmapped() == 1);
        }
    });
}

#[test]
fn det_07_a_callback_that_runs_holds_the_unload_back_however_long_it_takes() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let hour = 3600 * SECOND;
        let script = Script::new()
            .on("InitializeForAttach", |script| assert_eq!(script.set_mask_low(MODULE_LOADS), HResult::S_OK))
            .on("ModuleLoadStarted", move |_| schedule::sleep(hour));
        let (library, script, profiler) = world.attached(script);
        let runtime = world.runtime.clone();
        let application = schedule::spawn("a thread of the application", move || {
            runtime.begin_thread();
            runtime.load_module(false);
        });
        schedule::wait_until(None, || script.count("ModuleLoadStarted") == 1);
        assert_eq!(script.request_detach(1), HResult::S_OK);
        schedule::sleep(hour / 2);
        holds!(DET_07 sim, (profiler.status(), script.count("ProfilerDetachSucceeded")) == (Status::Detaching, 0));
        holds!(DET_07 sim, library.is_mapped() && profiler.record().looks > 2);
        gone(world);
        assert!(schedule::has_ended(application) || !library.is_mapped());
        assert_eq!(script.count("ModuleLoadFinished"), 0, "sealed: no callback begins any more");
    });
}

#[test]
fn det_13_asking_too_early_or_twice_changes_nothing() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let script = Script::new()
            .on("InitializeForAttach", |script| {
                holds!(DET_13 sim, script.request_detach(1) == HResult::CORPROF_E_PROFILER_NOT_YET_INITIALIZED);
                assert_eq!(script.set_mask_low(MODULE_LOADS), HResult::S_OK);
            })
            // Outside of a callback, no call is allowed after the seal (DET-20).
            .on("ModuleLoadStarted", |script| {
                assert_eq!(script.request_detach(1), HResult::S_OK);
                schedule::point();
                holds!(DET_13 sim, script.request_detach(1) == HResult::CORPROF_E_PROFILER_DETACHING);
            });
        let (_, script, profiler) = world.attached(script);
        holds!(DET_13 sim, profiler.status() == Status::Active);
        let thread = application(world, |runtime| {
            runtime.load_module(false);
        });
        join(&[thread]);
        gone(world);
        holds!(DET_13 sim, script.count("ProfilerDetachSucceeded") == 1);
    });
}

/// COR_PRF_MONITOR_GC.
const GC: u32 = 0x80;

#[test]
fn det_14_after_the_detach_the_process_is_as_it_was() {
    in_worlds(CORES, |world| {
        world.runtime.set_gc_mode(GcMode::Concurrent);
        let script = Script::new()
            .on("InitializeForAttach", |script| assert_eq!(script.set_mask_low(MODULE_LOADS | GC), HResult::S_OK))
            .on("ProfilerAttachComplete", |script| assert_eq!(script.modules(), Ok(vec![])));
        let (library, script, _) = world.attached(script);
        assert!(!world.runtime.is_concurrent(), "MONITOR_GC switches it off while the profiler stays");
        assert_eq!(script.request_detach(1), HResult::S_OK);
        gone(world);
        holds!(DET_14 sim, world.runtime.is_concurrent(), "and it is switched on again");
        holds!(DET_14 sim, !library.is_mapped() && world.runtime.profilers().is_empty());
        holds!(DET_14 sim, (library.open_entrances(), world.runtime.enumerators.count()) == (0, 0));
        let before = script.journal().len();
        let runtime = world.runtime.clone();
        let application = schedule::spawn("a thread of the application", move || {
            runtime.begin_thread();
            runtime.load_module(false);
        });
        assert!(schedule::wait_until(Some(3600 * SECOND), || schedule::has_ended(application)));
        holds!(DET_14 sim, script.journal().len() == before, "no callback comes any more");
    });
}

#[test]
fn det_01_a_wish_from_outside_reaches_the_profiler_through_its_own_channel_and_it_asks_inside() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let wished = Arc::new(AtomicBool::new(false));
        let (_, script, profiler) = world.attached(Script::new());
        let (tool, of_tool) = (wished.clone(), script.clone());
        schedule::spawn("the tool outside", move || tool.store(true, Ordering::SeqCst));
        let own = schedule::spawn("a thread of the profiler's own", move || {
            schedule::wait_until(None, || wished.load(Ordering::SeqCst));
            assert_eq!(of_tool.request_detach(1), HResult::S_OK);
        });
        gone(world);
        assert!(schedule::has_ended(own));
        holds!(DET_01 sim, (profiler.record().detach_succeededs, script.count("ProfilerDetachSucceeded")) == (1, 1));
    });
}
