//! What the callbacks of a profiler and its thread share.

use corprof::sys;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// What the callbacks and the thread share. The runtime's object is kept raw: a broken profiler asks what the safe layer would not let it ask.
#[derive(Default)]
pub struct Shared {
    pub info: AtomicPtr<sys::ICorProfilerInfo>,
    /// ProfilerAttachComplete runs on a thread that the runtime does not count: who asks before it has returned is unloaded under it.
    pub completed: AtomicBool,
    pub asked: AtomicBool,
}

impl Shared {
    /// The runtime's object.
    pub fn info(&self) -> *mut sys::ICorProfilerInfo {
        self.info.load(Ordering::SeqCst)
    }
}
