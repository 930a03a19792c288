//! Properties of a whole snapshot. The boundary type of version 1: frozen, fields are only added.

use remora_wire::floor_char_boundary;
use serde::{Deserialize, Serialize};

/// Maximum notes, and the longest, bytes.
const NOTES: usize = 64;
const NOTE: usize = 16 << 10;

/// Properties of a snapshot. A missing field reads as empty, or 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Time of the snapshot, nanoseconds since 1970.
    pub taken_unix_nanoseconds: u64,
    /// The process.
    pub process_id: u32,
    /// Its name.
    pub application: String,
    /// Its command line.
    pub command_line: String,
    /// `.NET 8.0.4`.
    pub runtime: String,
    /// Pause of the application for the GC, including the fork.
    pub collection_nanoseconds: Option<u64>,
    /// The fork's part of that.
    pub copy_nanoseconds: Option<u64>,
    /// The copy's largest observed memory cost, bytes.
    pub extra_memory_bytes: Option<u64>,
    /// Whether it was taken without a GC, so that it includes garbage.
    pub has_garbage: bool,
    /// Whether it has the characters of strings.
    pub has_texts: bool,
    /// Whether it has field values.
    pub has_values: bool,
    /// Heap ranges not walked, or not to the end.
    pub ranges_unwalked: u64,
    /// Objects of unknown class.
    pub objects_unwalked: u64,
    /// Whether the copy sent everything.
    pub complete: bool,
    /// Whether it has all static fields that the runtime could be asked about.
    pub has_static_fields: bool,
    /// Further notes.
    pub notes: Vec<String>,
}

impl State {
    pub(crate) fn json(&self) -> Vec<u8> {
        let mut bounded = self.clone();
        bounded.notes.truncate(NOTES);
        bounded.notes.iter_mut().for_each(|note| shorten(note, NOTE));
        shorten(&mut bounded.command_line, NOTE);
        shorten(&mut bounded.application, NOTE);
        shorten(&mut bounded.runtime, NOTE);
        // Plain data: serialization cannot fail.
        serde_json::to_vec(&bounded).unwrap_or_default()
    }
}

/// Cuts a text at a character boundary.
pub(crate) fn shorten(text: &mut String, longest: usize) {
    if text.len() > longest {
        text.truncate(floor_char_boundary(text, longest));
        text.push('…');
    }
}
