//! The probe as a profiler for version 2 of the runtime: its object answers to ICorProfilerCallback2 and to nothing newer.

use crate::profiler::Probe;
use corprof::{CallbackObject, Guid, HResult, sys};
use std::ffi::c_void;
use std::sync::OnceLock;

/// What such a profiler answers to.
const KNOWN: [Guid; 3] = [sys::IID_IUnknown, sys::IID_ICorProfilerCallback, sys::IID_ICorProfilerCallback2];

/// As the object has it, but for the first slot.
static VTABLE: OnceLock<sys::ICorProfilerCallback2Vtbl> = OnceLock::new();

/// Makes one, with one reference.
pub fn create() -> *mut sys::IUnknown {
    let object = CallbackObject::create(Probe::default());
    let place: *mut sys::ICorProfilerCallback2 = object.cast();
    let table = VTABLE.get_or_init(|| {
        // SAFETY: a live object, whose vtable begins with those of all earlier versions; functions are copied, nothing owns them.
        let mut table = unsafe { (*place).vtbl.read() };
        table.base.base.QueryInterface = query_interface;
        table
    });
    // SAFETY: nobody else has the object yet, and the table lives as long as the library.
    unsafe { (*place).vtbl = table };
    object
}

unsafe extern "system" fn query_interface(
    this: *mut c_void,
    interface: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    if this.is_null() || interface.is_null() || object.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null; the runtime's identifiers need not be aligned.
    let wanted = unsafe { interface.read_unaligned() };
    let is_known = KNOWN.contains(&wanted);
    // SAFETY: the caller asks for an answer there, and it is not null.
    unsafe { object.write(if is_known { this } else { std::ptr::null_mut() }) };
    if !is_known {
        return HResult::E_NOINTERFACE.0;
    }
    // SAFETY: a live object.
    unsafe { sys::IUnknown::AddRef(this.cast()) };
    HResult::S_OK.0
}
