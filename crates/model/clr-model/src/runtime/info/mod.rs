//! ICorProfilerInfo of the model: its answers, its refusals, and the profiler's faults.
//!
//! `serve!` forwards every slot to the method of the same name. `when.rs` decides when a call is allowed. The other files have the answers,
//! by topic.

#![allow(non_snake_case, reason = "the arguments have the names of corprof.idl")]

mod bodies;
mod classes;
mod code;
mod event_pipe;
mod functions;
mod heap;
mod hooks;
mod mask;
mod modules;
mod objects;
mod process;
mod statics;
mod threads;
mod when;

pub(super) use functions::NO_ARGUMENTS;

use super::answers::{
    INSUFFICIENT_BUFFER, answer_list, answer_text, answer_whole_text, answered, has_place, wanted, write_answers,
};
use super::code::{FunctionId, ModuleId};
use super::{Profiler, Runtime};
use crate::lab::monitor;
use crate::mutation;
use crate::schedule;
use corprof::HResult;
use remora_clr_abi::info::args;
use remora_clr_abi::{Answer, InfoServer, Slot};
use std::any::Any;
use std::sync::{Arc, Weak};

const DONE: Answer = Ok(HResult::S_OK);

/// Forwards every slot of ICorProfilerInfo to the server's own method of that name.
macro_rules! serve {
    ($($slot:ident: $arguments:ident;)*) => {
        impl InfoServer for Server {
            fn version(&self) -> u8 {
                self.version
            }

            fn enter(&self, slot: Slot) -> Result<(), HResult> {
                self.admit(slot)
            }

            fn leave(&self, slot: Slot, answer: HResult) {
                monitor::answered(slot.name, answer);
            }

            fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {
                if let Ok(runtime) = self.runtime() {
                    runtime.faults.model_panicked(slot.name, &*payload);
                }
            }

            $(
                unsafe fn $slot(&self, args: args::$arguments) -> Answer {
                    // SAFETY: the profiler's arguments, unchanged. An inherent method has precedence over one of a trait.
                    unsafe { Server::$slot(self, args) }
                }
            )*
        }
    };
}

remora_clr_abi::for_each_info_slot!(serve);

/// The server behind one profiler's Info.
pub struct Server {
    runtime: Weak<Runtime>,
    profiler: Weak<Profiler>,
    version: u8,
}

impl Server {
    pub(super) fn new(runtime: &Arc<Runtime>, profiler: &Arc<Profiler>) -> Server {
        let version = runtime.info_version();
        Server { runtime: Arc::downgrade(runtime), profiler: Arc::downgrade(profiler), version }
    }

    /// The runtime and the calling profiler.
    pub(super) fn both(&self) -> Result<(Arc<Runtime>, Arc<Profiler>), HResult> {
        Ok((self.runtime()?, self.profiler.upgrade().ok_or(HResult::E_UNEXPECTED)?))
    }

    /// A call that the runtime decides for the calling profiler.
    fn with_both(&self, call: impl FnOnce(&Arc<Runtime>, &Arc<Profiler>) -> HResult) -> Answer {
        let (runtime, profiler) = self.both()?;
        Ok(call(&runtime, &profiler))
    }

    pub(super) fn runtime(&self) -> Result<Arc<Runtime>, HResult> {
        self.runtime.upgrade().ok_or(HResult::E_UNEXPECTED)
    }

    /// Looks up an entity of a kind that must be alive when the call begins and when it is answered. A real runtime follows the id in between.
    pub(super) fn about<T>(&self, kind: &str, what: &str, look: impl Fn(&Runtime) -> Option<T>) -> Result<T, HResult> {
        let runtime = self.runtime()?;
        look(&runtime).ok_or_else(|| stale(&runtime, kind, what))?;
        schedule::point();
        look(&runtime).ok_or_else(|| stale(&runtime, kind, what))
    }
}

/// A call that takes longer may outlive its subject (`crates/target/session/src/unload_barrier.rs`). An unload cannot wait for it forever,
/// since the call may wait for the unloading thread. Nanoseconds.
const LONGEST_QUESTION: u64 = 400_000_000;

/// The answer to a call with an id of this kind that names nothing.
pub(super) fn stale(runtime: &Runtime, kind: &str, call: &str) -> HResult {
    let is_excused = schedule::now() - runtime.call_begun() >= LONGEST_QUESTION;
    // A profiler without unload callbacks cannot know.
    if !is_excused && !runtime.has_lost_track() && !mutation::is("CAT-09") {
        let what = format!(
            "the runtime was asked about a {kind} that is not there, or not any more ({call}): an access violation"
        );
        runtime.faults.report("CAT-09", what);
    }
    HResult::E_INVALIDARG
}

/// An id of 0 is invalid. The runtime checks for this, and for no other invalid id.
fn named(id: usize) -> Result<(), HResult> {
    invalid_if(id == 0)
}

/// Ends a method with this code if `is_refused`.
pub(super) fn refuse_if(is_refused: bool, code: HResult) -> Result<(), HResult> {
    if is_refused { Err(code) } else { Ok(()) }
}

/// The same with the code for an invalid argument.
pub(super) fn invalid_if(is_invalid: bool) -> Result<(), HResult> {
    refuse_if(is_invalid, HResult::E_INVALIDARG)
}

/// A list of the profiler; empty if null. It need not be aligned: the processors of .NET read any address.
///
/// # Safety
/// It is null or has `count` items.
pub(super) unsafe fn list<T: Copy>(items: *const T, count: u32) -> Vec<T> {
    let count = if items.is_null() { 0 } else { count as usize };
    // SAFETY: not null, and the caller guarantees the length.
    (0..count).map(|at| unsafe { items.add(at).read_unaligned() }).collect()
}

/// Bytes of the profiler; none if null.
///
/// # Safety
/// The address is null or has `count` bytes, until the call returns.
pub(super) unsafe fn bytes<'a>(bytes: *const u8, count: u32) -> &'a [u8] {
    // SAFETY: not null, and the caller guarantees the length.
    if bytes.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(bytes, count as usize) } }
}

/// A text that ends with a zero.
///
/// # Safety
/// It is null or ends with a zero.
pub(super) unsafe fn text(units: *const u16) -> String {
    if units.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees a zero at the end, so every unit before it can be read.
    let units = (0..).map(|at| unsafe { units.add(at).read_unaligned() });
    String::from_utf16_lossy(&units.take_while(|unit| *unit != 0).collect::<Vec<u16>>())
}
