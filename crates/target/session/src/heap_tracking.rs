//! A watch over the heap, on the agent's thread: a first snapshot, collections that tell of themselves, and another snapshot whenever one is
//! wanted: when something was lost in between, and at the end.

use crate::guarded_runtime::GuardedRuntime;
use crate::heap_tracker::HeapTracker;
use crate::module_ids::ModuleIds;
use crate::platform::{Platform, Received};
use crate::resource_registry::ResourceKind;
use crate::runtime::Runtime;
use crate::worker::{ROUND, Worker};
use corprof::HResult;
use remora_wire::{FromAgent, ToAgent};
use std::sync::atomic::Ordering;

/// Rounds between two looks at the modules: what was loaded and has objects is then known when it is told of.
const ROUNDS_OF_MODULES: u32 = 50;

/// Why a watch ends by itself.
const TOO_EXPENSIVE: &str = "the watch was ended before the runtime had counted by type what was made since a collection, as it does for a watch: \
                        there were so many types, or objects, that the program would have stood for a second or more";

/// Why the runtime does not tell of its collections.
fn refused(code: u32) -> String {
    match HResult(code as i32) {
        HResult::CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC => {
            "a collection that runs beside the program did not end in time; try again in a few seconds".into()
        }
        _ => format!("the runtime refused to tell of its collections with {code:#010x}"),
    }
}

impl<P: Platform, R: Runtime> Worker<'_, P, R> {
    /// Everything from the first module to the end of the last copy.
    pub(crate) fn track_heap(&mut self) {
        // Before there is a copy, and until there can be none any more.
        self.shared.resources.acquire(ResourceKind::Child);
        if let Err(what) = self.try_to_track_heap() {
            self.shared.platform.send(&FromAgent::Failed { what });
        }
        // Who leaves asks for no callbacks at all, a moment later: nothing more could be done about a refusal.
        let _ = GuardedRuntime { shared: self.shared, runtime: self.runtime }.track_heap(false);
        self.end_copy();
        self.shared.resources.release(ResourceKind::Child);
    }

    fn try_to_track_heap(&mut self) -> Result<(), String> {
        let platform = &self.shared.platform;
        let started = platform.prepare_snapshot()?;
        self.report_started(started);
        let guarded = GuardedRuntime { shared: self.shared, runtime: self.runtime };
        guarded.track_heap(true).map_err(refused)?;
        let mut modules = ModuleIds::of_watch();
        loop {
            self.take(&mut modules)?;
            if !self.watch() || !self.until_another_is_wanted(&mut modules)? {
                return Ok(());
            }
            self.shared.platform.prepare_snapshot()?;
        }
    }

    /// Whether one is; else it is time to leave.
    fn until_another_is_wanted(&mut self, modules: &mut ModuleIds) -> Result<bool, String> {
        let mut rounds = 0;
        loop {
            if self.shared.heap_tracker.get().is_some_and(HeapTracker::is_too_expensive) {
                return Err(TOO_EXPENSIVE.into());
            }
            match self.shared.platform.receive() {
                Received::Message(ToAgent::TakeAnother) => return Ok(true),
                Received::Message(ToAgent::Detach) | Received::HungUp => return Ok(false),
                _ if self.shared.panicked.load(Ordering::SeqCst) => {
                    return Err("a callback of the agent panicked".into());
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
