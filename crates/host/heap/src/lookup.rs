//! Lookup from address to object, for tens of millions of addresses.
//!
//! A binary search over all addresses misses the cache at each step.
//! But heaps are dense: few memory blocks hold objects. Each block is cut into buckets of a few objects, and a lookup reads one bucket.
//! For scattered addresses, which no heap has, it becomes a binary search again, and takes no more memory.

/// A block is one MiB.
const BLOCK_SHIFT: u32 = 20;
/// Minimum average number of objects in a bucket.
const BUCKET: usize = 4;

/// An index of ascending addresses.
pub(crate) struct Lookup<'a> {
    addresses: &'a [u64],
    /// The blocks with an object, ascending.
    blocks: Vec<u64>,
    /// The size of a bucket.
    bucket_shift: u32,
    /// For each bucket of each block, the first object there or after it; one more entry for the end.
    first: Vec<u32>,
}

impl<'a> Lookup<'a> {
    /// The index of ascending `addresses`.
    pub(crate) fn new(addresses: &'a [u64]) -> Lookup<'a> {
        let mut blocks: Vec<u64> = Vec::new();
        for address in addresses {
            let block = address >> BLOCK_SHIFT;
            if blocks.last() != Some(&block) {
                blocks.push(block);
            }
        }
        let wanted = addresses.len() / BUCKET / blocks.len().max(1);
        let bits = wanted.checked_ilog2().unwrap_or(0).min(BLOCK_SHIFT);
        let mut lookup = Lookup { addresses, blocks, bucket_shift: BLOCK_SHIFT - bits, first: Vec::new() };
        lookup.fill();
        lookup
    }

    /// The object at `address`.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<u32> {
        let place = self.blocks.binary_search(&(address >> BLOCK_SHIFT)).ok()?;
        let bucket = self.bucket(place, address);
        let (begin, end) = (self.first[bucket] as usize, self.first[bucket + 1] as usize);
        let within = self.addresses[begin..end].binary_search(&address).ok()?;
        Some((begin + within) as u32)
    }

    fn bucket(&self, place: usize, address: u64) -> usize {
        let within = address & ((1 << BLOCK_SHIFT) - 1);
        (place << (BLOCK_SHIFT - self.bucket_shift)) + (within >> self.bucket_shift) as usize
    }

    fn fill(&mut self) {
        let buckets = self.blocks.len() << (BLOCK_SHIFT - self.bucket_shift);
        let mut first = Vec::with_capacity(buckets + 1);
        let mut place = 0;
        for (index, address) in self.addresses.iter().enumerate() {
            while self.blocks[place] != address >> BLOCK_SHIFT {
                place += 1;
            }
            let bucket = self.bucket(place, *address);
            while first.len() <= bucket {
                first.push(index as u32);
            }
        }
        first.resize(buckets + 1, self.addresses.len() as u32);
        self.first = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(addresses: &[u64]) {
        let lookup = Lookup::new(addresses);
        assert!(lookup.first.len() <= addresses.len() + 2, "{} for {}", lookup.first.len(), addresses.len());
        for (index, address) in addresses.iter().enumerate() {
            assert_eq!(lookup.find(*address), Some(index as u32));
            for beside in [address - 1, address + 1] {
                assert_eq!(lookup.find(beside), addresses.binary_search(&beside).ok().map(|index| index as u32));
            }
        }
        for elsewhere in [0, 1 << 40, u64::MAX] {
            assert_eq!(lookup.find(elsewhere), None);
        }
    }

    #[test]
    fn every_object_is_found_and_nothing_else() {
        check(&[]);
        check(&[24]);
        check(&(1..10_000).map(|index| index * 24).collect::<Vec<_>>());
        // Two dense ranges, and one object far away.
        let dense = |base: u64| (0..5000).map(move |index| base + index * 8);
        check(&dense(0x7f00_0000_0ff8).chain(dense(0x7f10_0000_0000)).chain([1 << 47]).collect::<Vec<_>>());
        // All scattered.
        check(&(1..3000).map(|index| index << 21).collect::<Vec<_>>());
    }
}
