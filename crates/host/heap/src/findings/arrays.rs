//! Mostly empty arrays of references: a slot without an object costs as much as one with.

use super::kinds::{Kinds, REFERENCE};
use super::waste::{Collector, Slots, Waste};
use crate::bits::Bits;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::Place;
use std::collections::HashSet;

/// All arrays except those of `collections`, which have a finding of their own, and those in which the runtime keeps static fields.
pub(super) fn empty_arrays(graph: &HeapGraph, kinds: Kinds<'_>, collections: &Bits) -> Waste {
    let holds_references = |index| graph.facts(index).array.is_some_and(|array| array.place == Place::Reference);
    let candidates = kinds.each(holds_references);
    let statics: HashSet<ObjectIx> = kinds.statics().collect();
    let mut waste = Collector::new(graph, kinds);
    for object in graph.objects().filter(|object| candidates[graph.type_ix(*object).0 as usize]) {
        let Some(places) = kinds.places(object).and_then(|places| places.count()) else { continue };
        if !collections.contains(object.0) && !statics.contains(&object) {
            let used = graph.references(object).len() as u64;
            waste.add(object, Slots { places, used, each: REFERENCE, is_exact: true });
        }
    }
    waste.finish()
}
