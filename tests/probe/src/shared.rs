//! State shared by the probe's callbacks and threads: Info, the log of callbacks, the recorder of a heap, the test's socket.

use crate::journal::Journal;
use crate::rejit::Parameters;
use crate::witness::Witness;
use corprof::{Alive, Attached, HeapView, Info, Startup, sys};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Info, by the way the probe was loaded.
pub enum Loaded {
    /// Attached to a running process.
    Attached(Info<Attached, Alive>),
    /// Loaded at startup.
    Startup(Info<Startup, Alive>),
}

impl Loaded {
    /// The heap, for GC callbacks.
    pub fn heap_view(&self) -> HeapView {
        match self {
            Loaded::Attached(info) => info.heap_view(),
            Loaded::Startup(info) => info.heap_view(),
        }
    }

    /// The raw object: the probe also makes calls that the safe layer forbids.
    pub fn raw(&self) -> *mut sys::ICorProfilerInfo {
        match self {
            Loaded::Attached(info) => info.as_raw(),
            Loaded::Startup(info) => info.as_raw(),
        }
    }
}

/// State shared by the probe's callbacks and threads. It may outlive the profiler, never the library.
#[derive(Default)]
pub struct Shared {
    /// The callbacks so far.
    pub journal: Journal,
    /// Info, from initialisation on.
    pub loaded: OnceLock<Loaded>,
    /// The recorder of a heap.
    pub witness: Witness,
    /// What the runtime asks for before it compiles a method again.
    pub parameters: Parameters,
    /// The test's socket.
    pub socket: OnceLock<PathBuf>,
}
