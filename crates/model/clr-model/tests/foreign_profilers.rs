//! Answers and callbacks in which the model once differed from live runtimes: profilers that others wrote showed it.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::callback_data::CallbackData;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{Called, ClassId, Runtime, Shape};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::sync::Arc;
use support::{CORES, World, application, faults_of, in_worlds, join};

/// COR_PRF_MONITOR_EXCEPTIONS.
const EXCEPTIONS: u32 = 0x40;
/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;

fn wanting(mask: u32) -> Script {
    Script::new().on("InitializeForAttach", move |script| assert_eq!(script.set_mask_low(mask), HResult::S_OK))
}

fn small() -> Shape {
    Shape { size: 24, ..Shape::default() }
}

/// Forces a GC on the profiler's own thread.
fn force(world: &World, script: &Arc<Script>) {
    let (script, runtime) = (script.clone(), world.runtime.clone());
    join(&[schedule::spawn("a thread of the profiler", move || {
        assert_eq!(script.force_gc(), HResult::S_OK);
        runtime.end_thread();
    })]);
}

fn allocate_and_collect(runtime: &Runtime, class: ClassId, rounds: u8) {
    for round in 0..rounds {
        let object = runtime.allocate(class, small());
        runtime.collect(round % 3);
        runtime.forget(object);
    }
}

#[test]
fn cat_09_an_object_that_a_callback_passes_does_not_move_before_the_callback_returns() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let class = world.runtime.define_class(None, None);
        let script = wanting(EXCEPTIONS).on("ExceptionThrown", |script| {
            let Some(CallbackData::Thrown(exception)) = script.last_callback_data() else { panic!("no exception") };
            let first = script.class_of(exception);
            schedule::sleep(1_000_000);
            holds!(CAT_09 sim, first.is_ok() && script.class_of(exception) == first, "{first:?}");
        });
        let (_, script, _) = world.attached(script);
        let throws = application(world, |runtime| (0..3).for_each(|_| runtime.throw_and_catch()));
        let collects = application(world, move |runtime| allocate_and_collect(runtime, class, 6));
        join(&[throws, collects]);
        assert_eq!(script.count("ExceptionThrown"), 3);
    });
}

#[test]
fn cat_09_a_generation_is_known_by_the_address_whatever_lies_there() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let class = world.runtime.define_class(None, None);
        let (_, script, _) = world.attached(wanting(MONITOR_GC));
        let object = world.runtime.allocate(class, small());
        let handle = world.runtime.make_handle(object, false);
        let old = world.runtime.object(object).unwrap().0;
        let is_of_gc = world.runtime.differences().generation_is_of_gc;
        let unreported = if is_of_gc { None } else { Some(HResult::E_FAIL) };
        assert_eq!(script.generation_of(old).err(), unreported, "no collection was reported yet");
        force(world, &script);
        let new = world.runtime.object(object).unwrap().0;
        assert_ne!(old, new);
        for address in [old, new, new + 8] {
            let range = script.generation_of(address).unwrap();
            holds!(CAT_09 sim, (range.rangeStart..range.rangeStart + range.rangeLengthReserved).contains(&address));
        }
        let outside = if is_of_gc { HResult::CORPROF_E_NOT_GC_OBJECT } else { HResult::E_FAIL };
        holds!(CAT_09 sim, [0, 0x10].map(|address| script.generation_of(address).err()) == [Some(outside); 2]);
        world.runtime.free_handle(handle);
    });
}

#[test]
fn det_17_info_still_answers_while_the_process_exits() {
    in_worlds(CORES, |world| {
        let module = world.runtime.load_module(false);
        let (_, script, _) = world.attached(Script::new());
        world.runtime.exit();
        let answers = (script.module_info(module.0, &mut []).0, script.modules());
        holds!(DET_17 sim, answers == (HResult::S_OK, Ok(vec![module.0])));
    });
}

#[test]
fn gch_03_empty_lists_are_never_sent_and_an_object_without_references_has_no_list() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let class = world.runtime.define_class(None, None);
        let (_, script, _) = world.attached(wanting(MONITOR_GC));
        // Every kind of GC, while there is no object.
        (0..3).for_each(|_| force(world, &script));
        let is_frame =
            |one: &CallbackData| matches!(one, CallbackData::CollectionBegins(..) | CallbackData::CollectionEnds);
        holds!(GCH_03 sim, script.callback_data().iter().all(is_frame), "{:?}", script.callback_data());
        join(&[application(world, move |runtime| allocate_and_collect(runtime, class, 3))]);
        let is_born =
            |one: &CallbackData| matches!(one, CallbackData::AllocatedByClass(classes) if !classes.is_empty());
        assert_eq!(script.callback_data().iter().filter(|one| is_born(one)).count(), 3);
    });
}

#[test]
fn gch_03_the_first_version_of_a_callback_follows_the_second() {
    in_worlds(CORES, |world| {
        let class = world.runtime.define_class(None, None);
        let (_, script, _) = world.attached(wanting(MONITOR_GC));
        join(&[application(world, move |runtime| allocate_and_collect(runtime, class, 4))]);
        let of_places = |name: &&str| name.contains("MovedReferences") || name.contains("SurvivingReferences");
        let journal: Vec<&str> = script.journal().into_iter().filter(of_places).collect();
        assert!(journal.contains(&"MovedReferences2") && journal.contains(&"SurvivingReferences2"), "{journal:?}");
        for pair in journal.chunks(2) {
            holds!(GCH_03 sim, pair[0].strip_suffix('2') == pair.get(1).copied(), "{journal:?}");
        }
    });
}

#[test]
fn gch_02_each_generation_is_reported_with_the_pinned_object_heap_where_it_exists() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (_, script, _) = world.attached(wanting(MONITOR_GC));
        force(world, &script);
        let Some(CallbackData::CollectionBegins(generations, _)) = script.callback_data().first().cloned() else {
            panic!("no collection")
        };
        holds!(GCH_02 sim, generations.len() == (if world.runtime.version().0 >= 5 { 5 } else { 4 }));
    });
}

#[test]
fn mod_01_a_session_that_is_started_where_an_exception_is_thrown_aborts_since_dotnet_8() {
    for runtime_version in RuntimeVersion::ALL.into_iter().filter(|one| one.differences().info_version >= 12) {
        let found = faults_of(runtime_version, |world| {
            let script = wanting(EXCEPTIONS).on("ExceptionThrown", |script| {
                let session = script.start_session();
                session.map(|session| script.stop_session(session)).ok();
            });
            world.attached(script);
            join(&[application(world, |runtime| runtime.throw_and_catch())]);
        });
        let aborts = runtime_version.differences().session_adopts_thread;
        holds!(MOD_01 sim, found == (if aborts { vec!["MOD-01"] } else { Vec::new() }), "{runtime_version:?}");
    }
}

#[test]
fn the_class_of_an_exception_has_a_module_and_a_parent() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let framework =
            world.runtime.load_module_called(Called { module: "System.Private.CoreLib", class: "System.Object" });
        let script = wanting(EXCEPTIONS).on("ExceptionThrown", move |script| {
            let Some(CallbackData::Thrown(exception)) = script.last_callback_data() else { panic!("no exception") };
            let class = script.class_of(exception).unwrap();
            let (module, _, parent) = script.class_info(class).unwrap();
            assert_eq!((module, script.class_info(parent).unwrap().0), (framework.0, framework.0));
        });
        let (_, script, _) = world.attached(script);
        join(&[application(world, |runtime| runtime.throw_and_catch())]);
        assert_eq!(script.count("ExceptionThrown"), 1);
    });
}
