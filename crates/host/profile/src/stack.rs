//! Stacks as a call tree: each node is a frame and its caller.

use crate::FrameIx;

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
