//! The library that travels inside this command.

use crate::failure::Failure;
use remora_trigger::Requirements;

/// Its bytes; `build.rs` says where they come from.
pub(crate) const BYTES: &[u8] = include_bytes!(env!("REMORA_AGENT_EMBEDDED"));

/// What it needs from a process.
pub(crate) fn requirements() -> Result<Requirements, Failure> {
    Ok(Requirements::of_library(BYTES)?)
}
