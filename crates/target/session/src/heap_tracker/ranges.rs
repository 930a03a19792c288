//! Ranges of the heap, in memory allocated in advance: callbacks allocate nothing.

use crate::platform::Words;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Parts of the heap that may hold new objects: with regions of 4 MiB, 64 GiB of them.
pub(super) const MOST_YOUNG: usize = 1 << 14;
/// Ranges remembered until the end of a GC.
pub(super) const MOST_REMEMBERED: usize = 1 << 19;

/// Ranges with possibly new objects: ascending, written at the start of a GC and read while it runs.
pub(super) struct RangeSet {
    starts: Words,
    ends: Words,
    count: AtomicUsize,
}

impl RangeSet {
    pub(super) fn new(starts: Words, ends: Words) -> RangeSet {
        RangeSet { starts, ends, count: AtomicUsize::new(0) }
    }

    fn starts(&self) -> &[AtomicU64] {
        self.starts.as_ref().as_ref()
    }

    fn ends(&self) -> &[AtomicU64] {
        self.ends.as_ref().as_ref()
    }

    pub(super) fn clear(&self) {
        self.count.store(0, Ordering::SeqCst);
    }

    /// Adds a range; each must lie behind the one before. False if there is no room.
    pub(super) fn add(&self, start: u64, length: u64) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let (Some(from), Some(to)) = (self.starts().get(count), self.ends().get(count)) else { return false };
        from.store(start, Ordering::Relaxed);
        to.store(start.saturating_add(length), Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
        true
    }

    pub(super) fn has(&self, address: u64) -> bool {
        let known = self.starts().get(..self.count.load(Ordering::Acquire)).unwrap_or_default();
        let behind = known.partition_point(|start| start.load(Ordering::Relaxed) <= address);
        let end = behind.checked_sub(1).and_then(|at| self.ends().get(at));
        end.is_some_and(|end| address < end.load(Ordering::Relaxed))
    }
}

/// Ranges that may hold new objects. Several threads add at once.
pub(super) struct TrackedRanges {
    starts: Words,
    lengths: Words,
    count: AtomicUsize,
}

impl TrackedRanges {
    pub(super) fn new(starts: Words, lengths: Words) -> TrackedRanges {
        TrackedRanges { starts, lengths, count: AtomicUsize::new(0) }
    }

    pub(super) fn clear(&self) {
        self.count.store(0, Ordering::SeqCst);
    }

    pub(super) fn add(&self, start: u64, length: u64) {
        let at = self.count.fetch_add(1, Ordering::SeqCst);
        if let (Some(place), Some(room)) =
            (self.starts.as_ref().as_ref().get(at), self.lengths.as_ref().as_ref().get(at))
        {
            place.store(start, Ordering::Relaxed);
            room.store(length, Ordering::Relaxed);
        }
    }

    /// How many ranges found no room.
    pub(super) fn forgotten(&self) -> u64 {
        self.count.load(Ordering::SeqCst).saturating_sub(self.starts.as_ref().as_ref().len()) as u64
    }

    /// All ranges, once no thread adds any more.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (starts, lengths) = (self.starts.as_ref().as_ref(), self.lengths.as_ref().as_ref());
        let all = starts.iter().zip(lengths).take(self.count.load(Ordering::SeqCst));
        all.map(|(start, length)| (start.load(Ordering::Relaxed), length.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::words;

    #[test]
    fn an_address_is_young_within_a_range_and_not_beside_it() {
        let young = RangeSet::new(words(MOST_YOUNG), words(MOST_YOUNG));
        assert!(!young.has(0x1000), "nothing is known");
        assert!(young.add(0x1000, 0x100) && young.add(0x2000, 0x100));
        for (address, expected) in
            [(0xfff, false), (0x1000, true), (0x10ff, true), (0x1100, false), (0x2000, true), (0x2100, false)]
        {
            assert_eq!(young.has(address), expected, "{address:#x}");
        }
        young.clear();
        assert!(!young.has(0x1000));
    }

    #[test]
    fn ranges_beyond_the_room_are_counted() {
        let remembered = TrackedRanges::new(words(100), words(100));
        (0..103).for_each(|start| remembered.add(start, 8));
        assert_eq!((remembered.forgotten(), remembered.iter().count()), (3, 100));
        remembered.clear();
        assert_eq!((remembered.forgotten(), remembered.iter().count()), (0, 0));
    }
}
