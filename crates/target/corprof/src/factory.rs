//! The class factory behind `DllGetClassObject`, the one function that a profiler library must export.
//!
//! It only makes two small objects, because on .NET 6+ it also runs for attaches that are refused later. Its object is then leaked.

use crate::panics::quietly;
use crate::{Guid, HResult, sys};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering, fence};

/// Makes the callback object of a class, with one reference; `None` for an unknown class.
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
/// For a class unknown to `make`, the factory refuses later, when the runtime requests the object, with the same code.
///
/// # Safety
/// The pointers are null or valid: identifiers to read, and a place for the interface pointer.
pub unsafe fn dll_get_class_object(
    rclsid: *const Guid,
    riid: sys::REFIID,
    ppv: *mut *mut c_void,
    make: Make,
) -> sys::HRESULT {
    if rclsid.is_null() || riid.is_null() || ppv.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: the pointer is not null, so the caller guarantees that it is readable. The runtime's identifiers need not be aligned.
    let class = unsafe { rclsid.read_unaligned() };
    let factory = Box::new(ClassFactory { vtbl: &VTABLE, references: AtomicU32::new(1), class, make });
    let factory = Box::into_raw(factory).cast::<c_void>();
    // SAFETY: `factory` is a live object made above; the caller guarantees `riid` and `ppv`, which are not null.
    let answer = unsafe { query_interface(factory, riid, ppv) };
    // SAFETY: releases the one reference that this function made.
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
    // SAFETY: not null, so the COM caller guarantees a writable place.
    unsafe { object.write(core::ptr::null_mut()) };
    if riid.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null, so the COM caller guarantees a readable identifier.
    let iid = unsafe { riid.read_unaligned() };
    if iid != sys::IID_IUnknown && iid != sys::IID_IClassFactory {
        return HResult::E_NOINTERFACE.0;
    }
    // SAFETY: the caller holds a reference on this factory, so it is live.
    unsafe { add_ref(this) };
    // SAFETY: `object` is not null and was written above.
    unsafe { object.write(this) };
    HResult::S_OK.0
}

unsafe extern "system" fn add_ref(this: *mut c_void) -> u32 {
    if this.is_null() {
        return 0;
    }
    // SAFETY: the caller holds a reference, so the factory is live.
    let references = unsafe { &(*this.cast::<ClassFactory>()).references };
    references.fetch_add(1, Ordering::Relaxed) + 1
}

unsafe extern "system" fn release(this: *mut c_void) -> u32 {
    if this.is_null() {
        return 0;
    }
    let factory = this.cast::<ClassFactory>();
    // SAFETY: the caller gives up its reference here, so the factory is live until the count is changed.
    let before = unsafe { (*factory).references.fetch_sub(1, Ordering::Release) };
    if before == 1 {
        fence(Ordering::Acquire);
        // SAFETY: the last reference is gone, and `dll_get_class_object` made the factory as a box.
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
    // SAFETY: not null, so the COM caller guarantees a writable place.
    unsafe { object.write(core::ptr::null_mut()) };
    if !outer.is_null() {
        return HResult::CLASS_E_NOAGGREGATION.0;
    }
    // SAFETY: the caller holds a reference, so the factory is live; both fields are `Copy`.
    let (class, make) = unsafe { ((*this.cast::<ClassFactory>()).class, (*this.cast::<ClassFactory>()).make) };
    let made = match quietly(|| make(&class)) {
        Some(Some(made)) if !made.is_null() => made,
        Some(_) => return HResult::CLASS_E_CLASSNOTAVAILABLE.0,
        None => return HResult::E_FAIL.0,
    };
    // SAFETY: `make` returned a live object with one reference; the COM caller guarantees `riid` and `object`.
    let answer = unsafe { sys::IUnknown::QueryInterface(made, riid, object) };
    // SAFETY: releases the reference of `make`; the returned interface pointer, if any, holds its own.
    unsafe { sys::IUnknown::Release(made) };
    answer
}

/// The runtime never unloads an idle library, so a lock has no effect.
unsafe extern "system" fn lock_server(_this: *mut c_void, _lock: sys::BOOL) -> sys::HRESULT {
    HResult::S_OK.0
}
