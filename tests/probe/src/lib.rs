//! A profiler controlled by a test: at each important step it asks the test what to do, on the thread of that step.
//!
//! # Purpose
//! Shows the behaviour of live runtimes where their documentation only claims it (contract.md, the column of the runtimes). Inside a
//! callback the probe connects to the test's Unix socket and sends its place. The test orders calls into the runtime, gets each answer,
//! and sets the callback's return code. So every test is a handshake, and nothing depends on time.
//!
//! # Design constraints
//! - `REMORA_PROBE_SOCKET` in the target's environment names the socket, so the client data is free for tests.
//! - It leaves no trace, as every profiler should: no thread of the standard library, and no thread-local with a destructor. Its own
//!   thread, which requests the detach, has its own reference on the library until the C library's code ends it.
//! - It makes every ordered call, also those that the safe layer of `corprof` refuses: tests check the runtime's refusal.
//!
//! # Rejected
//! - Verdicts: it reports codes and ids, and the tests know the expected ones.
//! - Surviving misuse: a call into a runtime that has already detached the probe crashes, as it should.

mod answers;
mod calls;
mod dispenser;
mod hooks_with_info;
mod journal;
mod metadata;
mod metadata_contents;
mod metadata_tables;
mod old;
mod open_metadata;
mod orders;
mod own_thread;
mod profiler;
mod questions;
mod rejit;
mod road;
mod seat;
mod shared;
// The agent's own way to read the heap.
#[allow(dead_code, reason = "a probe walks in copies alone")]
#[path = "../../../crates/target/agent/src/process_heap.rs"]
mod process_heap;
mod token_lists;
mod tokens;
mod unloading;
mod witness;

use corprof::{CallbackObject, Guid, dll_get_class_object, sys};
use std::ffi::c_void;

/// The class of a profiler for every runtime.
const CLASS: Guid = Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0001);
/// The class of a profiler that knows no newer interfaces than version 2 of the .NET Framework.
const OLD_CLASS: Guid = Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0002);
/// The class of a notification-only profiler.
const NOTIFIED_CLASS: Guid = Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0003);
/// The class of a second main profiler.
const OTHER_CLASS: Guid = Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0004);
/// The class of a profiler that writes down how the runtime reaches it.
const ROAD_CLASS: Guid = Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0005);

fn make(class: &Guid) -> Option<*mut sys::IUnknown> {
    match *class {
        CLASS | OTHER_CLASS => Some(CallbackObject::create(profiler::Probe::default())),
        OLD_CLASS => Some(old::create()),
        ROAD_CLASS => Some(road::is_of(CallbackObject::create(profiler::Probe::default()))),
        NOTIFIED_CLASS => Some(CallbackObject::create(profiler::Probe::only_notified())),
        _ => None,
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
    road::begins(interface);
    // SAFETY: the pointers are valid: the runtime guarantees it for DllGetClassObject.
    unsafe { dll_get_class_object(class, interface, object, make) }
}
