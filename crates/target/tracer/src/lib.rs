//! The tracer: the library that the runtime loads at its start, to call it at every entry and exit of chosen methods.
//!
//! # Purpose
//! `remora trace -- COMMAND`. The runtime's hooks give exact counts and times of calls. They count into shared memory
//! (`crates/protocol/call-table`), from which the recorder reads, even after the target's death.
//!
//! # Design constraints
//! core, std and libc only. The runtime accepts the hooks in Initialize only, and never detaches after that: this library stays, without a
//! thread or a descriptor of its own. The hooks neither allocate nor lock nor wait, and preserve the registers that the JIT expects
//! (`hooks.rs`). A callback that fails leaves a method without hooks, and counts it.
//!
//! # Rejected
//! Being a part of the agent: that one detaches, must be unmapped, and is a notification-only profiler, which may have no hooks.

mod allocations;
mod application;
mod arguments;
mod calibration;
mod clock;
mod fixed_modules;
mod functions;
mod hooks;
mod id_map;
mod parameters;
mod rejit;
mod state;
mod threads;
mod tracer;

use corprof::{CallbackObject, Guid, dll_get_class_object, sys};
use remora_wire::CLSID_TRACER;
use std::ffi::c_void;

/// The runtime calls this for the class of the profiler.
///
/// # Safety
/// The pointers are those of the COM protocol: two GUIDs and a place for an interface pointer.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn DllGetClassObject(
    class: *const Guid,
    interface: *const Guid,
    out: *mut *mut c_void,
) -> i32 {
    // SAFETY: the runtime passes the pointers that COM demands, and they go on unchanged.
    unsafe { dll_get_class_object(class, interface, out, make) }
}

fn make(class: &Guid) -> Option<*mut sys::IUnknown> {
    let (data1, data2, data3, data4) = CLSID_TRACER;
    let is_startup = *class == Guid { data1, data2, data3, data4 };
    if is_startup { Some(CallbackObject::create(tracer::Tracer)) } else { rejit::make(class) }
}
