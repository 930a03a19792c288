//! Bounds what is made of layouts and names. They are untrusted: a type may consist of itself, twice, and have a name of kilobytes.

use std::cell::Cell;

/// What a value or a slot costs beside its texts: somewhat less than it takes in memory.
pub(crate) const SLOT: usize = 64;

/// What may still be made of layouts or names, bytes. Shared by all values, or all rows of one kind, that a command shows.
#[derive(Debug)]
pub struct Allowance(Cell<usize>);

impl Allowance {
    /// A million values, or 64 MiB of names.
    pub const VALUES: usize = 64 << 20;

    /// An allowance of so many bytes.
    pub fn new(bytes: usize) -> Allowance {
        Allowance(Cell::new(bytes))
    }

    /// Takes so many bytes. Once there are not enough, nothing is left.
    pub fn take(&self, bytes: usize) -> bool {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Whether anything is left.
    pub(crate) fn is_left(&self) -> bool {
        self.0.get() > 0
    }
}
