//! Mostly empty arrays of references: a slot without an object costs as much as one with.

use super::kinds::{Kinds, REFERENCE};
use crate::bits::Bits;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::{Place, TypeIx};
use std::cmp::Reverse;
use std::collections::HashSet;

/// Arrays with fewer slots are omitted: a small one costs little, whatever it holds.
const FEWEST: u64 = 16;
/// Maximum arrays listed individually.
const WORST: usize = 1000;

/// Mostly empty arrays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmptyArrays {
    /// By type, most waste first.
    pub rows: Vec<ArrayRow>,
    /// The arrays that waste most, largest first.
    pub worst: Vec<EmptyArray>,
    /// Bytes of all their empty slots.
    pub wasted: u64,
}

/// The arrays of one type that are more than half empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayRow {
    /// Their type.
    pub type_ix: TypeIx,
    /// Number of arrays.
    pub count: u64,
    /// Their slots.
    pub places: u64,
    /// Slots without an object.
    pub empty: u64,
    /// Bytes of the empty slots.
    pub wasted: u64,
}

/// One array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmptyArray {
    /// The array.
    pub object: ObjectIx,
    /// Its slots.
    pub places: u64,
    /// Slots without an object.
    pub empty: u64,
}

impl EmptyArrays {
    /// All arrays except those of `collections`, which have a finding of their own, and those in which the runtime keeps static fields.
    pub(super) fn of(graph: &HeapGraph, kinds: Kinds<'_>, collections: &Bits) -> EmptyArrays {
        let holds_references = |index| graph.facts(index).array.is_some_and(|array| array.place == Place::Reference);
        let candidates = kinds.each(holds_references);
        let mut rows = kinds.each(|type_ix| ArrayRow { type_ix, count: 0, places: 0, empty: 0, wasted: 0 });
        let mut worst = Vec::new();
        let statics: HashSet<ObjectIx> = kinds.statics().collect();
        for object in graph.objects().filter(|object| candidates[graph.type_ix(*object).0 as usize]) {
            let Some(places) = kinds.places(object).and_then(|places| places.count()) else { continue };
            let empty = places.saturating_sub(graph.references(object).len() as u64);
            if places < FEWEST || empty * 2 <= places || collections.contains(object.0) || statics.contains(&object) {
                continue;
            }
            let row = &mut rows[graph.type_ix(object).0 as usize];
            row.count += 1;
            row.places += places;
            row.empty += empty;
            row.wasted += empty * REFERENCE;
            worst.push(EmptyArray { object, places, empty });
            if worst.len() >= 2 * WORST {
                keep_worst(&mut worst);
            }
        }
        keep_worst(&mut worst);
        rows.retain(|row| row.count > 0);
        rows.sort_by_key(|row| (Reverse(row.wasted), row.type_ix));
        EmptyArrays { wasted: rows.iter().map(|row| row.wasted).sum(), rows, worst }
    }
}

fn keep_worst(worst: &mut Vec<EmptyArray>) {
    worst.sort_by_key(|array| (Reverse(array.empty), array.object));
    worst.truncate(WORST);
}
