//! Small profilers with one fault each, for `remora lab` to find.
//!
//! # Purpose
//! One library is all of them: the name of its file, without `.so`, is the fault (`src/fault.rs`); under any other name it has none. So a
//! test copies it under the name that it wants, and a fault may be committed before any class is asked for.
//!
//! # Design constraints
//! But for its fault each is an honest profiler: it watches modules, asks for its detach in a callback or on a thread of its own that holds
//! the library, and leaves nothing.
//!
//! # Rejected
//! A crate for each: fourteen libraries with the same frame.

mod before_attach;
mod fault;
mod own_thread;
mod profiler;
mod shared;

use corprof::{CallbackObject, Guid, HResult, dll_get_class_object, sys};
use fault::{Fault, fault};
use profiler::Profiler;
use std::ffi::c_void;

fn make(_class: &Guid) -> Option<*mut sys::IUnknown> {
    if fault() == Fault::RefusesInstance {
        return None;
    }
    if matches!(fault(), Fault::IsTooOld | Fault::HangsInQuery) {
        return Some(before_attach::object());
    }
    let object = CallbackObject::create(Profiler::default());
    if fault() == Fault::KeepsReference {
        // SAFETY: the object that was just made.
        unsafe { sys::IUnknown::AddRef(object) };
    }
    Some(object)
}

/// What the runtime looks for in the library.
///
/// # Safety
/// Called by the runtime, with pointers that are valid.
#[allow(non_snake_case, reason = "the name is the runtime's")]
#[unsafe(no_mangle)]
pub unsafe extern "system" fn DllGetClassObject(
    class: *const Guid,
    interface: *const Guid,
    object: *mut *mut c_void,
) -> i32 {
    if fault() == Fault::RefusesClass {
        return HResult::E_NOINTERFACE.0;
    }
    // SAFETY: the runtime's own pointers, passed on.
    unsafe { dll_get_class_object(class, interface, object, make) }
}

/// Runs when the library is loaded.
extern "C" fn loaded() {
    match fault() {
        // SAFETY: ends the process, which is the fault.
        Fault::CrashesOnLoad => unsafe { libc::abort() },
        // SAFETY: ends the process at once, which is the fault.
        Fault::ExitsOnLoad => unsafe { libc::_exit(7) },
        Fault::HangsOnLoad => profiler::never_return(),
        _ => {}
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
