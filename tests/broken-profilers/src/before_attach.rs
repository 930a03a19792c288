//! A profiler object that predates attach: it knows ICorProfilerCallback2 and nothing newer.

use crate::fault::{Fault, fault};
use crate::shared::never_return;
use corprof::{Guid, HResult, sys};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

/// One static object. A runtime that does not get ICorProfilerCallback3 calls no callbacks, so it has none.
#[repr(C)]
struct Object {
    unknown: sys::IUnknown,
    references: AtomicU32,
}

// SAFETY: nobody writes to the vtable after its initialisation, and the count is atomic.
unsafe impl Sync for Object {}

static VTABLE: sys::IUnknownVtbl =
    sys::IUnknownVtbl { QueryInterface: query_interface, AddRef: add_reference, Release: release };

static OBJECT: Object = Object { unknown: sys::IUnknown { vtbl: &raw const VTABLE }, references: AtomicU32::new(0) };

/// The object, with one more reference.
pub fn object() -> *mut sys::IUnknown {
    OBJECT.references.fetch_add(1, Ordering::SeqCst);
    (&raw const OBJECT.unknown).cast_mut()
}

unsafe extern "system" fn query_interface(
    this: *mut c_void,
    interface: sys::REFIID,
    out: *mut *mut c_void,
) -> sys::HRESULT {
    // SAFETY: the runtime passes a valid identifier, which need not be aligned.
    let interface: Guid = unsafe { interface.read_unaligned() };
    let known = [sys::IID_IUnknown, sys::IID_ICorProfilerCallback, sys::IID_ICorProfilerCallback2].contains(&interface);
    if !known && fault() == Fault::HangsInQuery {
        never_return();
    }
    let answer = if known { this } else { std::ptr::null_mut() };
    // SAFETY: `out` is valid for the answer: the runtime guarantees it for QueryInterface.
    unsafe { out.write(answer) };
    if !known {
        return HResult::E_NOINTERFACE.0;
    }
    OBJECT.references.fetch_add(1, Ordering::SeqCst);
    HResult::S_OK.0
}

unsafe extern "system" fn add_reference(_this: *mut c_void) -> u32 {
    OBJECT.references.fetch_add(1, Ordering::SeqCst) + 1
}

unsafe extern "system" fn release(_this: *mut c_void) -> u32 {
    OBJECT.references.fetch_sub(1, Ordering::SeqCst) - 1
}
