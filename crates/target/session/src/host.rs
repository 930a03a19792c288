//! What an attach needs of the process that it lives in, beside the [`Platform`]: its two threads, and a hold on the library.

use crate::ResourceRegistry;
use crate::platform::Platform;
use corprof::{AttachMask, HeapView, HighAttachMask};
use remora_sampler::{HeapRange, HeapReader};
use remora_wire::Config;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// What the two threads of an attach do.
pub trait ThreadRoles: Send + Sync + 'static {
    /// All there is to do; must not panic.
    fn work(&self);

    /// Runs when the thread that worked has ended; the very last there is of the attach. Must use nothing with a thread-local destructor.
    fn leave(self: Arc<Self>);
}

/// A thread that was started alone, where two were wanted: joins it.
pub type UnpairedThread = Box<dyn FnOnce()>;

/// The process. One value for each callback object, made before the runtime has asked for anything: it holds nothing that a refused attach would leave behind.
pub trait Host: Send + Sync + 'static {
    /// The operating system of an attach.
    type Platform: HostedPlatform;
    /// A reference on this library, held so that it cannot be unmapped under a thread of ours (contract DET-05). Dropped, it is given
    /// back at once: for an attach that fails while it begins.
    type LibraryReference: Send + Sync;

    /// Prepares; nothing of the process is touched yet but one descriptor.
    ///
    /// # Errors
    /// In words.
    fn open(&self, config: Config, resources: Arc<ResourceRegistry>) -> Result<Self::Platform, String>;

    /// Takes a reference on this library.
    ///
    /// # Errors
    /// In words.
    fn reference_library(&self) -> Result<Self::LibraryReference, String>;

    /// Gives the reference back when the calling thread has run its last instruction of ours (contract DET-08). False where that cannot
    /// be done: the library then stays.
    fn give_back_at_thread_end(reference: Self::LibraryReference) -> bool;

    /// Starts two threads alike: whichever gets a processor first works, the other waits until it has ended, and leaves.
    ///
    /// # Errors
    /// The one thread that could be started: it works, and nobody leaves after it. `None` if there is not even one.
    fn start_pair<R: ThreadRoles>(&self, roles: Arc<R>) -> Result<(), Option<UnpairedThread>>;
}

/// What only the attach itself asks of its operating system.
pub trait HostedPlatform: Platform {
    /// Connects and says hello. That never waits: the other side listens, and nobody else calls there.
    ///
    /// # Errors
    /// In words.
    fn call(&self) -> Result<(), String>;

    /// Ends the connection.
    fn hang_up(&self);

    /// Tells the other side that it is over, if nobody is just talking to it; called by the runtime, so it never waits.
    fn tell_detached(&self);

    /// In GarbageCollectionFinished: makes a copy of the process, which walks the heap and ends; here it goes on at once.
    fn fork_snapshot(&self, _heap: HeapView) {}

    /// In a callback of a collection which no other runs beside: shows the heap, and a place for its ranges. Nothing if that is not to be had.
    fn look(&self, _heap: HeapView, _visit: &mut dyn FnMut(&dyn HeapReader, &mut [HeapRange])) {}

    /// In GarbageCollectionStarted: from now on these callbacks are wanted, also in the rest of this collection.
    ///
    /// # Errors
    /// The HRESULT.
    fn set_event_mask(&self, _heap: HeapView, _low: AttachMask, _high: HighAttachMask) -> Result<(), u32> {
        Err(0x8000_4001)
    }

    /// Has the runtime stand still, makes a copy of the process, and lets it go on; the copy is shown each object and ends.
    ///
    /// # Errors
    /// The HRESULT.
    fn suspend_and_fork(&self, _heap: HeapView) -> Result<(), u32> {
        Err(0x8000_4001)
    }

    /// The library stays in the process: gives back what only a recording needs, so that nothing else stays with it.
    ///
    /// `callbacks_inside` counts the callbacks that run: one of them may still look at what is given back.
    fn release_recording(&self, callbacks_inside: &AtomicU32);

    /// The eight bytes at an address, read so that it cannot fault.
    fn read_checked(&self, address: u64) -> Option<[u8; 8]>;

    /// Whether there is such a file.
    fn is_file(&self, path: &str) -> bool;
}
