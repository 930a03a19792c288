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
//! let count = remora_wire::Foreign::from(4711_u64);
//! assert_eq!((count.at_most(4711), count.at_most(4710)), (Some(4711), None));
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

impl<T: PartialOrd> Foreign<T> {
    /// The number, unless it exceeds `limit`.
    pub fn at_most(self, limit: T) -> Option<T> {
        (self.0 <= limit).then_some(self.0)
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

    /// The buffer, for new data in the place of the old.
    pub fn buffer(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}
