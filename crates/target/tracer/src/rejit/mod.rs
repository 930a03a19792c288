//! Traces single methods of a running process by ReJIT.
//!
//! [`profiler`] is the object that the runtime holds. For each request a [`session`] runs on a thread of its own: it searches the methods
//! ([`search`]), wraps their IL ([`rewriting`]) in calls of [`probes`], and restores them at the end. Between two sessions no thread runs.
//! A second library finds the first one by its [`rendezvous`].

mod connection;
mod machine;
pub(crate) mod metadata;
mod modules;
mod names;
mod origins;
mod pattern;
mod probes;
mod profiler;
mod records;
mod rendezvous;
mod replacements;
mod requests;
mod rewriting;
mod runtime;
mod search;
mod session;
mod shared;
mod threads;
mod waiting;

use corprof::{CallbackObject, Guid, sys};
use remora_wire::method_trace::{CLSID_HANDOVER, CLSID_TRACE};

/// Makes the object for a class of this mode.
pub(crate) fn make(class: &Guid) -> Option<*mut sys::IUnknown> {
    let is = |known: (u32, u16, u16, [u8; 8])| {
        *class == Guid { data1: known.0, data2: known.1, data3: known.2, data4: known.3 }
    };
    if is(CLSID_TRACE) {
        Some(CallbackObject::create(profiler::Tracer))
    } else if is(CLSID_HANDOVER) {
        Some(CallbackObject::create(rendezvous::Messenger))
    } else {
        None
    }
}
