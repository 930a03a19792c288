//! A profiler that changes methods by ReJIT, and the place of each fault in that.
//!
//! It requests every method that it sees compiled, gives each a copy of its own body, and reverts it. It stays: ReJIT forbids the detach.

use crate::fault::{Fault, fault};
use corprof::{FunctionId, HResult, MethodToken, ModuleId, sys};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// COR_PRF_ENABLE_REJIT, COR_PRF_MONITOR_JIT_COMPILATION, COR_PRF_MONITOR_SUSPENDS.
pub const MASK: u32 = 0x4_0000 | 0x20 | 0x1_0000;
/// A method of no particular module.
const SOME_METHOD: u32 = 0x0600_0001;
/// A fat header for 64 bytes of code, of which one is there (ECMA-335, II.25.4.3).
const CUT_BODY: [u8; 13] = [0x13, 0x30, 8, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0x2A];

/// The last function control, for the profiler that uses it too late.
static CONTROL: AtomicPtr<sys::ICorProfilerFunctionControl> = AtomicPtr::new(std::ptr::null_mut());

/// Whether this copy changes methods.
pub fn is_wanted() -> bool {
    matches!(
        fault(),
        Fault::Rejits
            | Fault::GivesBodyTooLate
            | Fault::GivesTwoBodies
            | Fault::GivesEmptyBody
            | Fault::GivesCutBody
            | Fault::RejitsInSuspension
            | Fault::RejitsUnloaded
    )
}

/// A method was compiled: it is requested.
pub fn compiled(info: *mut sys::ICorProfilerInfo, function: FunctionId) {
    if let Some((module, token)) = method_of(info, function) {
        request(info, module, token);
    }
}

/// A method was compiled again: it is reverted.
pub fn compiled_again(info: *mut sys::ICorProfilerInfo, function: FunctionId) {
    let Some((module, token)) = method_of(info, function) else { return };
    let mut status = 0;
    // SAFETY: the runtime keeps Info valid, since it accepts no detach; two lists of one, and a place for one code.
    unsafe {
        sys::ICorProfilerInfo4::RequestRevert(info.cast(), 1, &raw const module, &raw const token, &raw mut status)
    };
}

/// A module is unloaded, or the runtime is suspended.
pub fn wrong_moment(info: *mut sys::ICorProfilerInfo, module: ModuleId) {
    request(info, module.0, SOME_METHOD);
}

/// GetReJITParameters.
pub fn give_body(
    info: *mut sys::ICorProfilerInfo,
    (module, method): (ModuleId, MethodToken),
    control: *mut sys::ICorProfilerFunctionControl,
) -> Result<(), HResult> {
    let (mut body, mut length) = (std::ptr::null(), 0);
    // SAFETY: the runtime keeps Info valid, since it accepts no detach; the outputs are local.
    HResult(unsafe { sys::ICorProfilerInfo::GetILFunctionBody(info, module.0, method.0, &mut body, &mut length) })
        .ok()?;
    let set = |body: *const c_void, length: u32| {
        // SAFETY: the object is valid inside the callback; the body is, too, except where that is the fault.
        HResult(unsafe { sys::ICorProfilerFunctionControl::SetILFunctionBody(control, length, body.cast()) })
    };
    match fault() {
        Fault::GivesBodyTooLate => CONTROL.store(control, Ordering::SeqCst),
        Fault::GivesEmptyBody => _ = set(body.cast(), 0),
        Fault::GivesCutBody => _ = set(CUT_BODY.as_ptr().cast(), CUT_BODY.len() as u32),
        Fault::GivesTwoBodies => {
            set(body.cast(), length);
            set(body.cast(), length);
        }
        _ => set(body.cast(), length).ok()?,
    }
    Ok(())
}

/// ReJITCompilationStarted: too late for a body.
pub fn give_late_body() {
    let control = CONTROL.load(Ordering::SeqCst);
    if !control.is_null() {
        let body = [0x06, 0x2A];
        // SAFETY: unsound in a real process: the runtime has released the object, which is the fault.
        unsafe {
            sys::ICorProfilerFunctionControl::SetILFunctionBody(control, body.len() as u32, body.as_ptr().cast())
        };
    }
}

fn request(info: *mut sys::ICorProfilerInfo, module: usize, token: u32) {
    // SAFETY: the runtime keeps Info valid, since it accepts no detach; two lists of one.
    unsafe { sys::ICorProfilerInfo4::RequestReJIT(info.cast(), 1, &raw const module, &raw const token) };
}

fn method_of(info: *mut sys::ICorProfilerInfo, function: FunctionId) -> Option<(usize, u32)> {
    let (mut class, mut module, mut token) = (0, 0, 0);
    // SAFETY: the runtime keeps Info valid, since it accepts no detach; the outputs are local.
    let code = unsafe { sys::ICorProfilerInfo::GetFunctionInfo(info, function.0, &mut class, &mut module, &mut token) };
    HResult(code).is_success().then_some((module, token))
}
