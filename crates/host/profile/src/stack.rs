//! Stacks as a call tree: each node is a frame and its caller.

use crate::FrameIx;

/// The mark in place of the outer frames of a stack cut at the depth limit.
pub const TRUNCATED: &str = "[truncated]";
/// The mark in place of the outer frames of a stack whose walk ended before the thread's outermost frame.
pub const INCOMPLETE: &str = "[incomplete stack]";

/// Index of a [`StackNode`] in a [`crate::Profile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackIx(pub u32);

/// A frame and its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// The caller, `None` for the outermost frame.
    pub parent: Option<StackIx>,
    /// The frame.
    pub frame: FrameIx,
}
