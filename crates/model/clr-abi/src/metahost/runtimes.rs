//! IEnumUnknown over the runtimes of a process.

use super::sys::{IEnumUnknown, IEnumUnknownVtbl, IID_IEnumUnknown};
use crate::Live;
use crate::enumerators::{Kind, Object, clone, enumerator, next, reset, skip};
use core::ffi::c_void;
use corprof::sys::{HRESULT, IUnknown, ULONG};
use corprof::{Guid, HResult};

/// An enumerator with one reference, which the caller owns. It takes over the reference on each object.
pub(super) fn loaded(objects: impl Iterator<Item = *mut IUnknown>, live: &Live) -> *mut IEnumUnknown {
    enumerator::<LoadedRuntimes>(objects.map(Reference).collect(), live)
}

/// A clone begins at the original's position, as COM specifies for IEnumXXXX.
enum LoadedRuntimes {}

impl Kind for LoadedRuntimes {
    type Item = Reference;
    type Interface = IEnumUnknown;
    type Vtbl = IEnumUnknownVtbl;
    const IID: Guid = IID_IEnumUnknown;
    const NULL_POINTER: HResult = HResult::E_POINTER;
    const CLONE_AT_START: bool = false;
    const VTABLE: &'static IEnumUnknownVtbl = &IEnumUnknownVtbl {
        base: Object::<LoadedRuntimes>::UNKNOWN,
        Next: next_object,
        Skip: skip::<LoadedRuntimes>,
        Reset: reset::<LoadedRuntimes>,
        Clone: clone::<LoadedRuntimes>,
    };
}

/// One reference on a live object.
#[repr(transparent)]
struct Reference(*mut IUnknown);

// SAFETY: the objects here count references atomically, and their servers are `Send` and `Sync`.
unsafe impl Send for Reference {}
// SAFETY: the objects here count references atomically, and their servers are `Sync`.
unsafe impl Sync for Reference {}

impl Clone for Reference {
    fn clone(&self) -> Reference {
        // SAFETY: `self` is a reference, which keeps the object alive.
        unsafe { IUnknown::AddRef(self.0) };
        Reference(self.0)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: releases the reference that `self` is.
        unsafe { IUnknown::Release(self.0) };
    }
}

/// Returns a reference with each pointer.
unsafe extern "system" fn next_object(
    this: *mut c_void,
    count: ULONG,
    items: *mut *mut IUnknown,
    fetched: *mut ULONG,
) -> HRESULT {
    if items.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: the caller's arguments, unchanged. A reference has the layout of its pointer.
    unsafe { next::<LoadedRuntimes>(this, count, items.cast(), fetched) }
}
