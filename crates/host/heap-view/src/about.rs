//! What is known of a snapshot beside its graph. It is kept in the index as JSON: fields are only added within a version.

use remora_heap::HeapGraph;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The program.
    pub application: String,
    /// Its process.
    pub process_id: u32,
    /// `.NET 8.0.4`.
    pub runtime: String,
    /// When it was taken, since 1970.
    pub taken_unix_nanoseconds: u64,
    /// Whether every object is in it.
    pub complete: bool,
    /// Whether it was taken without a collection: garbage is among the objects, and free room was not told.
    pub has_garbage: bool,
    /// Bytes between objects.
    pub free_bytes: u64,
    /// What else is to be said.
    pub notes: Vec<String>,
    /// Roots by their kinds. Filled in when the index is made.
    pub roots: BTreeMap<String, u64>,
    /// What is known of roots beyond their kinds, by the number of the object that they hold, and by kind. Filled in when the index is
    /// made, as far as there is room.
    pub root_notes: BTreeMap<u32, BTreeMap<String, String>>,
}

/// Bytes of what is known of roots that are kept, at most: it is held in memory.
const MOST_ROOT_NOTES: usize = 2 << 20;

impl About {
    /// Takes what a graph says of its roots.
    pub(crate) fn take_roots(&mut self, graph: &HeapGraph) {
        for root in graph.roots() {
            *self.roots.entry(root.kind.name().to_owned()).or_default() += 1;
        }
        let (mut bytes, mut left_out) = (0, 0_u64);
        for (object, kind, note) in graph.root_notes() {
            bytes += note.len() + ROOM_OF_A_NOTE;
            if bytes > MOST_ROOT_NOTES {
                left_out += 1;
                continue;
            }
            self.root_notes.entry(object.0).or_default().insert(kind.name().to_owned(), note.to_owned());
        }
        if left_out > 0 {
            self.notes.push(format!(
                "what is known of {left_out} roots beyond their kinds is not on this page: `remora heap show` tells it"
            ));
        }
    }
}

/// Bytes that a note takes beside its text, about.
const ROOM_OF_A_NOTE: usize = 48;
