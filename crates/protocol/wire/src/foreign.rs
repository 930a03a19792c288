//! Data that a target sent, until it is checked.
//!
//! The target may be hostile, and its agent part of it. So bytes and words from the socket and the shared memory are no `Vec`, and a counter
//! of the shared memory is no number. They can be passed on, measured and cut. A decoder takes their contents: it checks them, and returns
//! a type of its own or [`crate::Malformed`].
//!
//! ```compile_fail,E0308
//! fn allocate(count: u64) {}
//! allocate(remora_wire::Foreign::from(1 << 40));
//! ```
//! ```compile_fail,E0277
//! let bytes = remora_wire::Foreign::from(vec![1_u8]);
//! bytes[0];
//! ```
//! ```compile_fail,E0369
//! let count = remora_wire::Foreign::from(1_u64);
//! count + 1;
//! ```
//! ```
//! let bytes = remora_wire::Foreign::from(vec![1_u8, 2, 3]);
//! assert_eq!((bytes.count(), bytes.first(2).is_some(), bytes.first(4)), (3, true, None));
//! ```

/// Unchecked data of a target: bytes, words, or a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Foreign<T>(T);

impl<T> From<T> for Foreign<T> {
    fn from(sent: T) -> Self {
        Foreign(sent)
    }
}

impl<'a, T> From<&'a Vec<T>> for Foreign<&'a [T]> {
    fn from(sent: &'a Vec<T>) -> Self {
        Foreign(sent)
    }
}

impl<T> Foreign<T> {
    /// The data as it was sent. For decoders, for copies to a file, and for numbers that harm in no case: those that are only shown, and
    /// added with saturation.
    pub fn unchecked(self) -> T {
        self.0
    }
}

impl<T> Foreign<Vec<T>> {
    /// The items, by reference.
    pub fn all(&self) -> Foreign<&[T]> {
        Foreign(&self.0)
    }

    /// The first items; `None` if there are fewer.
    pub fn first(&self, count: usize) -> Option<Foreign<&[T]>> {
        self.0.get(..count).map(Foreign)
    }

    /// Number of items.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Replaces the items: `fill` gets the empty buffer.
    pub fn refill<R>(&mut self, fill: impl FnOnce(&mut Vec<T>) -> R) -> R {
        self.0.clear();
        fill(&mut self.0)
    }
}
