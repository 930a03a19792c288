//! The GC mode, and the effect of a profiler's MONITOR_GC on it (seed 004; facts: eetoprofinterfaceimpl.cpp, SetEventMask).

use super::{Profiler, Runtime, Status};
use crate::mutation;
use crate::schedule::{self, Task};
use corprof::{HResult, sys};

/// The GC mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GcMode {
    /// Workstation, non-concurrent: the thread that needs memory collects, all others wait.
    #[default]
    Blocking,
    /// Workstation, concurrent, the default: a GC of generation 2 runs beside the program.
    Concurrent,
    /// Server: GC threads that the runtime does not know.
    Server,
}

#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) mode: GcMode,
    /// Concurrent GC is off until the profiler that needs this detaches.
    off_for_profiler: bool,
    /// Concurrent GC is off until the process ends.
    off_for_good: bool,
    /// A background GC runs.
    pub(super) background: bool,
    /// How long SetEventMask waits for it: the time-out of the attach request that is served, nanoseconds.
    pub(super) time_out: u64,
    /// Between the start and finish callbacks of a GC: objects may be inspected from any thread.
    pub(super) in_progress: bool,
    /// The generation bounds that profilers see: unknown before the first reported GC.
    pub(super) bounds: Option<Vec<sys::COR_PRF_GC_GENERATION_RANGE>>,
    /// GCs so far.
    pub(super) count: u32,
    /// Threads of profilers that have called ForceGC, which made them known to the runtime.
    pub(super) forced: Vec<Task>,
}

impl Runtime {
    /// Sets the GC mode, before the program starts.
    pub fn set_gc_mode(&self, mode: GcMode) {
        self.lock().heap.gc.mode = mode;
    }

    /// Whether a GC of generation 2 runs in the background.
    pub fn is_concurrent(&self) -> bool {
        let state = self.lock();
        let gc = &state.heap.gc;
        gc.mode == GcMode::Concurrent && !gc.off_for_profiler && !gc.off_for_good
    }

    /// Whether a background GC runs.
    pub fn collects_in_background(&self) -> bool {
        self.lock().heap.gc.background
    }

    /// Whether a profiler may newly get MONITOR_GC. Switches concurrent GC off for one that attaches.
    pub(super) fn admit_monitor_gc(&self, profiler: &Profiler) -> Result<(), HResult> {
        let may_switch_off = self.differences().concurrent_is_switched_off_at_attach;
        match profiler.status() {
            _ if mutation::is("GCH-05") => Ok(()),
            Status::InitializingForStartup => Ok(()),
            _ if !self.is_concurrent() && !mutation::is("GCH-05/7") => Ok(()),
            // Only on the attach thread, inside InitializeForAttach.
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
        let bound = if mutation::is("ATT-08/5") { 10_000_000_000 } else { self.lock().heap.gc.time_out };
        if mutation::is("GCH-05/5") || schedule::wait_until(Some(bound), || !self.lock().heap.gc.background) {
            return Ok(());
        }
        self.lock().heap.gc.off_for_profiler = false;
        Err(HResult::CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC)
    }

    /// A profiler was loaded at startup. If the runtime requires it, or with MONITOR_GC, no GC is concurrent any more. (Source:
    /// profilinghelper.cpp, LoadProfiler: "Turning off concurrent GC at startup"; seed 004 for the desktop.)
    pub(super) fn has_started_with(&self, profiler: &Profiler) {
        let always = self.differences().any_profiler_at_startup_ends_concurrent;
        if always || profiler.mask().0 & sys::COR_PRF_MONITOR_GC != 0 && !mutation::is("GCH-05/3") {
            self.lock().heap.gc.off_for_good = true;
        }
        self.enables_rejit_from_start(profiler);
    }

    /// A profiler has detached: switches on again what was off for it.
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
