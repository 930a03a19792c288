//! Unused slots of arrays and collections, by type and by object.

use super::kinds::Kinds;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::TypeIx;
use std::cmp::Reverse;

/// Arrays and collections with fewer slots are omitted: they waste little, whatever they hold.
pub(super) const FEWEST: u64 = 16;
/// Maximum objects listed individually.
const WORST: usize = 1000;

/// Arrays or collections that are more than half unused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waste {
    /// By type, most waste first.
    pub rows: Vec<WasteRow>,
    /// The objects that waste most, largest first.
    pub worst: Vec<Wasteful>,
    /// Bytes of all their unused slots.
    pub wasted: u64,
}

/// The objects of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WasteRow {
    /// Their type.
    pub type_ix: TypeIx,
    /// Number of objects.
    pub count: u64,
    /// Their slots.
    pub places: u64,
    /// Used slots.
    pub used: u64,
    /// Bytes of the unused slots.
    pub wasted: u64,
    /// Whether usage was read from fields. Otherwise it is the number of references: null counts as unused.
    /// An entry whose key and value are both references counts twice, so actual usage may be half.
    pub is_exact: bool,
}

/// One object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wasteful {
    /// The array or collection.
    pub object: ObjectIx,
    /// Its slots.
    pub places: u64,
    /// Used slots.
    pub used: u64,
    /// Bytes of the unused slots.
    pub wasted: u64,
}

/// The slots of an object.
pub(super) struct Slots {
    pub(super) places: u64,
    pub(super) used: u64,
    /// Bytes of one slot.
    pub(super) each: u64,
    pub(super) is_exact: bool,
}

/// Collects waste.
pub(super) struct Collector<'a> {
    graph: &'a HeapGraph,
    /// One for each type.
    rows: Vec<WasteRow>,
    worst: Vec<Wasteful>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(graph: &'a HeapGraph, kinds: Kinds<'_>) -> Collector<'a> {
        let none = |type_ix| WasteRow { type_ix, count: 0, places: 0, used: 0, wasted: 0, is_exact: true };
        Collector { graph, rows: kinds.each(none), worst: Vec::new() }
    }

    /// Adds an object, if it wastes enough.
    pub(super) fn add(&mut self, object: ObjectIx, slots: Slots) {
        let Slots { places, each, is_exact, .. } = slots;
        let used = slots.used.min(places);
        if places < FEWEST || used * 2 >= places {
            return;
        }
        let wasted = (places - used) * each;
        let row = &mut self.rows[self.graph.type_ix(object).0 as usize];
        row.count += 1;
        row.places += places;
        row.used += used;
        row.wasted += wasted;
        row.is_exact &= is_exact;
        self.worst.push(Wasteful { object, places, used, wasted });
        if self.worst.len() >= 2 * WORST {
            self.keep_worst();
        }
    }

    pub(super) fn finish(mut self) -> Waste {
        self.keep_worst();
        let Collector { mut rows, worst, .. } = self;
        rows.retain(|row| row.count > 0);
        rows.sort_by_key(|row| (Reverse(row.wasted), row.type_ix));
        Waste { wasted: rows.iter().map(|row| row.wasted).sum(), rows, worst }
    }

    fn keep_worst(&mut self) {
        self.worst.sort_by_key(|one| (Reverse(one.wasted), one.object));
        self.worst.truncate(WORST);
    }
}
