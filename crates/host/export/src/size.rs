//! What a format takes that repeats what stacks have in common. A recording has its stacks as a tree, so a short one may be gigabytes
//! in such a format: a recursion 16,000 calls deep, sampled at each depth. No reader opens that.

use crate::Format;
use remora_profile::{FrameIx, Profile};
use std::io;

/// Maximum size of an output before it is compressed.
const MOST: u64 = 1 << 30;

/// A recording is too large for a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLarge {
    /// The format.
    pub format: Format,
}

impl std::fmt::Display for TooLarge {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let format = self.format.name();
        write!(out, "as {format} the recording takes more than 1 GiB: this format repeats what stacks have in common")
    }
}

impl std::error::Error for TooLarge {}

/// Refuses to write parts of these sizes, if they are too large together.
pub(crate) fn check(format: Format, sizes: impl IntoIterator<Item = u64>) -> io::Result<()> {
    let mut left = MOST;
    for size in sizes {
        left = left.checked_sub(size).ok_or_else(|| io::Error::other(TooLarge { format }))?;
    }
    Ok(())
}

/// For each stack, the sum of its frames' sizes.
pub(crate) fn of_stacks(profile: &Profile, of: impl Fn(FrameIx) -> u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = Vec::with_capacity(profile.stacks().len());
    for node in profile.stacks() {
        let callers = node.parent.map_or(0, |parent| sizes[parent.0 as usize]);
        sizes.push(callers + of(node.frame));
    }
    sizes
}
