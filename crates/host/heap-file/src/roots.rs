//! What a snapshot says of roots beyond their kinds: which method's local it is, which static field, or which object's being alive keeps it.

use crate::state::shorten;
use remora_heap::{HeapGraph, ObjectIx, RootKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names of methods that stand in the words on one object, and the longest of each, bytes.
const MOST_NAMES: usize = 3;
const LONGEST_NAME: usize = 1 << 10;
/// Objects of whose roots more is known than their kinds: roots of others have their kind alone.
const MOST_OBJECTS: usize = 1 << 20;
/// Bytes of all words together. One name may be that of a thousand roots, and what is written of it then is many times as long as the file.
const MOST_WORDS: usize = 64 << 20;

/// A method whose locals hold objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodRow {
    /// FunctionID, as roots name it.
    pub id: u64,
    /// Its whole name.
    pub name: String,
}

/// What was told with roots.
#[derive(Debug, Default)]
pub(crate) struct Details {
    told: BTreeMap<(u64, RootKind), Vec<u64>>,
    methods: BTreeMap<u64, String>,
    /// Names, which details of roots number from 1 on.
    statics: Vec<String>,
    /// Roots of which more was told than is kept.
    left_out: u64,
}

impl Details {
    pub(crate) fn root(&mut self, address: u64, kind: RootKind, detail: u64) {
        let says_more = matches!(kind, RootKind::Stack | RootKind::Pinned | RootKind::Dependent | RootKind::Static);
        let has_room = self.told.len() < MOST_OBJECTS || self.told.contains_key(&(address, kind));
        if says_more && detail != 0 && !has_room {
            self.left_out += 1;
        } else if says_more && detail != 0 {
            let known = self.told.entry((address, kind)).or_default();
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

    /// Puts it into the graph, in words; of how many roots these found no room.
    pub(crate) fn note(self, graph: &mut HeapGraph) -> u64 {
        let (mut room, mut left_out) = (MOST_WORDS, self.left_out);
        for ((address, kind), details) in &self.told {
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
            // Of pinning ones it is a method or a handle.
            _ => self.methods.get(&detail).map(|name| format!("in {}", shown(name))),
        }
    }
}

fn of_key(graph: &HeapGraph, key: ObjectIx) -> String {
    format!("as long as {} (at {:#x}) is alive", shown(&graph.type_of(key).name), graph.address(key))
}

/// A name, cut where it is very long.
fn shown(name: &str) -> String {
    let mut name = name.to_owned();
    shorten(&mut name, LONGEST_NAME);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_roots_of_whom_more_is_told_than_is_kept_are_counted() {
        let mut details = Details::default();
        let more = 7;
        for index in 0..MOST_OBJECTS as u64 + more {
            details.root(0x1000 + index * 24, RootKind::Stack, 1);
        }
        // Of one that is known another may be told, and of a handle there is nothing to tell.
        details.root(0x1000, RootKind::Stack, 2);
        details.root(8, RootKind::Handle, 1);
        let mut graph = remora_heap::Builder::new().finish().expect("nothing");
        assert_eq!(details.note(&mut graph), more);
    }
}
