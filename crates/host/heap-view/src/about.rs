//! Properties of a snapshot besides its graph. The index has them as JSON: fields are only added within a version.

use remora_heap::HeapGraph;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Properties of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The application.
    pub application: String,
    /// Its process.
    pub process_id: u32,
    /// `.NET 8.0.4`.
    pub runtime: String,
    /// Time of the snapshot, since 1970.
    pub taken_unix_nanoseconds: u64,
    /// Whether it has every object.
    pub complete: bool,
    /// Whether it was taken without a GC: it includes garbage, and free space is unknown.
    pub has_garbage: bool,
    /// Bytes between objects.
    pub free_bytes: u64,
    /// Further notes.
    pub notes: Vec<String>,
    /// Suspects and findings, as `remora heap report --json` has them. Set when the index is made.
    pub found: serde_json::Value,
    /// Roots by kind. Set when the index is made.
    pub roots: BTreeMap<String, u64>,
    /// Details of roots, by object number and kind. Set when the index is made, within a limit.
    pub root_notes: BTreeMap<u32, BTreeMap<String, String>>,
}

/// Maximum bytes of root details, since they are kept in memory.
const MOST_ROOT_NOTES: usize = 2 << 20;

impl About {
    /// Adds the root counts and details of a graph.
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
            self.notes
                .push(format!("details of {left_out} roots are not on this page: `remora heap show` prints them"));
        }
    }
}

/// Approximate bytes of a note besides its text.
const ROOM_OF_A_NOTE: usize = 48;
