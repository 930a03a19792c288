//! Objects that the SDK does not make: a static one, one that wants a list even of nothing, and one that throws.

use corprof::sys;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};

/// Words of the static place.
const ROOM: usize = 64;
/// The slot of ObjectReferences.
const OBJECT_REFERENCES: usize = 52;
/// The slot of ModuleLoadFinished.
const MODULE_LOAD_FINISHED: usize = 14;
/// Slots of the newest callback.
const SLOTS: usize = size_of::<sys::ICorProfilerCallback11Vtbl>() / size_of::<usize>();

/// `_Unwind_Exception`: class, destructor, and words for the unwinder.
#[repr(align(16))]
struct UnwindException([u64; 8]);

struct Place(UnsafeCell<[usize; ROOM]>);

// SAFETY: `make_static` writes once, before any other thread has the object.
unsafe impl Sync for Place {}

static PLACE: Place = Place(UnsafeCell::new([0; ROOM]));

/// Moves a new object to a static place, with a reference that nobody releases.
pub fn make_static(object: *mut sys::IUnknown) -> *mut sys::IUnknown {
    // SAFETY: the object was just created, with a valid vtable.
    unsafe { sys::IUnknown::AddRef(object) };
    // SAFETY: the allocator of this library is the C library's, which made this object.
    let size = unsafe { libc::malloc_usable_size(object.cast::<c_void>()) };
    let bytes = size.min(size_of::<[usize; ROOM]>());
    let place: *mut sys::IUnknown = PLACE.0.get().cast();
    // SAFETY: both have that many bytes. Nobody uses the old object, and the new one is never freed: its count stays above 0.
    unsafe { std::ptr::copy_nonoverlapping(object.cast::<u8>(), place.cast::<u8>(), bytes) };
    place
}

/// Replaces the slot of ObjectReferences in an object's vtable.
pub fn want_every_list(object: *mut sys::IUnknown) {
    replace(object, OBJECT_REFERENCES, object_references as *const ());
}

/// Replaces the slot of ModuleLoadFinished in an object's vtable.
pub fn throw(object: *mut sys::IUnknown) {
    replace(object, MODULE_LOAD_FINISHED, module_load_finished as *const ());
}

fn replace(object: *mut sys::IUnknown, slot: usize, function: *const ()) {
    let vtable: *mut *const usize = object.cast();
    // SAFETY: the first word of the object is the address of a vtable with these slots.
    let mut slots: Vec<usize> = unsafe { std::slice::from_raw_parts(*vtable, SLOTS) }.to_vec();
    slots[slot] = function as usize;
    // SAFETY: the object was just created, and the new vtable is never freed.
    unsafe { *vtable = slots.leak().as_ptr() };
}

/// A C++ profiler that throws raises such an exception.
unsafe extern "C-unwind" fn module_load_finished(
    _this: *mut c_void,
    _module: sys::ModuleID,
    _: sys::HRESULT,
) -> sys::HRESULT {
    raise()
}

/// Raises an exception of another language.
pub fn raise() -> ! {
    unsafe extern "C-unwind" {
        fn _Unwind_RaiseException(exception: *mut u64) -> c_int;
    }
    let exception = Box::leak(Box::new(UnwindException([0; 8])));
    // SAFETY: as large and as aligned as the unwinder requires. Nobody catches it, which is the fault.
    unsafe { _Unwind_RaiseException(exception.0.as_mut_ptr()) };
    // SAFETY: takes no pointers. C++ ends the process if the unwinder finds no way.
    unsafe { libc::abort() }
}

unsafe extern "system" fn object_references(
    _this: *mut c_void,
    _object: sys::ObjectID,
    _class: sys::ClassID,
    _count: sys::ULONG,
    references: *const sys::ObjectID,
) -> sys::HRESULT {
    if references.is_null() {
        // SAFETY: takes no pointers. It ends the process, which is the fault.
        unsafe { libc::abort() };
    }
    0
}
