//! The heaps of a module's metadata: strings, blobs, user strings and ids, each once, at its offset.
//!
//! A profiler gets addresses in them. An entry stays where it is while the module is loaded or its metadata open.

use super::rows::Rows;
use crate::runtime::metadata_contents::Cell;
use crate::runtime::metadata_contents::stored::{stored_blob, stored_text};
use corprof::Guid;
use std::collections::BTreeMap;

/// Bytes of an id.
const ID_SIZE: u32 = 16;

/// One heap. The first entry of all but that of ids is empty.
#[derive(Debug, Default)]
pub(super) struct Heap {
    offsets: BTreeMap<Vec<u8>, u32>,
    /// The stored forms.
    entries: BTreeMap<u32, Box<[u8]>>,
    pub(super) size: u32,
}

impl Heap {
    /// With the empty entry, which is one byte in every form.
    fn with_empty_entry() -> Heap {
        let mut heap = Heap::default();
        heap.keep(vec![0]);
        heap
    }

    /// The offset of an entry in its stored form.
    pub(super) fn keep(&mut self, stored: Vec<u8>) -> u32 {
        if let Some(offset) = self.offsets.get(&stored) {
            return *offset;
        }
        let offset = self.size;
        self.size += stored.len() as u32;
        self.entries.insert(offset, stored.clone().into_boxed_slice());
        self.offsets.insert(stored, offset);
        offset
    }

    /// From an offset to the end of its entry. An offset in the middle of an entry is one of the profiler's mistakes that succeed.
    pub(super) fn from(&self, offset: u32) -> Option<&[u8]> {
        let (start, entry) = self.entries.range(..=offset).next_back()?;
        entry.get((offset - start) as usize..).filter(|rest| !rest.is_empty())
    }

    /// The offset of the next entry; `None` at the end.
    pub(super) fn after(&self, offset: u32) -> Option<u32> {
        let next = offset + self.from(offset)?.len() as u32;
        (next < self.size).then_some(next)
    }
}

/// All heaps.
#[derive(Debug)]
pub(super) struct Heaps {
    pub(super) strings: Heap,
    pub(super) blobs: Heap,
    pub(super) texts: Heap,
    ids: Heap,
}

impl Default for Heaps {
    fn default() -> Heaps {
        let [strings, blobs, texts] = [(); 3].map(|()| Heap::with_empty_entry());
        Heaps { strings, blobs, texts, ids: Heap::default() }
    }
}

impl Heaps {
    /// Adds what the rows refer to, in their order. What is there already keeps its offset.
    pub(super) fn fill(&mut self, rows: &Rows) {
        for (_, row) in rows.all() {
            row.cells().for_each(|cell| _ = self.value_of(cell));
        }
        for text in rows.texts.values() {
            self.texts.keep(stored_text(text));
        }
    }

    /// The value of a cell: a number, a token, or the offset of its content.
    pub(super) fn value_of(&mut self, cell: &Cell) -> u32 {
        match cell {
            Cell::Number(value) | Cell::Token(value) => *value,
            Cell::Text(text) => self.strings.keep(stored_string(text)),
            Cell::Blob(bytes) => self.blobs.keep(stored_blob(bytes)),
            // The first id is number 1; 0 is none.
            Cell::Id(0) => 0,
            Cell::Id(id) => self.ids.keep(Guid::from_u128(*id).to_bytes().to_vec()) / ID_SIZE + 1,
        }
    }

    /// Bytes of all ids.
    pub(super) fn size_of_ids(&self) -> u32 {
        self.ids.size
    }

    /// The id of a number from 1 on.
    pub(super) fn id(&self, number: u32) -> Option<&[u8]> {
        self.ids.from(number.checked_sub(1)?.checked_mul(ID_SIZE)?)
    }

    /// The address of a name, with a zero at its end.
    pub(super) fn address_of_string(&mut self, text: &str) -> *const u8 {
        let offset = self.strings.keep(stored_string(text));
        self.strings.from(offset).unwrap_or_default().as_ptr()
    }

    /// The address of a blob's bytes.
    pub(super) fn address_of_blob(&mut self, bytes: &[u8]) -> *const u8 {
        let offset = self.blobs.keep(stored_blob(bytes));
        let stored = self.blobs.from(offset).unwrap_or_default();
        stored[stored.len() - bytes.len()..].as_ptr()
    }
}

fn stored_string(text: &str) -> Vec<u8> {
    text.bytes().chain([0]).collect()
}
