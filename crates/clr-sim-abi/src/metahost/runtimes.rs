//! IEnumUnknown over the runtimes of a process.

use super::sys::{IEnumUnknown, IEnumUnknownVtbl, IID_IEnumUnknown};
use crate::Live;
use crate::counted::Counted;
use crate::cursor::{Cursor, satisfied};
use core::ffi::c_void;
use corprof::HResult;
use corprof::sys::{HRESULT, IUnknown, ULONG};

type Runtimes = Counted<IEnumUnknownVtbl, Cursor<Reference>>;

const VTABLE: &IEnumUnknownVtbl =
    &IEnumUnknownVtbl { base: Runtimes::UNKNOWN, Next: next, Skip: skip, Reset: reset, Clone: clone };

/// An enumerator with one reference, which is the caller's; it takes the reference of each object.
pub(super) fn loaded(objects: impl Iterator<Item = *mut IUnknown>, live: &Live) -> *mut IEnumUnknown {
    let references = objects.map(Reference).collect();
    // SAFETY: the vtable is made for this type.
    unsafe { Runtimes::create(VTABLE, IID_IEnumUnknown, live, Cursor::new(references)) }.cast()
}

/// One reference on a live object.
struct Reference(*mut IUnknown);

// SAFETY: the objects here count their references atomically, and what they serve may be sent and shared.
unsafe impl Send for Reference {}
// SAFETY: as above.
unsafe impl Sync for Reference {}

impl Clone for Reference {
    fn clone(&self) -> Reference {
        // SAFETY: alive, for this is a reference on it.
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

unsafe extern "system" fn next(
    this: *mut c_void,
    count: ULONG,
    items: *mut *mut IUnknown,
    fetched: *mut ULONG,
) -> HRESULT {
    // SAFETY: called through the vtable of this very object.
    let Some(runtimes) = (unsafe { Runtimes::of(this) }) else {
        return HResult::E_POINTER.0;
    };
    if items.is_null() || (fetched.is_null() && count > 1) {
        return HResult::E_POINTER.0;
    }
    let taken = runtimes.inner().take(count as usize);
    for (index, item) in taken.iter().enumerate() {
        let given = core::mem::ManuallyDrop::new(item.clone());
        // SAFETY: the caller gives room for `count` pointers, and no more are taken.
        unsafe { items.add(index).write(given.0) };
    }
    if !fetched.is_null() {
        // SAFETY: the caller asks for an answer there, and it is not null.
        unsafe { fetched.write(taken.len() as u32) };
    }
    satisfied(taken.len(), count)
}

unsafe extern "system" fn skip(this: *mut c_void, count: ULONG) -> HRESULT {
    // SAFETY: called through the vtable of this very object.
    let runtimes = unsafe { Runtimes::of(this) };
    runtimes.map_or(HResult::E_POINTER.0, |runtimes| satisfied(runtimes.inner().take(count as usize).len(), count))
}

unsafe extern "system" fn reset(this: *mut c_void) -> HRESULT {
    // SAFETY: called through the vtable of this very object.
    let Some(runtimes) = (unsafe { Runtimes::of(this) }) else {
        return HResult::E_POINTER.0;
    };
    runtimes.inner().reset();
    HResult::S_OK.0
}

/// A copy that goes on where this one is, as COM says of IEnumXXXX.
unsafe extern "system" fn clone(this: *mut c_void, answer: *mut *mut IEnumUnknown) -> HRESULT {
    // SAFETY: called through the vtable of this very object.
    let Some(runtimes) = (unsafe { Runtimes::of(this) }) else {
        return HResult::E_POINTER.0;
    };
    if answer.is_null() {
        return HResult::E_POINTER.0;
    }
    let copy = runtimes.another(runtimes.inner().at_the_same_place());
    // SAFETY: the caller asks for an answer there, and it is not null.
    unsafe { answer.write(copy.cast()) };
    HResult::S_OK.0
}
