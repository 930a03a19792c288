//! The libraries embedded in this command; `build.rs` builds them.

use crate::failure::Failure;
use remora_attach::Requirements;

/// For recordings, and for agents that only repair the runtime's profiler count.
pub(crate) const FOR_RECORDINGS: &[u8] = include_bytes!(env!("REMORA_AGENT_FOR_RECORDINGS"));

/// For heap snapshots and watches.
pub(crate) const FOR_HEAPS: &[u8] = include_bytes!(env!("REMORA_AGENT_FOR_HEAPS"));

/// For traces of calls.
pub(crate) const FOR_TRACES: &[u8] = include_bytes!(env!("REMORA_TRACER"));

/// The requirements of a library on a process.
pub(crate) fn requirements(library: &[u8]) -> Result<Requirements, Failure> {
    Ok(Requirements::of_library(library)?)
}
