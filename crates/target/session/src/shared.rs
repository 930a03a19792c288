//! The state that callbacks share with the worker thread: one value per attach, no static.

use crate::fault_injection::{InjectedFault, is_injected};
use crate::{GcMonitor, HeapTracker, Platform, ResourceRegistry, Snapshot, UnloadBarrier};
use corprof::detach::{CallbackProof, RunningCallbacks};
use corprof::{CallbackToken, HeapView};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The state of one attach.
pub struct Shared<P: Platform> {
    /// The operating system.
    pub platform: P,
    /// Delays unloads during look-ups.
    pub unload_barrier: UnloadBarrier,
    /// Open resources of this library.
    pub resources: Arc<ResourceRegistry>,
    /// Whether ProfilerAttachComplete has arrived.
    pub attach_complete: AtomicBool,
    /// Whether the runtime has loaded the library at its start.
    pub at_startup: AtomicBool,
    /// 1 as soon as the worker has begun its task, or never will.
    pub begun: AtomicU64,
    /// Whether a callback has reported a change of threads.
    pub threads_changed: AtomicBool,
    /// Whether a callback has panicked.
    pub panicked: AtomicBool,
    /// Whether the runtime shuts down with its process: then it is asked nothing any more.
    pub shutdown: AtomicBool,
    /// Callbacks received.
    pub callbacks: AtomicU64,
    /// Those running now, and the longest.
    pub running_callbacks: RunningCallbacks,
    /// The state of a heap snapshot.
    pub snapshot: Snapshot,
    /// Heap tracking; set once, by the worker thread, before it requests survivors.
    pub heap_tracker: OnceLock<HeapTracker>,
    /// When to enable MONITOR_GC; set once, by the worker thread, before the first such GC.
    pub gc_monitor: OnceLock<GcMonitor>,
    /// The runtime's answer to the request for roots in InitializeForAttach; 0 if it agreed or was not asked.
    pub roots_refused: AtomicU32,
    /// Shows the heap to the callbacks of exceptions; set once, by the worker thread, before the first of them.
    pub exceptions: OnceLock<HeapView>,
    /// Whether callbacks still arrive.
    pub callback_proof: CallbackProof,
}

impl<P: Platform> Shared<P> {
    /// A new attach.
    pub fn new(platform: P, resources: Arc<ResourceRegistry>) -> Shared<P> {
        Shared {
            platform,
            unload_barrier: UnloadBarrier::default(),
            resources,
            attach_complete: AtomicBool::new(false),
            at_startup: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            threads_changed: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            shutdown: AtomicBool::new(false),
            callbacks: AtomicU64::new(0),
            running_callbacks: RunningCallbacks::default(),
            snapshot: Snapshot::default(),
            heap_tracker: OnceLock::new(),
            gc_monitor: OnceLock::new(),
            roots_refused: AtomicU32::new(0),
            exceptions: OnceLock::new(),
            callback_proof: CallbackProof::default(),
        }
    }

    /// How many GCs heap tracking has seen start; 0 without it.
    pub fn collections(&self) -> u64 {
        self.heap_tracker.get().map_or(0, HeapTracker::collections)
    }

    /// Worker thread: the task has begun, or never will. A starting process waits for this.
    pub fn announce_begun(&self) {
        self.begun.store(1, Ordering::Release);
        self.platform.announce(&self.begun);
    }

    /// A callback begins.
    pub fn enter_callback(&self) -> CallbackToken {
        self.callbacks.fetch_add(1, Ordering::Relaxed);
        self.running_callbacks.begin(|| self.platform.now())
    }

    /// Ends that callback.
    pub fn leave_callback(&self, begun: CallbackToken) {
        if !is_injected(InjectedFault::MeasureNoCallback) {
            self.running_callbacks.end(begun, || self.platform.now());
        }
    }
}
