//! A hash for small numbers that we make ourselves: indexes and addresses. Every frame of every sample is looked up by one.
//!
//! Refused: texts and whatever else a target may choose at will. Those keep the standard library's hash, which no choice of keys makes slow.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with such keys.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// See the module's text.
#[derive(Debug, Clone, Copy, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        // A product is best mixed in its upper half; a table looks at both ends.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameIx, StackIx, StackNode};
    use std::collections::HashSet;
    use std::hash::{BuildHasher, Hash};

    fn spread(values: impl Iterator<Item = impl Hash>) -> (usize, usize) {
        let hashes = values.map(|value| BuildHasherDefault::<NumberHasher>::default().hash_one(value));
        let (mut low, mut high) = (HashSet::new(), HashSet::new());
        hashes.for_each(|hash| {
            low.insert(hash & 0xfff);
            high.insert(hash >> 57);
        });
        (low.len(), high.len())
    }

    #[test]
    fn both_ends_differ_for_indexes_and_for_aligned_addresses() {
        // Of 4,096 places, 4,096 keys of chance would take 63 %.
        let chains = (0..4096).map(|at| StackNode { parent: Some(StackIx(at)), frame: FrameIx(at + 1) });
        let addresses = (0..4096_u64).map(|at| 0x7f12_3400_0000 + at * 64);
        for (low, high) in [spread(chains), spread(addresses)] {
            assert!(low > 1900 && high == 128, "{low} and {high}");
        }
    }
}
