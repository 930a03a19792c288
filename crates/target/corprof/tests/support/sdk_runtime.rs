//! The runtime of the SDK's tests: it answers all that the SDK asks, and does meanwhile what a test wants of it.

use crate::support::{FakeInfo, fake, note, objects};
use core::ffi::c_void;
use corprof::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// A runtime that answers all that the SDK asks.
pub fn runtime() -> Box<FakeInfo> {
    FakeInfo::new(12)
        .answer("GetRuntimeInformation", get_runtime_information as *const ())
        .answer("SetEventMask2", set_event_mask2 as *const ())
        .answer("GetEventMask2", get_event_mask2 as *const ())
        .answer("SuspendRuntime", suspend_runtime as *const ())
        .answer("ResumeRuntime", resume_runtime as *const ())
        .answer("EventPipeStartSession", event_pipe_start_session as *const ())
        .answer("EventPipeStopSession", event_pipe_stop_session as *const ())
        .answer("EnumModules", objects::enum_modules as *const ())
        .answer("RequestProfilerDetach", request_profiler_detach as *const ())
}

#[allow(clippy::too_many_arguments, reason = "the runtime's signature")]
unsafe extern "system" fn get_runtime_information(
    this: *mut c_void,
    _: *mut u16,
    _: *mut u32,
    major: *mut u16,
    _: *mut u16,
    _: *mut u16,
    _: *mut u16,
    _: u32,
    needed: *mut u32,
    _: *mut u16,
) -> i32 {
    // SAFETY: `this` is the fake runtime whose table has this function; the caller passes places for the answers.
    unsafe {
        major.write(fake(this).number("major").unwrap_or(8) as u16);
        needed.write(0);
    }
    0
}

unsafe extern "system" fn set_event_mask2(this: *mut c_void, low: u32, high: u32) -> i32 {
    // SAFETY: `this` is the fake runtime whose table has this function.
    let fake = unsafe { fake(this) };
    fake.set("low", low as usize);
    fake.set("high", high as usize);
    // SAFETY: `this` is the fake runtime whose table has this function.
    unsafe { note(this, if (low, high) == (0, 0) { "wants nothing" } else { "wants" }) };
    let refusal = fake.number("refuse mask").map_or(0, |code| code as i32);
    if let (0, true, Some(module), Some(object)) = (refusal, low != 0, fake.number("loads"), fake.number("object")) {
        // Whoever wants loads is told of one at once.
        module_loaded(object as *mut sys::IUnknown, module);
    }
    refusal
}

unsafe extern "system" fn get_event_mask2(this: *mut c_void, low: *mut u32, high: *mut u32) -> i32 {
    // SAFETY: `this` is the fake runtime whose table has this function; the caller passes places for the answers.
    unsafe {
        low.write(fake(this).number("low").unwrap_or(0) as u32);
        high.write(fake(this).number("high").unwrap_or(0) as u32);
    }
    0
}

/// A collection is told of, on the thread that stops the runtime.
pub const COLLECTS: usize = 1;
/// Another profiler's stop is told of, which was on its way.
pub const ANOTHER_STOPS: usize = 2;
/// A callback ends that had begun before.
pub const CALLBACK_ENDS: usize = 3;
pub static IS_STOPPED: AtomicBool = AtomicBool::new(false);
pub static CALLBACK_HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Tells the profiler, as the runtime does, unless it is `deaf`. `meanwhile` says what happens at the same time.
unsafe extern "system" fn suspend_runtime(this: *mut c_void) -> i32 {
    // SAFETY: `this` is the fake runtime whose table has this function.
    unsafe { note(this, "SuspendRuntime") };
    // SAFETY: `this` is the fake runtime whose table has this function.
    let fake = unsafe { fake(this) };
    let Some(object) = fake.number("object") else { return 0 };
    let tell = |reason: SuspendReason| {
        // SAFETY: the test holds a reference to its callback object.
        unsafe { sys::ICorProfilerCallback::RuntimeSuspendStarted((object as *mut c_void).cast(), reason.0) };
    };
    if fake.number("deaf").is_none() {
        tell(SuspendReason::FOR_PROFILER);
    }
    match fake.number("meanwhile") {
        Some(COLLECTS) => tell(SuspendReason::FOR_GC),
        Some(ANOTHER_STOPS) => std::thread::scope(|scope| drop(scope.spawn(|| tell(SuspendReason::FOR_PROFILER)))),
        Some(CALLBACK_ENDS) => {
            IS_STOPPED.store(true, Ordering::SeqCst);
            while !CALLBACK_HAS_ENDED.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        _ => {}
    }
    0
}

unsafe extern "system" fn resume_runtime(this: *mut c_void) -> i32 {
    // SAFETY: `this` is the fake runtime whose table has this function.
    unsafe { note(this, "ResumeRuntime") };
    0
}

unsafe extern "system" fn event_pipe_start_session(
    this: *mut c_void,
    _: u32,
    _: *const c_void,
    _: i32,
    session: *mut u64,
) -> i32 {
    // SAFETY: `this` is the fake runtime whose table has this function; the caller passes a place for the answer.
    unsafe {
        note(this, "EventPipeStartSession");
        session.write(77);
    }
    0
}

unsafe extern "system" fn event_pipe_stop_session(this: *mut c_void, session: u64) -> i32 {
    assert_eq!(session, 77);
    // SAFETY: `this` is the fake runtime whose table has this function.
    unsafe { note(this, "EventPipeStopSession") };
    0
}

/// Refuses with the number `refuse detach`, once.
unsafe extern "system" fn request_profiler_detach(this: *mut c_void, milliseconds: u32) -> i32 {
    assert!(milliseconds >= 300, "the runtime would sleep 5 s after a shorter time: {milliseconds}");
    // SAFETY: `this` is the fake runtime whose table has this function.
    let fake = unsafe { fake(this) };
    // SAFETY: `this` is the fake runtime whose table has this function.
    unsafe { note(this, "RequestProfilerDetach") };
    let refusal = fake.number("refuse detach").unwrap_or(0);
    fake.set("refuse detach", 0);
    for (now, later) in [("loads", "loads later"), ("refuse mask", "refuse mask later")] {
        if let Some(number) = fake.number(later) {
            fake.set(now, number);
        }
    }
    refusal as i32
}

/// How often the detach was asked for.
pub fn requests(runtime: &FakeInfo) -> usize {
    runtime.calls().iter().filter(|call| **call == "RequestProfilerDetach").count()
}

/// What the runtime says of a module that has loaded.
pub fn module_loaded(object: *mut sys::IUnknown, module: usize) -> HResult {
    // SAFETY: the test holds a reference to the object.
    HResult(unsafe { sys::ICorProfilerCallback::ModuleLoadFinished(object.cast(), module, 0) })
}
