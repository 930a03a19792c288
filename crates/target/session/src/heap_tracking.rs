//! Heap tracking, on the worker thread. It takes a first snapshot, then lets GCs report themselves. It takes another snapshot whenever the
//! recorder asks for one: after lost events, and at the end.

use crate::fault_injection::{InjectedFault, is_injected};
use crate::guarded_runtime::GuardedRuntime;
use crate::heap_tracker::HeapTracker;
use crate::module_ids::ModuleIds;
use crate::platform::Platform;
use crate::resource_registry::ResourceKind;
use crate::runtime::Runtime;
use crate::worker::{ROUND, Worker};
use remora_wire::Received;
use remora_wire::{AgentError, AgentErrorCode, FromAgent, HeapSnapshot, ToAgent};
use std::sync::atomic::Ordering;

/// Rounds between two enumerations of modules. A new module with objects is then known before heap tracking reports its classes.
const ROUNDS_OF_MODULES: u32 = 50;

/// The runtime does not report its GCs.
fn refused(code: u32) -> AgentError {
    AgentErrorCode::GcMonitorRefused.with(code.into())
}

impl<P: Platform, R: Runtime> Worker<'_, P, R> {
    /// Tracks the heap, from the first module to the end of the last forked copy.
    pub(crate) fn track_heap(&mut self) {
        // Held from before the first fork until no copy can exist any more.
        self.shared.resources.acquire(ResourceKind::Child);
        if let Err(error) = self.try_to_track_heap() {
            self.shared.platform.send(&FromAgent::Failed(error));
        }
        // A refusal cannot be handled: the agent disables all callbacks a moment later.
        let _ = GuardedRuntime { shared: self.shared, runtime: self.runtime }.track_heap(false);
        self.end_copy();
        self.shared.resources.release(ResourceKind::Child);
    }

    fn try_to_track_heap(&mut self) -> Result<(), AgentError> {
        let platform = &self.shared.platform;
        let started = platform.prepare_snapshot()?;
        self.report_started(started);
        let guarded = GuardedRuntime { shared: self.shared, runtime: self.runtime };
        guarded.track_heap(true).map_err(refused)?;
        let mut modules = ModuleIds::of_watch();
        loop {
            self.take(HeapSnapshot::default(), &mut modules)?;
            if !self.watch() || !self.until_another_is_wanted(&mut modules)? {
                return Ok(());
            }
            self.shared.platform.prepare_snapshot()?;
        }
    }

    /// Returns true if the recorder asks for another snapshot, false if it is time to detach.
    fn until_another_is_wanted(&mut self, modules: &mut ModuleIds) -> Result<bool, AgentError> {
        let mut rounds = 0;
        loop {
            if self.shared.heap_tracker.get().is_some_and(HeapTracker::is_too_expensive) {
                return Err(AgentErrorCode::TrackingTooExpensive.into());
            }
            match self.shared.platform.receive() {
                Received::Message(ToAgent::TakeAnother) => return Ok(true),
                Received::HungUp if is_injected(InjectedFault::IgnoreDisconnectInWatch) => {}
                Received::Message(ToAgent::Detach) | Received::HungUp => return Ok(false),
                _ if self.shared.panicked.load(Ordering::SeqCst) => {
                    return Err(AgentErrorCode::CallbackPanicked.into());
                }
                _ if self.shared.shutdown.load(Ordering::SeqCst) => return Ok(false),
                Received::Message(_) => continue,
                Received::Nothing => {}
            }
            rounds += 1;
            if rounds % ROUNDS_OF_MODULES == 0 {
                self.catch_up(modules)?;
                self.tell(modules);
            }
            self.shared.platform.wait(ROUND);
        }
    }
}
