//! The index: data for queries of a heap, in flat arrays in one file.
//!
//! # Layout
//! All numbers are little-endian. First the header, then the sections, then a checksum (CRC-32) of each block of [`layout::BLOCK`] bytes of
//! the sections, then a checksum of these.
//! ```text
//! header      128 bytes: magic "RMHIDX", version u16, key (length u64, digest u64), counts (objects, unreached, references, types,
//!             bytes of names, of outlines, and of the about section: u64 each), crc32 u32 of all that; zeros
//! objects     64 bytes each, see `record.rs`; after the objects one record for all of them, one for unreached objects, and one that
//!             ends the lists of the one before
//! children    u32 each: the children of a node in the dominator tree, largest retained size first
//! of types    u32 each: the objects of a type, largest retained size first
//! references  u32 each: the targets of an object's references, in the order of its fields
//! referrers   u32 each: its referrers, largest retained size first
//! types       40 bytes each, see `types.rs`; and one more, which ends the lists of the last one
//! names       of types, UTF-8
//! outlines    of types, JSON: what their objects refer to, see `remora_heap::Outline`; empty if the fields are unknown
//! about       JSON, see `crate::About`
//! ```
//! Section offsets follow from the counts, and the file's length must match them exactly.

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
use remora_heap::{Allowance, Outline, Refers, TypeIx};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Larger arrays are not searched for the index of a reference.
const MOST_ELEMENTS: u64 = 1 << 16;

/// An index open for queries. All data read from the file is verified.
#[derive(Debug)]
pub struct Index {
    blocks: Blocks,
    counts: Counts,
    /// Properties of the snapshot.
    pub about: About,
    types: Vec<TypeEntry>,
    /// Read when they are first needed.
    outlines: OnceLock<Vec<Outline>>,
}

/// A list within a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    section: Section,
    begin: u64,
    /// Its length.
    pub length: u64,
}

/// The references of an object.
#[derive(Debug)]
pub struct Fields<'a> {
    outlines: &'a [Outline],
    refers: &'a Refers,
    /// The object's size.
    bytes: u64,
    targets: Vec<(u32, TypeIx)>,
}

impl Fields<'_> {
    /// The field or the element by which the object refers to `to`, as [`Refers::field_of`] writes it; `None` if it is not known.
    pub fn to(&self, to: Id, left: &Allowance) -> Option<String> {
        self.refers.field_of(self.outlines, (self.bytes, &self.targets), to.0, left)
    }

    /// The same for the reference at a place of the object's list: several elements of an array can refer to one object.
    pub fn at(&self, place: u64, to: Id, left: &Allowance) -> Option<String> {
        let known = self.to(to, left)?;
        Some(if *self.refers == Refers::Elements { format!("[{place}]") } else { known })
    }
}

impl Index {
    /// Opens the index in `file`, if it belongs to the snapshot with this `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it must not be used, [`Error::Read`].
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
        Ok(Index { blocks, counts, about, types, outlines: OnceLock::new() })
    }

    /// Number of objects.
    pub fn objects(&self) -> u64 {
        self.counts.objects
    }

    /// Number of references.
    pub fn references(&self) -> u64 {
        self.counts.references
    }

    /// All types.
    pub fn types(&self) -> &[TypeEntry] {
        &self.types
    }

    /// The root of the dominator tree.
    pub fn all(&self) -> Id {
        Id(self.counts.objects as u32)
    }

    /// The parent of all unreached objects.
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
    /// [`Error::Damaged`] and [`Error::Read`], as for all methods that follow.
    pub fn record(&self, id: Id) -> Result<Record, Error> {
        // The next record has the ends of its lists.
        let bytes = self.blocks.read(self.counts.items(Section::Objects, u64::from(id.0), 2)?)?;
        Record::read(&bytes, self)
    }

    /// The objects or nodes in a range of a list.
    ///
    /// # Errors
    /// See [`Index::record`].
    pub fn part(&self, list: List, places: Range<u64>) -> Result<Vec<Id>, Error> {
        let (from, to) = (places.start.min(list.length), places.end.min(list.length));
        let range = self.counts.items(list.section, list.begin + from, to.saturating_sub(from))?;
        let bytes = self.blocks.read(range)?;
        numbers::all(&bytes).map(|number| self.known(number)).collect()
    }

    /// The objects of a type, largest retained size first.
    ///
    /// # Errors
    /// See [`Index::record`].
    pub fn of_type(&self, of: &TypeEntry) -> Result<List, Error> {
        self.list(Section::OfTypes, of.first.0, of.first.1)
    }

    /// The references of an object, to find their fields; `None` if those are not known.
    ///
    /// # Errors
    /// See [`Index::record`].
    pub fn fields(&self, from: &Record) -> Result<Option<Fields<'_>>, Error> {
        let outlines = self.outlines()?;
        let Some(refers) = from.type_ix.and_then(|of| outlines.get(of as usize)?.refers.as_ref()) else {
            return Ok(None);
        };
        let most = if *refers == Refers::Elements { MOST_ELEMENTS } else { Refers::MOST_FIELDS as u64 };
        if from.references.length > most {
            return Ok(None);
        }
        let typed = |target: Id| {
            // The index of an element needs no types.
            let of = if *refers == Refers::Elements { None } else { self.record(target)?.type_ix };
            Ok((target.0, TypeIx(of.unwrap_or(u32::MAX))))
        };
        let targets = self.part(from.references, 0..most)?.into_iter().map(typed).collect::<Result<_, Error>>()?;
        Ok(Some(Fields { outlines, refers, bytes: from.own, targets }))
    }

    /// The outlines of the types; none if the snapshot has no fields.
    fn outlines(&self) -> Result<&Vec<Outline>, Error> {
        if let Some(known) = self.outlines.get() {
            return Ok(known);
        }
        let bytes = self.blocks.read(self.counts.range(Section::Outlines))?;
        let read = if bytes.is_empty() { Ok(Vec::new()) } else { serde_json::from_slice(&bytes) };
        let read = read.map_err(|_| Error::Damaged("the outlines of its types make no sense"))?;
        Ok(self.outlines.get_or_init(|| read))
    }

    /// The object that contains `address`, or else the last one before it.
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
