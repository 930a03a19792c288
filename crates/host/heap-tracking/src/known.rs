//! An object, as the live object set knows it.

/// A known object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its number in [`crate::Classes`].
    pub class: u32,
    /// Its size.
    pub bytes: u64,
    /// Number of GCs of its generation that it has survived since it is known.
    pub survived: u32,
    /// Whether it was in the first snapshot.
    pub is_of_the_start: bool,
}
