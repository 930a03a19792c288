//! Small profilers with one sin each, for `remora lab` to find.
//!
//! # Purpose
//! One library is all of them: the name of its file, without `.so`, is the sin (`src/sin.rs`); under any other name it has none. So a
//! test copies it under the name that it wants, and a sin may be committed before any class is asked for.
//!
//! # Design constraints
//! But for its sin each is an honest profiler: it watches modules, asks for its detach in a callback or on a thread of its own that holds
//! the library, and leaves nothing.
//!
//! # Rejected
//! A crate for each: fourteen libraries with the same frame.

mod before_attach;
mod own_thread;
mod profiler;
mod sin;

use corprof::{CallbackObject, Guid, HResult, dll_get_class_object, sys};
use profiler::Profiler;
use sin::{Sin, sin};
use std::ffi::c_void;

fn make(_class: &Guid) -> Option<*mut sys::IUnknown> {
    if sin() == Sin::RefusesInstance {
        return None;
    }
    if matches!(sin(), Sin::IsTooOld | Sin::HangsInQuery) {
        return Some(before_attach::object());
    }
    let object = CallbackObject::create(Profiler::default());
    if sin() == Sin::KeepsReference {
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
    if sin() == Sin::RefusesClass {
        return HResult::E_NOINTERFACE.0;
    }
    // SAFETY: the runtime's own pointers, passed on.
    unsafe { dll_get_class_object(class, interface, object, make) }
}

/// Runs when the library is loaded.
extern "C" fn loaded() {
    match sin() {
        // SAFETY: ends the process, which is the sin.
        Sin::CrashesOnLoad => unsafe { libc::abort() },
        // SAFETY: as above.
        Sin::ExitsOnLoad => unsafe { libc::_exit(7) },
        Sin::HangsOnLoad => profiler::never_return(),
        _ => {}
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
