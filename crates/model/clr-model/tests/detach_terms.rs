//! The profiler's obligations at a detach, clause by clause: each with a behaviour that honours it and one that breaks it.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::callback_data::CallbackData;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{Entry, FREED, Shape, Status, ThreadInterference};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use support::{CORES, SECOND, World, application, faults_of, gone, how_often, in_worlds, join, run};

/// COR_PRF_MONITOR_MODULE_LOADS.
const MODULE_LOADS: u32 = 0x4;
/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;
/// COR_PRF_ENABLE_REJIT.
const ENABLE_REJIT: u32 = 0x0004_0000;
/// COR_PRF_ENABLE_JIT_MAPS: immutable everywhere.
const JIT_MAPS: u32 = 0x0010_0000;
/// COR_PRF_MONITOR_ENTERLEAVE.
const ENTERLEAVE: u32 = 0x1000;

/// A profiler that sets `mask` in its initialisation, attached or at startup.
fn wanting(mask: u32) -> Script {
    let set = move |script: &Script| assert_eq!(script.set_mask_low(mask), HResult::S_OK);
    Script::new().on("InitializeForAttach", set).on("Initialize", set)
}

fn load_modules(world: &World, count: usize) {
    let load = move |runtime: &Arc<remora_clr_model::runtime::Runtime>| {
        (0..count).for_each(|_| {
            runtime.load_module(false);
        });
    };
    join(&[application(world, load)]);
}

unsafe extern "C" fn hook(_function: usize) {}

fn hooks(script: &Script) {
    let info = script.take_startup().unwrap();
    let hooks = corprof::EnterLeave3 { enter: Some(hook), leave: Some(hook), tailcall: Some(hook) };
    // SAFETY: the model calls it as a function, which is never unloaded.
    unsafe { info.set_enter_leave_function_hooks3(hooks) }.unwrap();
}

/// A profiler from startup that does something irreversible, and the code of its refused detach.
fn irreversible() -> [(fn() -> Script, HResult); 3] {
    [
        (|| wanting(MODULE_LOADS | JIT_MAPS), HResult::CORPROF_E_IMMUTABLE_FLAGS_SET),
        (
            || {
                wanting(MODULE_LOADS).on("Initialize", |script| {
                    assert_eq!(script.set_mask_low(MODULE_LOADS | ENTERLEAVE), HResult::S_OK);
                    hooks(script);
                })
            },
            HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT,
        ),
        (
            || {
                wanting(MODULE_LOADS).on("ModuleLoadFinished", |script| {
                    let Some(CallbackData::ModuleLoaded(module)) = script.last_callback_data() else { panic!() };
                    assert_eq!(script.replace_body(module, 0x0600_0001), HResult::S_OK);
                })
            },
            HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT,
        ),
    ]
}

#[test]
fn det_02_what_cannot_be_undone_forbids_the_detach_and_the_profiler_stays_fully_alive() {
    for (script, code) in irreversible() {
        in_worlds(&RuntimeVersion::ALL, move |world| {
            let (library, script, profiler) = world.started(script());
            load_modules(world, 1);
            holds!(DET_02 sim, script.request_detach(1) == code);
            let before = script.count("ModuleLoadFinished");
            load_modules(world, 1);
            let alive = (profiler.status(), script.count("ModuleLoadFinished"), library.is_mapped());
            holds!(DET_02 sim, alive == (Status::Active, before + 1, true));
            script.modules().unwrap();
        });
    }
}

#[test]
fn det_02_on_core_rejit_in_the_mask_forbids_the_detach_even_unused_and_even_taken_back() {
    in_worlds(CORES, |world| {
        let script = wanting(MODULE_LOADS | ENABLE_REJIT);
        let (_, script, profiler) = world.attached(script);
        for mask in [MODULE_LOADS | ENABLE_REJIT, MODULE_LOADS, 0] {
            assert_eq!(script.set_mask_low(mask), HResult::S_OK);
            holds!(DET_02 sim, script.request_detach(1) == HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT);
        }
        holds!(DET_02 sim, profiler.status() == Status::Active);
    });
    in_worlds(&[RuntimeVersion::Desktop4], |world| {
        let (_, script, _) = world.attached(Script::new());
        assert_eq!(script.set_mask_low(ENABLE_REJIT), HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER);
        assert_eq!(script.request_detach(1), HResult::S_OK);
        gone(world);
    });
}

/// A resource that a profiler leaves open when it requests the detach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Thread,
    Timer,
    Session,
    Suspension,
    ThreadOfTheRuntime,
}

fn leaves_open(world: &World, open: Open) {
    let (library, script, _) = world.attached(Script::new());
    match open {
        Open::Nothing => {}
        Open::Thread => {
            let of_thread = library.clone();
            schedule::spawn("a thread of the profiler", move || {
                let _inside = of_thread.enter();
                schedule::sleep(3600 * SECOND);
            });
            schedule::sleep(SECOND);
        }
        Open::Timer => library.open("a timer that is armed"),
        Open::Session => {
            script.start_session().unwrap();
        }
        Open::Suspension => assert_eq!(script.suspend_runtime(), HResult::S_OK),
        Open::ThreadOfTheRuntime => {
            world.runtime.begin_thread();
            world.runtime.interfere_with_thread(world.runtime.os_threads()[0], ThreadInterference::Stopped);
            world.runtime.end_thread();
        }
    }
    assert_eq!(script.request_detach(1), HResult::S_OK);
    if open == Open::Suspension {
        // The runtime's check takes the lock of the suspension: it would wait forever.
        schedule::sleep(SECOND);
        assert!(!world.runtime.profilers().is_empty());
        return;
    }
    gone(world);
}

#[test]
fn det_04_every_other_way_in_is_closed_before_the_detach_is_asked_for() {
    let ways = [
        (Open::Nothing, 3),
        (Open::Thread, 3),
        (Open::Timer, 3),
        (Open::Session, 12),
        (Open::Suspension, 10),
        (Open::ThreadOfTheRuntime, 3),
    ];
    for version in RuntimeVersion::ALL {
        for (open, since) in ways {
            if version.differences().info_version >= since {
                let expected: &[&str] = if open == Open::Nothing { &[] } else { &["DET-04"] };
                holds!(DET_04 sim, faults_of(version, move |world| leaves_open(world, open)) == expected, "{open:?}");
            }
        }
    }
}

#[test]
fn det_04_stopping_a_session_waits_for_who_writes_into_it() {
    in_worlds(&[RuntimeVersion::Core6, RuntimeVersion::Core8, RuntimeVersion::Core10], |world| {
        let script = Script::new().on("EventPipeEventDelivered", |_| schedule::sleep(SECOND));
        let (library, script, _) = world.attached(script);
        let session = script.start_session().unwrap();
        let writers = [1, 2].map(|event| application(world, move |runtime| runtime.write_event(event, &[7])));
        schedule::wait_until(None, || script.count("EventPipeEventDelivered") > 0);
        assert_eq!(script.stop_session(session), HResult::S_OK);
        let delivered = script.callback_data().len();
        holds!(DET_04 sim, library.open_entrances() == 0);
        assert_eq!(script.request_detach(1), HResult::S_OK);
        gone(world);
        join(&writers);
        holds!(DET_04 sim, script.callback_data().len() == delivered, "nothing is delivered after the stop");
    });
}

/// How the requesting thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    AtOnce,
    Late,
    ReferenceFirst,
    WithoutReference,
}

/// Requests the detach on its own thread. True if the thread, not the runtime, released the last reference.
fn asks_and_leaves(world: &World, leaving: Leaving) -> bool {
    let (library, script, _) = world.attached(Script::new());
    let last = Arc::new(AtomicUsize::new(0));
    let (of_thread, of_last) = (library.clone(), last.clone());
    let thread = schedule::spawn("the thread that asks", move || {
        if leaving != Leaving::WithoutReference {
            of_thread.hold();
        }
        let inside = of_thread.enter();
        assert_eq!(script.request_detach(1), HResult::S_OK);
        match leaving {
            Leaving::AtOnce => {}
            Leaving::ReferenceFirst => of_thread.release(),
            Leaving::Late | Leaving::WithoutReference => schedule::sleep(700 * SECOND),
        }
        schedule::point();
        if leaving == Leaving::ReferenceFirst {
            schedule::sleep(700 * SECOND);
        }
        // One step, like FreeLibraryAndExitThread: no other thread runs in between.
        drop(inside);
        if matches!(leaving, Leaving::AtOnce | Leaving::Late) {
            of_thread.release();
            of_last.store(usize::from(!of_thread.is_mapped()), Ordering::SeqCst);
        }
    });
    gone(world);
    join(&[thread]);
    holds!([DET_05 DET_08] sim, library.unmapped() == 1);
    last.load(Ordering::SeqCst) == 1
}

#[test]
fn det_05_a_thread_of_ones_own_that_asks_holds_its_own_reference() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        asks_and_leaves(world, Leaving::Late);
    });
    for version in RuntimeVersion::ALL {
        let found = faults_of(version, |world| {
            asks_and_leaves(world, Leaving::WithoutReference);
        });
        holds!(DET_05 sim, found == ["DET-05"], "{version:?}");
    }
}

#[test]
fn det_08_the_reference_goes_and_the_thread_ends_in_one_step_and_both_orders_are_harmless() {
    let at_once = how_often(&RuntimeVersion::ALL, |world| asks_and_leaves(world, Leaving::AtOnce));
    let late = how_often(&RuntimeVersion::ALL, |world| asks_and_leaves(world, Leaving::Late));
    let all = support::schedules_of_each(RuntimeVersion::ALL.len());
    holds!(DET_08 sim, at_once.iter().all(|thread_last| *thread_last < all), "the runtime is last: {at_once:?}");
    holds!(DET_08 sim, late.iter().all(|thread_last| *thread_last > 0), "the thread is last: {late:?}");
    for version in RuntimeVersion::ALL {
        let found = faults_of(version, |world| {
            asks_and_leaves(world, Leaving::ReferenceFirst);
        });
        holds!(DET_08 sim, found == ["DET-08"], "{version:?}: two steps are a race");
    }
}

#[test]
fn det_06_sealed_on_return_a_callback_that_runs_is_answered_detaching_and_no_other_begins() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let of_script = answers.clone();
        let script = wanting(MODULE_LOADS).on("ModuleLoadStarted", move |script| {
            schedule::sleep(10 * SECOND);
            of_script.lock().unwrap().extend([
                script.modules().unwrap_err(),
                script.set_mask_low(0),
                script.request_detach(1),
                script.ask_about_module(1),
            ]);
        });
        let (_, script, _) = world.attached(script);
        let thread = application(world, |runtime| {
            runtime.load_module(false);
            runtime.load_module(false);
        });
        schedule::wait_until(None, || script.count("ModuleLoadStarted") == 1);
        assert_eq!(script.request_detach(1), HResult::S_OK);
        gone(world);
        join(&[thread]);
        holds!(DET_06 sim, answers.lock().unwrap().as_slice() == [HResult::CORPROF_E_PROFILER_DETACHING; 4]);
        let after = script.journal().iter().skip_while(|one| **one != "ModuleLoadStarted").copied().collect::<Vec<_>>();
        holds!(DET_06 sim, after == ["ModuleLoadStarted", "ProfilerDetachSucceeded"]);
    });
}

#[test]
fn det_06_deliveries_of_event_pipe_escape_the_seal() {
    for version in [RuntimeVersion::Core6, RuntimeVersion::Core8, RuntimeVersion::Core9, RuntimeVersion::Core10] {
        let (findings, _) = run(version, 1, |world| {
            let (library, script, profiler) = world.attached(Script::new());
            script.start_session().unwrap();
            assert_eq!(script.request_detach(5_000), HResult::S_OK);
            assert_eq!(profiler.status(), Status::Detaching);
            join(&[application(world, |runtime| runtime.write_event(9, &[1, 2]))]);
            holds!(DET_06 sim, script.callback_data() == [CallbackData::Event(9, vec![1, 2])]);
            gone(world);
            assert!(!library.is_mapped());
        });
        holds!(DET_06 sim, findings.iter().all(|one| one.starts_with("DET-04")) && findings.len() == 1, "{findings:?}");
    }
}

/// Seconds from the request to the end, for a callback of this many milliseconds. At most a second of time may be lost.
fn detach_takes(version: RuntimeVersion, expected: u32, callback: u64) -> u64 {
    let taken = Arc::new(AtomicU64::new(0));
    let of_world = taken.clone();
    run(version, 1, move |world| {
        let sleeps = move |_: &Script| schedule::sleep(callback * 1_000_000);
        let (_, script, _) = world.attached(wanting(MODULE_LOADS).on("ModuleLoadStarted", sleeps));
        let thread = application(world, |runtime| {
            runtime.load_module(false);
        });
        schedule::wait_until(None, || script.count("ModuleLoadStarted") == 1);
        let begun = schedule::now();
        assert_eq!(script.request_detach(expected), HResult::S_OK);
        schedule::wait_until(None, || script.count("ProfilerDetachSucceeded") == 1);
        of_world.store((schedule::now() - begun) / 1_000_000, Ordering::SeqCst);
        join(&[thread]);
    });
    taken.load(Ordering::SeqCst)
}

#[test]
fn det_09_the_runtime_looks_after_the_expected_time_after_twice_that_and_then_steadily() {
    let (desktop, core) = (RuntimeVersion::Desktop4, RuntimeVersion::Core8);
    let cases = [
        (desktop, 1_000, 500, 1_000),
        (desktop, 1_000, 1_500, 2_000),
        (desktop, 1_000, 2_500, 602_000),
        (desktop, 1_000, 700_000, 1_202_000),
        (core, 1_000, 500, 1_000),
        (core, 1_000, 1_500, 2_000),
        (core, 1_000, 2_500, 7_000),
        (core, 1, 0, 300),
        (core, 0, 0, 2_500),
        (core, 60_000, 0, 5_000),
    ];
    for (version, expected, callback, taken) in cases {
        let measured = detach_takes(version, expected, callback);
        let range = taken..taken + 1_000;
        holds!(DET_09 sim, range.contains(&measured), "{version:?} {expected} {callback}: {measured}, not {range:?}");
    }
}

#[test]
fn det_17_the_process_may_exit_in_the_middle_of_attach_profiling_and_detach() {
    for (after, detaches) in [(0, false), (0, true), (5, false), (5, true), (400, true)] {
        in_worlds(&RuntimeVersion::ALL, move |world| {
            let script = Script::new().on("InitializeForAttach", |script| {
                let code = script.set_mask_low(MODULE_LOADS | MONITOR_GC);
                assert!(code == HResult::S_OK || code == HResult::CORPROF_E_RUNTIME_UNINITIALIZED, "{code}");
            });
            let (library, script) = world.library(script);
            let answer = world.asks(&library, &[]);
            let program = application(world, |runtime| {
                for _ in 0..8 {
                    runtime.load_module(true);
                    runtime.collect(0);
                    schedule::sleep(1_000_000);
                }
            });
            let asks = script.clone();
            let thread = schedule::spawn("a thread of the profiler", move || {
                schedule::wait_until(Some(SECOND), || answer.get().is_some());
                if detaches && answer.get() == Some(HResult::S_OK) && asks.count("Shutdown") == 0 {
                    let code = asks.request_detach(1);
                    assert!(code == HResult::S_OK || code == HResult::CORPROF_E_RUNTIME_UNINITIALIZED, "{code}");
                }
            });
            schedule::sleep(after * 1_000_000);
            world.runtime.exit();
            join(&[program, thread]);
            schedule::sleep(10 * SECOND);
            holds!(DET_17 sim, script.count("Shutdown") <= 1);
        });
    }
    for version in RuntimeVersion::ALL {
        let found = faults_of(version, |world| {
            let (_, script, _) = world.attached(Script::new());
            world.runtime.exit();
            (0..9).for_each(|_| {
                let _ = script.modules();
            });
        });
        holds!(DET_17 sim, found == ["DET-17"], "{version:?}: after Shutdown nothing is asked any more");
    }
}

#[test]
fn det_19_asked_from_inside_a_callback_that_callback_is_waited_for() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let script = wanting(MODULE_LOADS).on("ModuleLoadFinished", |script| {
            assert_eq!(script.request_detach(1), HResult::S_OK);
            schedule::sleep(1800 * SECOND);
        });
        let (library, script, profiler) = world.attached(script);
        let thread = application(world, |runtime| {
            runtime.load_module(false);
        });
        schedule::wait_until(None, || profiler.status() == Status::Detaching);
        schedule::sleep(900 * SECOND);
        holds!(DET_19 sim, library.is_mapped() && script.count("ProfilerDetachSucceeded") == 0);
        gone(world);
        join(&[thread]);
        holds!(DET_19 sim, (library.unmapped(), profiler.record().last_release) == (1, Some(0)));
    });
}

#[test]
fn det_19_in_a_callback_that_may_not_trigger_a_collection_it_depends_on_the_version() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let answers = Arc::new(Mutex::new(None));
        let of_script = answers.clone();
        let script = wanting(MONITOR_GC).on("GarbageCollectionFinished", move |script| {
            let enumerated = script.modules().unwrap_err();
            *of_script.lock().unwrap() = Some((enumerated, script.request_detach(1)));
            schedule::sleep(20 * SECOND);
        });
        let (_, script, _) = world.attached(script);
        join(&[application(world, |runtime| runtime.collect(0))]);
        let (enumerated, asked) = answers.lock().unwrap().unwrap();
        assert_eq!(enumerated, HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE);
        if world.runtime.differences().detach_in_any_callback {
            holds!(DET_19 sim, asked == HResult::S_OK);
            gone(world);
        } else {
            holds!(DET_19 sim, asked == HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE);
            assert_eq!(script.request_detach(1), HResult::S_OK, "elsewhere it may ask");
            gone(world);
        }
    });
}

#[test]
fn det_19_on_a_thread_of_the_runtime_outside_of_a_callback_nothing_that_may_collect_is_answered() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (_, script, _) = world.attached(Script::new());
        let asks = script.clone();
        // Managed code that calls into the profiler's library.
        join(&[application(world, move |runtime| {
            assert_eq!(asks.modules(), Err(HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE));
            if !runtime.differences().detach_in_any_callback {
                holds!(DET_19 sim, asks.request_detach(1) == HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE);
            }
        })]);
    });
}

#[test]
fn det_20_after_asking_nothing_is_asked_outside_of_a_callback() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let script = wanting(MODULE_LOADS).on("ModuleLoadStarted", |script| {
            assert_eq!(script.request_detach(1), HResult::S_OK);
            holds!(DET_20 sim, script.modules() == Err(HResult::CORPROF_E_PROFILER_DETACHING), "inside one it copes");
        });
        let (_, _, _) = world.attached(script);
        load_modules(world, 1);
        gone(world);
    });
    for version in RuntimeVersion::ALL {
        for waits_for_the_end in [false, true] {
            let found = faults_of(version, move |world| {
                let (_, script, _) = world.attached(Script::new());
                assert_eq!(script.request_detach(1), HResult::S_OK);
                if waits_for_the_end {
                    gone(world);
                }
                assert_eq!(script.modules(), Err(HResult::CORPROF_E_PROFILER_DETACHING));
            });
            holds!(DET_20 sim, found == ["DET-20"], "{version:?}");
        }
    }
}

#[test]
fn det_21_the_request_returns_first_and_the_end_happens_on_the_runtimes_own_thread() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let ended_on = Arc::new(Mutex::new(None));
        let of_script = ended_on.clone();
        let script = Script::new().on("ProfilerDetachSucceeded", move |_| {
            *of_script.lock().unwrap() = Some(schedule::current());
            // As long as this takes, the rest must wait.
            schedule::sleep(30 * SECOND);
        });
        let (library, script, profiler) = world.attached(script);
        assert_eq!(script.request_detach(5_000), HResult::S_OK);
        let now =
            (profiler.status(), script.count("ProfilerDetachSucceeded"), library.is_mapped(), profiler.record().looks);
        holds!(DET_21 sim, now == (Status::Detaching, 0, true, 0));
        schedule::wait_until(None, || script.count("ProfilerDetachSucceeded") == 1);
        schedule::sleep(20 * SECOND);
        holds!(DET_21 sim, library.is_mapped() && !world.runtime.log().contains(&Entry::Detached), "it blocks the end");
        gone(world);
        holds!(DET_21 sim, ended_on.lock().unwrap().is_some_and(|task| task != schedule::current()));
    });
}

#[test]
fn det_22_what_the_runtime_does_not_police_is_left_behind_all_the_same() {
    type Misuse = fn(&World, &Script);
    let steps: [(&str, u8, Misuse); 5] = [
        ("ApplyMetaData", 7, |world, script| {
            assert_eq!(script.apply_metadata(world.runtime.load_module(false).0), HResult::S_OK);
        }),
        ("SetEnvironmentVariable", 11, |_, script| assert_eq!(script.set_variable("A", "b"), HResult::S_OK)),
        ("EventPipeCreateProvider", 12, |_, script| assert_eq!(script.create_provider(), HResult::S_OK)),
        ("CreateHandle", 13, |world, script| {
            let class = world.runtime.define_class(None, None);
            let object = world.runtime.allocate(class, Shape { size: 24, ..Shape::default() });
            script.create_handle(world.runtime.object(object).unwrap().0, 2).unwrap();
        }),
        ("nothing", 3, |_, _| {}),
    ];
    for version in RuntimeVersion::ALL {
        for (name, since, deed) in steps {
            if version.differences().info_version < since {
                continue;
            }
            let found = faults_of(version, move |world| {
                let (library, script, _) = world.attached(Script::new());
                deed(world, &script);
                assert_eq!(script.request_detach(1), HResult::S_OK);
                gone(world);
                assert_eq!(library.unmapped(), 1);
            });
            let expected: &[&str] = if name == "nothing" { &[] } else { &["DET-22"] };
            holds!(DET_22 sim, found == expected, "{version:?} {name} ({since})");
        }
    }
    in_worlds(&[RuntimeVersion::Core8, RuntimeVersion::Core10], |world| {
        let (_, script, _) = world.attached(Script::new());
        let class = world.runtime.define_class(None, None);
        let object = world.runtime.allocate(class, Shape { size: 24, ..Shape::default() });
        let handle = script.create_handle(world.runtime.object(object).unwrap().0, 3).unwrap();
        assert_eq!(script.destroy_handle(handle), HResult::S_OK);
        holds!(DET_22 sim, script.request_detach(1) == HResult::S_OK, "what was taken back is not left behind");
        gone(world);
    });
}

/// As data: description, broken clause, and the newest Info that it needs.
#[test]
fn mod_01_each_misuse_that_would_crash_or_corrupt_a_real_process_is_reported() {
    type Misuse = fn(&World);
    let misuses: [(&str, &str, u8, Misuse); 10] = [
        ("an entrance open at unload: a timer", "DET-04", 3, |world| leaves_open(world, Open::Timer)),
        ("an entrance open at unload: a thread", "DET-04", 3, |world| leaves_open(world, Open::Thread)),
        ("an entrance open at unload: a session", "DET-04", 12, |world| leaves_open(world, Open::Session)),
        ("Info after the profiler is sealed", "DET-20", 3, |world| {
            let (_, script, _) = world.attached(Script::new());
            script.request_detach(1);
            let _ = script.modules();
            gone(world);
        }),
        ("Info after it is freed", "DET-20", 3, |world| {
            let (_, script, _) = world.attached(Script::new());
            script.request_detach(1);
            gone(world);
            let _ = script.modules();
        }),
        ("the id of a module that is gone", "CAT-09", 3, |world| {
            let module = world.runtime.load_module(true);
            let (_, script, _) = world.attached(Script::new());
            world.runtime.unload_module(module);
            script.ask_about_module(module.0);
        }),
        ("the id of an object that has moved or died", "CAT-09", 3, |world| {
            let class = world.runtime.define_class(None, None);
            let object = world.runtime.allocate(class, Shape { size: 24, ..Shape::default() });
            let id = world.runtime.object(object).unwrap().0;
            let listening = Script::new().on("InitializeForAttach", |script| _ = script.set_mask_low(MONITOR_GC));
            world.attached(listening.on("GarbageCollectionFinished", move |script| _ = script.class_of(id)));
            world.runtime.collect(0);
        }),
        ("client data kept", "ATT-11", 3, |world| {
            let (library, script) = world.library(Script::new());
            let answer = world.asks(&library, &[1, 2, 3]);
            schedule::wait_until(None, || answer.get().is_some());
            assert_eq!((script.client_data(), script.read_client_data_again()), (vec![1, 2, 3], vec![FREED; 3]));
        }),
        ("enumeration too early", "CAT-02", 3, |world| {
            world.attached(Script::new().on("InitializeForAttach", |script| {
                let _ = script.modules();
            }));
        }),
        ("a thread of the runtime tampered with", "DET-04", 3, |world| leaves_open(world, Open::ThreadOfTheRuntime)),
    ];
    for version in RuntimeVersion::ALL {
        for (what, clause, _, misuse) in misuses.iter().filter(|one| version.differences().info_version >= one.2) {
            holds!(MOD_01 sim, faults_of(version, *misuse) == [*clause], "{version:?}: {what}");
        }
    }
}
