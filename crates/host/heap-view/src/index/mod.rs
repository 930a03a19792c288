//! The index: what is asked of a heap, in flat arrays in one file.
//!
//! # Layout
//! All numbers are little-endian. The header stands first, then the sections one behind the other, then a checksum (CRC-32) of each
//! block of [`layout::BLOCK`] bytes of the sections, then a checksum of these.
//! ```text
//! header      128 bytes: magic "RMHIDX", version u16, key (length u64, digest u64), counts (objects, unreached, references, types,
//!             bytes of names, bytes of what is known about it: u64 each), crc32 u32 of all that; zeros
//! objects     64 bytes each, see `record.rs`; behind the objects one record for all of them, one for what no root reaches, and one that
//!             ends the lists of the one before
//! children    u32 each: what hangs under a node of the dominator tree, those that retain most first
//! of types    u32 each: the objects of a type, those that retain most first
//! references  u32 each: what an object refers to, in the order of its fields
//! referrers   u32 each: who refers to it, those that retain most first
//! types       40 bytes each, see `types.rs`; and one more, which ends the lists of the last one
//! names       of types, UTF-8
//! about       JSON, see `crate::About`
//! ```
//! Nothing says where a section begins: it follows from the counts, and the file must be exactly as long as they want it.

mod blocks;
mod layout;
mod making;
mod numbers;
mod record;
mod sink;
mod types;

pub use layout::Key;
pub use making::{Parts, make};
pub use record::{Id, Record};
pub use types::TypeEntry;

use crate::{About, Error};
use blocks::Blocks;
use layout::{Counts, HEADER, Header, Section};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// An index that can be asked. Every answer is checked on its way out of the file.
#[derive(Debug)]
pub struct Index {
    blocks: Blocks,
    counts: Counts,
    /// What is known of the snapshot.
    pub about: About,
    types: Vec<TypeEntry>,
}

/// A list within a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    section: Section,
    begin: u64,
    /// How long it is.
    pub length: u64,
}

impl Index {
    /// Opens the index in `file`, if it is that of the snapshot with this `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it is not to be used, [`Error::Read`].
    pub fn open(file: File, key: Key) -> Result<Index, Error> {
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).map_err(of_short_file)?;
        let Header { key: its_key, counts } = Header::read(&header)?;
        if its_key != key {
            return Err(Error::Damaged("it was made of another snapshot"));
        }
        let blocks = Blocks::open(file, counts)?;
        let about = blocks.read(counts.range(Section::About))?;
        let about = serde_json::from_slice(&about)
            .map_err(|_| Error::Damaged("what it says of the snapshot makes no sense"))?;
        let types = types::read(&blocks, counts)?;
        Ok(Index { blocks, counts, about, types })
    }

    /// How many objects there are.
    pub fn objects(&self) -> u64 {
        self.counts.objects
    }

    /// How many references.
    pub fn references(&self) -> u64 {
        self.counts.references
    }

    /// All types.
    pub fn types(&self) -> &[TypeEntry] {
        &self.types
    }

    /// What stands for all objects: the root of the dominator tree.
    pub fn all(&self) -> Id {
        Id(self.counts.objects as u32)
    }

    /// What stands for those that no root reaches.
    pub fn unreached(&self) -> Id {
        Id(self.counts.objects as u32 + 1)
    }

    /// The object or node with this number, if there is one.
    pub fn id(&self, number: u32) -> Option<Id> {
        let known = u64::from(number) < self.counts.objects + 1 + self.counts.unreached;
        known.then_some(Id(number))
    }

    /// The record of a node.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::Read`], as for all that follow.
    pub fn record(&self, id: Id) -> Result<Record, Error> {
        // Where its lists end stands in the next one.
        let bytes = self.blocks.read(self.counts.items(Section::Objects, u64::from(id.0), 2)?)?;
        Record::read(&bytes, self)
    }

    /// The objects or nodes at some places of a list.
    ///
    /// # Errors
    /// See [`Index::record`].
    pub fn part(&self, list: List, places: Range<u64>) -> Result<Vec<Id>, Error> {
        let (from, to) = (places.start.min(list.length), places.end.min(list.length));
        let range = self.counts.items(list.section, list.begin + from, to.saturating_sub(from))?;
        let bytes = self.blocks.read(range)?;
        numbers::all(&bytes).map(|number| self.known(number)).collect()
    }

    /// The objects of a type, those that retain most first.
    ///
    /// # Errors
    /// See [`Index::record`].
    pub fn of_type(&self, of: &TypeEntry) -> Result<List, Error> {
        self.list(Section::OfTypes, of.first.0, of.first.1)
    }

    /// The object in whose bytes `address` is, or else the last one before it.
    ///
    /// # Errors
    /// See [`Index::record`].
    pub fn object_before(&self, address: u64) -> Result<Option<(Id, Record)>, Error> {
        let (mut low, mut high) = (0, self.counts.objects);
        while low < high {
            let middle = low + (high - low) / 2;
            let begins = self.record(Id(middle as u32))?.address;
            if begins <= address { low = middle + 1 } else { high = middle }
        }
        let Some(last) = low.checked_sub(1) else { return Ok(None) };
        let id = Id(last as u32);
        Ok(Some((id, self.record(id)?)))
    }

    fn list(&self, section: Section, begin: u32, end: u32) -> Result<List, Error> {
        if begin > end || u64::from(end) > self.counts.count(section) {
            return Err(Error::Damaged("a list leads out of its section"));
        }
        Ok(List { section, begin: begin.into(), length: (end - begin).into() })
    }

    fn known(&self, number: u32) -> Result<Id, Error> {
        self.id(number).ok_or(Error::Damaged("it names an object that is not there"))
    }
}

fn of_short_file(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::Damaged("it ends early"),
        _ => Error::Read(error),
    }
}
