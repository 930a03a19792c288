//! Small profilers with one fault each, for `remora lab` to find.
//!
//! # Purpose
//! One library contains all of them. Its file name, without `.so`, selects the fault (`src/fault.rs`); any other name selects none. A
//! test copies it under the wanted name, so a fault can occur even before a class is requested.
//!
//! # Design constraints
//! Except for its fault each is a correct profiler. It monitors modules, and leaves nothing. It requests its detach in a callback or on
//! its own thread with a reference on the library.
//!
//! # Rejected
//! A crate for each: fourteen libraries with the same frame.

mod altered;
mod before_attach;
mod ends;
mod fault;
mod habits;
mod own_metadata;
mod own_thread;
mod preloaded;
mod profiler;
mod refused_attach;
mod rejit;
mod seccomp;
mod shared;
mod signals;

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
        // SAFETY: the object was just created, with a valid vtable.
        unsafe { sys::IUnknown::AddRef(object) };
    }
    match fault() {
        Fault::StaticObject => Some(altered::make_static(object)),
        Fault::WantsList => {
            altered::want_every_list(object);
            Some(object)
        }
        Fault::Throws => {
            altered::throw(object);
            Some(object)
        }
        _ => Some(object),
    }
}

/// The entry point that the runtime looks for.
///
/// # Safety
/// Only the runtime calls this, with valid pointers.
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
    // SAFETY: the pointers are valid: the runtime guarantees it for DllGetClassObject.
    unsafe { dll_get_class_object(class, interface, object, make) }
}

/// The name that C++ gives the entry point without `extern "C"`. A test removes the real one.
#[unsafe(export_name = "_Z17DllGetClassObjectRK5_GUIDS1_PPv")]
extern "C" fn mangled_entry_point() {}

/// Runs at the load of the library.
extern "C-unwind" fn loaded() {
    match fault() {
        // SAFETY: takes no pointers. It ends the process, which is the fault.
        Fault::CrashesOnLoad => unsafe { libc::abort() },
        // SAFETY: takes no pointers. It ends the process at once, which is the fault.
        Fault::ExitsOnLoad => unsafe { libc::_exit(7) },
        Fault::HangsOnLoad => shared::never_return(),
        Fault::ThrowsOnLoad => altered::raise(),
        Fault::SlowOnLoad | Fault::CrashesOnSecondLoad => ends::loaded(),
        _ => preloaded::loaded(),
    }
}

/// Runs at the unload of the library.
extern "C" fn unloaded() {
    if matches!(fault(), Fault::HangsAtUnload | Fault::HangsAtOwnUnload | Fault::HangsAtExit) {
        shared::never_return();
    }
    ends::unloaded();
    refused_attach::unloaded();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOADED: extern "C" fn() = unloaded;

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C-unwind" fn() = loaded;
