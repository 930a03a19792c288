//! The probe as a version 2 profiler: its object implements ICorProfilerCallback2 and nothing newer.

use crate::profiler::Probe;
use corprof::{CallbackObject, Guid, HResult, sys};
use std::ffi::c_void;
use std::sync::OnceLock;

/// The interfaces of such a profiler.
const KNOWN: [Guid; 3] = [sys::IID_IUnknown, sys::IID_ICorProfilerCallback, sys::IID_ICorProfilerCallback2];

/// The object's vtable, except for the first slot.
static VTABLE: OnceLock<sys::ICorProfilerCallback2Vtbl> = OnceLock::new();

/// Creates one, with one reference.
pub fn create() -> *mut sys::IUnknown {
    let object = CallbackObject::create(Probe::default());
    let place: *mut sys::ICorProfilerCallback2 = object.cast();
    let table = VTABLE.get_or_init(|| {
        // SAFETY: the object was just created, and its vtable begins with those of all earlier versions. Only function pointers are
        // copied.
        let mut table = unsafe { (*place).vtbl.read() };
        table.base.base.QueryInterface = query_interface;
        table
    });
    // SAFETY: nobody else has the object yet, and the static table lives as long as the library.
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
    // SAFETY: not null; the runtime passes valid identifiers, which need not be aligned.
    let wanted = unsafe { interface.read_unaligned() };
    let is_known = KNOWN.contains(&wanted);
    // SAFETY: not null, so valid for the answer: the runtime guarantees it for QueryInterface.
    unsafe { object.write(if is_known { this } else { std::ptr::null_mut() }) };
    if !is_known {
        return HResult::E_NOINTERFACE.0;
    }
    // SAFETY: the caller has a reference on `this`, so the object is valid.
    unsafe { sys::IUnknown::AddRef(this.cast()) };
    HResult::S_OK.0
}
