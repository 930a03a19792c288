//! Threads of the profiler that still run when the runtime unloads the library.
//!
//! Such a thread executes unmapped code sooner or later. So each unload is announced on the page before the last Release and before
//! `dlclose`: if the process then dies, the laboratory knows the cause, whatever instruction the crash hit. A thread that only ends a little
//! later is no fault.

use super::leftovers;
use std::collections::{BTreeMap, BTreeSet};

/// The clause of such a thread.
pub const CLAUSE: &str = "DET-04";
/// Where it is found.
pub const CALL: &str = "dlclose";

/// Running threads by system thread ID, with their names.
type Threads = BTreeMap<u32, String>;

/// An unload that may not be over.
#[derive(Debug, Default)]
pub struct Unload {
    /// Threads that ran when it began.
    threads: BTreeSet<u32>,
    /// Threads that have requested the detach. DET-05 is about them.
    askers: BTreeSet<u32>,
}

impl Unload {
    /// This thread requests the detach.
    pub fn asks(&mut self, thread: u32) {
        self.askers.insert(thread);
    }

    /// It begins while these threads of the profiler run. Returns descriptions of those that matter.
    pub fn begins(&mut self, running: &Threads) -> BTreeSet<String> {
        self.threads.extend(running.keys().filter(|id| !self.askers.contains(id)));
        self.left(running)
    }

    /// Descriptions of the threads that ran when it began, and still run.
    pub fn left(&self, running: &Threads) -> BTreeSet<String> {
        let left = running.iter().filter(|(id, _)| self.threads.contains(id));
        left.map(|(_, name)| leftovers::named("a thread", name)).collect()
    }

    /// None of them runs any more. Returns whether there were any.
    pub fn end(&mut self) -> bool {
        !std::mem::take(&mut self.threads).is_empty()
    }
}

/// The finding on a thread.
pub fn message(thread: &str) -> String {
    format!(
        "{thread} of the profiler was still running when the runtime unloaded the library: end and join it before you refuse the attach, or ask for the detach"
    )
}
