//! What an attach needs from its process beside the [`Platform`]: two threads, and a reference on the library.

use crate::ResourceRegistry;
use crate::platform::Platform;
use corprof::detach::RunningCallbacks;
use corprof::{AttachMask, HeapView, HighAttachMask};
use remora_sampler::{HeapRange, HeapReader};
use remora_wire::{AgentError, Config, StartupOrder};
use std::sync::Arc;

/// The roles of an attach's two threads.
pub trait ThreadRoles: Send + Sync + 'static {
    /// The worker's role. Must not panic.
    fn work(&self);

    /// The detach thread's role, after the worker has ended. The last code of the attach. Must use nothing with a thread-local destructor.
    fn leave(self: Arc<Self>);
}

/// Joins a thread whose partner could not be started.
pub type UnpairedThread = Box<dyn FnOnce()>;

/// The process. Each callback object has one, made before the runtime's first call. It holds nothing that a refused attach would leave
/// behind.
pub trait Host: Send + Sync + 'static {
    /// The operating system of an attach.
    type Platform: HostedPlatform;
    /// A reference on this library, so that it cannot be unmapped under one of our threads (contract DET-05). Dropping it releases it at
    /// once: for an attach that fails in InitializeForAttach.
    type LibraryReference: Send;

    /// Prepares the platform. Opens one descriptor, and touches nothing else in the process.
    ///
    /// # Errors
    /// Its code and number.
    fn open(&self, config: Config, resources: Arc<ResourceRegistry>) -> Result<Self::Platform, AgentError>;

    /// The order of a recorder that starts this process with the agent. Afterwards the C library's environment is as if the agent were not
    /// loaded. `None` if there is no order, or no environment. Only for Initialize: later other threads may read the environment.
    fn startup_order(&self) -> Option<StartupOrder> {
        None
    }

    /// Takes a reference on this library.
    ///
    /// # Errors
    /// Its code and number.
    fn reference_library(&self) -> Result<Self::LibraryReference, AgentError>;

    /// Releases the reference after the calling thread's last instruction in this library (contract DET-08). If that is impossible, the
    /// library stays mapped.
    fn give_back_at_thread_end(reference: Self::LibraryReference);

    /// Starts two equal threads. The first one on a CPU becomes the worker. The other waits until the worker has ended, and is the detach
    /// thread.
    ///
    /// # Errors
    /// The only thread that could be started: it works, and no detach thread follows. `None` if there is not even one.
    fn start_pair<R: ThreadRoles>(&self, roles: Arc<R>) -> Result<(), Option<UnpairedThread>>;
}

/// Operations that only the attach needs from its operating system.
pub trait HostedPlatform: Platform {
    /// Connects and sends the hello. Never waits: the recorder already listens, and has no other connections there.
    ///
    /// # Errors
    /// Its code and number.
    fn call(&self) -> Result<(), AgentError>;

    /// At a start: removes library and socket if their recorder is dead, since nobody else does.
    fn remove_abandoned_files(&self) {}

    /// Closes the connection.
    fn hang_up(&self);

    /// Reports the completed detach, unless another thread uses the channel right now. The runtime calls this, so it never waits.
    fn tell_detached(&self);

    /// In GarbageCollectionFinished: forks the process. The copy walks the heap and ends; this process continues at once.
    fn fork_snapshot(&self, _heap: HeapView) {}

    /// In a GC callback that never runs concurrently: shows the heap, with a buffer for its ranges. Does not call `_visit` if the heap is
    /// unavailable.
    fn look(&self, _heap: HeapView, _visit: &mut dyn FnMut(&dyn HeapReader, &mut [HeapRange])) {}

    /// In GarbageCollectionStarted: changes the event mask, also for the rest of this GC.
    ///
    /// # Errors
    /// The HRESULT.
    fn set_event_mask(&self, _heap: HeapView, _low: AttachMask, _high: HighAttachMask) -> Result<(), u32> {
        Err(0x8000_4001)
    }

    /// Suspends the runtime, forks the process, and resumes it. The runtime enumerates the objects in the copy; then the copy ends.
    ///
    /// # Errors
    /// The HRESULT.
    fn suspend_and_fork(&self, _heap: HeapView) -> Result<(), u32> {
        Err(0x8000_4001)
    }

    /// The library stays mapped: releases everything that only a recording needs, so that nothing else stays with it.
    ///
    /// A running callback may still use what is released.
    fn release_recording(&self, callbacks: &RunningCallbacks);

    /// The eight bytes at an address. The read cannot fault.
    fn read_checked(&self, address: u64) -> Option<[u8; 8]>;

    /// Whether this file exists.
    fn is_file(&self, path: &str) -> bool;
}
