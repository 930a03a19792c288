//! The COM object that the runtime holds: a vtable, a reference count, and the profiler.
//!
//! The newest interface's vtable begins with those of all earlier ones, so one object implements every version.

use super::slots::{CALLBACK_IIDS, ProfilerCallback};
use crate::panics::quietly;
use crate::{Guid, HResult, sys};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering, fence};

/// A profiler as a COM object, up to ICorProfilerCallback11.
#[repr(C)]
pub struct CallbackObject<T> {
    vtbl: *const sys::ICorProfilerCallback11Vtbl,
    references: AtomicU32,
    profiler: T,
}

impl<T: ProfilerCallback> CallbackObject<T> {
    pub(super) const QUERY_INTERFACE: unsafe extern "system" fn(
        *mut c_void,
        sys::REFIID,
        *mut *mut c_void,
    ) -> sys::HRESULT = query_interface;
    pub(super) const ADD_REF: unsafe extern "system" fn(*mut c_void) -> u32 = add_ref::<T>;
    pub(super) const RELEASE: unsafe extern "system" fn(*mut c_void) -> u32 = release::<T>;
    pub(super) const UNKNOWN: sys::IUnknownVtbl =
        sys::IUnknownVtbl { QueryInterface: Self::QUERY_INTERFACE, AddRef: Self::ADD_REF, Release: Self::RELEASE };
    const SHARED: &'static sys::ICorProfilerCallback11Vtbl = &Self::VTABLE;

    /// Makes the object with one reference, which belongs to the caller.
    pub fn create(profiler: T) -> *mut sys::IUnknown {
        let object = CallbackObject { vtbl: Self::SHARED, references: AtomicU32::new(1), profiler };
        Box::into_raw(Box::new(object)).cast()
    }

    /// The profiler inside an object that [`create`](Self::create) made.
    ///
    /// # Safety
    /// `object` came from `create` of this very type, and a reference on it is held while the result is used.
    pub unsafe fn profiler<'a>(object: *mut sys::IUnknown) -> &'a T {
        // SAFETY: the caller guarantees the object's type, and holds a reference on it.
        unsafe { &(*object.cast::<Self>()).profiler }
    }
}

/// Implements IUnknown and every ICorProfilerCallback: the object's address is the pointer for all of them.
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
    // SAFETY: not null, so the COM caller guarantees a readable identifier. The runtime's identifiers need not be aligned.
    let iid: Guid = unsafe { riid.read_unaligned() };
    if iid != sys::IID_IUnknown && !CALLBACK_IIDS.iter().any(|(known, _)| *known == iid) {
        return HResult::E_NOINTERFACE.0;
    }
    // SAFETY: the caller holds a reference, so `this` is live; its vtable begins with IUnknown.
    unsafe { sys::IUnknown::AddRef(this.cast()) };
    // SAFETY: `object` is not null and was written above.
    unsafe { object.write(this) };
    HResult::S_OK.0
}

/// Adds a reference. Relaxed, because the caller holds one already.
unsafe extern "system" fn add_ref<T>(this: *mut c_void) -> u32 {
    if this.is_null() {
        return 0;
    }
    // SAFETY: the caller holds a reference, so the object is live.
    let references = unsafe { &(*this.cast::<CallbackObject<T>>()).references };
    references.fetch_add(1, Ordering::Relaxed) + 1
}

/// Releases a reference; the last one frees the object. Takes a raw pointer, because no `&self` may outlive the free.
unsafe extern "system" fn release<T>(this: *mut c_void) -> u32 {
    if this.is_null() {
        return 0;
    }
    let object = this.cast::<CallbackObject<T>>();
    // SAFETY: the caller gives up its reference here, so the object is live until the count is changed.
    let before = unsafe { (*object).references.fetch_sub(1, Ordering::Release) };
    if before == 1 {
        // Everything that other threads did with the object happens before the free.
        fence(Ordering::Acquire);
        // SAFETY: the last reference is gone, and `create` made the object as a box.
        let object = unsafe { Box::from_raw(object) };
        let _ = quietly(move || drop(object));
    }
    before.wrapping_sub(1)
}
