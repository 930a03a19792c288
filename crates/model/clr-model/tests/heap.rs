//! The heap as a profiler sees it, clause by clause: in every GC mode, under many schedules.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::callback_data::CallbackData;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{ClassId, GcMode, LARGE, ObjectKey, Runtime, Shape};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use support::{CORES, World, application, faults_of, gone, how_often, in_worlds, join};

/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;
/// COR_PRF_MONITOR_EXCEPTIONS.
const EXCEPTIONS: u32 = 0x40;
/// COR_PRF_ENABLE_STACK_SNAPSHOT.
const STACK_SNAPSHOT: u32 = 0x1000_0000;
/// COR_PRF_HIGH_BASIC_GC, _MONITOR_GC_MOVED_OBJECTS and _MONITOR_LARGEOBJECT_ALLOCATED.
const BASIC_GC: u32 = 0x10;
const MOVED_OBJECTS: u32 = 0x20;
const LARGE_OBJECTS: u32 = 0x40;

fn wanting(mask: u32) -> Script {
    let set = move |script: &Script| assert_eq!(script.set_mask_low(mask), HResult::S_OK);
    Script::new().on("InitializeForAttach", set).on("Initialize", set)
}

fn wanting_high(low: u32, high: u32) -> Script {
    Script::new().on("InitializeForAttach", move |script| assert_eq!(script.set_mask(low, high), HResult::S_OK))
}

fn small(size: usize, references: &[ObjectKey]) -> Shape {
    Shape { size, references: references.to_vec(), ..Shape::default() }
}

/// Forces a GC on the profiler's own thread.
fn force(world: &World, script: &Arc<Script>) {
    let (script, runtime) = (script.clone(), world.runtime.clone());
    let thread = schedule::spawn("a thread of the profiler", move || {
        assert_eq!(script.force_gc(), HResult::S_OK);
        runtime.end_thread();
    });
    join(&[thread]);
}

/// A heap mirror: class and references of each object, by address.
type Picture = BTreeMap<usize, (usize, Vec<usize>)>;

fn truth(runtime: &Runtime) -> Picture {
    let ids = |references: Vec<remora_clr_model::runtime::ObjectId>| references.iter().map(|one| one.0).collect();
    runtime.objects().into_iter().map(|(id, class, _, references)| (id.0, (class.0, ids(references)))).collect()
}

/// A memory profiler's heap mirror from its callbacks: empty until a GC starts, then updated by every GC.
#[derive(Default)]
struct Reader {
    begun: bool,
    picture: Picture,
    seen: Picture,
    ignored: usize,
}

impl Reader {
    fn read(callback_data: &[CallbackData]) -> Reader {
        let mut reader = Reader::default();
        callback_data.iter().for_each(|one| reader.take(one));
        reader
    }

    fn take(&mut self, callback_data: &CallbackData) {
        match callback_data {
            CallbackData::CollectionBegins(..) => {
                self.begun = true;
                self.seen.clear();
            }
            _ if !self.begun => self.ignored += 1,
            CallbackData::References(object, class, references) => {
                self.seen.insert(*object, (*class, references.clone()));
            }
            // With MONITOR_GC, each GC reports every object: a missing object is dead.
            CallbackData::CollectionEnds => self.picture = std::mem::take(&mut self.seen),
            _ => {}
        }
    }
}

/// A program that allocates, references and drops objects. The survivors live on in a static.
fn churn(runtime: &Arc<Runtime>, class: ClassId, rounds: usize) {
    for round in 0..rounds {
        let inner = runtime.allocate(class, small(24, &[]));
        let outer = runtime.allocate(class, small(32 + round * 8, &[inner]));
        runtime.forget(inner);
        if round % 2 == 0 {
            runtime.set_static(class, 0x0400_0001, Some(outer));
        }
        runtime.forget(outer);
        runtime.collect((round % 3) as u8);
    }
}

const MODES: [GcMode; 2] = [GcMode::Blocking, GcMode::Server];

#[test]
fn gch_01_attached_in_mid_collection_callbacks_before_the_first_beginning_are_ignored() {
    for mode in MODES {
        let halves = how_often(&RuntimeVersion::ALL, move |world| {
            world.runtime.set_gc_mode(mode);
            let class = world.runtime.define_class(None, None);
            let threads = [(), ()].map(|()| application(world, move |runtime| churn(runtime, class, 4)));
            let (_, script, _) = world.attached(wanting(MONITOR_GC));
            join(&threads);
            force(world, &script);
            let reader = Reader::read(&script.callback_data());
            holds!(GCH_01 sim, reader.picture == truth(&world.runtime), "what was ignored is not missing");
            // A profiler that uses them starts in the middle of a GC.
            let first = script.callback_data().into_iter().find(|one| !matches!(one, CallbackData::HandleCreated(..)));
            assert!(reader.ignored == 0 || !matches!(first, Some(CallbackData::CollectionBegins(..))));
            reader.ignored > 0
        });
        holds!(GCH_01 sim, halves.iter().all(|count| *count > 0), "no collection was seen from its middle: {mode:?} {halves:?}");
    }
}

#[test]
fn gch_02_a_catch_up_collection_builds_the_mirror_from_nothing_with_its_roots() {
    for mode in MODES {
        in_worlds(&RuntimeVersion::ALL, move |world| {
            world.runtime.set_gc_mode(mode);
            let class = world.runtime.define_class(None, None);
            let made = Arc::new(Mutex::new(Vec::new()));
            let (of_thread, end) = (made.clone(), Arc::new(Mutex::new(false)));
            let of_end = end.clone();
            let thread = application(world, move |runtime| {
                let held = runtime.allocate(class, small(24, &[]));
                let outer = runtime.allocate(class, small(40, &[held]));
                runtime.forget(held);
                let in_handle = runtime.allocate(class, small(24, &[]));
                let handle = runtime.make_handle(in_handle, true);
                runtime.forget(in_handle);
                let dead = runtime.allocate(class, small(24, &[]));
                runtime.forget(dead);
                *of_thread.lock().unwrap() = vec![(outer, 0), (in_handle, handle), (dead, 0)];
                while !*of_end.lock().unwrap() {
                    schedule::sleep(1_000_000);
                    runtime.safepoint();
                }
            });
            schedule::wait_until(None, || !made.lock().unwrap().is_empty());
            let (_, script, _) = world.attached(wanting(MONITOR_GC));
            force(world, &script);
            let keys = made.lock().unwrap().clone();
            let id = |at: usize| world.runtime.object(keys[at].0).map(|object| object.0);
            assert_eq!(id(2), None, "what nobody holds is gone");
            let callback_data = script.callback_data();
            let Some(CallbackData::CollectionBegins(generations, reason)) = callback_data.first() else {
                panic!("{callback_data:?}")
            };
            holds!(GCH_02 sim, (generations.contains(&false), *reason) == (false, 1), "full, and induced");
            holds!(GCH_02 sim, Reader::read(&callback_data).picture == truth(&world.runtime));
            let roots = callback_data
                .iter()
                .find_map(|one| if let CallbackData::Roots(roots) = one { Some(roots.clone()) } else { None });
            let roots: BTreeSet<(usize, u32)> =
                roots.unwrap().into_iter().map(|(object, kind, _, _)| (object, kind)).collect();
            holds!(GCH_02 sim, roots == BTreeSet::from([(id(0).unwrap(), 1), (id(1).unwrap(), 3)]), "a stack and a handle");
            *end.lock().unwrap() = true;
            join(&[thread]);
        });
    }
}

#[test]
fn gch_03_later_collections_keep_the_mirror_true() {
    for mode in MODES {
        let both = how_often(&RuntimeVersion::ALL, move |world| {
            world.runtime.set_gc_mode(mode);
            let class = world.runtime.define_class(None, None);
            let runtime = world.runtime.clone();
            let moves = Arc::new(Mutex::new((0, 0)));
            let of_script = moves.clone();
            let script = wanting(MONITOR_GC).on("GarbageCollectionFinished", move |script| {
                let callback_data = script.callback_data();
                let begun = callback_data
                    .iter()
                    .rposition(|one| matches!(one, CallbackData::CollectionBegins(..)))
                    .unwrap_or(0);
                // Threads are still suspended: the true heap cannot have changed.
                if callback_data.iter().any(|one| matches!(one, CallbackData::CollectionBegins(..))) {
                    holds!(GCH_03 sim, Reader::read(&callback_data).picture == truth(&runtime));
                }
                for one in &callback_data[begun..] {
                    match one {
                        CallbackData::Moved(ranges) => {
                            of_script.lock().unwrap().0 += 1;
                            // A survivor's old and new address; a moved object is nowhere else.
                            for (_, new, _) in ranges {
                                assert!(truth(&runtime).contains_key(new));
                            }
                        }
                        CallbackData::Survived(ranges) => {
                            of_script.lock().unwrap().1 += 1;
                            assert!(ranges.iter().all(|(place, _)| truth(&runtime).contains_key(place)));
                        }
                        _ => {}
                    }
                }
            });
            world.attached(script);
            let threads = [(), ()].map(|()| application(world, move |runtime| churn(runtime, class, 5)));
            join(&threads);
            let (moved, survived) = *moves.lock().unwrap();
            moved > 0 && survived > 0
        });
        holds!(GCH_03 sim, both.iter().all(|count| *count > 0), "not both kinds of collections: {mode:?} {both:?}");
    }
}

#[test]
fn gch_03_the_finalizer_weak_tables_and_handles_are_reported() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let class = world.runtime.define_class(None, None);
        let (_, script, _) = world.attached(wanting(MONITOR_GC));
        join(&[application(world, move |runtime| {
            let finalized =
                runtime.allocate(class, Shape { size: 24, references: vec![], finalizable: true, ..Shape::default() });
            let (key, value) = (runtime.allocate(class, small(24, &[])), runtime.allocate(class, small(24, &[])));
            runtime.depend(key, value);
            runtime.forget(value);
            runtime.forget(finalized);
            let handle = runtime.make_handle(key, false);
            runtime.collect(2);
            assert!(runtime.object(value).is_some(), "the value lives as long as its key");
            assert!(runtime.object(finalized).is_some(), "it waits for the finalizer");
            runtime.free_handle(handle);
            runtime.forget(key);
            runtime.collect(2);
            let left = [finalized, key, value].map(|object| runtime.object(object));
            assert_eq!(left, [None; 3]);
        })]);
        let callback_data = script.callback_data();
        let count = |is: fn(&CallbackData) -> bool| callback_data.iter().filter(|one| is(one)).count();
        holds!(GCH_03 sim, count(|one| matches!(one, CallbackData::Queued(_))) == 1);
        // Weak tables came with the fifth callback.
        let weak = usize::from(world.runtime.differences().callback_version >= 5);
        assert_eq!(count(|one| matches!(one, CallbackData::Weak(pairs) if pairs.len() == 1)), weak);
        assert_eq!(count(|one| matches!(one, CallbackData::HandleCreated(..) | CallbackData::HandleDestroyed(_))), 2);
        let born = callback_data
            .iter()
            .find_map(|one| if let CallbackData::AllocatedByClass(born) = one { Some(born.clone()) } else { None });
        assert_eq!(born.unwrap(), [(class.0, 3)]);
    });
}

#[test]
fn gch_03_basic_gc_and_moved_objects_bring_what_they_say_and_nothing_else() {
    in_worlds(CORES, |world| {
        let class = world.runtime.define_class(None, None);
        let (_, script, _) = world.attached(wanting_high(0, BASIC_GC));
        join(&[application(world, move |runtime| churn(runtime, class, 3))]);
        assert!(
            script
                .callback_data()
                .iter()
                .all(|one| matches!(one, CallbackData::CollectionBegins(..) | CallbackData::CollectionEnds))
        );
        assert_eq!(script.callback_data().len(), 6);
        assert_eq!(script.set_mask(0, MOVED_OBJECTS), HResult::S_OK);
        join(&[application(world, move |runtime| churn(runtime, class, 3))]);
        holds!(GCH_03 sim, script.callback_data()[6..].iter().all(|one| matches!(one, CallbackData::Moved(_))));
        holds!(GCH_03 sim, script.callback_data().len() == 6 + 2, "only collections that compact");
    });
}

#[test]
fn gch_03_collections_nest_to_a_depth_of_two_beside_a_background_one() {
    let nested = how_often(CORES, |world| {
        world.runtime.set_gc_mode(GcMode::Concurrent);
        let class = world.runtime.define_class(None, None);
        let (_, script, _) = world.attached(wanting_high(0, BASIC_GC));
        let threads = [(), ()].map(|()| application(world, move |runtime| churn(runtime, class, 6)));
        join(&threads);
        let runtime = world.runtime.clone();
        schedule::wait_until(None, || !runtime.collects_in_background());
        let (mut depth, mut deepest) = (0, 0);
        for one in script.callback_data() {
            depth += if one == CallbackData::CollectionEnds { -1 } else { 1 };
            deepest = deepest.max(depth);
            holds!(GCH_03 sim, (0..=2).contains(&depth), "{depth}");
        }
        assert_eq!(depth, 0);
        deepest == 2
    });
    holds!(GCH_03 sim, nested.iter().all(|count| *count > 0), "no collection was inside another: {nested:?}");
}

#[test]
fn gch_04_what_was_born_since_is_unknown_until_the_next_collection_and_meeting_it_is_no_error() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let class = world.runtime.define_class(None, None);
        let met = Arc::new(AtomicUsize::new(0));
        let of_script = met.clone();
        let asking = wanting(MONITOR_GC | EXCEPTIONS).on("ExceptionThrown", move |script| {
            let id = of_script.load(Ordering::SeqCst);
            holds!(GCH_04 sim, (script.class_of(id), script.size_of(id)) == (Ok(class.0), Ok(48)));
        });
        let (_, script, _) = world.attached(asking);
        force(world, &script);
        let asks = script.clone();
        join(&[application(world, move |runtime| {
            let newborn = runtime.allocate(class, small(48, &[]));
            let id = runtime.object(newborn).unwrap().0;
            holds!(GCH_04 sim, !Reader::read(&asks.callback_data()).picture.contains_key(&id));
            // Used outside a GC, in a callback that passes an object.
            met.store(id, Ordering::SeqCst);
            runtime.throw_and_catch();
            assert_eq!(asks.count("ExceptionThrown"), 1);
            runtime.collect(0);
            let id = runtime.object(newborn).unwrap().0;
            holds!(GCH_04 sim, Reader::read(&asks.callback_data()).picture.contains_key(&id), "added by the next one");
        })]);
        assert!(!script.callback_data().iter().any(|one| matches!(one, CallbackData::Allocated(..))));
    });
}

#[test]
fn gch_05_blocking_and_server_mode_can_be_profiled_whenever_it_is_asked_for() {
    for mode in MODES {
        in_worlds(&RuntimeVersion::ALL, move |world| {
            world.runtime.set_gc_mode(mode);
            let (_, script, _) = world.attached(Script::new());
            holds!(GCH_05 sim, script.set_mask_low(MONITOR_GC) == HResult::S_OK);
            join(&[application(world, |runtime| runtime.collect(2))]);
            holds!(GCH_05 sim, script.callback_data().contains(&CallbackData::CollectionEnds));
        });
    }
}

#[test]
fn gch_05_concurrent_mode_on_the_desktop_refuses_after_attach_and_ends_for_a_profiler_at_startup() {
    in_worlds(&[RuntimeVersion::Desktop4], |world| {
        world.runtime.set_gc_mode(GcMode::Concurrent);
        let refused = |script: &Script| {
            holds!(GCH_05 sim, script.set_mask_low(MONITOR_GC) == HResult::CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE);
        };
        let (_, script, _) = world.attached(Script::new().on("InitializeForAttach", refused));
        refused(&script);
        assert!(world.runtime.is_concurrent());
        assert_eq!(script.request_detach(1), HResult::S_OK);
        gone(world);
    });
    in_worlds(&[RuntimeVersion::Desktop4], |world| {
        world.runtime.set_gc_mode(GcMode::Concurrent);
        stays_off_for_good(world, Script::new());
    });
}

#[test]
fn gch_05_concurrent_mode_on_core_is_switched_off_inside_initialize_for_attach_until_the_detach() {
    in_worlds(CORES, |world| {
        world.runtime.set_gc_mode(GcMode::Concurrent);
        let (_, script, _) = world.attached(wanting(MONITOR_GC));
        assert!(!world.runtime.is_concurrent());
        for mask in [0, MONITOR_GC] {
            assert_eq!(script.set_mask_low(mask), HResult::S_OK, "from now on at will");
        }
        assert_eq!(script.set_mask_low(0), HResult::S_OK);
        holds!(GCH_05 sim, !world.runtime.is_concurrent(), "not before the detach");
        assert_eq!(script.request_detach(1), HResult::S_OK);
        gone(world);
        assert!(world.runtime.is_concurrent());
        let (_, script, _) = world.attached(Script::new());
        holds!(GCH_05 sim, script.set_mask_low(MONITOR_GC) == HResult::CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE);
        assert!(world.runtime.is_concurrent());
    });
    in_worlds(CORES, |world| {
        world.runtime.set_gc_mode(GcMode::Concurrent);
        stays_off_for_good(world, wanting(MONITOR_GC));
    });
}

/// A profiler from startup ends concurrent GC, and its detach does not restore it.
fn stays_off_for_good(world: &World, script: Script) {
    let (_, script, _) = world.started(script);
    assert!(!world.runtime.is_concurrent());
    assert_eq!(script.request_detach(1), HResult::S_OK);
    gone(world);
    holds!(GCH_05 sim, !world.runtime.is_concurrent(), "for good");
}

#[test]
fn gch_05_a_background_collection_that_runs_is_waited_for_before_monitor_gc_is_granted() {
    let waited = how_often(CORES, |world| {
        world.runtime.set_gc_mode(GcMode::Concurrent);
        let class = world.runtime.define_class(None, None);
        let thread = application(world, move |runtime| churn(runtime, class, 6));
        let runs = Arc::new(Mutex::new(false));
        let (of_script, runtime) = (runs.clone(), world.runtime.clone());
        let script = Script::new().on("InitializeForAttach", move |script| {
            *of_script.lock().unwrap() = runtime.collects_in_background();
            assert_eq!(script.set_mask_low(MONITOR_GC), HResult::S_OK);
            holds!(GCH_05 sim, !runtime.collects_in_background(), "none runs once it is granted");
        });
        let (_, script, _) = world.attached(script);
        join(&[thread]);
        force(world, &script);
        assert_eq!(Reader::read(&script.callback_data()).picture, truth(&world.runtime));
        *runs.lock().unwrap()
    });
    assert!(waited.iter().all(|count| *count > 0), "none ever ran: {waited:?}");
}

#[test]
fn gch_02_force_gc_has_its_rules_of_threads() {
    for mode in MODES {
        in_worlds(&RuntimeVersion::ALL, move |world| force_gc_has_its_rules(world, mode));
    }
}

fn force_gc_has_its_rules(world: &World, mode: GcMode) {
    world.runtime.set_gc_mode(mode);
    let refused = |script: &Script| {
        assert_eq!(script.force_gc(), HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE);
    };
    let script = wanting(MONITOR_GC | 0x4).on("GarbageCollectionStarted", refused).on("ModuleLoadFinished", refused);
    let (_, script, _) = world.attached(script);
    let asks = script.clone();
    join(&[application(world, move |runtime| {
        runtime.load_module(false);
        refused(&asks);
    })]);
    let (own, runtime) = (script.clone(), world.runtime.clone());
    join(&[schedule::spawn("a thread of the profiler", move || {
        assert_eq!(own.force_gc(), HResult::S_OK);
        // From now on the runtime knows the thread. It may force a GC, but not inside callbacks on this thread.
        runtime.load_module(false);
        assert_eq!(own.force_gc(), HResult::S_OK);
        runtime.end_thread();
    })]);
    let counts = ["ModuleLoadFinished", "GarbageCollectionFinished"].map(|callback| script.count(callback));
    holds!(GCH_02 sim, counts == [2, 2]);
}

/// Frames from a stack walk.
type Frames = Vec<(usize, usize)>;

#[test]
fn gch_06_after_attach_stacks_are_walked_and_addresses_become_methods_and_metadata() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (_, script, _) = world.attached(wanting(STACK_SNAPSHOT));
        let walked = Arc::new(Mutex::new((Frames::new(), Vec::new(), 0)));
        let (of_thread, asks, end) = (walked.clone(), script.clone(), Arc::new(Mutex::new(false)));
        let of_end = end.clone();
        let thread = application(world, move |runtime| {
            let module = runtime.load_module(false);
            let functions = [true, false].map(|jitted| runtime.make_function(module, jitted));
            functions.iter().for_each(|function| runtime.enter_function(*function));
            let frames = asks.stack_of(0).unwrap();
            let id = runtime.this_thread().unwrap().0;
            *of_thread.lock().unwrap() = (frames, functions.iter().rev().map(|one| one.0).collect(), id);
            while !*of_end.lock().unwrap() {
                schedule::sleep(1_000_000);
                runtime.safepoint();
            }
            functions.iter().rev().for_each(|function| runtime.leave_function(*function));
        });
        schedule::wait_until(None, || walked.lock().unwrap().2 != 0);
        let (frames, functions, id) = walked.lock().unwrap().clone();
        holds!(GCH_06 sim, frames.iter().map(|(function, _)| *function).collect::<Vec<_>>() == functions, "innermost first");
        for (function, ip) in frames {
            holds!(GCH_06 sim, script.function_at(ip as u64) == Ok(function));
            let (class, module, token) = script.function_info(function).unwrap();
            holds!(GCH_06 sim, (script.class_info(class).unwrap().0, token >> 24) == (module, 0x06));
        }
        let from_outside = script.stack_of(id);
        if world.runtime.differences().walks_running_threads {
            assert_eq!(from_outside.unwrap().len(), 2);
        } else {
            assert_eq!(from_outside, Err(HResult::E_NOTIMPL));
            assert_eq!(script.suspend_runtime(), HResult::S_OK);
            assert_eq!(script.stack_of(id).unwrap().len(), 2, "any thread while the runtime is suspended");
            assert_eq!(script.modules(), Err(HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE));
            resumed_by_nobody_else(&script);
            assert_eq!(script.resume_runtime(), HResult::S_OK);
        }
        assert_eq!(script.set_mask_low(0), HResult::S_OK);
        assert_eq!(script.stack_of(id), Err(HResult::CORPROF_E_INCONSISTENT_WITH_FLAGS));
        *end.lock().unwrap() = true;
        join(&[thread]);
    });
}

fn resumed_by_nobody_else(script: &Arc<Script>) {
    let other = script.clone();
    join(&[schedule::spawn("another thread of the profiler", move || {
        assert_eq!(other.resume_runtime(), HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE);
        assert_eq!(other.suspend_runtime(), HResult::CORPROF_E_SUSPENSION_IN_PROGRESS);
    })]);
}

#[test]
fn gch_06_statics_and_objects_are_inspected_with_their_types() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let module = world.runtime.load_module(false);
        let parent = world.runtime.define_class(Some(module), None);
        let class = world.runtime.define_class(Some(module), Some(parent));
        let array = world.runtime.define_array(class);
        let made = Arc::new(Mutex::new(None));
        let of_thread = made.clone();
        join(&[application(world, move |runtime| {
            let element = runtime.allocate(class, small(24, &[]));
            let whole = runtime.allocate(array, small(64, &[element]));
            runtime.set_static(class, 0x0400_0007, Some(whole));
            *of_thread.lock().unwrap() = Some(whole);
        })]);
        let whole = made.lock().unwrap().unwrap();
        // In a GC, where objects do not move.
        let (domain, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (of_domain, of_seen) = (domain.clone(), seen.clone());
        let script = wanting(MONITOR_GC).on("GarbageCollectionFinished", move |script| {
            let object = script.static_object(class.0, 0x0400_0007, of_domain.load(Ordering::SeqCst)).unwrap();
            of_seen.lock().unwrap().push((object, script.class_of(object), script.size_of(object)));
        });
        let (_, script, _) = world.attached(script);
        domain.store(script.app_domain_of(module.0).unwrap(), Ordering::SeqCst);
        for _ in 0..2 {
            force(world, &script);
            // Asks for its address each time: the GC moves it.
            let object = world.runtime.object(whole).unwrap().0;
            holds!(GCH_06 sim, seen.lock().unwrap().pop() == Some((object, Ok(array.0), Ok(64))));
        }
        assert_eq!(script.element_of(array.0), Ok(Some(class.0)));
        assert_eq!(script.element_of(class.0), Ok(None));
        let (of_module, token, of_parent) = script.class_info(class.0).unwrap();
        holds!(GCH_06 sim, (of_module, token >> 24, of_parent) == (module.0, 0x02, parent.0));
    });
}

#[test]
fn att_14_objects_are_not_reported_after_attach_but_large_ones_are_on_core() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let differences = world.runtime.differences();
        let (_, script, _) = world.attached(Script::new());
        let refused = HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER;
        holds!(ATT_14 sim, script.set_mask_low(0x100) == refused);
        let immutable = if differences.immutable_is_plain_failure { HResult::E_FAIL } else { refused };
        holds!(ATT_14 sim, script.set_mask_low(0x0080_0100) == immutable);
        let is_core = differences.allowable_high != 0;
        if is_core {
            assert_eq!(script.set_mask(0, LARGE_OBJECTS), HResult::S_OK);
        }
        let class = world.runtime.define_class(None, None);
        join(&[application(world, move |runtime| {
            runtime.allocate(class, small(24, &[]));
            runtime.allocate(class, small(LARGE, &[]));
        })]);
        holds!(ATT_14 sim, script.count("ObjectAllocated") == usize::from(is_core));
    });
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (_, script, _) = world.started(wanting(0x0080_0100));
        let class = world.runtime.define_class(None, None);
        join(&[application(world, move |runtime| {
            runtime.allocate(class, small(24, &[]));
            runtime.allocate(class, small(LARGE, &[]));
        })]);
        assert_eq!(script.count("ObjectAllocated"), 2, "a profiler from the start is told of each");
    });
}

#[test]
fn gch_04_an_object_id_that_is_kept_over_a_collection_is_a_fault() {
    for runtime_version in RuntimeVersion::ALL {
        let found = faults_of(runtime_version, |world| {
            let class = world.runtime.define_class(None, None);
            let kept = Arc::new(AtomicUsize::new(0));
            let of_script = kept.clone();
            let asking = wanting(MONITOR_GC).on("GarbageCollectionFinished", move |script| {
                let _ = script.class_of(of_script.load(Ordering::SeqCst));
            });
            world.attached(asking);
            join(&[application(world, move |runtime| {
                let object = runtime.allocate(class, small(24, &[]));
                kept.store(runtime.object(object).unwrap().0, Ordering::SeqCst);
                runtime.collect(0);
            })]);
        });
        holds!(GCH_04 sim, found == ["CAT-09"], "{runtime_version:?}");
    }
}
