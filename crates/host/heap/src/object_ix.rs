//! The number of an object, by which roots and references name it.

/// Index of an object in a [`crate::HeapGraph`], in address order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectIx(pub u32);
