//! Assembles the pieces of one GC.

use remora_heap_stream::ClassFacts;
use remora_heap_stream::watch::{BornObject, WatchPiece};

/// The kind of the ranges with the youngest generation.
const YOUNGEST: u32 = 0;

/// The oldest generation.
const OLDEST: u8 = 2;

/// Maximum size of a GC ([`Collection::size`]): twice what its ring holds, since the agent reports a GC at once. More counts as lost.
const LARGEST: usize = 1 << 25;

/// The effect of one GC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collection {
    /// Its number.
    pub number: u64,
    /// The oldest collected generation.
    pub generation: u8,
    /// Start time, monotonic, nanoseconds.
    pub begun: u64,
    /// End time.
    pub ended: u64,
    /// Extra time caused by heap tracking, nanoseconds.
    pub extra: u64,
    /// Whether the process was forked at its end.
    pub is_copied: bool,
    /// Collected ranges of the heap, as start and end, ascending and disjoint. Not used for a GC of the whole heap.
    pub collected: Vec<(u64, u64)>,
    /// Ranges of the youngest generation at its start, ascending and disjoint.
    pub youngest: Vec<(u64, u64)>,
    /// Surviving ranges: old address, new address, bytes.
    pub lives: Vec<(u64, u64, u64)>,
    /// Objects in young ranges, at their new addresses.
    pub born: Vec<BornObject>,
    /// For each class number, its objects in the youngest generation at the start.
    pub allocated: Vec<(u32, u64)>,
    /// Number of lost pieces.
    pub lost: u64,
}

impl Collection {
    /// Whether the whole heap was collected.
    pub fn is_whole(&self) -> bool {
        self.generation == OLDEST
    }

    /// What it takes to keep and to apply it, in ranges and objects.
    pub(crate) fn size(&self) -> usize {
        1 + self.collected.len() + self.youngest.len() + self.lives.len() + self.born.len() + self.allocated.len()
    }

    /// Duration, nanoseconds.
    pub fn time(&self) -> u64 {
        self.ended.saturating_sub(self.begun)
    }

    /// The part of it caused by heap tracking.
    pub fn time_for_watch(&self) -> u64 {
        self.extra.min(self.time())
    }
}

/// The same ranges, as start and end: ascending, without those that overlap. A target can send any number of ranges over the same objects.
fn disjoint(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    ranges.dedup_by(|(start, end), (_, before)| {
        let is_joined = *start <= *before;
        if is_joined {
            *before = (*before).max(*end);
        }
        is_joined
    });
    ranges
}

/// The result of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// Nothing yet.
    Nothing,
    /// A class number and its class.
    Class {
        /// The number.
        number: u32,
        /// ClassID.
        id: u64,
        /// Its description.
        facts: ClassFacts,
    },
    /// A complete GC.
    Collection(Box<Collection>),
    /// Pieces are missing: all earlier knowledge is stale.
    Hole,
}

/// Assembles pieces. Ignores those of a GC whose start was not seen (contract GCH-01).
#[derive(Debug, Default)]
pub struct Gathering {
    current: Option<Collection>,
    /// The number of the last GC whose end was seen.
    last: Option<u64>,
}

impl Gathering {
    /// Adds the next piece.
    pub fn take(&mut self, piece: WatchPiece) -> Received {
        self.take_within(LARGEST, piece)
    }

    fn take_within(&mut self, largest: usize, piece: WatchPiece) -> Received {
        if let Some(current) = self.current.as_mut().filter(|current| current.size() > largest) {
            let Collection { number, generation, begun, lost, .. } = *current;
            *current = Collection { number, generation, begun, lost: lost.saturating_add(1), ..Collection::default() };
        }
        match piece {
            WatchPiece::Class { number, id, facts, .. } => return Received::Class { number, id, facts },
            WatchPiece::Begins { collection, time, generation, .. } => {
                let follows = self.last.is_none_or(|last| last.checked_add(1) == Some(collection));
                let new = Collection { number: collection, generation, begun: time, ..Collection::default() };
                self.current = Some(new);
                if !follows {
                    self.last = None;
                    return Received::Hole;
                }
            }
            WatchPiece::Bounds { collection, ranges } => {
                let Some(current) = self.of(collection) else { return Received::Nothing };
                for range in ranges {
                    let part = (range.start, range.start.saturating_add(range.length));
                    if range.kind == YOUNGEST {
                        current.youngest.push(part);
                    }
                    current.collected.push(part);
                }
            }
            WatchPiece::Lives { collection, ranges } => {
                if let Some(current) = self.of(collection) {
                    current.lives.extend(ranges);
                }
            }
            WatchPiece::Allocated { collection, counts } => {
                if let Some(current) = self.of(collection) {
                    current.allocated.extend(counts);
                }
            }
            WatchPiece::Born { collection, objects } => {
                if let Some(current) = self.of(collection) {
                    current.born.extend(objects);
                }
            }
            WatchPiece::Ends { collection, time, lost, is_copied, extra } => {
                if self.of(collection).is_none() {
                    return Received::Nothing;
                }
                self.last = Some(collection);
                let Some(mut current) = self.current.take() else { return Received::Nothing };
                (current.ended, current.is_copied, current.extra) = (time, is_copied, extra);
                current.lost = current.lost.saturating_add(lost);
                current.collected = disjoint(std::mem::take(&mut current.collected));
                current.youngest = disjoint(std::mem::take(&mut current.youngest));
                current.lives.sort_unstable();
                return Received::Collection(Box::new(current));
            }
        }
        Received::Nothing
    }

    fn of(&mut self, collection: u64) -> Option<&mut Collection> {
        self.current.as_mut().filter(|current| current.number == collection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_ranges_that_overlap_were_walked_once_for_each() {
        let joined = disjoint(vec![(50, 60), (10, 20), (10, 20), (15, 30), (30, 40), (12, 14), (70, 70)]);
        assert_eq!(joined, [(10, 40), (50, 60), (70, 70)]);
        assert_eq!(disjoint(vec![(1, u64::MAX); 10_000]), [(1, u64::MAX)]);
    }

    #[test]
    fn a_collection_larger_than_its_ring_is_not_kept_and_counts_as_lost() {
        let mut gathering = Gathering::default();
        let begins = WatchPiece::Begins { collection: 1, time: 0, generation: 2, is_induced: false };
        let mut take = |piece| gathering.take_within(100, piece);
        take(begins);
        for _ in 0..1000 {
            take(WatchPiece::Lives { collection: 1, ranges: vec![(0, 0, 0); 10] });
        }
        let ends = WatchPiece::Ends { collection: 1, time: 1, lost: 0, is_copied: true, extra: 0 };
        let Received::Collection(collection) = take(ends) else { panic!("it has ended") };
        assert!(collection.size() < 112 && collection.lost > 0 && collection.is_copied, "{collection:?}");
    }
}
