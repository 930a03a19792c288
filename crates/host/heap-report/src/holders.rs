//! The objects that no other object alone keeps alive, by type and root.

use crate::roots;
use crate::suspects::object;
use remora_heap::{DominatorTree, HeapGraph, ObjectIx, TypeIx};
use remora_terminal::grouped;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Holders of one type with the same root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holders {
    pub(crate) of: TypeIx,
    /// The root's kind and details, if one was seen.
    pub(crate) held_by: Option<String>,
    pub(crate) objects: u64,
    /// The one with the largest retained size.
    pub(crate) first: ObjectIx,
    pub(crate) own: u64,
    pub(crate) retained: u64,
    pub(crate) retained_count: u64,
}

impl Holders {
    /// Those of one type together, whatever holds them. The order stays.
    pub(crate) fn by_type(rows: Vec<Holders>) -> Vec<Holders> {
        let mut merged: Vec<Holders> = Vec::new();
        let mut places = HashMap::<TypeIx, usize>::new();
        for row in rows {
            let place = *places.entry(row.of).or_insert(merged.len());
            match merged.get_mut(place) {
                Some(known) => {
                    known.objects += row.objects;
                    known.own += row.own;
                    known.retained += row.retained;
                    known.retained_count += row.retained_count;
                }
                None => merged.push(Holders { held_by: None, ..row }),
            }
        }
        merged
    }

    /// `App.Cache (at 0x7f0012345678)`, or `12 × App.Cache`.
    pub(crate) fn name(&self, graph: &HeapGraph) -> String {
        match self.objects {
            1 => object(graph, self.first),
            many => format!("{} × {}", grouped(many), graph.shown_type_of(self.first)),
        }
    }
}

/// All holders, the largest retained size first.
pub(crate) fn holders(graph: &HeapGraph, tree: &DominatorTree) -> Vec<Holders> {
    let mut of_root = roots::all_holders(graph);
    let mut rows = HashMap::<(TypeIx, Option<String>), Holders>::new();
    for node in tree.children(tree.root()) {
        // Unreached objects have a node above them that is no object.
        let Some(first) = tree.object(node) else { continue };
        let (of, held_by) = (graph.type_ix(first), of_root.remove(&first));
        let row = rows.entry((of, held_by.clone())).or_insert(Holders {
            of,
            held_by,
            objects: 0,
            first,
            own: 0,
            retained: 0,
            retained_count: 0,
        });
        row.objects += 1;
        row.own += graph.bytes(first);
        row.retained += tree.retained(node);
        row.retained_count += tree.retained_count(node);
        if tree.retained(node) > tree.retained(tree.node(row.first)) {
            row.first = first;
        }
    }
    let mut rows: Vec<Holders> = rows.into_values().collect();
    rows.sort_by_key(|row| (Reverse(row.retained), row.first));
    rows
}
