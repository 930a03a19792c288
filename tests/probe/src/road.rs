//! The probe as a profiler that writes down how the runtime reaches it: the class factory, the object, and the interfaces it asks for.

use corprof::{Guid, HResult, sys};
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The object's vtable, except for the first slot; and that slot.
static VTABLE: OnceLock<(sys::ICorProfilerCallback11Vtbl, QueryInterface)> = OnceLock::new();
/// The steps since the last attach began.
static STEPS: Mutex<String> = Mutex::new(String::new());

type QueryInterface = unsafe extern "system" fn(*mut c_void, sys::REFIID, *mut *mut c_void) -> sys::HRESULT;

/// The runtime asks for the class factory.
pub fn begins(interface: *const Guid) {
    STEPS.lock().unwrap_or_else(PoisonError::into_inner).clear();
    note("DllGetClassObject", interface);
}

/// The steps so far, each `NAME:INTERFACE`.
pub fn steps() -> String {
    STEPS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The runtime has got this new object: from now on the interfaces that it asks for are written down.
pub fn is_of(object: *mut sys::IUnknown) -> *mut sys::IUnknown {
    note("object", std::ptr::null());
    let place: *mut sys::ICorProfilerCallback11 = object.cast();
    let (table, _) = VTABLE.get_or_init(|| {
        // SAFETY: the object was just created, and has the vtable of the newest version. Only function pointers are copied.
        let mut table = unsafe { (*place).vtbl.read() };
        let root = (&raw mut table).cast::<sys::IUnknownVtbl>();
        // SAFETY: every vtable begins with that of IUnknown.
        let own = unsafe { std::mem::replace(&mut (*root).QueryInterface, query_interface) };
        (table, own)
    });
    // SAFETY: nobody else has the object yet, and the static table lives as long as the library.
    unsafe { (*place).vtbl = table };
    object
}

unsafe extern "system" fn query_interface(
    this: *mut c_void,
    interface: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    note("QueryInterface", interface);
    let Some((_, own)) = VTABLE.get() else { return HResult::E_UNEXPECTED.0 };
    // SAFETY: the runtime's own call, passed on to the object's own function.
    unsafe { own(this, interface, object) }
}

fn note(step: &str, interface: *const Guid) {
    let step = match interface.is_null() {
        true => format!("{step} "),
        // SAFETY: not null, so an identifier of the runtime, which need not be aligned.
        false => format!("{step}:{:08x} ", unsafe { interface.read_unaligned() }.data1),
    };
    STEPS.lock().unwrap_or_else(PoisonError::into_inner).push_str(&step);
}
