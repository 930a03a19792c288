//! AttachProfiler: timeout, CLSID, path, client data.
//!
//! The client data's size is always exact: the runtime accepts a larger one, and would pass the profiler a length beyond its buffer.

use super::text::push_string;
use super::{Guid, HEADER_SIZE, MAX_MESSAGE};

/// A request to load a profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachProfiler<'a> {
    /// Milliseconds that the runtime may wait for a background GC. It limits nothing else.
    pub timeout_milliseconds: u32,
    /// Class id requested from the library's factory.
    pub clsid: Guid,
    /// Path of the library in the target's view.
    pub path: &'a str,
    /// Passed to `InitializeForAttach`.
    pub client_data: &'a [u8],
}

impl AttachProfiler<'_> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timeout_milliseconds.to_le_bytes());
        out.extend_from_slice(&self.clsid.0);
        push_string(out, self.path);
        out.extend_from_slice(&u32::try_from(self.client_data.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(self.client_data);
    }
}

/// Maximum client data that fits beside a library at `path`.
pub fn largest_client_data(path: &str) -> usize {
    let fixed = HEADER_SIZE + 4 + 16 + 4 + 4;
    MAX_MESSAGE.saturating_sub(fixed + 2 * (path.encode_utf16().count() + 1))
}
