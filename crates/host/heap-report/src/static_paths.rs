//! The static field that holds an object through arrays and collections alone: `static App.Cache.entries`, for an element of a list there.
//!
//! A longer path through other objects says less: they may hold it by chance, beside what it belongs to.

use crate::roots;
use remora_heap::{HeapGraph, ObjectIx, RootKind};
use std::collections::{HashMap, HashSet};

/// A static field and the array or collection in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StaticPath {
    /// `static App.Cache.entries`.
    pub(crate) root: String,
    /// Its value.
    pub(crate) through: ObjectIx,
}

/// The paths to those of `wanted` that have one. Looks at each array and collection in static fields once.
pub(crate) fn static_paths(graph: &HeapGraph, wanted: &HashSet<ObjectIx>) -> HashMap<ObjectIx, StaticPath> {
    let mut found = HashMap::new();
    if wanted.is_empty() {
        return found;
    }
    let are_passed: Vec<bool> = graph.types().iter().map(|of| of.name.starts_with("System.Collections.")).collect();
    let is_passed = |object: ObjectIx| {
        let of = graph.type_ix(object);
        are_passed[of.0 as usize] || graph.facts(of).array.is_some()
    };
    // Only named fields: without a name, nobody can look for it.
    let is_named = |object: ObjectIx| graph.root_note(object, RootKind::Static).is_some();
    let fields = graph.roots().iter().filter(|root| root.kind == RootKind::Static).map(|root| root.object);
    let mut passed = HashSet::new();
    let mut waiting: Vec<(ObjectIx, ObjectIx)> = Vec::new();
    for field in fields.filter(|field| is_named(*field) && is_passed(*field)) {
        if passed.insert(field) {
            waiting.push((field, field));
        }
        while let Some((object, field)) = waiting.pop() {
            for target in graph.references(object) {
                if wanted.contains(&target) && !found.contains_key(&target) {
                    let root = roots::static_field(graph, field).unwrap_or_default();
                    found.insert(target, StaticPath { root, through: field });
                }
                if is_passed(target) && passed.insert(target) {
                    waiting.push((target, field));
                }
            }
        }
    }
    found
}
