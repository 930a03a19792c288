//! ECMA-335 metadata in a file: heaps and tables, indexed once, decoded cell by cell on demand.
//!
//! A runtime library of ten megabytes costs one pass over some row counts; everything else is read on demand. Bytes are never trusted: a
//! reference outside its heap or table is `None`.

mod schema;
mod tables;

use schema::TABLE_COUNT;
pub(crate) use schema::Table;
use tables::{Tables, row_counts};

use crate::bytes::Reader;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// "BSJB", the first four bytes of metadata.
const SIGNATURE: u32 = 0x424a_5342;
/// Longer identifiers are cut: the runtime itself loads no type with a longer name. No more bytes are looked at, since each of a million
/// rows could refer to one text of megabytes.
const IDENTIFIER_LIMIT: usize = 1024;
/// Maximum number of rows read for a method's parameters.
const PARAMETER_LIMIT: usize = 1024;
/// No writer makes more streams; a larger count is damage.
const STREAM_LIMIT: u16 = 64;

/// The columns with the first row that an owner has in a list.
const LISTS: [(Table, usize); 3] = [(Table::TypeDef, 4), (Table::TypeDef, 5), (Table::MethodDef, 5)];

/// A 128-bit id in the byte order of the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// From the four parts of its usual notation: `{a-b-c-rest}`.
    pub const fn from_parts(a: u32, b: u16, c: u16, rest: [u8; 8]) -> Guid {
        let (a, b, c) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
        Guid([
            a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], rest[0], rest[1], rest[2], rest[3], rest[4], rest[5],
            rest[6], rest[7],
        ])
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = &self.0;
        let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        for (position, index) in order.into_iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                formatter.write_str("-")?;
            }
            write!(formatter, "{:02x}", bytes[index])?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The row of a token, if the token is of `table`.
pub(crate) fn row_of(token: u32, table: Table) -> Option<u32> {
    (token >> 24 == table as u32 && token & 0x00ff_ffff != 0).then_some(token & 0x00ff_ffff)
}

/// A metadata blob: a module's, or a whole portable PDB.
#[derive(Clone)]
pub(crate) struct Metadata {
    bytes: Box<[u8]>,
    streams: Streams,
    tables: Tables,
    /// The row of each method in MethodPtr, if the module has that table.
    method_pointers: HashMap<u32, u32>,
    /// The id in the `#Pdb` stream, if there is one.
    pub(crate) pdb_id: Option<[u8; 20]>,
}

impl Metadata {
    pub(crate) fn parse(bytes: Box<[u8]>) -> Option<Metadata> {
        let streams = Streams::parse(&bytes)?;
        let mut outside = [0u32; TABLE_COUNT];
        let mut pdb_id = None;
        if let Some(range) = &streams.pdb {
            let mut reader = Reader::new(&bytes[range.clone()]);
            pdb_id = Some(reader.take(20)?.try_into().ok()?);
            reader.u32()?;
            let referenced = reader.u64()?;
            outside = row_counts(&mut reader, referenced)?;
        }
        let tables = Tables::parse(&bytes[streams.tables.clone()], &outside)?;
        let mut metadata = Metadata { bytes, streams, tables, method_pointers: HashMap::new(), pdb_id };
        let pointers = (1..=metadata.rows(Table::MethodPtr)).rev();
        metadata.method_pointers =
            pointers.filter_map(|row| Some((metadata.cell(Table::MethodPtr, row, 0)?, row))).collect();
        LISTS.iter().all(|(table, column)| metadata.is_ascending(*table, *column)).then_some(metadata)
    }

    /// Whether no row of a list belongs to two owners. With owners of the same rows, the work for all of them could be quadratic.
    fn is_ascending(&self, table: Table, column: usize) -> bool {
        (1..=self.rows(table)).map(|row| self.cell(table, row, column)).is_sorted()
    }

    pub(crate) fn rows(&self, table: Table) -> u32 {
        self.tables.rows(table)
    }

    pub(crate) fn cell(&self, table: Table, row: u32, column: usize) -> Option<u32> {
        self.tables.cell(&self.bytes[self.streams.tables.clone()], table, row, column)
    }

    /// The text in a strings column. Invalid UTF-8 is shown with replacement characters.
    pub(crate) fn text(&self, table: Table, row: u32, column: usize) -> Option<Cow<'_, str>> {
        self.raw_text(table, row, column).map(String::from_utf8_lossy)
    }

    /// The bytes of a strings column, cut to the longest identifier: cheaper than [`Metadata::text`] if only equality matters.
    pub(crate) fn raw_text(&self, table: Table, row: u32, column: usize) -> Option<&[u8]> {
        let offset = self.cell(table, row, column)? as usize;
        let tail = self.bytes[self.streams.strings.clone()].get(offset..)?;
        let looked_at = &tail[..tail.len().min(IDENTIFIER_LIMIT)];
        let end = looked_at.iter().position(|&byte| byte == 0);
        let length = end.or((tail.len() > IDENTIFIER_LIMIT).then_some(IDENTIFIER_LIMIT))?;
        Some(&tail[..length])
    }

    pub(crate) fn guid(&self, table: Table, row: u32, column: usize) -> Option<Guid> {
        let index = (self.cell(table, row, column)? as usize).checked_sub(1)?;
        let start = index.checked_mul(16)?;
        let bytes = self.bytes[self.streams.guids.clone()].get(start..start.checked_add(16)?)?;
        Some(Guid(bytes.try_into().ok()?))
    }

    /// The blob in a blob column.
    pub(crate) fn blob(&self, table: Table, row: u32, column: usize) -> Option<&[u8]> {
        self.blob_at(self.cell(table, row, column)?)
    }

    pub(crate) fn blob_at(&self, offset: u32) -> Option<&[u8]> {
        Reader::at(&self.bytes[self.streams.blobs.clone()], offset as usize)?.blob()
    }

    /// The rows of a sorted table whose `column` equals `value`.
    pub(crate) fn equal_rows(&self, table: Table, column: usize, value: u32) -> Range<u32> {
        let first = self.first_row_where(table, |row| self.cell(table, row, column) >= Some(value));
        let end = self.first_row_where(table, |row| self.cell(table, row, column) > Some(value));
        first..end.max(first)
    }

    /// The first row for which `reached` holds, or one past the last, by binary search: `reached` must be monotonic.
    pub(crate) fn first_row_where(&self, table: Table, reached: impl Fn(u32) -> bool) -> u32 {
        let (mut low, mut high) = (1, self.rows(table).saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if reached(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The fields of a TypeDef row.
    pub(crate) fn fields_of(&self, type_row: u32) -> impl Iterator<Item = u32> + '_ {
        self.owned_rows((Table::TypeDef, 4), type_row, Table::FieldPtr, Table::Field)
    }

    /// The Event rows of an EventMap row.
    pub(crate) fn events_of(&self, map: u32) -> impl Iterator<Item = u32> + '_ {
        self.owned_rows((Table::EventMap, 1), map, Table::EventPtr, Table::Event)
    }

    /// The methods of a TypeDef row.
    pub(crate) fn methods_of(&self, type_row: u32) -> impl Iterator<Item = u32> + '_ {
        self.owned_rows((Table::TypeDef, 5), type_row, Table::MethodPtr, Table::MethodDef)
    }

    /// The parameters of a MethodDef row; a parameter without name and flags may have no row.
    pub(crate) fn parameters_of(&self, method: u32) -> impl Iterator<Item = u32> + '_ {
        self.owned_rows((Table::MethodDef, 5), method, Table::ParamPtr, Table::Param).take(PARAMETER_LIMIT)
    }

    /// The type that declares a method.
    pub(crate) fn declaring_type(&self, method: u32) -> Option<u32> {
        let listed = match self.rows(Table::MethodPtr) {
            0 => method,
            _ => *self.method_pointers.get(&method)?,
        };
        // The last type whose methods begin at or before this one: a type without methods begins where the next type does.
        let after = self.first_row_where(Table::TypeDef, |row| self.cell(Table::TypeDef, row, 5) > Some(listed));
        after.checked_sub(1).filter(|&row| row > 0)
    }

    /// The rows of `list` that belong to `row` of a table: its column has the first of them, and they end where the next row's begin.
    ///
    /// In a module edited at run time they are rows of `pointers`, which refer to the rows of `list`.
    fn owned_rows(
        &self,
        (table, column): (Table, usize),
        row: u32,
        pointers: Table,
        list: Table,
    ) -> impl Iterator<Item = u32> + '_ {
        let direct = self.rows(pointers) == 0;
        let last = self.rows(if direct { list } else { pointers }).saturating_add(1);
        let first = self.cell(table, row, column).unwrap_or(last).clamp(1, last);
        let end = self.cell(table, row.saturating_add(1), column).unwrap_or(last).clamp(first, last);
        (first..end).filter_map(move |row| if direct { Some(row) } else { self.cell(pointers, row, 0) })
    }
}

/// Where the streams are; an absent one is empty.
#[derive(Clone, Default)]
struct Streams {
    strings: Range<usize>,
    guids: Range<usize>,
    blobs: Range<usize>,
    tables: Range<usize>,
    pdb: Option<Range<usize>>,
}

impl Streams {
    fn parse(bytes: &[u8]) -> Option<Streams> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != SIGNATURE {
            return None;
        }
        reader.take(8)?;
        let version_length = reader.u32()? as usize;
        reader.take(version_length)?;
        reader.u16()?;
        let count = reader.u16()?;
        if count > STREAM_LIMIT {
            return None;
        }
        let mut streams = Streams::default();
        for _ in 0..count {
            let offset = reader.u32()? as usize;
            let end = offset.checked_add(reader.u32()? as usize)?;
            let name_length = reader.rest().iter().position(|&byte| byte == 0)?;
            let name = reader.take(name_length)?;
            reader.take(4 - name_length % 4)?;
            let range = offset..end;
            bytes.get(range.clone())?;
            match name {
                b"#Strings" => streams.strings = range,
                b"#GUID" => streams.guids = range,
                b"#Blob" => streams.blobs = range,
                b"#~" | b"#-" => streams.tables = range,
                b"#Pdb" => streams.pdb = Some(range),
                _ => {}
            }
        }
        Some(streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata with these types, each with the first of its fields, and this many fields, whose name is at offset 1 of the strings.
    fn metadata(first_fields: &[u16], fields: u32, strings: &[u8]) -> Option<Metadata> {
        let mut tables = vec![0, 0, 0, 0, 2, 0, 0, 1];
        tables.extend((1_u64 << Table::TypeDef as u32 | 1 << Table::Field as u32).to_le_bytes());
        tables.extend([0; 8]);
        tables.extend((first_fields.len() as u32).to_le_bytes());
        tables.extend(fields.to_le_bytes());
        for first in first_fields {
            tables.extend([0; 10]);
            tables.extend(first.to_le_bytes());
            tables.extend([1, 0]);
        }
        (0..fields).for_each(|_| tables.extend([0, 0, 1, 0, 0, 0]));
        let mut bytes = b"BSJB\x01\0\x01\0\0\0\0\0\x04\0\0\0v4\0\0\0\0\x02\0".to_vec();
        let start = bytes.len() as u32 + 12 + 20;
        for (name, offset, size) in
            [(&b"#~\0\0"[..], start, tables.len()), (b"#Strings\0\0\0\0", start + tables.len() as u32, strings.len())]
        {
            bytes.extend(offset.to_le_bytes());
            bytes.extend((size as u32).to_le_bytes());
            bytes.extend(name);
        }
        bytes.extend(tables);
        bytes.extend(strings);
        Metadata::parse(bytes.into())
    }

    #[test]
    fn types_that_claim_the_same_fields_were_a_quadratic_list() {
        let ordered = metadata(&[1, 1, 3, 5], 4, b"\0a\0").expect("well-formed");
        let owned: Vec<usize> = (1..=4).map(|row| ordered.fields_of(row).count()).collect();
        assert_eq!(owned, [0, 2, 2, 0]);
        assert!(metadata(&[1, 5, 1, 5], 4, b"\0a\0").is_none(), "two types own all four fields");
    }

    #[test]
    fn a_name_of_megabytes_is_looked_at_as_far_as_an_identifier_goes() {
        let name = |strings: &[u8]| metadata(&[1], 1, strings)?.raw_text(Table::Field, 1, 1).map(<[u8]>::len);
        assert_eq!(name(b"\0name\0"), Some(4));
        assert_eq!(name(b"\0name"), None, "it has no end");
        assert_eq!(name(&vec![1; 8 << 20]), Some(IDENTIFIER_LIMIT));
        let longest = [&[0], &vec![1; IDENTIFIER_LIMIT - 1][..], &[0]].concat();
        assert_eq!(name(&longest), Some(IDENTIFIER_LIMIT - 1));
    }
}
