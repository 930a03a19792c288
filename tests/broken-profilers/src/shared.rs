//! What the callbacks of a profiler and its threads share.

use corprof::sys;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The shared state. Info is kept as a raw pointer: a broken profiler makes calls that the safe layer forbids.
#[derive(Default)]
pub struct Shared {
    pub info: AtomicPtr<sys::ICorProfilerInfo>,
    /// ProfilerAttachComplete runs on a thread that the runtime does not count: a detach request before it has returned would unload its
    /// code.
    pub completed: AtomicBool,
    pub asked: AtomicBool,
}

impl Shared {
    /// The runtime's Info object.
    pub fn info(&self) -> *mut sys::ICorProfilerInfo {
        self.info.load(Ordering::SeqCst)
    }
}

/// Waits forever.
pub fn never_return() {
    loop {
        // SAFETY: takes no arguments.
        unsafe { libc::pause() };
    }
}
