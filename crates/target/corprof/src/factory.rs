//! The class factory behind `DllGetClassObject`, the one function that a profiler library must export.
//!
//! It has no effect beyond two small objects: on .NET 6+ it also runs for attaches that are refused afterwards,
//! and what it made is then never released.

use crate::callback::quietly;
use crate::{Guid, HResult, sys};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering, fence};

/// Makes the callback object of a class, with one reference, or `None` for a class that the library does not have.
pub type Make = fn(&Guid) -> Option<*mut sys::IUnknown>;

#[repr(C)]
struct ClassFactory {
    vtbl: *const sys::IClassFactoryVtbl,
    references: AtomicU32,
    class: Guid,
    make: Make,
}

static VTABLE: sys::IClassFactoryVtbl = sys::IClassFactoryVtbl {
    base: sys::IUnknownVtbl { QueryInterface: query_interface, AddRef: add_ref, Release: release },
    CreateInstance: create_instance,
    LockServer: lock_server,
};

/// The body of `DllGetClassObject`: a class factory for `rclsid` that makes objects with `make`.
///
/// A class that `make` does not know is refused when the runtime asks for the object, with the same code.
///
/// # Safety
/// The pointers are null or valid: identifiers to read, and a place for the answer.
pub unsafe fn dll_get_class_object(
    rclsid: *const Guid,
    riid: sys::REFIID,
    ppv: *mut *mut c_void,
    make: Make,
) -> sys::HRESULT {
    if rclsid.is_null() || riid.is_null() || ppv.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null; the runtime's identifiers need not be aligned.
    let class = unsafe { rclsid.read_unaligned() };
    let factory = Box::new(ClassFactory { vtbl: &VTABLE, references: AtomicU32::new(1), class, make });
    let factory = Box::into_raw(factory).cast::<c_void>();
    // SAFETY: a live object, and pointers that were checked.
    let answer = unsafe { query_interface(factory, riid, ppv) };
    // SAFETY: gives up the reference that this function made.
    unsafe { release(factory) };
    answer
}

unsafe extern "system" fn query_interface(
    this: *mut c_void,
    riid: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    if this.is_null() || object.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: the caller asks for an answer there, and it is not null.
    unsafe { object.write(core::ptr::null_mut()) };
    if riid.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null.
    let iid = unsafe { riid.read_unaligned() };
    if iid != sys::IID_IUnknown && iid != sys::IID_IClassFactory {
        return HResult::E_NOINTERFACE.0;
    }
    // SAFETY: a live factory.
    unsafe { add_ref(this) };
    // SAFETY: as above.
    unsafe { object.write(this) };
    HResult::S_OK.0
}

unsafe extern "system" fn add_ref(this: *mut c_void) -> u32 {
    if this.is_null() {
        return 0;
    }
    // SAFETY: the caller holds a reference, so the factory lives.
    let references = unsafe { &(*this.cast::<ClassFactory>()).references };
    references.fetch_add(1, Ordering::Relaxed) + 1
}

unsafe extern "system" fn release(this: *mut c_void) -> u32 {
    if this.is_null() {
        return 0;
    }
    let factory = this.cast::<ClassFactory>();
    // SAFETY: the caller holds the reference that it gives up here.
    let before = unsafe { (*factory).references.fetch_sub(1, Ordering::Release) };
    if before == 1 {
        fence(Ordering::Acquire);
        // SAFETY: the last reference is gone, and the factory was made as a box.
        drop(unsafe { Box::from_raw(factory) });
    }
    before.wrapping_sub(1)
}

unsafe extern "system" fn create_instance(
    this: *mut c_void,
    outer: *mut sys::IUnknown,
    riid: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    if this.is_null() || object.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: the caller asks for an answer there, and it is not null.
    unsafe { object.write(core::ptr::null_mut()) };
    if !outer.is_null() {
        return HResult::CLASS_E_NOAGGREGATION.0;
    }
    // SAFETY: a live factory, of which two fields are copied.
    let (class, make) = unsafe { ((*this.cast::<ClassFactory>()).class, (*this.cast::<ClassFactory>()).make) };
    let made = match quietly(|| make(&class)) {
        Some(Some(made)) if !made.is_null() => made,
        Some(_) => return HResult::CLASS_E_CLASSNOTAVAILABLE.0,
        None => return HResult::E_FAIL.0,
    };
    // SAFETY: `make` gave a live object with one reference.
    let answer = unsafe { sys::IUnknown::QueryInterface(made, riid, object) };
    // SAFETY: gives up the reference of `make`; the answer, if there is one, holds its own.
    unsafe { sys::IUnknown::Release(made) };
    answer
}

/// Libraries of the runtime are not unloaded by idleness, so a lock on them means nothing.
unsafe extern "system" fn lock_server(_this: *mut c_void, _lock: sys::BOOL) -> sys::HRESULT {
    HResult::S_OK.0
}
