//! Details of roots beyond their kinds: the method of a local, the static field, or the object of a dependent handle.

use crate::state::shorten;
use remora_heap::{HeapGraph, ObjectIx, RootKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum names in an object's details, and the longest of each, bytes.
const MOST_NAMES: usize = 3;
const LONGEST_NAME: usize = 1 << 10;
/// Maximum objects with details of their roots; other objects keep only the kinds.
const MOST_OBJECTS: usize = 1 << 20;
/// Maximum bytes of all details. One name may belong to a thousand roots, so details could far exceed the file.
const MOST_WORDS: usize = 64 << 20;

/// A method whose locals hold objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodRow {
    /// FunctionID, as in roots.
    pub id: u64,
    /// Its full name.
    pub name: String,
}

/// The details that the stream has for roots.
#[derive(Debug, Default)]
pub(crate) struct Details {
    details: BTreeMap<(u64, RootKind), Vec<u64>>,
    methods: BTreeMap<u64, String>,
    /// Names; details of roots number them from 1.
    statics: Vec<String>,
    /// Roots whose details were dropped.
    left_out: u64,
}

impl Details {
    pub(crate) fn root(&mut self, address: u64, kind: RootKind, detail: u64) {
        let says_more = matches!(kind, RootKind::Stack | RootKind::Pinned | RootKind::Dependent | RootKind::Static);
        let has_room = self.details.len() < MOST_OBJECTS || self.details.contains_key(&(address, kind));
        if says_more && detail != 0 && !has_room {
            self.left_out += 1;
        } else if says_more && detail != 0 {
            let known = self.details.entry((address, kind)).or_default();
            if known.len() <= MOST_NAMES && !known.contains(&detail) {
                known.push(detail);
            }
        }
    }

    pub(crate) fn static_field(&mut self, address: u64, name: String) {
        self.statics.push(name);
        self.root(address, RootKind::Static, self.statics.len() as u64);
    }

    pub(crate) fn methods(&mut self, rows: Vec<MethodRow>) {
        self.methods.extend(rows.into_iter().map(|row| (row.id, row.name)));
    }

    /// Adds the details to the graph as text; returns the number of roots without room for them.
    pub(crate) fn note(self, graph: &mut HeapGraph) -> u64 {
        let (mut room, mut left_out) = (MOST_WORDS, self.left_out);
        for ((address, kind), details) in &self.details {
            let Some(object) = graph.object_at(*address) else { continue };
            let mut words: Vec<String> =
                details.iter().filter_map(|detail| self.words(graph, *kind, *detail)).collect();
            if words.len() > MOST_NAMES {
                words.truncate(MOST_NAMES);
                words.push("…".to_owned());
            }
            let words = words.join(", ");
            let Some(rest) = room.checked_sub(words.len()) else {
                left_out += 1;
                continue;
            };
            if !words.is_empty() {
                room = rest;
                graph.note_root(object, *kind, words);
            }
        }
        left_out
    }

    fn words(&self, graph: &HeapGraph, kind: RootKind, detail: u64) -> Option<String> {
        match kind {
            RootKind::Dependent => graph.object_at(detail).map(|key| of_key(graph, key)),
            RootKind::Static => self.statics.get(usize::try_from(detail).ok()?.checked_sub(1)?).map(|name| shown(name)),
            // A pinning root's detail is a method or a handle.
            _ => self.methods.get(&detail).map(|name| format!("in {}", shown(name))),
        }
    }
}

fn of_key(graph: &HeapGraph, key: ObjectIx) -> String {
    format!("as long as {} (at {:#x}) is alive", shown(&graph.type_of(key).name), graph.address(key))
}

/// A name, cut if very long.
fn shown(name: &str) -> String {
    let mut name = name.to_owned();
    shorten(&mut name, LONGEST_NAME);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_roots_of_whom_more_is_reported_than_is_kept_are_counted() {
        let mut details = Details::default();
        let more = 7;
        for index in 0..MOST_OBJECTS as u64 + more {
            details.root(0x1000 + index * 24, RootKind::Stack, 1);
        }
        // The first object may get further details; a handle has none.
        details.root(0x1000, RootKind::Stack, 2);
        details.root(8, RootKind::Handle, 1);
        let mut graph = remora_heap::Builder::new().finish().expect("nothing");
        assert_eq!(details.note(&mut graph), more);
    }
}
