//! The agent: the library in the target, with its export and all use of the operating system.
//!
//! # Purpose
//! The runtime loads this library, calls `DllGetClassObject` for a callback object, and calls that object. `session` decides what to do,
//! `sampler` runs in the signal handler, and the other files here use the operating system.
//!
//! # Design constraints
//! core, std and libc only. Before InitializeForAttach the agent starts and opens nothing, and allocates one small object: a refused attach
//! leaves that object behind. InitializeForAttach and ProfilerAttachComplete return at once. They run on the runtime's diagnostics thread.
//! That thread serves no other request meanwhile, and no evacuation counter protects it.
//! The agent touches no thread-local with a destructor on a thread of the runtime: it would pin the library.
//!
//! # Rejected
//! A static shared by two attaches. The table in `signal.rs` has a separate entry for each attach.

mod budget;
mod copy_answers;
mod copy_end;
mod faults;
mod followed_threads;
mod fork_guard;
mod futex;
mod heap_tracking;
mod host;
mod linux;
mod memory_headroom;
mod private_pages;
mod proc;
mod process_heap;
mod published;
mod roots;
mod sampled_thread;
mod sampler;
mod sandbox;
mod scheduling;
mod signal;
mod snapshot;
mod thread_pair;
mod threads;
mod unwind;
mod wake;

use corprof::{CallbackObject, Guid, dll_get_class_object, sys};
use host::Process;
use remora_session::Agent;
use remora_wire::{CLSID_MAIN, CLSID_NOTIFICATION};
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
    let is = |known: (u32, u16, u16, [u8; 8])| {
        *class == Guid { data1: known.0, data2: known.1, data3: known.2, data4: known.3 }
    };
    if is(CLSID_MAIN) {
        Some(CallbackObject::create(Agent::new(Process, false)))
    } else if is(CLSID_NOTIFICATION) {
        Some(CallbackObject::create(Agent::new(Process, true)))
    } else {
        None
    }
}
