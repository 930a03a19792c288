//! Info as a COM object: a vtable and a server. It counts no references, as in the runtime.

use crate::info::VERSIONS;
use crate::panics::caught;
use crate::{Answer, InfoServer, Slot, code};
use core::ffi::c_void;
use corprof::{HResult, sys};

/// The runtime's Info object. Its owner frees it, whatever references a profiler holds.
///
/// CoreCLR does the same: `ProfToEEInterfaceImpl::AddRef` and `Release` answer 1 and count nothing, and the object is freed with the
/// profiler (<https://github.com/dotnet/runtime/blob/v9.0.0/src/coreclr/vm/proftoeeinterfaceimpl.cpp>).
#[repr(C)]
pub struct InfoObject<T> {
    vtbl: *const sys::ICorProfilerInfo15Vtbl,
    server: T,
}

// SAFETY: the vtable is a constant, and the server is `Send`.
unsafe impl<T: Send> Send for InfoObject<T> {}
// SAFETY: the vtable is a constant, and the server is `Sync`.
unsafe impl<T: Sync> Sync for InfoObject<T> {}

impl<T: InfoServer> InfoObject<T> {
    pub(crate) const UNKNOWN: sys::IUnknownVtbl =
        sys::IUnknownVtbl { QueryInterface: query_interface::<T>, AddRef: add_ref::<T>, Release: release::<T> };
    const SHARED: &'static sys::ICorProfilerInfo15Vtbl = &Self::VTABLE;

    /// Makes the object. It must outlive every call of the profiler.
    pub fn create(server: T) -> Box<Self> {
        Box::new(InfoObject { vtbl: Self::SHARED, server })
    }

    /// The argument for `Initialize` and `InitializeForAttach`.
    pub fn as_unknown(&self) -> *mut sys::IUnknown {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// Its server.
    pub fn server(&self) -> &T {
        &self.server
    }
}

/// One call of a slot of Info: enter, call, leave. If one of them panics, `panicked` gets the payload.
///
/// # Safety
/// `this` is null or a live [`InfoObject`] of this type.
pub(crate) unsafe fn serve<T: InfoServer>(
    this: *mut c_void,
    slot: Slot,
    call: impl FnOnce(&T) -> Answer,
) -> sys::HRESULT {
    if this.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null, so the caller guarantees a live object.
    let server = unsafe { &*this.cast::<InfoObject<T>>() }.server();
    let served = || {
        let answer = code(server.enter(slot).and_then(|()| call(server)));
        server.leave(slot, answer);
        answer
    };
    caught(served, |payload| server.panicked(slot, payload)).unwrap_or(HResult::E_UNEXPECTED).0
}

/// Reports an IUnknown call to the server, and returns the newest version that the server supports.
///
/// # Safety
/// `this` is null or a live [`InfoObject`] of this type.
unsafe fn called<T: InfoServer>(this: *mut c_void, slot: Slot) -> Option<u8> {
    // SAFETY: the caller guarantees null or a live object of this type.
    let server = unsafe { this.cast::<InfoObject<T>>().as_ref() }?.server();
    let tell = || {
        server.unknown(slot);
        server.version()
    };
    caught(tell, |payload| server.panicked(slot, payload))
}

unsafe extern "system" fn query_interface<T: InfoServer>(
    this: *mut c_void,
    riid: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    if this.is_null() || object.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { object.write_unaligned(core::ptr::null_mut()) };
    if riid.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: the profiler passes the object whose vtable it calls.
    let Some(newest) = (unsafe { called::<T>(this, Slot::QUERY_INTERFACE) }) else {
        return HResult::E_UNEXPECTED.0;
    };
    // SAFETY: not null; the caller's identifiers need not be aligned.
    let iid = unsafe { riid.read_unaligned() };
    let is_known = iid == sys::IID_IUnknown || VERSIONS.iter().take(usize::from(newest)).any(|known| *known == iid);
    if !is_known {
        return HResult::E_NOINTERFACE.0;
    }
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { object.write_unaligned(this) };
    HResult::S_OK.0
}

unsafe extern "system" fn add_ref<T: InfoServer>(this: *mut c_void) -> u32 {
    // SAFETY: the profiler passes the object whose vtable it calls.
    unsafe { called::<T>(this, Slot::ADD_REF) };
    1
}

unsafe extern "system" fn release<T: InfoServer>(this: *mut c_void) -> u32 {
    // SAFETY: the profiler passes the object whose vtable it calls.
    unsafe { called::<T>(this, Slot::RELEASE) };
    1
}
