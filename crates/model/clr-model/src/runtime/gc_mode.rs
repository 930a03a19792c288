//! How the runtime collects, and what a profiler's MONITOR_GC does to it (seed 004; facts: eetoprofinterfaceimpl.cpp, SetEventMask).

use super::{Profiler, Runtime, Status};
use crate::mutation;
use crate::schedule::{self, Task};
use corprof::{HResult, sys};

/// How the runtime collects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GcMode {
    /// The thread that needs memory collects, all others wait: a workstation with concurrent collections switched off.
    #[default]
    Blocking,
    /// A workstation's default: collections of generation 2 run beside the program.
    Concurrent,
    /// Threads of the collector's own, which the runtime does not know.
    Server,
}

#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) mode: GcMode,
    /// Concurrent collections are off until the profiler leaves that needs it so.
    off_for_profiler: bool,
    /// They are off until the process ends.
    off_for_good: bool,
    /// A background collection runs.
    pub(super) background: bool,
    /// From when a collection is told of as begun until it is told of as ended: objects may be asked about from any thread.
    pub(super) in_progress: bool,
    /// Where generations lay, as profilers are told: nobody knows before a collection that one is told of.
    pub(super) bounds: Option<Vec<sys::COR_PRF_GC_GENERATION_RANGE>>,
    /// Collections so far.
    pub(super) count: u32,
    /// Threads of profilers that have called ForceGC: the runtime knows them since.
    pub(super) forced: Vec<Task>,
}

/// How long SetEventMask waits for a background collection, nanoseconds. The trigger's time-out, in a real process.
const PATIENCE: u64 = 10_000_000_000;

impl Runtime {
    /// How it collects from now on: to be said before the program starts.
    pub fn set_gc_mode(&self, mode: GcMode) {
        self.lock().heap.gc.mode = mode;
    }

    /// Whether collections of generation 2 run in the background.
    pub fn is_concurrent(&self) -> bool {
        let state = self.lock();
        let gc = &state.heap.gc;
        gc.mode == GcMode::Concurrent && !gc.off_for_profiler && !gc.off_for_good
    }

    /// Whether a background collection runs.
    pub fn collects_in_background(&self) -> bool {
        self.lock().heap.gc.background
    }

    /// Whether a profiler may have MONITOR_GC, which it did not have before; switches concurrent collections off for one that attaches.
    pub(super) fn admit_monitor_gc(&self, profiler: &Profiler) -> Result<(), HResult> {
        let may_switch_off = self.differences().concurrent_is_switched_off_at_attach;
        match profiler.status() {
            _ if mutation::is("GCH-05") => Ok(()),
            Status::InitializingForStartup => Ok(()),
            _ if !self.is_concurrent() && !mutation::is("GCH-05/7") => Ok(()),
            // On the thread that attaches, inside InitializeForAttach, and nowhere else.
            Status::InitializingForAttach if mutation::is("GCH-05/2") => Ok(()),
            Status::InitializingForAttach if may_switch_off && profiler.runs_on(schedule::current()) => {
                self.switch_off_for_attach()
            }
            _ => Err(HResult::CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE),
        }
    }

    fn switch_off_for_attach(&self) -> Result<(), HResult> {
        self.lock().heap.gc.off_for_profiler = true;
        schedule::note("Concurrent collections are switched off", 0);
        if mutation::is("GCH-05/5") || schedule::wait_until(Some(PATIENCE), || !self.lock().heap.gc.background) {
            return Ok(());
        }
        self.lock().heap.gc.off_for_profiler = false;
        Err(HResult::CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC)
    }

    /// A profiler has been loaded with the process: where that is the rule, or it has MONITOR_GC, nothing is collected concurrently
    /// any more (source: profilinghelper.cpp, LoadProfiler: "Turning off concurrent GC at startup"; seed 004 for the desktop).
    pub(super) fn has_started_with(&self, profiler: &Profiler) {
        let always = self.differences().any_profiler_at_startup_ends_concurrent;
        if always || profiler.mask().0 & sys::COR_PRF_MONITOR_GC != 0 && !mutation::is("GCH-05/3") {
            self.lock().heap.gc.off_for_good = true;
        }
    }

    /// A profiler has left: what was switched off for it is switched on again.
    pub(super) fn has_left(&self, profiler: &Profiler) {
        if mutation::is("GCH-05/4") {
            self.lock().heap.gc.off_for_good = false;
        }
        let stays = mutation::is("DET-14") || mutation::is("GCH-05/6");
        if profiler.attached && !profiler.notification_only && !stays {
            self.lock().heap.gc.off_for_profiler = false;
        }
    }
}
