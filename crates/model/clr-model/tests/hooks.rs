//! Hooks, clause by clause: the privileges of a profiler from startup, and the obstacles to a detach.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::{EnterLeave3, EnterLeave3WithInfo as WithInfo, HResult, sys};
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{FunctionId, Status};
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};
use support::{World, application, in_worlds, join};

/// COR_PRF_MONITOR_ENTERLEAVE.
const ENTERLEAVE: u32 = 0x1000;
/// COR_PRF_ENABLE_FUNCTION_ARGS and COR_PRF_ENABLE_FUNCTION_RETVAL.
const ARGUMENTS: u32 = 0x0600_0000;
/// The mapper's argument.
const CLIENT_DATA: usize = 0x77;

thread_local! {
    /// Arguments of the hook calls in the running schedule.
    static CALLED: RefCell<Vec<(&'static str, usize, usize)>> = const { RefCell::new(Vec::new()) };
}

fn called(what: &'static str, id: usize, info: usize) {
    CALLED.with(|called| called.borrow_mut().push((what, id, info)));
}

fn all_called() -> Vec<(&'static str, usize, usize)> {
    CALLED.with(RefCell::take)
}

unsafe extern "C" fn enter(id: usize) {
    called("enter", id, 0);
}

unsafe extern "C" fn leave(id: usize) {
    called("leave", id, 0);
}

unsafe extern "C" fn tailcall(id: usize) {
    called("tailcall", id, 0);
}

unsafe extern "C" fn enter_with_info(id: usize, info: usize) {
    called("enter", id, info);
}

unsafe extern "C" fn leave_with_info(id: usize, info: usize) {
    called("leave", id, info);
}

unsafe extern "C" fn tailcall_with_info(id: usize, info: usize) {
    called("tailcall", id, info);
}

/// Hooks every other function, and returns its id plus one.
unsafe extern "C" fn map(function: usize, client_data: *mut c_void, is_hooked: *mut i32) -> usize {
    called("map", function, client_data as usize);
    // SAFETY: the runtime passes a valid place.
    unsafe { is_hooked.write(i32::from((function / 0x10).is_multiple_of(2))) };
    function + 1
}

const FAST: EnterLeave3 = EnterLeave3 { enter: Some(enter), leave: Some(leave), tailcall: Some(tailcall) };
const WITH_INFO: WithInfo =
    WithInfo { enter: Some(enter_with_info), leave: Some(leave_with_info), tailcall: Some(tailcall_with_info) };

/// A profiler that sets hooks in Initialize.
fn hooking(mask: u32, with_info: bool, mapped: bool) -> Script {
    Script::new().on("Initialize", move |script| {
        assert_eq!(script.set_mask_low(mask), HResult::S_OK);
        let info = script.take_startup().unwrap();
        // SAFETY: the hooks are functions of this file, which is never unloaded. The model calls them as functions, which preserve
        // registers.
        let set = unsafe {
            if with_info {
                info.set_enter_leave_function_hooks3_with_info(WITH_INFO)
            } else {
                info.set_enter_leave_function_hooks3(FAST)
            }
        };
        set.unwrap();
        if mapped {
            // SAFETY: the mapper is a function of this file, which is never unloaded; its data is a number.
            unsafe { info.set_function_id_mapper2(map, CLIENT_DATA as *mut c_void) }.unwrap();
        }
    })
}

/// Runs a function that leaves by a tail call to another. Returns their ids.
fn run_two(world: &World) -> [FunctionId; 2] {
    let made = Arc::new(Mutex::new(None));
    let of_thread = made.clone();
    join(&[application(world, move |runtime| {
        let module = runtime.load_module(false);
        let two = [(); 2].map(|()| runtime.make_function(module, true));
        runtime.enter_function(two[0]);
        runtime.tail_call(two[0], two[1]);
        runtime.leave_function(two[1]);
        *of_thread.lock().unwrap() = Some(two);
    })]);
    made.lock().unwrap().unwrap()
}

#[test]
fn elt_01_the_fast_path_is_handed_the_function_and_nothing_else() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        all_called();
        world.started(hooking(ENTERLEAVE, false, false));
        let [first, second] = run_two(world).map(|function| function.0);
        let expected = [("enter", first, 0), ("tailcall", first, 0), ("enter", second, 0), ("leave", second, 0)];
        holds!(ELT_01 sim, all_called() == expected);
    });
}

#[test]
fn elt_01_the_path_with_info_comes_with_arguments_and_return_values() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        all_called();
        let (_, script, _) = world.started(hooking(ENTERLEAVE | ARGUMENTS, true, false));
        let [first, second] = run_two(world).map(|function| function.0);
        let all = all_called();
        let names: Vec<_> = all.iter().map(|(what, id, _)| (*what, *id)).collect();
        holds!(ELT_01 sim, names == [("enter", first), ("tailcall", first), ("enter", second), ("leave", second)]);
        holds!(ELT_01 sim, all.iter().all(|(_, _, info)| *info != 0), "a handle for each: {all:?}");
        holds!(ELT_01 sim, arguments(&script, all[0].1, all[0].2) == (HResult::S_OK, 1));
    });
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (_, script, _) = world.started(hooking(ENTERLEAVE, false, false));
        assert_eq!(arguments(&script, 1, 1).0, HResult::CORPROF_E_INCONSISTENT_WITH_FLAGS);
    });
}

/// GetFunctionEnter3Info: the number of argument ranges.
fn arguments(script: &Script, function: usize, handle: usize) -> (HResult, u32) {
    let range = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: 0, length: 0 };
    let mut known = sys::COR_PRF_FUNCTION_ARGUMENT_INFO { numRanges: 0, totalArgumentSize: 0, ranges: [range] };
    let (mut frame, mut size) = (0, size_of_val(&known) as u32);
    // SAFETY: Info is live; the out pointers are locals.
    let code = unsafe {
        sys::ICorProfilerInfo3::GetFunctionEnter3Info(
            script.raw().cast(),
            function,
            handle,
            &raw mut frame,
            &raw mut size,
            &raw mut known,
        )
    };
    (HResult(code), known.numRanges)
}

#[test]
fn elt_01_the_mapper_is_handed_its_data_chooses_what_is_hooked_and_names_it() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        all_called();
        world.started(hooking(ENTERLEAVE, false, true));
        let two = run_two(world);
        let again = run_two(world);
        let all = all_called();
        let functions: Vec<usize> = two.iter().chain(&again).map(|function| function.0).collect();
        let mapped: Vec<_> = all.iter().filter(|(what, _, _)| *what == "map").collect();
        assert_eq!(mapped.len(), 4, "once for each function");
        holds!(ELT_01 sim, mapped.iter().all(|(_, function, data)| functions.contains(function) && *data == CLIENT_DATA));
        let hooked: Vec<usize> =
            functions.iter().copied().filter(|function| (function / 0x10).is_multiple_of(2)).collect();
        let entered: Vec<usize> = all.iter().filter(|(what, _, _)| *what == "enter").map(|(_, id, _)| id - 1).collect();
        holds!(ELT_01 sim, !entered.is_empty() && entered == hooked, "{entered:x?} {hooked:x?}");
    });
}

/// Tries every way to set hooks.
fn try_to_hook(script: &Script) -> [HResult; 3] {
    let raw: *mut sys::ICorProfilerInfo3 = script.raw().cast();
    // SAFETY: Info is live; refused hooks are never called.
    let fast =
        unsafe { sys::ICorProfilerInfo3::SetEnterLeaveFunctionHooks3(raw, FAST.enter, FAST.leave, FAST.tailcall) };
    let WithInfo { enter, leave, tailcall } = WITH_INFO;
    // SAFETY: Info is live; refused hooks are never called.
    let with_info = unsafe { sys::ICorProfilerInfo3::SetEnterLeaveFunctionHooks3WithInfo(raw, enter, leave, tailcall) };
    // SAFETY: Info is live; the mapper is a function of this file, and its data is a number.
    let mapper = unsafe { sys::ICorProfilerInfo3::SetFunctionIDMapper2(raw, Some(map), CLIENT_DATA as *mut c_void) };
    [fast, with_info, mapper].map(HResult)
}

#[test]
fn elt_02_none_of_it_after_attach() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        all_called();
        let (_, script, _) = world.attached(Script::new());
        holds!(ELT_02 sim, try_to_hook(&script) == [HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER; 3]);
        assert_eq!(arguments(&script, 1, 1).0, HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER);
        assert_eq!(script.set_mask_low(ENTERLEAVE), HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER);
        run_two(world);
        holds!(ELT_02 sim, all_called() == []);
    });
}

#[test]
fn elt_02_none_of_it_once_initialize_is_over() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        all_called();
        let (_, script, _) = world.started(Script::new());
        let too_late = HResult::CORPROF_E_CALL_ONLY_FROM_INIT;
        // Core accepts a mapper at any time; it has no effect.
        let mapper = if world.runtime.differences().mapper_only_in_initialize { too_late } else { HResult::S_OK };
        holds!(ELT_02 sim, try_to_hook(&script) == [too_late, too_late, mapper]);
        run_two(world);
        assert_eq!(all_called(), []);
    });
}

#[test]
fn elt_02_no_detach_after_it() {
    for with_info in [false, true] {
        in_worlds(&RuntimeVersion::ALL, move |world| {
            let (_, script, profiler) = world.started(hooking(ENTERLEAVE, with_info, false));
            holds!(ELT_02 sim, script.request_detach(1) == HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT);
            assert_eq!(profiler.status(), Status::Active);
        });
    }
}
