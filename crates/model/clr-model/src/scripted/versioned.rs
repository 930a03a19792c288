//! A profiler with no callback newer than its own: those made for 1.1 and 2.x (contract CMP-01, CMP-02, ATT-09).
//!
//! [`CallbackObject`] supports every version. This replaces its vtable by a copy whose `QueryInterface` asks the script first.

use super::Scripted;
use corprof::{CallbackObject, HResult, sys};
use std::ffi::c_void;
use std::sync::OnceLock;

/// The original vtable's first function, and the copy.
struct Tables {
    original: sys::IUnknownVtbl,
    copy: sys::ICorProfilerCallback11Vtbl,
}

static TABLES: OnceLock<Tables> = OnceLock::new();

/// Makes the object of a script, with one reference.
pub(super) fn create(profiler: Scripted) -> *mut sys::IUnknown {
    let object = CallbackObject::create(profiler);
    let place = object.cast::<*const sys::ICorProfilerCallback11Vtbl>();
    let tables = TABLES.get_or_init(|| {
        // SAFETY: the object was just made, and begins with the pointer to its vtable.
        let original = unsafe { *place };
        // SAFETY: a vtable is plain function pointers, so a copy of it is one.
        let mut copy = unsafe { original.read() };
        let unknown = (&raw mut copy).cast::<sys::IUnknownVtbl>();
        // SAFETY: the vtable of the last interface begins with that of IUnknown.
        let kept = unsafe { unknown.read() };
        // SAFETY: the vtable of the last interface begins with that of IUnknown; no other code has this copy yet.
        unsafe { (*unknown).QueryInterface = query_interface };
        Tables { original: kept, copy }
    });
    // SAFETY: no other code has the object yet; the copy is never freed.
    unsafe { place.write(&raw const tables.copy) };
    object
}

/// Records the query, and forwards it if the script's version supports the interface.
unsafe extern "system" fn query_interface(
    this: *mut c_void,
    riid: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    let (Some(tables), false) = (TABLES.get(), this.is_null() || riid.is_null() || object.is_null()) else {
        return HResult::E_POINTER.0;
    };
    // SAFETY: not null; identifiers need not be aligned.
    let asked = unsafe { riid.read_unaligned() };
    // SAFETY: only objects of scripts get this vtable, and the caller holds a reference.
    let script = &unsafe { CallbackObject::<Scripted>::profiler(this.cast()) }.script;
    let mut versions = sys::INTERFACES.iter().filter(|one| one.name.starts_with("ICorProfilerCallback")).zip(1..);
    if let Some((interface, version)) = versions.find(|(one, _)| one.iid == asked) {
        script.record().steps.push(interface.name);
        if version > script.version {
            // SAFETY: not null, so the caller gives a valid place for the answer.
            unsafe { object.write(std::ptr::null_mut()) };
            return HResult::E_NOINTERFACE.0;
        }
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { (tables.original.QueryInterface)(this, riid, object) }
}
