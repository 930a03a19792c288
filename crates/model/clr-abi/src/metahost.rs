//! The hosting interfaces of the .NET Framework. A trigger process finds the runtimes of a process with them, and attaches a profiler.
//!
//! `CLRCreateInstance` returns ICLRMetaHost. Its `EnumerateLoadedRuntimes` returns an ICLRRuntimeInfo per runtime, whose `GetInterface`
//! returns an ICLRProfiling with `AttachProfiler`. Every other slot answers `E_NOTIMPL`.

mod objects;
mod runtimes;
#[rustfmt::skip]
#[path = "generated/hosting.rs"]
pub mod sys;

pub use objects::clr_create_instance;

use crate::Slot;
use core::any::Any;
use corprof::{Guid, HResult};
use std::sync::Arc;

/// The class for `CLRCreateInstance`.
#[allow(non_upper_case_globals, reason = "names stay as in metahost.h")]
pub const CLSID_CLRMetaHost: Guid = Guid::from_u128(0x9280188D_0E8E_4867_B30C_7FA83884E8DE);
/// The class for `ICLRRuntimeInfo::GetInterface`.
#[allow(non_upper_case_globals, reason = "names stay as in metahost.h")]
pub const CLSID_CLRProfiling: Guid = Guid::from_u128(0xBD097ED8_733E_43FE_8ED7_A95FF9A8448C);

/// The machine's processes and their runtimes.
pub trait MetaHost: Fenced {
    /// The runtimes that the process behind a handle has loaded.
    fn loaded_runtimes(&self, process: usize) -> Result<Vec<Arc<dyn Runtime>>, HResult>;
}

/// One runtime of a process.
pub trait Runtime: Fenced {
    /// Its version, such as `v4.0.30319`.
    fn version(&self) -> String;

    /// The attach interface, for the class `CLSID_CLRProfiling`.
    fn profiling(&self) -> Result<Arc<dyn Profiling>, HResult>;
}

/// Attaches profilers.
pub trait Profiling: Fenced {
    /// Attaches one, and returns the trigger's answer.
    fn attach_profiler(&self, request: AttachRequest) -> HResult;
}

/// Receives the panics of a server.
pub trait Fenced: Send + Sync + 'static {
    /// A slot panicked: its caller gets `E_UNEXPECTED`, and this method owns the payload.
    fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>);
}

/// The arguments of `ICLRProfiling::AttachProfiler`, copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// The process to attach to.
    pub process: u32,
    /// How long to wait for the attach, in milliseconds.
    pub milliseconds: u32,
    /// The class of the profiler.
    pub profiler: Guid,
    /// The path of its library, in UTF-16 as given. Without it, the registry is used.
    pub path: Option<Vec<u16>>,
    /// The data for `InitializeForAttach`.
    pub client_data: Vec<u8>,
}
