//! What the callbacks and the agent's thread share: one value per attach, no static.

use crate::{GcMonitor, HeapTracker, Platform, ResourceRegistry, Snapshot, UnloadBarrier};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// See the module's text.
pub struct Shared<P: Platform> {
    /// The operating system.
    pub platform: P,
    /// Between unloads and look-ups.
    pub unload_barrier: UnloadBarrier,
    /// Ways into the library.
    pub resources: Arc<ResourceRegistry>,
    /// Whether ProfilerAttachComplete has come.
    pub attach_complete: AtomicBool,
    /// Whether a callback has told of a new thread.
    pub threads_changed: AtomicBool,
    /// Whether a callback has panicked.
    pub panicked: AtomicBool,
    /// Whether the runtime shuts down with its process: it is asked nothing any more.
    pub shutdown: AtomicBool,
    /// Callbacks received.
    pub callbacks: AtomicU64,
    /// The longest of them, nanoseconds.
    pub longest_callback: AtomicU64,
    /// Callbacks running at this moment.
    pub inside: AtomicU32,
    /// Where a snapshot of the heap stands.
    pub snapshot: Snapshot,
    /// What a watched heap needs; set once, by the agent's thread, before what lives on is asked for.
    pub heap_tracker: OnceLock<HeapTracker>,
    /// When it is asked for more than that a collection was; set once, by the agent's thread, before the first such one.
    pub gc_monitor: OnceLock<GcMonitor>,
    /// What the runtime answered when it was asked for roots while it attached us; 0 if it agreed, or was not asked.
    pub roots_refused: AtomicU32,
    /// RuntimeSuspendStarted callbacks for a profiler that asked, ourselves mostly: the proof that callbacks still arrive.
    pub suspensions: AtomicU64,
}

impl<P: Platform> Shared<P> {
    /// A new attach.
    pub fn new(platform: P, resources: Arc<ResourceRegistry>) -> Shared<P> {
        Shared {
            platform,
            unload_barrier: UnloadBarrier::default(),
            resources,
            attach_complete: AtomicBool::new(false),
            threads_changed: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            shutdown: AtomicBool::new(false),
            callbacks: AtomicU64::new(0),
            longest_callback: AtomicU64::new(0),
            inside: AtomicU32::new(0),
            snapshot: Snapshot::default(),
            heap_tracker: OnceLock::new(),
            gc_monitor: OnceLock::new(),
            roots_refused: AtomicU32::new(0),
            suspensions: AtomicU64::new(0),
        }
    }

    /// How many collections a watch has heard begin; 0 without one.
    pub fn collections(&self) -> u64 {
        self.heap_tracker.get().map_or(0, HeapTracker::collections)
    }

    /// A callback begins; returns the time.
    pub fn enter_callback(&self) -> u64 {
        self.inside.fetch_add(1, Ordering::SeqCst);
        self.callbacks.fetch_add(1, Ordering::Relaxed);
        self.platform.now()
    }

    /// A callback ends that began at `begun`.
    pub fn leave_callback(&self, begun: u64) {
        self.longest_callback.fetch_max(self.platform.now().saturating_sub(begun), Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}
