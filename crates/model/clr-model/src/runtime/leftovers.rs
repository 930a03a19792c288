//! A profiler's leftovers that no detach removes and the runtime does not police (contract DET-22), and its interference with other threads
//! (DET-04). The runtime accepts the detach anyway; here each is a fault.

use super::code::ModuleId;
use super::heap::{HandleKind, ObjectId};
use super::{Profiler, Runtime};
use crate::mutation;
use crate::schedule;
use corprof::HResult;
use std::collections::BTreeMap;

/// A profiler's interference with a thread through the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadInterference {
    /// Ends the thread.
    Ended,
    /// Stops the thread.
    Stopped,
    /// Makes the thread execute other code.
    Redirected,
}

#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// The kind of each leftover, by profiler (its address) and id.
    things: BTreeMap<(usize, usize), &'static str>,
    environment: BTreeMap<String, String>,
    /// The profiler that has suspended the managed threads.
    pub(super) suspends: Option<usize>,
}

/// Identifies a profiler here.
pub(super) fn address_of(profiler: &Profiler) -> usize {
    std::ptr::from_ref(profiler) as usize
}

impl Runtime {
    /// Whether managed threads are still suspended by a profiler.
    pub fn is_left_suspended(&self) -> bool {
        self.lock().leftovers.suspends.is_some()
    }

    /// Adds a leftover that outlives the profiler unless it is removed.
    pub(super) fn add_leftover(&self, profiler: &Profiler, id: usize, what: &'static str) {
        self.lock().leftovers.things.insert((address_of(profiler), id), what);
    }

    /// ApplyMetaData: additions to a module's metadata stay.
    pub(super) fn apply_metadata(&self, profiler: &Profiler, module: ModuleId) -> HResult {
        if !self.lock().code.modules.contains_key(&module) {
            return super::info::stale(self, "module", "ApplyMetaData");
        }
        self.add_leftover(profiler, module.0, "metadata that was applied");
        HResult::S_OK
    }

    /// SetEnvironmentVariable: affects the whole process.
    pub(super) fn set_variable(&self, profiler: &Profiler, name: String, value: String) -> HResult {
        self.add_leftover(profiler, 1, "an environment variable that was set");
        self.lock().leftovers.environment.insert(name, value);
        HResult::S_OK
    }

    /// GetEnvironmentVariable.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let set = self.lock().leftovers.environment.get(name).cloned();
        set.or_else(|| self.config.process.variable_for_profiler(name))
    }

    /// CreateHandle: only DestroyHandle removes it.
    pub(super) fn create_handle(&self, profiler: &Profiler, object: ObjectId, kind: u32) -> Result<usize, HResult> {
        let kind = match kind {
            1 => HandleKind::Weak,
            2 => HandleKind::Strong,
            3 => HandleKind::Pinned,
            _ => return Err(HResult::E_INVALIDARG),
        };
        let handle = {
            let mut state = self.lock();
            let key = state.heap.at.get(&object.0).copied();
            key.map(|key| state.heap.add_handle(key, kind))
        };
        let handle = handle.ok_or_else(|| super::info::stale(self, "object", "CreateHandle"))?;
        self.add_leftover(profiler, handle, "a handle that was not destroyed");
        Ok(handle)
    }

    /// DestroyHandle.
    pub(super) fn destroy_handle(&self, profiler: &Profiler, handle: usize) -> HResult {
        let mut state = self.lock();
        state.leftovers.things.remove(&(address_of(profiler), handle));
        if state.heap.handles.remove(&handle).is_some() { HResult::S_OK } else { HResult::E_INVALIDARG }
    }

    /// The running thread's interference with a thread through the system, which needs no permission.
    pub fn interfere_with_thread(&self, os_thread: u32, how: ThreadInterference) {
        if self.os_threads().contains(&os_thread) && !mutation::is("DET-04/3") {
            self.faults.report("DET-04", format!("a thread of the runtime was tampered with ({how:?})"));
        }
    }

    /// Reports the leftovers of a profiler that requests its detach, since nothing can be removed afterwards.
    pub(super) fn check_leftovers(&self, profiler: &Profiler) {
        let address = address_of(profiler);
        let (things, suspends) = {
            let state = self.lock();
            let things = state.leftovers.things.range((address, 0)..=(address, usize::MAX));
            (things.map(|(_, what)| *what).collect::<Vec<_>>(), state.leftovers.suspends == Some(address))
        };
        for what in things.into_iter().filter(|_| !mutation::is("DET-22")) {
            self.faults.report("DET-22", format!("the profiler leaves and leaves behind {what}"));
        }
        if suspends && !mutation::is("DET-04/4") {
            self.faults.report("DET-04", "the profiler leaves while it has the managed threads suspended");
        }
        schedule::point();
    }
}
