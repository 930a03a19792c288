//! Small objects of the fake runtime that are handed out with one reference: an enumerator, and a module's metadata.

use super::{fake, note, write_text};
use core::ffi::c_void;
use corprof::{HResult, sys};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of modules that the enumerator has; more than two blocks.
pub const MODULES: usize = 150;

/// An enumerator of the modules 1 to [`MODULES`], or a module's metadata.
#[repr(C)]
struct Small {
    vtbl: *const c_void,
    references: AtomicU32,
    runtime: *mut c_void,
    position: AtomicU32,
}

fn hand_out(vtbl: *const c_void, runtime: *mut c_void) -> *mut c_void {
    let small = Small { vtbl, references: AtomicU32::new(1), runtime, position: AtomicU32::new(0) };
    Box::into_raw(Box::new(small)).cast()
}

/// # Safety
/// `this` is a live [`Small`].
unsafe fn small<'a>(this: *mut c_void) -> &'a Small {
    // SAFETY: the caller guarantees that `this` is a live `Small`.
    unsafe { &*this.cast::<Small>() }
}

unsafe extern "system" fn query_interface(_: *mut c_void, _: sys::REFIID, _: *mut *mut c_void) -> sys::HRESULT {
    HResult::E_NOINTERFACE.0
}

unsafe extern "system" fn add_ref(this: *mut c_void) -> u32 {
    // SAFETY: the caller passes a live object, and holds a reference to it.
    unsafe { small(this) }.references.fetch_add(1, Ordering::Relaxed) + 1
}

unsafe extern "system" fn release(this: *mut c_void) -> u32 {
    // SAFETY: the caller passes a live object, and holds a reference to it.
    let left = unsafe { small(this) }.references.fetch_sub(1, Ordering::Relaxed) - 1;
    if left == 0 {
        // SAFETY: `hand_out` made it as a box, and the last reference is gone.
        let gone = unsafe { Box::from_raw(this.cast::<Small>()) };
        // SAFETY: the runtime outlives what it hands out.
        unsafe { note(gone.runtime, "released") };
    }
    left
}

const UNKNOWN: sys::IUnknownVtbl =
    sys::IUnknownVtbl { QueryInterface: query_interface, AddRef: add_ref, Release: release };

static MODULE_ENUM: sys::ICorProfilerModuleEnumVtbl = sys::ICorProfilerModuleEnumVtbl {
    base: UNKNOWN,
    Skip: skip,
    Reset: reset,
    Clone: clone,
    GetCount: get_count,
    Next: next,
};

unsafe extern "system" fn skip(_: *mut c_void, _: u32) -> i32 {
    HResult::E_NOTIMPL.0
}

unsafe extern "system" fn reset(_: *mut c_void) -> i32 {
    HResult::E_NOTIMPL.0
}

unsafe extern "system" fn clone(_: *mut c_void, _: *mut *mut sys::ICorProfilerModuleEnum) -> i32 {
    HResult::E_NOTIMPL.0
}

unsafe extern "system" fn get_count(_: *mut c_void, count: *mut u32) -> i32 {
    // SAFETY: the caller passes a place for the answer.
    unsafe { count.write(MODULES as u32) };
    0
}

/// Answers S_FALSE at the end; fails where the runtime's number `fail_at` says.
unsafe extern "system" fn next(this: *mut c_void, asked: u32, ids: *mut usize, fetched: *mut u32) -> i32 {
    // SAFETY: the caller passes a live object, and holds a reference to it.
    let this = unsafe { small(this) };
    let position = this.position.load(Ordering::Relaxed);
    // SAFETY: the runtime outlives what it hands out.
    if unsafe { fake(this.runtime) }.number("fail_at").is_some_and(|at| position as usize >= at) {
        return HResult::CORPROF_E_PROFILER_DETACHING.0;
    }
    let given = asked.min(MODULES as u32 - position);
    for index in 0..given {
        // SAFETY: the index is below the room that the caller passes.
        unsafe { ids.add(index as usize).write((position + index + 1) as usize) };
    }
    // SAFETY: the caller passes a place for the answer.
    unsafe { fetched.write(given) };
    this.position.store(position + given, Ordering::Relaxed);
    i32::from(given < asked)
}

/// EnumModules.
pub unsafe extern "system" fn enum_modules(this: *mut c_void, made: *mut *mut sys::ICorProfilerModuleEnum) -> i32 {
    // SAFETY: `this` is the fake runtime whose table has this function.
    unsafe { note(this, "EnumModules") };
    let vtbl = (&raw const MODULE_ENUM).cast();
    // SAFETY: the caller passes a place for the answer.
    unsafe { made.write(hand_out(vtbl, this).cast()) };
    0
}

/// The slots of IMetaDataImport2 that the tests answer, by number; the others must not be called.
fn metadata_slots() -> &'static [*const (); 73] {
    let mut slots = [unexpected as *const (); 73];
    slots[0] = query_interface as *const ();
    slots[1] = add_ref as *const ();
    slots[2] = release as *const ();
    slots[3] = close_enum as *const ();
    slots[12] = get_type_def_props as *const ();
    slots[30] = get_method_props as *const ();
    slots[62] = get_nested_class_props as *const ();
    slots[65] = enum_generic_params as *const ();
    slots[66] = get_generic_param_props as *const ();
    Box::leak(Box::new(slots))
}

unsafe extern "system" fn unexpected(_: *mut c_void) -> i32 {
    HResult::E_UNEXPECTED.0
}

unsafe extern "system" fn close_enum(this: *mut c_void, _: sys::HCORENUM) {
    // SAFETY: the caller passes a live object; the fake runtime outlives it.
    unsafe { note(small(this).runtime, "CloseEnum") };
}

unsafe extern "system" fn get_type_def_props(
    _: *mut c_void,
    class: u32,
    text: *mut u16,
    capacity: u32,
    needed: *mut u32,
    flags: *mut u32,
    extends: *mut u32,
) -> i32 {
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { write_text(if class == 0x0200_0003 { "Inner`1" } else { "Space.Outer" }, capacity, needed, text) };
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { flags.write(if class == 0x0200_0003 { 2 } else { 1 }) };
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { extends.write(0x0100_0001) };
    0
}

unsafe extern "system" fn get_method_props(
    _: *mut c_void,
    _: u32,
    class: *mut u32,
    text: *mut u16,
    capacity: u32,
    needed: *mut u32,
    attributes: *mut u32,
    signature: *mut *const u8,
    length: *mut u32,
    _: *mut u32,
    _: *mut u32,
) -> i32 {
    static SIGNATURE: [u8; 3] = [0x20, 0, 1];
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { write_text("Run", capacity, needed, text) };
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { class.write(0x0200_0003) };
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { attributes.write(6) };
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { signature.write(SIGNATURE.as_ptr()) };
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { length.write(3) };
    0
}

unsafe extern "system" fn get_nested_class_props(_: *mut c_void, class: u32, enclosing: *mut u32) -> i32 {
    if class != 0x0200_0003 {
        return HResult::CLDB_E_RECORD_NOTFOUND.0;
    }
    // SAFETY: the caller passes a place for the answer.
    unsafe { enclosing.write(0x0200_0002) };
    0
}

unsafe extern "system" fn enum_generic_params(
    _: *mut c_void,
    cursor: *mut sys::HCORENUM,
    _: u32,
    tokens: *mut u32,
    _: u32,
    fetched: *mut u32,
) -> i32 {
    // SAFETY: the caller passes its own variable as the cursor.
    let is_first = unsafe { cursor.read() }.is_null();
    // SAFETY: the caller passes its own variable as the cursor.
    unsafe { cursor.write(core::ptr::dangling_mut()) };
    // SAFETY: the caller passes a place for the answer.
    unsafe { fetched.write(u32::from(is_first)) };
    // SAFETY: room for one at least.
    unsafe { tokens.write(0x2A00_0001) };
    i32::from(!is_first)
}

unsafe extern "system" fn get_generic_param_props(
    _: *mut c_void,
    _: u32,
    position: *mut u32,
    _: *mut u32,
    _: *mut u32,
    _: *mut u32,
    text: *mut u16,
    capacity: u32,
    needed: *mut u32,
) -> i32 {
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { write_text("TItem", capacity, needed, text) };
    // SAFETY: the caller passes a buffer of that capacity, and places for the answers.
    unsafe { position.write(0) };
    0
}

/// GetModuleMetaData: none for the module 404.
pub unsafe extern "system" fn get_module_metadata(
    this: *mut c_void,
    module: usize,
    _: u32,
    _: sys::REFIID,
    made: *mut *mut sys::IUnknown,
) -> i32 {
    if module == 404 {
        // SAFETY: the caller passes a place for the answer.
        unsafe { made.write(core::ptr::null_mut()) };
        return HResult::S_FALSE.0;
    }
    // SAFETY: the caller passes a place for the answer.
    unsafe { made.write(hand_out(metadata_slots().as_ptr().cast(), this).cast()) };
    0
}
