//! The answers of the model's ICorProfilerInfo: values, insufficient room, invalid ids, and allowed callers.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::{HResult, sys};
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{LARGE, Shape};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use support::{CORES, World, application, faults_of, in_worlds, join};

const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;
const EXCEPTIONS: u32 = 0x40;
const MONITOR_GC: u32 = 0x80;
const ENABLE_REJIT: u32 = 0x0004_0000;
const BASIC_GC: u32 = 0x10;
/// HRESULT_FROM_WIN32(ERROR_INSUFFICIENT_BUFFER).
const INSUFFICIENT_BUFFER: HResult = HResult(0x8007_007A_u32 as i32);
/// COR_E_TYPELOAD.
const NO_CLASS: HResult = HResult(0x8013_1522_u32 as i32);
/// PROFILER_PARENT_UNKNOWN.
const PARENT_UNKNOWN: usize = 0xFFFF_FFFD;
/// EP_PARAMETER_TYPE_OBJECT and _INT32.
const OBJECT: u32 = 1;
const NUMBER: u32 = 9;
const NO_PIECE: sys::COR_PRF_CODE_INFO = sys::COR_PRF_CODE_INFO { startAddress: 0, size: 0 };
const NO_RANGE: sys::COR_PRF_GC_GENERATION_RANGE =
    sys::COR_PRF_GC_GENERATION_RANGE { generation: -1, rangeStart: 0, rangeLength: 0, rangeLengthReserved: 0 };

fn answered(runtime_versions: &[RuntimeVersion], body: impl Fn(&World) + Clone + 'static) {
    in_worlds(runtime_versions, body);
}

fn since(version: u8) -> Vec<RuntimeVersion> {
    RuntimeVersion::ALL.into_iter().filter(|one| one.differences().info_version >= version).collect()
}

fn asking(low: u32) -> Script {
    Script::new().on("InitializeForAttach", move |script| assert_eq!(script.set_mask_low(low), HResult::S_OK))
}

fn small() -> Shape {
    Shape { size: 24, ..Shape::default() }
}

fn text(units: &[u16]) -> String {
    String::from_utf16_lossy(units).split('\0').next().unwrap().to_owned()
}

/// Forces a GC on the profiler's own thread.
fn force(world: &World, script: &Arc<Script>) {
    let (script, runtime) = (script.clone(), world.runtime.clone());
    join(&[schedule::spawn("a thread of the profiler", move || {
        assert_eq!(script.force_gc(), HResult::S_OK);
        runtime.end_thread();
    })]);
}

#[test]
fn a_function_is_known_by_class_module_and_token_and_found_again_by_its_token() {
    answered(&RuntimeVersion::ALL, |world| {
        let module = world.runtime.load_module(false);
        let function = world.runtime.make_function(module, false).0;
        let dynamic = world.runtime.make_dynamic_function().0;
        let (_, script, _) = world.attached(Script::new());
        let (class, of, token) = script.first_function_info(function).unwrap();
        assert_eq!(script.function_info(function), Ok((class, of, token)));
        assert_eq!((of, script.function_of_token(of, token)), (module.0, Ok(function)));
        let (in_module, class_token, _) = script.class_info(class).unwrap();
        assert_eq!((in_module, script.class_of_token(of, class_token)), (of, Ok(class)));
        let (_, framework, nobodys) = script.first_function_info(dynamic).unwrap();
        assert_eq!((framework, nobodys), (of, 0x0600_0000), "it has no metadata");
        // A token of another kind, one without a row, nil, and no module.
        for (module, token) in [(of, class_token), (of, 0x06FF_FFFF), (of, 0), (0, token)] {
            assert_eq!(script.function_of_token(module, token), Err(HResult::E_INVALIDARG), "{module:#x} {token:#x}");
        }
        assert_eq!(script.class_of_token(of, 0x0200_0000), Err(HResult::E_INVALIDARG));
        assert_eq!(script.class_of_token(of, 0x02FF_FFFF), Err(NO_CLASS));
    });
}

#[test]
fn an_id_of_zero_is_a_wrong_argument_and_no_fault() {
    answered(&RuntimeVersion::ALL, |world| {
        let (_, script, _) = world.attached(Script::new());
        let wrong = HResult::E_INVALIDARG;
        assert_eq!(script.first_function_info(0), Err(wrong));
        assert_eq!(script.function_info(0), Err(wrong));
        assert_eq!(script.class_info(0), Err(wrong));
        assert_eq!(script.element_of(0), Err(wrong));
        assert_eq!(script.class_layout(0), Err(wrong));
        assert_eq!(script.class_of(0), Err(wrong));
        assert_eq!(script.size_of(0), Err(wrong));
        assert_eq!(script.array_info(0, 1), Err(wrong));
        assert_eq!(script.code_of(0), Err(wrong));
        assert_eq!(script.pieces_of(0, &mut []).0, wrong);
        assert_eq!(script.il_of(0, &mut []).0, wrong);
        assert_eq!(script.module_info(0, &mut []).0, wrong);
        assert_eq!(script.metadata_of(0, 0, true), wrong);
        assert_eq!(script.assembly_info(0, &mut []).0, wrong);
        assert_eq!(script.app_domain_info(0, &mut []).0, wrong);
        assert_eq!(script.app_domain_of(0), Err(wrong));
        assert_eq!(script.context_of_thread(0), Err(wrong));
        assert_eq!(script.handle_of_thread(0), Err(wrong));
        assert_eq!(script.number_of_thread(0), Err(wrong));
        assert_eq!(script.app_domain_of_thread(0), Err(HResult::CORPROF_E_NOT_MANAGED_THREAD));
    });
}

#[test]
fn cat_09_whatever_is_asked_about_what_is_gone_is_a_fault() {
    type Question = fn(&Script, usize);
    let of_modules: [Question; 4] = [
        |script, module| _ = script.metadata_of(module, 0, true),
        |script, module| _ = script.app_domain_of(module),
        |script, module| _ = script.assembly_info(module + 1, &mut []),
        |script, module| _ = script.class_of_token(module, 0x0200_0001),
    ];
    for question in of_modules {
        let found = faults_of(RuntimeVersion::Core8, move |world| {
            let module = world.runtime.load_module(true);
            let (_, script, _) = world.attached(Script::new());
            world.runtime.unload_module(module);
            question(&script, module.0);
        });
        holds!(CAT_09 sim, found == ["CAT-09"]);
    }
    let of_functions: [Question; 5] = [
        |script, function| _ = script.first_function_info(function),
        |script, function| _ = script.code_of(function),
        |script, function| _ = script.pieces_of_version(function, 0, &mut []),
        |script, function| _ = script.il_of(function, &mut []),
        |script, function| _ = script.versions_of(function, &mut []),
    ];
    for question in of_functions {
        let found = faults_of(RuntimeVersion::Core8, move |world| {
            let module = world.runtime.load_module(true);
            let function = world.runtime.make_function(module, false);
            let (_, script, _) = world.attached(Script::new());
            world.runtime.unload_module(module);
            question(&script, function.0);
        });
        holds!(CAT_09 sim, found == ["CAT-09"]);
    }
}

#[test]
fn a_list_is_cut_where_room_ends_and_its_true_length_reported() {
    answered(&since(9), |world| {
        let module = world.runtime.load_module(false);
        let function = world.runtime.make_function(module, false);
        let start = world.runtime.address_of(function).unwrap() as usize;
        let (_, script, _) = world.attached(Script::new());
        assert_eq!(script.pieces_of(function.0, &mut []), (HResult::S_OK, 1));
        let mut pieces = [NO_PIECE; 2];
        assert_eq!(script.pieces_of(function.0, &mut pieces), (HResult::S_OK, 1));
        assert_eq!((pieces[0].startAddress, pieces[1].size), (start, 0));
        assert_eq!(script.code_of(function.0), Ok((start, pieces[0].size as u32)));
        let mut other = [NO_PIECE; 1];
        assert_eq!(script.pieces_at(start, &mut other), (HResult::S_OK, 1));
        assert_eq!((other[0].startAddress, other[0].size), (start, pieces[0].size));
        assert_eq!(script.pieces_at(0, &mut other), (HResult::CORPROF_E_FUNCTION_NOT_COMPILED, 0));
        // Start addresses: all or none.
        assert_eq!(script.starts_of(function.0, 0, &mut []), (HResult::S_OK, 1));
        let mut starts = [0; 1];
        assert_eq!(script.starts_of(function.0, 0, &mut starts), (HResult::S_OK, 1));
        assert_eq!(starts, [start]);
        let nowhere = std::ptr::null_mut();
        let mut count = 0;
        // SAFETY: the model keeps Info alive during the schedule; the test passes room without a place on purpose.
        let code = unsafe {
            sys::ICorProfilerInfo2::GetCodeInfo2(script.raw().cast(), function.0, 1, &raw mut count, nowhere)
        };
        assert_eq!(HResult(code), HResult::E_INVALIDARG);
    });
}

#[test]
fn a_method_has_no_code_until_it_is_compiled() {
    answered(&RuntimeVersion::ALL, |world| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (before, after) = (seen.clone(), seen.clone());
        let module = world.runtime.load_module(false);
        let script = asking(JIT)
            .on("JITCompilationStarted", move |script| {
                let function = script.begun();
                before.lock().unwrap().push(script.code_of(function).map(|_| ()));
            })
            .on("JITCompilationFinished", move |script| {
                let function = script.begun();
                after.lock().unwrap().push(script.code_of(function).map(|_| ()));
            });
        world.attached(script);
        world.runtime.make_function(module, true);
        assert_eq!(*seen.lock().unwrap(), [Err(HResult::CORPROF_E_FUNCTION_NOT_COMPILED), Ok(())]);
    });
}

#[test]
fn each_version_of_a_method_has_its_own_code() {
    answered(CORES, |world| {
        let module = world.runtime.load_module(false);
        let (_, script, _) = world.attached(asking(ENABLE_REJIT));
        let function = world.runtime.make_function(module, true);
        let first = script.code_of(function.0).unwrap().0;
        let (_, _, token) = script.first_function_info(function.0).unwrap();
        let asks = script.clone();
        join(&[schedule::spawn("a thread of the profiler", move || {
            assert_eq!(asks.request_rejit(module.0, token), HResult::S_OK);
        })]);
        join(&[application(world, move |runtime| {
            runtime.enter_function(function);
            runtime.leave_function(function);
        })]);
        let mut versions = [0; 4];
        assert_eq!(script.versions_of(function.0, &mut versions), (HResult::S_OK, 2));
        assert_eq!(script.versions_of(function.0, &mut versions[..1]), (HResult::S_FALSE, 2));
        let now = world.runtime.address_of(function).unwrap() as usize;
        for (version, start) in [(versions[0], first), (versions[1], now)] {
            let mut pieces = [NO_PIECE; 1];
            assert_eq!(script.pieces_of_version(function.0, version, &mut pieces), (HResult::S_OK, 1));
            assert_eq!(pieces[0].startAddress, start);
        }
        assert_eq!(script.code_of(function.0).unwrap().0, first, "the one that the program came with");
        let never = script.pieces_of_version(function.0, 99, &mut []);
        assert_eq!(never.0, HResult::CORPROF_E_FUNCTION_NOT_COMPILED);
    });
}

#[test]
fn a_modules_name_is_given_whole_or_not_at_all_and_an_assemblys_is_cut() {
    answered(&RuntimeVersion::ALL, |world| {
        let module = world.runtime.load_module(true).0;
        let (_, script, _) = world.attached(Script::new());
        let mut units = [0xFFFF; 64];
        let (code, length, _, assembly, flags) = script.module_info(module, &mut units);
        let (length, path) = (length as usize, text(&units));
        assert_eq!((code, length, flags & 0x8), (HResult::S_OK, path.len() + 1, 0x8), "collectible");
        assert!(path.ends_with(".dll"), "{path}");
        let short = script.module_info(module, &mut units[..length - 1]);
        assert_eq!((short.0, short.1 as usize, units[0]), (INSUFFICIENT_BUFFER, length, 0));
        assert_eq!(short.3, assembly, "the rest is answered all the same");
        let exact = script.module_info(module, &mut units[..length]);
        assert_eq!((exact.0, text(&units)), (HResult::S_OK, path));
        let nothing = script.module_info(module, &mut []);
        assert_eq!((nothing.0, nothing.1 as usize), (HResult::S_OK, length));

        let (code, length, domain, manifest) = script.assembly_info(assembly, &mut units);
        let name = text(&units);
        assert_eq!((code, length as usize, manifest), (HResult::S_OK, name.len() + 1, module));
        assert_eq!(script.assembly_info(assembly, &mut units[..4]).1, length);
        assert_eq!(text(&units), name[..3]);
        assert_eq!(script.app_domain_of(module), Ok(domain));
        let (code, length, process) = script.app_domain_info(domain, &mut units);
        let of_domain = text(&units);
        assert_eq!((code, length as usize), (HResult::S_OK, of_domain.len() + 1));
        assert_eq!(process, std::process::id() as usize);
    });
}

#[test]
fn a_module_that_is_still_loading_has_no_assembly_yet() {
    answered(&RuntimeVersion::ALL, |world| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (begun, done) = (seen.clone(), seen.clone());
        let look = |script: &Script| {
            let (code, _, _, assembly, _) = script.module_info(script.begun(), &mut []);
            (code, assembly == PARENT_UNKNOWN)
        };
        let script = asking(MODULE_LOADS)
            .on("ModuleLoadStarted", move |script| begun.lock().unwrap().push(look(script)))
            .on("ModuleLoadFinished", move |script| done.lock().unwrap().push(look(script)));
        world.attached(script);
        world.runtime.load_module(false);
        assert_eq!(*seen.lock().unwrap(), [(HResult::CORPROF_E_DATAINCOMPLETE, true), (HResult::S_OK, false)]);
    });
}

#[test]
fn an_interface_that_metadata_has_not_is_refused_by_a_failure_that_says_so() {
    answered(&RuntimeVersion::ALL, |world| {
        let module = world.runtime.load_module(false).0;
        let (_, script, _) = world.attached(Script::new());
        assert_eq!(script.metadata_of(module, 0, true), HResult::E_NOINTERFACE);
        assert_eq!(script.metadata_of(module, 0, false), HResult::S_OK);
        assert_eq!(script.metadata_of(module, 0x2, true), HResult::E_INVALIDARG, "a flag that nobody knows");
    });
}

#[test]
fn generations_are_known_from_the_first_collection_that_is_reported_and_can_be_walked() {
    answered(CORES, |world| {
        let class = world.runtime.define_class(None, None);
        let walked = Arc::new(Mutex::new(Vec::new()));
        let of_script = walked.clone();
        let script = Script::new()
            .on("InitializeForAttach", |script| assert_eq!(script.set_mask(0, BASIC_GC), HResult::S_OK))
            .on("GarbageCollectionFinished", move |script| *of_script.lock().unwrap() = walk(script));
        let runtime = world.runtime.clone();
        join(&[application(world, move |_| {
            let (old, large) = (runtime.allocate(class, small()), Shape { size: LARGE, ..Shape::default() });
            runtime.set_static(class, 0x0400_0001, Some(old));
            let large = runtime.allocate(class, large);
            runtime.set_static(class, 0x0400_0002, Some(large));
        })]);
        world.runtime.collect(0);
        let (_, script, _) = world.attached(script);
        assert_eq!(script.generations(&mut []).0, HResult::E_FAIL, "no collection was reported yet");
        force(world, &script);
        let count = script.generations(&mut []).1 as usize;
        let mut ranges = vec![NO_RANGE; count];
        assert_eq!(script.generations(&mut ranges[..1]), (HResult::S_OK, count as u32), "cut");
        assert_eq!(script.generations(&mut ranges), (HResult::S_OK, count as u32));
        let pinned = i32::from(world.runtime.runtime_version != RuntimeVersion::Core3);
        let highest = ranges.iter().map(|range| range.generation).max();
        assert_eq!(highest, Some(3 + pinned));
        let truth: Vec<usize> = world.runtime.objects().iter().map(|(id, ..)| id.0).collect();
        let mut walked = walked.lock().unwrap().clone();
        walked.sort_unstable();
        assert_eq!(
            walked,
            truth.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        );
    });
}

/// Walks from object to object through each range.
fn walk(script: &Script) -> Vec<usize> {
    let mut ranges = [NO_RANGE; 64];
    let count = script.generations(&mut ranges).1 as usize;
    let mut objects = Vec::new();
    for range in &ranges[..count] {
        let mut object = range.rangeStart;
        while object < range.rangeStart + range.rangeLength {
            assert_eq!(script.generation_of(object).unwrap().generation, range.generation);
            objects.push(object);
            object += (script.size_of(object).unwrap() as usize).next_multiple_of(8);
        }
    }
    objects
}

#[test]
fn objects_are_inspected_in_collections_and_where_they_are_handed_over_and_nowhere_else() {
    answered(&RuntimeVersion::ALL, |world| {
        let class = world.runtime.define_class(None, None);
        let array = world.runtime.define_array(class);
        let kept = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let asks = |script: &Script, kept: &AtomicUsize| script.array_info(kept.load(Ordering::SeqCst), 1);
        let mut script = asking(MONITOR_GC | EXCEPTIONS | MODULE_LOADS);
        for callback in ["ModuleLoadFinished", "ExceptionThrown", "GarbageCollectionStarted"] {
            let (kept, seen) = (kept.clone(), seen.clone());
            script = script.on(callback, move |script| seen.lock().unwrap().push(asks(script, &kept)));
        }
        let (_, script, _) = world.attached(script);
        let (of_thread, asking_outside) = (kept.clone(), script.clone());
        join(&[application(world, move |runtime| {
            let object = runtime.allocate(array, Shape { size: 16 + 3 * 8, ..Shape::default() });
            of_thread.store(runtime.object(object).unwrap().0, Ordering::SeqCst);
            runtime.load_module(false);
            runtime.throw_and_catch();
            let outside = asks(&asking_outside, &of_thread);
            assert_eq!(outside, Err(HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE), "on a thread of the runtime");
            runtime.collect(0);
        })]);
        let object = kept.load(Ordering::SeqCst);
        let whole = Ok((3, 0, object + 16));
        assert_eq!(
            *seen.lock().unwrap(),
            [Err(HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE), whole, whole],
            "in a load, where one is thrown, in a collection"
        );
        assert_eq!(asks(&script, &kept), Err(HResult::CORPROF_E_NOT_MANAGED_THREAD));
        assert_eq!(script.string_layout(), Ok((8, 12)));
        assert_eq!(script.class_layout(class.0), Ok((0, 24)));
        assert_eq!(script.class_layout(array.0), Err(HResult::E_INVALIDARG));
    });
}

#[test]
fn what_is_frozen_is_enumerated_where_it_lies() {
    answered(&since(14), |world| {
        let class = world.runtime.define_class(None, None);
        let (_, script, _) = world.attached(asking(0));
        let nothing = sys::COR_PRF_NONGC_HEAP_RANGE { rangeStart: 0, rangeLength: 0, rangeLengthReserved: 0 };
        let mut ranges = [nothing; 2];
        assert_eq!((script.frozen_objects(), script.frozen_ranges(&mut ranges)), (Ok(Vec::new()), (HResult::S_OK, 0)));
        let frozen = [24, 40].map(|size| world.runtime.allocate_frozen(class, size).0);
        assert_eq!(script.frozen_objects(), Ok(frozen.to_vec()));
        assert_eq!(script.frozen_ranges(&mut []), (HResult::S_OK, 1));
        assert_eq!(script.frozen_ranges(&mut ranges), (HResult::S_OK, 1));
        assert_eq!((ranges[0].rangeStart, ranges[0].rangeLength), (frozen[0], 64));
        assert_eq!(script.is_frozen(frozen[1]), Ok(true));
        assert_eq!(script.generation_of(frozen[1]).err(), Some(HResult::CORPROF_E_NOT_GC_OBJECT));
        world.runtime.collect(2);
        assert_eq!(script.frozen_objects(), Ok(frozen.to_vec()), "they stay");
    });
    answered(&since(10), |world| {
        let (_, script, _) = world.attached(Script::new());
        assert_eq!(script.large_from(), Ok(LARGE as u32));
        let class = world.runtime.define_class(None, None);
        let object = world.runtime.allocate(class, small());
        assert_eq!(script.is_frozen(world.runtime.object(object).unwrap().0), Ok(false));
    });
}

#[test]
fn the_heap_is_walked_without_a_collection_by_who_stops_the_program_or_has_it_stopped() {
    answered(&since(15), |world| {
        let class = world.runtime.define_class(None, None);
        let objects = [(), (), ()].map(|()| world.runtime.allocate(class, small()));
        let ids = objects.map(|object| world.runtime.object(object).unwrap().0);
        let (_, script, _) = world.attached(Script::new());
        let walked = |script: &Script, most: usize| {
            let mut seen = Vec::new();
            let code = script.walk_heap(|object| {
                seen.push((object, script.class_of(object)));
                seen.len() < most
            });
            (code, seen)
        };
        let whole = ids.map(|id| (id, Ok(class.0))).to_vec();
        let refused = (HResult::CORPROF_E_SUSPENSION_IN_PROGRESS, Vec::new());
        assert_eq!(
            walked(&script, 9),
            refused,
            "a thread that the runtime does not know has to stop the program first"
        );
        let asks = script.clone();
        join(&[application(world, move |_| {
            // Outside of a callback it may not ask for classes, but any thread may walk the heap.
            let seen = |most| walked(&asks, most).1.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
            assert_eq!((seen(9), seen(2)), (ids.to_vec(), ids[..2].to_vec()), "until it has enough");
        })]);
        assert_eq!(script.suspend_runtime(), HResult::S_OK);
        assert_eq!(walked(&script, 9), (HResult::S_OK, whole));
        let other = script.clone();
        join(&[schedule::spawn("another thread of the profiler", move || {
            assert_eq!(walked(&other, 9), refused);
        })]);
        assert_eq!(script.resume_runtime(), HResult::S_OK, "it is still stopped by who stopped it");
        assert_eq!(script.class_of(ids[0]), Err(HResult::CORPROF_E_NOT_MANAGED_THREAD), "the walk is over");
    });
}

#[test]
fn a_weak_handle_outlives_its_object_and_then_leads_to_none() {
    answered(&since(13), |world| {
        let class = world.runtime.define_class(None, None);
        let object = world.runtime.allocate(class, small());
        let (_, script, _) = world.attached(Script::new());
        let id = world.runtime.object(object).unwrap().0;
        let [weak, strong] = [1, 2].map(|kind| script.create_handle(id, kind).unwrap());
        world.runtime.collect(2);
        let moved = world.runtime.object(object).unwrap().0;
        assert_eq!((script.object_of(weak), script.object_of(strong)), (Ok(moved), Ok(moved)));
        assert_eq!(script.destroy_handle(strong), HResult::S_OK);
        world.runtime.collect(2);
        assert_eq!(script.object_of(weak), Ok(0));
        assert_eq!(script.destroy_handle(weak), HResult::S_OK);
        assert_eq!(script.object_of(0), Err(HResult::E_INVALIDARG));
    });
}

#[test]
fn events_of_a_profilers_own_provider_reach_who_listens_to_it() {
    answered(&since(12), |world| {
        let (_, script, _) = world.attached(Script::new());
        let provider = script.provider_called("Ours").unwrap();
        let mut name = [0; 8];
        assert_eq!(script.provider_info(provider, &mut []), (INSUFFICIENT_BUFFER, 5));
        assert_eq!(script.provider_info(provider, &mut name), (HResult::S_OK, 5));
        assert_eq!(text(&name), "Ours");
        assert_eq!(script.define_event(provider, 7, OBJECT), Err(HResult::E_INVALIDARG));
        assert_eq!(script.define_event(0, 7, NUMBER), Err(HResult::E_INVALIDARG));
        let event = script.define_event(provider, 7, NUMBER).unwrap();
        let session = script.start_session().unwrap();
        let writes = |count: usize| {
            assert_eq!(script.write_event(event, &[1, 2, 3, 4]), HResult::S_OK);
            assert_eq!(script.count("EventPipeEventDelivered"), count);
        };
        writes(0);
        assert_eq!(script.listen_to(session, "Ours"), HResult::S_OK);
        writes(1);
        assert_eq!(script.stop_session(session), HResult::S_OK);
        writes(1);
        assert_eq!(script.listen_to(session, "Ours"), HResult::E_INVALIDARG, "it is stopped");
        assert_eq!(script.write_event(0, &[]), HResult::E_INVALIDARG);
    });
}

#[test]
fn the_runtimes_own_threads_may_ask_in_callbacks_alone() {
    answered(&RuntimeVersion::ALL, |world| {
        let module = world.runtime.load_module(false).0;
        let inside = Arc::new(Mutex::new(Vec::new()));
        let of_script = inside.clone();
        let script = asking(MODULE_LOADS).on("ModuleLoadFinished", move |script| {
            let thread = script.app_domain_of_thread(0).is_ok();
            of_script.lock().unwrap().push((script.app_domain_of(module).is_ok(), thread));
        });
        let (_, script, _) = world.attached(script);
        let domain = script.app_domain_of(module);
        let asks = script.clone();
        join(&[application(world, move |runtime| {
            let refused = HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
            let this = runtime.this_thread().unwrap().0;
            assert_eq!(asks.app_domain_of(module), Err(refused), "it might begin a collection");
            assert_eq!(asks.handle_of_thread(this), Err(refused), "it is for callbacks");
            assert_eq!(asks.app_domain_of_thread(0), domain, "this one anybody may ask");
            assert_eq!(asks.context_of_thread(this), domain);
            runtime.load_module(false);
        })]);
        assert_eq!(*inside.lock().unwrap(), [(true, true)]);
    });
}
