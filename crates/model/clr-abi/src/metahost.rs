//! How a trigger process of the .NET Framework finds the runtimes of a process and attaches a profiler to one of them.
//!
//! `CLRCreateInstance` gives the ICLRMetaHost, `EnumerateLoadedRuntimes` an ICLRRuntimeInfo for each runtime, its `GetInterface`
//! an ICLRProfiling, and that has `AttachProfiler`. These are served; every other slot answers `E_NOTIMPL`.

mod objects;
mod runtimes;
pub mod sys;

pub use objects::clr_create_instance;

use crate::Slot;
use core::any::Any;
use corprof::{Guid, HResult};
use std::sync::Arc;

/// The processes of the machine and the runtimes in them.
pub trait MetaHost: Fenced {
    /// The runtimes that the process behind a handle has loaded.
    fn loaded_runtimes(&self, process: usize) -> Result<Vec<Arc<dyn Runtime>>, HResult>;
}

/// One runtime of a process.
pub trait Runtime: Fenced {
    /// Its version, such as `v4.0.30319`.
    fn version(&self) -> String;

    /// What attaches a profiler to a process; asked for when the class is `CLSID_CLRProfiling`.
    fn profiling(&self) -> Result<Arc<dyn Profiling>, HResult>;
}

/// What attaches profilers.
pub trait Profiling: Fenced {
    /// Does so, and answers what the trigger process is told.
    fn attach_profiler(&self, request: AttachRequest) -> HResult;
}

/// What catches the panics of a server.
pub trait Fenced: Send + Sync + 'static {
    /// A slot panicked: the caller is answered `E_UNEXPECTED`, and the payload is this method's to keep.
    fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>);
}

/// The arguments of `ICLRProfiling::AttachProfiler`, copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// The process to attach to.
    pub process: u32,
    /// How long to wait for it, in milliseconds.
    pub milliseconds: u32,
    /// The class of the profiler.
    pub profiler: Guid,
    /// Where its library is, in UTF-16 as given; without it, the registry says.
    pub path: Option<Vec<u16>>,
    /// What the profiler is handed at `InitializeForAttach`.
    pub client_data: Vec<u8>,
}
