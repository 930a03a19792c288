//! The cost that Remora's agent avoids when it asks for more than a notification-only profiler gets. In a GC reported with MONITOR_GC, the
//! runtime counts young objects one by one.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::Guid;
use remora_clr_model::agent::{AgentLibrary, Link, Process, Sampler, SystemFaults, enter_process};
use remora_clr_model::library::Library;
use remora_clr_model::runtime::{AttachRequest, Runtime};
use remora_clr_model::runtime::{GcMode, Shape};
use remora_clr_model::schedule;
use remora_holds::holds;
use remora_wire::{CLSID_MAIN, Config, FromAgent, HeapSnapshot, Roots, Task, ToAgent};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{CORES, SECOND, World, application, in_worlds, join};

/// Types of a program, few and too many: at most half of the model's room for classes may be used, 128. Then the objects of each.
const FEW: usize = 5;
const MANY: usize = 130;
const OBJECTS: usize = 2;

/// A program that has allocated all its objects, and waits.
fn makes_objects(runtime: &Arc<Runtime>, classes: usize, ends: &AtomicBool) {
    for _ in 0..classes {
        let class = runtime.define_class(None, None);
        for _ in 0..OBJECTS {
            runtime.allocate(class, Shape { size: 24, references: Vec::new(), ..Shape::default() });
        }
    }
    while !ends.load(Ordering::SeqCst) {
        schedule::sleep(1_000_000);
        runtime.safepoint();
    }
}

/// A heap snapshot with the roots that the runtime reports.
fn with_roots() -> Task {
    Task::HeapSnapshot(HeapSnapshot { roots: Roots::Seen, ..HeapSnapshot::default() })
}

/// The agent attaches, has the heap copied once, and detaches after `meanwhile`.
fn take(world: &World, task: Task, meanwhile: impl FnOnce(&Link)) {
    let process = Arc::new(Process {
        library: Library::new(AgentLibrary, world.faults.clone()),
        link: Arc::new(Link::new(64)),
        sampler: Arc::new(Sampler::new(100)),
        system_faults: SystemFaults::default(),
        runtime: world.runtime.clone(),
    });
    enter_process(Some(process.clone()));
    let (data1, data2, data3, data4) = CLSID_MAIN;
    let config = Config { nonce: [0; 16], socket_path: "/tmp/remora".into(), task };
    let answer = world.runtime.ask_for_attach(AttachRequest {
        class: Guid { data1, data2, data3, data4 },
        library: Some(process.library.clone()),
        client_data: config.encode(),
    });
    schedule::wait_until(None, || answer.get().is_some());
    process.link.say(ToAgent::Begin);
    let has_walked = || process.link.has_said(|said| matches!(said, FromAgent::Walked { .. }));
    assert!(schedule::wait_until(Some(60 * SECOND), has_walked), "{:?}", process.link.said());
    meanwhile(&process.link);
    process.link.say(ToAgent::Detach);
    let is_gone = || world.runtime.profilers().is_empty() && !process.library.is_mapped();
    assert!(schedule::wait_until(Some(1_300 * SECOND), is_gone), "the agent is still there");
    process.link.kill();
    enter_process(None);
}

#[test]
fn gch_02_what_was_made_before_is_counted_in_the_one_collection_or_there_are_two() {
    let modes = [(GcMode::Blocking, FEW), (GcMode::Server, FEW), (GcMode::Concurrent, FEW), (GcMode::Blocking, MANY)];
    for (mode, classes) in modes {
        for task in [with_roots(), Task::HeapTracking] {
            in_worlds(CORES, move |world| {
                world.runtime.set_gc_mode(mode);
                let ends = Arc::new(AtomicBool::new(false));
                let of_thread = ends.clone();
                let thread = application(world, move |runtime| makes_objects(runtime, classes, &of_thread));
                schedule::wait_until(None, || world.runtime.objects().len() == classes * OBJECTS);
                take(world, task, |_| ());
                // The runtime counts while the target is paused.
                let (counted, survived) = if classes == FEW { (FEW * OBJECTS, 1) } else { (0, 2) };
                holds!(GCH_02 sim rem, world.runtime.counted() == counted as u64, "{mode:?}, {task:?}");
                let generations = world.runtime.generations();
                holds!(GCH_02 sim rem, generations.iter().all(|one| *one == survived), "{mode:?}, {task:?}: {generations:?}");
                ends.store(true, Ordering::SeqCst);
                join(&[thread]);
            });
        }
    }
}

#[test]
fn gch_05_a_snapshot_switches_concurrent_gc_off_only_if_it_sees_roots() {
    for (task, is_concurrent) in [(Task::HeapSnapshot(HeapSnapshot::default()), true), (with_roots(), false)] {
        in_worlds(CORES, move |world| {
            world.runtime.set_gc_mode(GcMode::Concurrent);
            take(world, task, |_| {
                holds!(GCH_05 rem, world.runtime.is_concurrent() == is_concurrent, "{task:?}");
            });
            assert!(world.runtime.is_concurrent(), "{task:?}");
        });
    }
}

#[test]
fn gch_03_a_watch_that_would_have_too_many_classes_counted_ends_before_that() {
    for mode in [GcMode::Blocking, GcMode::Server] {
        in_worlds(CORES, move |world| {
            world.runtime.set_gc_mode(mode);
            take(world, Task::HeapTracking, |link| {
                let makes = application(world, move |runtime| {
                    for _ in 0..MANY {
                        let class = runtime.define_class(None, None);
                        runtime.allocate(class, Shape { size: 24, references: Vec::new(), ..Shape::default() });
                    }
                    runtime.collect(0);
                });
                join(&[makes]);
                let has_ended = || link.has_said(|said| matches!(said, FromAgent::Failed { .. }));
                holds!(GCH_03 rem, schedule::wait_until(Some(60 * SECOND), has_ended), "{mode:?}: {:?}", link.said());
            });
            holds!(GCH_03 rem, world.runtime.counted() == 0, "{mode:?}");
        });
    }
}
