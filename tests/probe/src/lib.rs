//! A profiler that decides nothing: at each step that matters it asks the test outside what to do, on the very thread of that step.
//!
//! # Purpose
//! To see what live runtimes do, where the documents about them only say so (contract.md, the column of the runtimes).
//! Inside a callback the probe connects to the test's Unix socket and says where it is; the test has it call the runtime from there,
//! learns each answer, and says with what code the callback returns. So every test is a handshake, and nothing depends on time.
//!
//! # Design constraints
//! - The socket is named by `REMORA_PROBE_SOCKET` in the target's environment, so that the client data is free to be anything.
//! - It goes without a trace, as every profiler should: no thread of the standard library, no thread-local with a destructor,
//!   and a thread of its own that asks for the detach holds its own reference on the library until the C library's code ends it.
//! - It calls whatever it is told to call, also what the safe layer of `corprof` refuses: to be refused by the runtime is the test.
//!
//! # Rejected
//! - Judging: it reports codes and ids, and the tests know what they should be.
//! - Surviving misuse: a test that orders a call into a runtime that has already let the probe go gets a crash, as it should.

mod calls;
mod journal;
mod metadata;
mod old;
mod orders;
mod own_thread;
mod profiler;
mod questions;
mod seat;
// How the agent itself reads the heap.
#[allow(dead_code, reason = "a probe walks in copies alone")]
#[path = "../../../crates/target/agent/src/process_heap.rs"]
mod process_heap;
mod token_lists;
mod unloading;
mod witness;

use corprof::{CallbackObject, Guid, dll_get_class_object, sys};
use std::ffi::c_void;

/// The class of a profiler for every runtime.
const CLASS: Guid = Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0001);
/// The class of one that knows no newer interface than those of version 2 of the .NET Framework.
const OLD_CLASS: Guid = Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0002);
/// The class of one that is only notified.
const NOTIFIED_CLASS: Guid = Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0003);
/// The class of another one like the first.
const OTHER_CLASS: Guid = Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0004);

fn make(class: &Guid) -> Option<*mut sys::IUnknown> {
    match *class {
        CLASS | OTHER_CLASS => Some(CallbackObject::create(profiler::Probe::default())),
        OLD_CLASS => Some(old::create()),
        NOTIFIED_CLASS => Some(CallbackObject::create(profiler::Probe::only_notified())),
        _ => None,
    }
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
    // SAFETY: the runtime's own pointers, passed on.
    unsafe { dll_get_class_object(class, interface, object, make) }
}
