//! The pieces of one collection, put together.

use remora_wire::heap::ClassFacts;
use remora_wire::watch::{BornObject, WatchPiece};

/// The kind of a part of the heap that holds the youngest.
const YOUNGEST: u32 = 0;

/// The oldest generation.
const OLDEST: u8 = 2;

/// What one collection has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collection {
    /// Its number.
    pub number: u64,
    /// The oldest generation that was collected.
    pub generation: u8,
    /// Whether somebody asked for it.
    pub is_induced: bool,
    /// When it began, monotonic, nanoseconds.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
    /// Nanoseconds that it took longer since it was watched.
    pub extra: u64,
    /// Whether a copy of the process was made at its end.
    pub is_copied: bool,
    /// Parts of the heap that were collected, as start and end, where that is not all of it; ascending.
    pub collected: Vec<(u64, u64)>,
    /// Parts in which the youngest lay at its beginning; ascending.
    pub youngest: Vec<(u64, u64)>,
    /// What lives: where it lay, where it lies, bytes.
    pub lives: Vec<(u64, u64, u64)>,
    /// Objects in what was young, where they lie now.
    pub born: Vec<BornObject>,
    /// The number of a class, and objects of it that were in the youngest generation at the beginning.
    pub allocated: Vec<(u32, u64)>,
    /// Pieces of it that were lost.
    pub lost: u64,
}

impl Collection {
    /// Whether all of the heap was collected.
    pub fn is_whole(&self) -> bool {
        self.generation == OLDEST
    }

    /// How long it took, nanoseconds.
    pub fn time(&self) -> u64 {
        self.ended.saturating_sub(self.begun)
    }

    /// How much of that was for the watch.
    pub fn time_for_watch(&self) -> u64 {
        self.extra.min(self.time())
    }
}

/// What a piece has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Nothing yet.
    Nothing,
    /// A number of a class has a meaning.
    Class {
        /// The number.
        number: u32,
        /// ClassID.
        id: u64,
        /// What is known of it.
        facts: ClassFacts,
    },
    /// A collection is over.
    Collection(Box<Collection>),
    /// Pieces are missing: whatever was known is stale.
    Hole,
}

/// Puts pieces together. What belongs to no collection whose beginning was heard is ignored (contract GCH-01).
#[derive(Debug, Default)]
pub struct Gathering {
    current: Option<Collection>,
    /// The number of the last collection of which an end was heard.
    last: Option<u64>,
    ignored: u64,
}

impl Gathering {
    /// Takes the next piece.
    pub fn take(&mut self, piece: WatchPiece) -> Heard {
        match piece {
            WatchPiece::Class { number, id, facts, .. } => return Heard::Class { number, id, facts },
            WatchPiece::Begins { collection, time, generation, is_induced } => {
                let follows = self.last.is_none_or(|last| last.checked_add(1) == Some(collection));
                let new =
                    Collection { number: collection, generation, is_induced, begun: time, ..Collection::default() };
                self.current = Some(new);
                if !follows {
                    self.last = None;
                    return Heard::Hole;
                }
            }
            WatchPiece::Bounds { collection, ranges } => {
                let Some(current) = self.of(collection) else { return Heard::Nothing };
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
                    return Heard::Nothing;
                }
                self.last = Some(collection);
                let Some(mut current) = self.current.take() else { return Heard::Nothing };
                (current.ended, current.lost, current.is_copied, current.extra) = (time, lost, is_copied, extra);
                current.collected.sort_unstable();
                current.youngest.sort_unstable();
                current.lives.sort_unstable();
                return Heard::Collection(Box::new(current));
            }
        }
        Heard::Nothing
    }

    /// Pieces of collections of which no beginning was heard.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    fn of(&mut self, collection: u64) -> Option<&mut Collection> {
        let current = self.current.as_mut().filter(|current| current.number == collection);
        self.ignored += u64::from(current.is_none());
        current
    }
}
