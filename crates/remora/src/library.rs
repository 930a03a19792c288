//! The libraries that travel inside this command; `build.rs` says where they come from.

use crate::failure::Failure;
use remora_attach::Requirements;

/// For recordings, and for agents that come for the runtime's count alone.
pub(crate) const FOR_RECORDINGS: &[u8] = include_bytes!(env!("REMORA_AGENT_FOR_RECORDINGS"));

/// For snapshots of the heap, and its watch.
pub(crate) const FOR_HEAPS: &[u8] = include_bytes!(env!("REMORA_AGENT_FOR_HEAPS"));

/// What a library needs from a process.
pub(crate) fn requirements(library: &[u8]) -> Result<Requirements, Failure> {
    Ok(Requirements::of_library(library)?)
}
