//! What is known of a snapshot as a whole. The boundary type of version 1: frozen, fields are only added.

use serde::{Deserialize, Serialize};

/// Most notes that are kept, and the longest, bytes.
const NOTES: usize = 64;
const NOTE: usize = 16 << 10;

/// See the module's text. What a file does not say is empty, or 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// When it was taken, nanoseconds since 1970.
    pub taken_unix_nanoseconds: u64,
    /// The process.
    pub process_id: u32,
    /// Its name.
    pub application: String,
    /// How it was started.
    pub command_line: String,
    /// `.NET 8.0.4`.
    pub runtime: String,
    /// How long the program stood for the collection, the copying of the process in it.
    pub collection_nanoseconds: Option<u64>,
    /// How long of that the copying took.
    pub copy_nanoseconds: Option<u64>,
    /// The most memory that the copy was seen to cost, bytes.
    pub extra_memory_bytes: Option<u64>,
    /// Whether it was taken without a collection, so that garbage is among the objects.
    pub has_garbage: bool,
    /// Whether the characters of strings were told.
    pub has_texts: bool,
    /// Whether what stands in objects was told.
    pub has_values: bool,
    /// Ranges of the heap that were not walked, or not to their end.
    pub ranges_unwalked: u64,
    /// Objects whose class could not be told.
    pub objects_unwalked: u64,
    /// Whether the copy told everything to the end.
    pub complete: bool,
    /// Whether the copy told all static fields that it could be asked about.
    pub has_static_fields: bool,
    /// What else is to be said.
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
        // Plain data: it cannot fail.
        serde_json::to_vec(&bounded).unwrap_or_default()
    }
}

/// Cuts a text at a character.
pub(crate) fn shorten(text: &mut String, longest: usize) {
    if text.len() > longest {
        let mut end = longest;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
}
