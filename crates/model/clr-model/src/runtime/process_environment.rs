//! A runtime's surroundings: the process's environment, files and registry, a debugger, other runtimes.
//!
//! The runtime sees only this trait. So a world without a machine equals an empty machine.

use super::{Entry, Runtime};
use crate::differences::Release;
use crate::library::Library;
use crate::mutation;
use crate::schedule;
use corprof::{Guid, HResult};
use std::sync::Arc;

/// The process as a runtime sees it. Defaults are empty.
pub trait ProcessEnvironment: Send + Sync {
    /// A variable of the initial environment.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    /// The same for GetEnvironmentVariable.
    fn variable_for_profiler(&self, name: &str) -> Option<String> {
        self.variable(name)
    }

    /// Opens a library by its path in the process; the runtime's answer on a failure.
    fn open(&self, _path: &str) -> Result<Arc<Library>, HResult> {
        Err(HResult::ERROR_MOD_NOT_FOUND)
    }

    /// The registered path of a class.
    fn registered(&self, _class: &Guid) -> Option<String> {
        None
    }

    /// Whether a debugger has stopped every thread of the process.
    fn is_halted(&self) -> bool {
        false
    }

    /// Claims the process's single slot for a profiler that does not support several runtimes. False if it is taken.
    fn claim_for_an_old_profiler(&self) -> bool {
        true
    }

    /// Releases that slot.
    fn give_the_claim_back(&self) {}

    /// The runtime with this version has written an entry.
    fn logged(&self, _version: Release, _entry: &Entry) {}

    /// The runtime reads unmapped memory. Only a real process crashes; a modelled one continues without the profiler.
    fn crash(&self) {}
}

/// Empty surroundings.
#[derive(Debug, Clone, Copy)]
pub struct EmptyEnvironment;

impl ProcessEnvironment for EmptyEnvironment {}

impl Runtime {
    /// A point where another thread may run. This thread stops while a debugger has stopped the process.
    pub(super) fn step(&self) {
        schedule::point();
        self.wait_while_halted();
    }

    /// Waits until no debugger has stopped the process.
    pub(super) fn wait_while_halted(&self) {
        if self.config.process.is_halted() && !mutation::is("ATT-16/2") {
            schedule::wait_until(None, || !self.config.process.is_halted() || self.is_exiting());
        }
    }
}
