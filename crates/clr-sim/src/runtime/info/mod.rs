//! ICorProfilerInfo as the model serves it: what is answered, what is refused when, and what is a crime.
//!
//! `slots.rs` has every slot, `when.rs` who may ask it when, and the other files what is answered, a theme each.

#![allow(non_snake_case, clippy::too_many_arguments, reason = "the signatures of corprof.idl")]

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
mod slots;
mod statics;
mod threads;
mod when;

pub(super) use functions::NO_ARGUMENTS;

use super::answers::{INSUFFICIENT_BUFFER, answer_list, answer_text, answer_whole_text, has_place, tell, wanted};
use super::code::{FunctionId, ModuleId};
use super::{Profiler, Runtime};
use crate::differences::Differences;
use crate::mutation;
use crate::schedule;
use corprof::HResult;
use std::sync::{Arc, Weak};

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

    pub(super) fn both(&self) -> Option<(Arc<Runtime>, Arc<Profiler>)> {
        Some((self.runtime.upgrade()?, self.profiler.upgrade()?))
    }

    /// Asks about an entity: it must live when the question is begun, and still when it is answered; in a real process the runtime
    /// follows the id meanwhile.
    pub(super) fn about<T>(&self, what: &str, look: impl Fn(&Runtime) -> Option<T>) -> Result<T, HResult> {
        let (runtime, _) = self.both().ok_or(HResult::E_UNEXPECTED)?;
        look(&runtime).ok_or_else(|| stale(&runtime, what))?;
        schedule::point();
        look(&runtime).ok_or_else(|| stale(&runtime, what))
    }

    /// What the runtime does where runtimes differ.
    fn differences(&self) -> Option<&'static Differences> {
        self.both().map(|(runtime, _)| runtime.differences())
    }

    /// The newest ICorProfilerInfo that it is.
    fn newest(&self) -> u8 {
        self.version
    }
}

/// A question that takes longer than this may outlive what it asks about (`agent-core/src/gate.rs`): nobody can wait for it for ever, since
/// it may itself wait for who unloads. Nanoseconds.
const LONGEST_QUESTION: u64 = 400_000_000;

pub(super) fn stale(runtime: &Runtime, what: &str) -> HResult {
    let is_excused = schedule::now() - runtime.call_begun() >= LONGEST_QUESTION;
    // Nor can anybody know who is not told of unloads.
    if !is_excused && !runtime.has_lost_track() && !mutation::is("CAT-09") {
        let what = format!("the runtime was asked about a stale id ({what}): an access violation");
        runtime.court.convict("CAT-09", what);
    }
    HResult::E_INVALIDARG
}

/// An id of 0 names nothing: the runtime looks for that, and for nothing else that is wrong with an id.
fn named(id: usize) -> Result<(), HResult> {
    if id == 0 { Err(HResult::E_INVALIDARG) } else { Ok(()) }
}

/// The answer or the refusal.
pub(super) fn code(result: Result<HResult, HResult>) -> HResult {
    result.unwrap_or_else(|refused| refused)
}

/// A text that ends with a zero.
///
/// # Safety
/// It does, or is null.
pub(super) unsafe fn text(units: *const u16) -> String {
    if units.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise: every unit up to the zero can be read.
    let length = (0..).take_while(|at| unsafe { *units.add(*at) } != 0).count();
    // SAFETY: as above.
    String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(units, length) })
}
