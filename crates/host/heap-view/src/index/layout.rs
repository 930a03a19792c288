//! Header and sections: where everything is.

use super::numbers;
use crate::Error;
use std::ops::Range;
use strum::VariantArray;

/// Bytes of the header.
pub(super) const HEADER: usize = 128;
/// Bytes of it covered by its checksum.
const CHECKED: usize = 80;
/// The first bytes of every index.
const MAGIC: &[u8; 6] = b"RMHIDX";
/// The version written, and the only one read: any other version means that the index is made anew.
const VERSION: u16 = 3;
/// Bytes read and verified together: few enough for one object, enough for a page of a list.
pub(super) const BLOCK: u64 = 16 << 10;
/// Size of an object's record.
pub(super) const OBJECT: u64 = 64;
/// Size of a type's record.
pub(super) const TYPE: u64 = 40;
/// Object records that represent no object.
pub(super) const BESIDE: u64 = 3;
/// Maximum types, bytes of their names, of their outlines and of [`crate::About`]: all of these are kept in memory.
pub(super) const MOST_TYPES: u64 = 4 << 20;
/// See [`MOST_TYPES`].
pub(super) const MOST_NAMES: u64 = 256 << 20;
/// See [`MOST_TYPES`]; further outlines are left out.
pub(super) const MOST_OUTLINES: u64 = 64 << 20;
/// See [`MOST_TYPES`].
pub(super) const MOST_ABOUT: u64 = 4 << 20;
/// Maximum objects: as many as a graph can have, minus the records that represent none.
const MOST_OBJECTS: u64 = u32::MAX as u64 - 4;

/// The snapshot of an index: the length of its file, and a digest of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Bytes of the snapshot's file.
    pub length: u64,
    /// Digest of the content.
    pub digest: u64,
}

/// Numbers of all items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) objects: u64,
    /// Whether there is a node for unreached objects: 0 or 1.
    pub(super) unreached: u64,
    pub(super) references: u64,
    pub(super) types: u64,
    pub(super) names: u64,
    pub(super) outlines: u64,
    pub(super) about: u64,
}

/// The sections, see the parent module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub(super) enum Section {
    Objects,
    Children,
    OfTypes,
    References,
    Referrers,
    Types,
    Names,
    Outlines,
    About,
}

/// The header's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) key: Key,
    pub(super) counts: Counts,
}

impl Header {
    pub(super) fn bytes(&self) -> [u8; HEADER] {
        let Header { key, counts } = self;
        let mut bytes = [0; HEADER];
        bytes[..6].copy_from_slice(MAGIC);
        bytes[6..8].copy_from_slice(&VERSION.to_le_bytes());
        let Counts { objects, unreached, references, types, names, outlines, about } = *counts;
        let fields = [key.length, key.digest, objects, unreached, references, types, names, outlines, about];
        for (place, field) in bytes[8..CHECKED].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes[..CHECKED]);
        bytes[CHECKED..CHECKED + 4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8; HEADER]) -> Result<Header, Error> {
        if !bytes.starts_with(MAGIC) {
            return Err(Error::Damaged("it does not begin as an index does"));
        }
        if bytes[6..8] != VERSION.to_le_bytes() {
            return Err(Error::Damaged("it was written by another version of Remora"));
        }
        if bytes[CHECKED..CHECKED + 4] != crc32fast::hash(&bytes[..CHECKED]).to_le_bytes()
            || bytes[CHECKED + 4..].iter().any(|byte| *byte != 0)
        {
            return Err(Error::Damaged("the checksum of its header is wrong"));
        }
        let ([length, digest, objects, unreached, references, types, names, outlines, about], _) =
            numbers::long(&bytes[8..]);
        let key = Key { length, digest };
        let counts = Counts { objects, unreached, references, types, names, outlines, about };
        counts.checked().map_err(|_| Error::Damaged("it claims more than an index has room for"))?;
        Ok(Header { key, counts })
    }
}

impl Counts {
    /// The counts, if they are within the limits.
    pub(super) fn checked(self) -> Result<Counts, Error> {
        let bounds = [
            ("objects", self.objects, MOST_OBJECTS),
            ("nodes", self.unreached, 1),
            ("references", self.references, u32::MAX.into()),
            ("types", self.types, MOST_TYPES),
            ("bytes of names", self.names, MOST_NAMES),
            ("bytes of outlines", self.outlines, MOST_OUTLINES),
            ("bytes of notes", self.about, MOST_ABOUT),
        ];
        let over = bounds.into_iter().find(|(_, count, most)| count > most);
        over.map_or(Ok(self), |(what, _, most)| Err(Error::TooLarge { what, most }))
    }

    /// Items of a section.
    pub(super) fn count(&self, section: Section) -> u64 {
        match section {
            Section::Objects => self.objects + BESIDE,
            Section::Children => self.objects + self.unreached,
            Section::OfTypes => self.objects,
            Section::References | Section::Referrers => self.references,
            Section::Types => self.types + 1,
            Section::Names => self.names,
            Section::Outlines => self.outlines,
            Section::About => self.about,
        }
    }

    /// The byte range of a section, relative to the end of the header.
    pub(super) fn range(&self, section: Section) -> Range<u64> {
        let mut begin = 0;
        for &other in Section::VARIANTS {
            let length = self.count(other) * item(other);
            if other == section {
                return begin..begin + length;
            }
            begin += length;
        }
        begin..begin
    }

    /// The byte range of some items of a section.
    pub(super) fn items(&self, section: Section, from: u64, count: u64) -> Result<Range<u64>, Error> {
        let Range { start, end } = self.range(section);
        let begin = start + from * item(section);
        let behind = begin + count * item(section);
        if behind > end { Err(Error::Damaged("it leads out of a section")) } else { Ok(begin..behind) }
    }

    /// Bytes of all sections.
    pub(super) fn data(&self) -> u64 {
        self.range(Section::About).end
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.data().div_ceil(BLOCK)
    }

    /// Size of the file.
    pub(super) fn file(&self) -> u64 {
        HEADER as u64 + self.data() + (self.blocks() + 1) * 4
    }
}

/// Size of an item.
fn item(section: Section) -> u64 {
    match section {
        Section::Objects => OBJECT,
        Section::Children | Section::OfTypes | Section::References | Section::Referrers => 4,
        Section::Types => TYPE,
        Section::Names | Section::Outlines | Section::About => 1,
    }
}
