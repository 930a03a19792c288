//! A profiler with no callback newer than its own: those made for 1.1 and 2.x (contract CMP-01, CMP-02, ATT-09).
//!
//! [`CallbackObject`] supports every version. This replaces its vtable by a copy whose `QueryInterface` asks the script first.

use super::Scripted;
use corprof::{CallbackObject, Guid, HResult, sys};
use std::ffi::c_void;
use std::sync::OnceLock;

/// By version, from 1 on.
const VERSIONS: [(Guid, &str); 11] = [
    (sys::IID_ICorProfilerCallback, "QueryInterface(ICorProfilerCallback)"),
    (sys::IID_ICorProfilerCallback2, "QueryInterface(ICorProfilerCallback2)"),
    (sys::IID_ICorProfilerCallback3, "QueryInterface(ICorProfilerCallback3)"),
    (sys::IID_ICorProfilerCallback4, "QueryInterface(ICorProfilerCallback4)"),
    (sys::IID_ICorProfilerCallback5, "QueryInterface(ICorProfilerCallback5)"),
    (sys::IID_ICorProfilerCallback6, "QueryInterface(ICorProfilerCallback6)"),
    (sys::IID_ICorProfilerCallback7, "QueryInterface(ICorProfilerCallback7)"),
    (sys::IID_ICorProfilerCallback8, "QueryInterface(ICorProfilerCallback8)"),
    (sys::IID_ICorProfilerCallback9, "QueryInterface(ICorProfilerCallback9)"),
    (sys::IID_ICorProfilerCallback10, "QueryInterface(ICorProfilerCallback10)"),
    (sys::IID_ICorProfilerCallback11, "QueryInterface(ICorProfilerCallback11)"),
];

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
    let known = VERSIONS.iter().position(|(iid, _)| *iid == asked);
    if let Some(index) = known {
        script.record().steps.push(VERSIONS[index].1);
    }
    if known.is_some_and(|index| index >= usize::from(script.version)) {
        // SAFETY: not null, so the caller gives a valid place for the answer.
        unsafe { object.write(std::ptr::null_mut()) };
        return HResult::E_NOINTERFACE.0;
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { (tables.original.QueryInterface)(this, riid, object) }
}
