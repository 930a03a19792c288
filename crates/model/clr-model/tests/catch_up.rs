//! Catching up after an attach, clause by clause: the golden rule, snapshots, duplicates, holes.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::callback_data::CallbackData;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::library::Library;
use remora_clr_model::runtime::{ModuleId, Step};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use support::{
    CORES, SCHEDULES, SECOND, World, application, faults_of, gone, how_often, in_one, in_order, in_worlds, join, run,
};

/// COR_PRF_MONITOR_MODULE_LOADS and COR_PRF_MONITOR_JIT_COMPILATION.
const LOADS: u32 = 0x24;

/// A signal between threads of a test.
#[derive(Clone, Default)]
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_up(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn wait(&self) {
        assert!(schedule::wait_until(Some(3600 * SECOND), || self.is_up()), "nobody raises the flag");
    }
}

/// A list that a script fills.
type List = Arc<Mutex<Vec<usize>>>;

fn asks_for_loads(script: Script) -> Script {
    script.on("InitializeForAttach", |script| assert_eq!(script.set_mask_low(LOADS), HResult::S_OK))
}

/// Enumerates in ProfilerAttachComplete.
fn enumerates(list: &List) -> Script {
    let list = list.clone();
    asks_for_loads(Script::new()).on("ProfilerAttachComplete", move |script| {
        *list.lock().unwrap() = script.modules().unwrap();
    })
}

/// A module loads on an application thread, which waits after `step` until the flag is raised.
fn loads_and_waits_after(world: &World, step: Step, reached: &Flag, go_on: &Flag) -> schedule::Task {
    let (reached, go_on) = (reached.clone(), go_on.clone());
    application(world, move |runtime| {
        runtime.load_module_in_steps(true, |now| {
            if now == step {
                reached.raise();
                go_on.wait();
            }
        });
    })
}

/// A loaded module unloads in the same way.
fn unloads_and_waits_after(
    world: &World,
    module: ModuleId,
    step: Step,
    reached: &Flag,
    go_on: &Flag,
) -> schedule::Task {
    let (reached, go_on) = (reached.clone(), go_on.clone());
    application(world, move |runtime| {
        runtime.unload_module_in_steps(module, |now| {
            if now == step {
                reached.raise();
                go_on.wait();
            }
        });
    })
}

#[test]
fn cat_01_attach_complete_follows_initialize_and_callbacks_may_come_before_it() {
    let before = how_often(&RuntimeVersion::ALL, |world| {
        let inside = Flag::default();
        let of_script = inside.clone();
        let script = Script::new().on("InitializeForAttach", move |script| {
            assert_eq!(script.set_mask_low(LOADS), HResult::S_OK);
            schedule::point();
            holds!(CAT_01 sim, script.count("ModuleLoadFinished") == 0, "no callback before InitializeForAttach has returned");
            of_script.raise();
        });
        let script = script.on("ProfilerAttachComplete", move |_| holds!(CAT_01 sim, inside.is_up()));
        let thread = application(world, |runtime| {
            (0..4).for_each(|_| {
                runtime.load_module(false);
            });
        });
        let (_, script, profiler) = world.attached(script);
        join(&[thread]);
        holds!(CAT_01 sim, profiler.record().attach_completes == 1);
        let journal = script.journal();
        let at = |callback| journal.iter().position(|one| *one == callback).unwrap();
        let initialized = at("InitializeForAttach");
        assert!(journal[..initialized].iter().all(|one| *one == "LoadAsNotificationOnly"), "{journal:?}");
        at("ProfilerAttachComplete") > initialized + 1
    });
    holds!(CAT_01 sim, before.iter().all(|count| *count > 0), "callbacks never came before ProfilerAttachComplete: {before:?}");
}

/// Seed 002, "Bad timeline (loading; enumerating too soon)", step by step.
fn bad_loading(world: &World) -> (Vec<usize>, Vec<CallbackData>, ModuleId) {
    let (enumerated, loaded) = (Flag::default(), Flag::default());
    let list = List::default();
    let (of_list, of_enumerated, of_loaded) = (list.clone(), enumerated.clone(), loaded.clone());
    let script = asks_for_loads(Script::new()).on("InitializeForAttach", move |script| {
        assert_eq!(script.set_mask_low(LOADS), HResult::S_OK);
        *of_list.lock().unwrap() = script.modules().unwrap();
        of_enumerated.raise();
        of_loaded.wait();
    });
    let (library, script) = world.library(script);
    let answer = world.asks(&library, &[]);
    enumerated.wait();
    let thread = application(world, move |runtime| {
        runtime.load_module(true);
        loaded.raise();
    });
    join(&[thread]);
    schedule::wait_until(None, || answer.get().is_some());
    let seen = list.lock().unwrap().clone();
    (seen, script.callback_data(), world.runtime.modules()[0])
}

#[test]
fn cat_02_enumerating_in_initialize_leaves_a_hole_when_a_module_loads_meanwhile() {
    for runtime_version in RuntimeVersion::ALL {
        let (findings, timeline) = run(runtime_version, 1, |world| {
            let (seen, callback_data, module) = bad_loading(world);
            holds!(CAT_02 sim, !seen.contains(&module.0) && !callback_data.contains(&CallbackData::ModuleLoaded(module.0)), "no hole");
        });
        let steps = [
            "InitializeForAttach",
            "Profiler calls EnumModules",
            "Module {} starts to load",
            "ModuleID {} is now enumerable",
            "CLR enables events",
        ];
        holds!(CAT_02 sim, in_order(&timeline, &steps), "{timeline:#?}");
        holds!(CAT_02 sim, findings.iter().any(|finding| finding.starts_with("CAT-02")), "{findings:?}");
    }
}

/// Seed 002, "Bad timeline (unloading; enumerating too soon)", step by step.
#[test]
fn cat_02_enumerating_in_initialize_finds_what_is_unloaded_without_a_word() {
    for runtime_version in RuntimeVersion::ALL {
        let (findings, timeline) = run(runtime_version, 1, |world| {
            let module = Arc::new(AtomicUsize::new(0));
            let of_thread = module.clone();
            join(&[application(world, move |runtime| of_thread.store(runtime.load_module(true).0, Ordering::SeqCst))]);
            let module = ModuleId(module.load(Ordering::SeqCst));
            let (enumerated, unloaded) = (Flag::default(), Flag::default());
            let (of_enumerated, of_unloaded) = (enumerated.clone(), unloaded.clone());
            let script = Script::new().on("InitializeForAttach", move |script| {
                assert_eq!(script.set_mask_low(LOADS), HResult::S_OK);
                assert_eq!(script.modules().unwrap(), [module.0]);
                of_enumerated.raise();
                of_unloaded.wait();
            });
            let (library, script) = world.library(script);
            let answer = world.asks(&library, &[]);
            enumerated.wait();
            join(&[application(world, move |runtime| {
                runtime.unload_module(module);
            })]);
            unloaded.raise();
            schedule::wait_until(None, || answer.get().is_some());
            holds!(CAT_02 sim, !script.callback_data().contains(&CallbackData::ModuleUnloads(module.0)), "reported after all");
            // "Potentially causing an AV": the model reports this instead.
            assert_eq!(script.ask_about_module(module.0), HResult::E_INVALIDARG);
        });
        let steps = [
            "ModuleID {} is now enumerable",
            "InitializeForAttach",
            "Profiler calls EnumModules",
            "Module {} starts to unload",
            "ModuleID {} is no longer enumerable",
            "CLR enables events",
        ];
        assert!(in_order(&timeline, &steps), "{timeline:#?}");
        holds!(CAT_02 sim, findings.iter().any(|finding| finding.starts_with("CAT-09")), "{findings:?}");
    }
}

#[test]
fn cat_03_enumerations_are_snapshots_and_precompiled_functions_are_in_none() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let made = Arc::new(Mutex::new((0, 0)));
        let of_thread = made.clone();
        join(&[application(world, move |runtime| {
            let module = runtime.load_module(false);
            let compiled = runtime.make_function(module, true);
            let precompiled = runtime.make_function(module, false);
            *of_thread.lock().unwrap() = (compiled.0, precompiled.0);
        })]);
        let (_, script, _) = world.attached(asks_for_loads(Script::new()));
        let (compiled, precompiled) = *made.lock().unwrap();
        holds!(CAT_03 sim, script.jitted_functions().unwrap() == [compiled]);
        let list = script.module_list().unwrap();
        join(&[application(world, |runtime| {
            runtime.load_module(false);
        })]);
        holds!(CAT_03 sim, (list.count(), script.modules().unwrap().len()) == (1, 2), "a snapshot does not change");
        holds!(CAT_03 sim, !script.callback_data().contains(&CallbackData::Compiled(precompiled)));
    });
}

#[test]
fn cat_04_the_golden_rule_the_enumerability_changes_before_the_event_is_fired() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let is_in_list = |script: &Script| {
            let enumerated = script.modules().unwrap();
            match script.last_callback_data() {
                Some(CallbackData::ModuleLoaded(module) | CallbackData::ModuleUnloads(module)) => {
                    enumerated.contains(&module)
                }
                other => panic!("{other:?}"),
            }
        };
        let script = asks_for_loads(Script::new())
            .on(
                "ModuleLoadFinished",
                move |script| holds!(CAT_04 sim, is_in_list(script), "available before LoadFinished"),
            )
            .on(
                "ModuleUnloadStarted",
                move |script| holds!(CAT_04 sim, !is_in_list(script), "gone before UnloadStarted"),
            )
            .on("JITCompilationFinished", |script| {
                let Some(CallbackData::Compiled(function)) = script.last_callback_data() else {
                    panic!("not reported")
                };
                holds!(CAT_04 sim, script.jitted_functions().unwrap().contains(&function));
            });
        let (_, script, _) = world.attached(script);
        join(&[application(world, |runtime| {
            let module = runtime.load_module(true);
            runtime.make_function(module, true);
            runtime.unload_module(module);
        })]);
        holds!(CAT_04 sim, script.callback_data().len() == 3);
    });
}

/// A program that loads, compiles and unloads all the time.
fn busy_program(world: &World, threads: usize) -> Vec<schedule::Task> {
    let live = |_| {
        application(world, |runtime| {
            for round in 0..6 {
                let module = runtime.load_module(true);
                runtime.make_function(module, round % 2 == 0);
                if round % 3 == 0 {
                    runtime.unload_module(module);
                }
            }
        })
    };
    (0..threads).map(live).collect()
}

/// The modules that a profiler knows if it enumerated `enumerated` at position `reported_before` of its callbacks.
fn known_modules(enumerated: &[usize], callback_data: &[CallbackData]) -> BTreeSet<usize> {
    let mut known: BTreeSet<usize> = enumerated.iter().copied().collect();
    for one in callback_data {
        match one {
            CallbackData::ModuleLoaded(module) => {
                known.insert(*module);
            }
            CallbackData::ModuleUnloads(module) => {
                known.remove(module);
            }
            _ => {}
        }
    }
    known
}

#[test]
fn cat_05_no_holes_whenever_the_attach_comes() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (modules, functions) = (List::default(), List::default());
        let (of_modules, of_functions) = (modules.clone(), functions.clone());
        let script = asks_for_loads(Script::new()).on("ProfilerAttachComplete", move |script| {
            *of_modules.lock().unwrap() = script.modules().unwrap();
            *of_functions.lock().unwrap() = script.jitted_functions().unwrap();
        });
        let threads = busy_program(world, 2);
        let (_, script, _) = world.attached(script);
        join(&threads);
        let callback_data = script.callback_data();
        // Every event counts, even before the enumeration: an event decides about its module.
        let known = known_modules(&modules.lock().unwrap(), &callback_data);
        let alive: BTreeSet<usize> = world.runtime.modules().iter().map(|module| module.0).collect();
        holds!(CAT_05 sim, known == alive);
        let enumerated = functions.lock().unwrap().clone();
        for function in world.runtime.jitted_functions() {
            let is_met =
                enumerated.contains(&function.0) || callback_data.contains(&CallbackData::Compiled(function.0));
            holds!(CAT_05 sim, is_met, "{function:?} is never met");
        }
    });
}

#[test]
fn cat_06_the_good_timelines_of_duplicates_are_harmless() {
    for runtime_version in RuntimeVersion::ALL {
        loading_with_duplicate(runtime_version);
        unloading_with_duplicate(runtime_version);
        unloading_without_duplicate(runtime_version);
    }
}

/// Seed 002, "Good timeline (loading with duplicate)".
fn loading_with_duplicate(runtime_version: RuntimeVersion) {
    let (findings, timeline) = run(runtime_version, 1, |world| {
        let (reached, go_on, list) = (Flag::default(), Flag::default(), List::default());
        let thread = loads_and_waits_after(world, Step::Changed, &reached, &go_on);
        reached.wait();
        let (_, script, _) = world.attached(enumerates(&list));
        go_on.raise();
        join(&[thread]);
        let module = world.runtime.modules()[0].0;
        holds!(CAT_06 sim, (list.lock().unwrap().as_slice(), script.callback_data()) == (&[module][..], vec![CallbackData::ModuleLoaded(module)]));
    });
    let steps = [
        "Module {} starts to load",
        "ModuleID {} is now enumerable",
        "CLR enables events",
        "ProfilerAttachComplete",
        "Profiler calls EnumModules",
        "ModuleLoadFinished",
    ];
    holds!(CAT_06 sim, findings.is_empty() && in_order(&timeline, &steps), "{findings:?} {timeline:#?}");
}

/// Seed 002, "Good timeline (unloading with duplicate)": an unload of an id that was never seen.
fn unloading_with_duplicate(runtime_version: RuntimeVersion) {
    let (findings, timeline) = run(runtime_version, 1, |world| {
        let module = world.runtime.load_module(true);
        let (reached, go_on, list) = (Flag::default(), Flag::default(), List::default());
        let thread = unloads_and_waits_after(world, module, Step::Changed, &reached, &go_on);
        reached.wait();
        let (_, script, _) = world.attached(enumerates(&list));
        go_on.raise();
        join(&[thread]);
        holds!(CAT_06 sim, (list.lock().unwrap().len(), script.callback_data()) == (0, vec![CallbackData::ModuleUnloads(module.0)]));
    });
    let steps = [
        "Module {} starts to unload",
        "ModuleID {} is no longer enumerable",
        "CLR enables events",
        "ProfilerAttachComplete",
        "Profiler calls EnumModules",
        "ModuleUnloadStarted",
    ];
    holds!(CAT_06 sim, findings.is_empty() && in_order(&timeline, &steps), "{findings:?} {timeline:#?}");
}

/// Seed 002, "Good timeline (unloading without duplicate)".
fn unloading_without_duplicate(runtime_version: RuntimeVersion) {
    let (findings, timeline) = run(runtime_version, 1, |world| {
        let module = world.runtime.load_module(true);
        let (reached, go_on, list) = (Flag::default(), Flag::default(), List::default());
        let thread = unloads_and_waits_after(world, module, Step::Begun, &reached, &go_on);
        reached.wait();
        let (_, script, _) = world.attached(enumerates(&list));
        go_on.raise();
        join(&[thread]);
        let enumerated = list.lock().unwrap().clone();
        assert_eq!(
            (enumerated.as_slice(), script.callback_data()),
            (&[module.0][..], vec![CallbackData::ModuleUnloads(module.0)])
        );
    });
    let steps = [
        "Module {} starts to unload",
        "CLR enables events",
        "ProfilerAttachComplete",
        "Profiler calls EnumModules",
        "ModuleID {} is no longer enumerable",
        "ModuleUnloadStarted",
    ];
    holds!(CAT_06 sim, findings.is_empty() && in_order(&timeline, &steps), "{findings:?} {timeline:#?}");
}

#[test]
fn cat_07_an_event_outranks_an_enumeration_that_is_still_being_read() {
    let wrong_without = how_often(&RuntimeVersion::ALL, |world| {
        let threads = busy_program(world, 1);
        let read = Arc::new(Mutex::new((Vec::new(), 0)));
        let of_script = read.clone();
        let script = asks_for_loads(Script::new()).on("ProfilerAttachComplete", move |script| {
            let list = script.module_list().unwrap();
            // The list is a snapshot; it is read slowly, with events in between.
            let slowly = list.inspect(|_| schedule::sleep(SECOND));
            let modules = slowly.collect();
            *of_script.lock().unwrap() = (modules, script.callback_data().len());
        });
        let (_, script, _) = world.attached(script);
        join(&threads);
        let callback_data = script.callback_data();
        let alive: BTreeSet<usize> = world.runtime.modules().iter().map(|module| module.0).collect();
        let (enumerated, reported_by_then) = read.lock().unwrap().clone();
        holds!(CAT_07 sim, known_modules(&enumerated, &callback_data) == alive, "events outrank what was enumerated before them");
        // A profiler that trusts the list because it read it later is sometimes wrong.
        let mut other_way = known_modules(&[], &callback_data[..reported_by_then]);
        other_way.extend(&enumerated);
        let other_way = known_modules(&other_way.into_iter().collect::<Vec<_>>(), &callback_data[reported_by_then..]);
        other_way != alive
    });
    holds!(CAT_07 sim, wrong_without.iter().all(|count| *count > 0), "{wrong_without:?}");
}

#[test]
fn cat_08_an_id_that_is_met_for_the_first_time_is_looked_up_then() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let made = Arc::new(Mutex::new((0, 0, 0)));
        let of_thread = made.clone();
        join(&[application(world, move |runtime| {
            let module = runtime.load_module(false);
            let function = runtime.make_function(module, false);
            let dynamic = runtime.make_dynamic_function();
            let at = |function| runtime.address_of(function).unwrap();
            *of_thread.lock().unwrap() = (module.0, at(function) + 8, at(dynamic) + 8);
        })]);
        let (_, script, profiler) = world.attached(Script::new());
        let (module, precompiled, dynamic) = *made.lock().unwrap();
        let function = script.function_at(precompiled).unwrap();
        let (class, of_module, token) = script.function_info(function).unwrap();
        holds!(CAT_08 sim, (of_module, token >> 24) == (module, 0x06));
        let (class_module, class_token, _) = script.class_info(class).unwrap();
        holds!(CAT_08 sim, (class_module, class_token >> 24) == (module, 0x02));
        assert_eq!(script.ask_about_module(module), HResult::S_OK);
        // A function without metadata has its own call, on runtimes that support it.
        assert_eq!(script.function_at(dynamic), Err(HResult::E_FAIL));
        if world.runtime.differences().info_version >= 8 {
            holds!(CAT_08 sim, script.any_function_at(dynamic).is_ok());
        }
        assert!(profiler.attached);
    });
}

/// A profiler that asks about a module on its own thread during the unload.
fn asks_while_it_goes(world: &World, holds_it_up: bool) {
    let module = world.runtime.load_module(true);
    let (asking, leaving) = (Flag::default(), Flag::default());
    let (of_asking, of_leaving) = (asking.clone(), leaving.clone());
    let script = asks_for_loads(Script::new()).on("ModuleUnloadStarted", move |_| {
        of_leaving.raise();
        if holds_it_up {
            schedule::wait_until(None, || !of_asking.is_up());
        }
    });
    let (_, script, _) = world.attached(script);
    let (asks, going) = (script.clone(), asking.clone());
    let thread = schedule::spawn("a thread of the profiler", move || {
        going.raise();
        // Calls that begin before the unload callback are answered; afterwards there are none.
        while !leaving.is_up() {
            let answer = asks.ask_about_module(module.0);
            if holds_it_up {
                holds!(CAT_09 sim, answer == HResult::S_OK);
            }
        }
        going.0.store(false, Ordering::SeqCst);
    });
    asking.wait();
    let unloads = application(world, move |runtime| {
        runtime.unload_module(module);
    });
    join(&[thread, unloads]);
}

#[test]
fn cat_09_an_id_that_unloads_can_be_asked_about_as_long_as_its_unload_is_held_up_and_no_longer() {
    in_worlds(&RuntimeVersion::ALL, |world| asks_while_it_goes(world, true));
    for runtime_version in RuntimeVersion::ALL {
        holds!(CAT_09 sim, faults_of(runtime_version, |world| asks_while_it_goes(world, false)) == ["CAT-09"], "{runtime_version:?}");
    }
}

#[test]
fn cat_09_ids_that_are_new_stale_or_unloading_are_distinguished() {
    for runtime_version in RuntimeVersion::ALL {
        let findings = in_one(runtime_version, 3, |world| {
            let module = world.runtime.load_module(true);
            let (reached, go_on) = (Flag::default(), Flag::default());
            let (_, script, _) = world.attached(asks_for_loads(Script::new()));
            let thread = unloads_and_waits_after(world, module, Step::Changed, &reached, &go_on);
            reached.wait();
            holds!(CAT_09 sim, script.ask_about_module(module.0) == HResult::S_OK, "unloading: it still lives");
            assert!(world.faults.findings().is_empty());
            go_on.raise();
            join(&[thread]);
            assert_eq!(script.ask_about_module(module.0), HResult::E_INVALIDARG, "stale");
        });
        assert_eq!(findings.len(), 1, "{findings:?}");
        holds!(CAT_09 sim, findings[0].starts_with("CAT-09"), "{findings:?}");
    }
}

#[test]
fn cat_05_ten_thousand_attaches_beside_a_busy_program_leave_no_hole() {
    let body = |world: &World| {
        let list = List::default();
        let threads = busy_program(world, 1);
        let (library, script): (Arc<Library>, Arc<Script>) = world.library(enumerates(&list));
        assert_eq!(world.attach(&library), HResult::S_OK);
        join(&threads);
        let alive: BTreeSet<usize> = world.runtime.modules().iter().map(|module| module.0).collect();
        holds!(CAT_05 sim, known_modules(&list.lock().unwrap(), &script.callback_data()) == alive);
        assert_eq!(script.request_detach(1), HResult::S_OK);
        gone(world);
    };
    for seed in 0..10_000 {
        let runtime_version = RuntimeVersion::ALL[seed as usize % RuntimeVersion::ALL.len()];
        assert_eq!(
            in_one(runtime_version, SCHEDULES + seed, body),
            Vec::<String>::new(),
            "{runtime_version:?}, seed {seed}"
        );
    }
    assert_eq!(CORES.len() + 1, RuntimeVersion::ALL.len());
}
