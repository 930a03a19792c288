//! What a runtime has around it: the process's environment, files and registry, a debugger, other runtimes.
//!
//! The runtime asks and never looks further, so that a world without a machine is a machine with nothing on it.

use super::Runtime;
use crate::library::Library;
use crate::mutation;
use crate::schedule;
use corprof::{Guid, HResult};
use std::sync::Arc;

/// What the process lets a runtime see. Where nothing is said there is nothing.
pub trait ProcessEnvironment: Send + Sync {
    /// A variable of the environment that the process was started with.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    /// Opens a library as the process sees its path; the runtime's answer where that fails.
    fn open(&self, _path: &str) -> Result<Arc<Library>, HResult> {
        Err(HResult::ERROR_MOD_NOT_FOUND)
    }

    /// The path that the registry has for a class.
    fn registered(&self, _class: &Guid) -> Option<String> {
        None
    }

    /// Whether a debugger has stopped every thread of the process.
    fn is_halted(&self) -> bool {
        false
    }

    /// Takes the process's one place for a profiler that does not claim to know of several runtimes; false if it is taken.
    fn claim_for_an_old_profiler(&self) -> bool {
        true
    }

    /// Gives that place back.
    fn give_the_claim_back(&self) {}

    /// The runtime reads where nothing is. Only a real process ends of it: a modelled one goes on, without what was asked for.
    fn crash(&self) {}
}

/// Nothing around it.
#[derive(Debug, Clone, Copy)]
pub struct EmptyEnvironment;

impl ProcessEnvironment for EmptyEnvironment {}

impl Runtime {
    /// A place at which another thread may go on; this one does not, for as long as a debugger holds the process.
    pub(super) fn step(&self) {
        schedule::point();
        self.wait_while_halted();
    }

    /// Waits until no debugger holds the process.
    pub(super) fn wait_while_halted(&self) {
        if self.config.process.is_halted() && !mutation::is("ATT-16/2") {
            schedule::wait_until(None, || !self.config.process.is_halted() || self.is_exiting());
        }
    }
}
