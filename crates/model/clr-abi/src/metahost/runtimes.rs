//! IEnumUnknown over the runtimes of a process.

use super::sys::{IEnumUnknown, IEnumUnknownVtbl, IID_IEnumUnknown};
use crate::Live;
use crate::enumerators::{Kind, Object, clone, enumerator, next, reset, skip};
use core::ffi::c_void;
use corprof::sys::{HRESULT, IUnknown, ULONG};
use corprof::{Guid, HResult};

/// An enumerator with one reference, which is the caller's; it takes the reference of each object.
pub(super) fn loaded(objects: impl Iterator<Item = *mut IUnknown>, live: &Live) -> *mut IEnumUnknown {
    enumerator::<LoadedRuntimes>(objects.map(Reference).collect(), live)
}

/// A copy goes on where the original is, as COM says of IEnumXXXX.
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

// SAFETY: the objects here count their references atomically, and what they serve may be sent and shared.
unsafe impl Send for Reference {}
// SAFETY: the objects here count their references atomically, and what they serve may be shared.
unsafe impl Sync for Reference {}

impl Clone for Reference {
    fn clone(&self) -> Reference {
        // SAFETY: `self` is a reference on the object, so it lives.
        unsafe { IUnknown::AddRef(self.0) };
        Reference(self.0)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: gives up this very reference.
        unsafe { IUnknown::Release(self.0) };
    }
}

/// Hands out a reference with each pointer.
unsafe extern "system" fn next_object(
    this: *mut c_void,
    count: ULONG,
    items: *mut *mut IUnknown,
    fetched: *mut ULONG,
) -> HRESULT {
    if items.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: the caller's arguments, unchanged; a reference is laid out as its pointer.
    unsafe { next::<LoadedRuntimes>(this, count, items.cast(), fetched) }
}
