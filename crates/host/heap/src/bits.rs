//! One bit for each object. The set fits into a CPU cache where an array of numbers does not.

/// A set of numbers below a bound.
#[derive(Debug, Clone)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// The empty set of numbers below `bound`.
    pub(crate) fn new(bound: usize) -> Bits {
        Bits(vec![0; bound.div_ceil(64)])
    }

    /// Whether the set contains `number`.
    #[inline]
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.0[number as usize / 64] >> (number % 64) & 1 == 1
    }

    /// Adds `number`; returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let word = &mut self.0[number as usize / 64];
        let bit = 1 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}
