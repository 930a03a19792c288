//! ECMA-335 metadata in a file: heaps and tables, indexed once, decoded cell by cell on demand.
//!
//! A runtime library of ten megabytes costs one pass over some row counts; everything else is read on demand. Bytes are never trusted: a
//! reference outside its heap or table is `None`.

mod schema;
mod tables;

use schema::TABLE_COUNT;
pub(crate) use schema::Table;
use tables::Tables;

use crate::bytes::Reader;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// "BSJB", the first four bytes of metadata.
const SIGNATURE: u32 = 0x424a_5342;
/// Longer identifiers are cut: the runtime itself loads no type with a longer name.
const IDENTIFIER_LIMIT: usize = 1024;
/// Maximum number of rows read for a method's parameters.
const PARAMETER_LIMIT: usize = 1024;
/// No writer makes more streams; a larger count is damage.
const STREAM_LIMIT: u16 = 64;

/// A 128-bit id in the byte order of the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Guid(pub [u8; 16]);

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
    strings: Range<usize>,
    guids: Range<usize>,
    blobs: Range<usize>,
    table_stream: Range<usize>,
    tables: Tables,
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
            for (number, count) in outside.iter_mut().enumerate() {
                if referenced >> number & 1 == 1 {
                    *count = reader.u32()?;
                }
            }
        }
        let table_stream = streams.tables?;
        let tables = Tables::parse(&bytes[table_stream.clone()], &outside)?;
        let Streams { strings, guids, blobs, .. } = streams;
        Some(Metadata { bytes, strings, guids, blobs, table_stream, tables, pdb_id })
    }

    pub(crate) fn rows(&self, table: Table) -> u32 {
        self.tables.rows(table)
    }

    pub(crate) fn cell(&self, table: Table, row: u32, column: usize) -> Option<u32> {
        self.tables.cell(&self.bytes[self.table_stream.clone()], table, row, column)
    }

    /// The text in a strings column. Invalid UTF-8 is shown with replacement characters.
    pub(crate) fn text(&self, table: Table, row: u32, column: usize) -> Option<Cow<'_, str>> {
        let text = self.raw_text(table, row, column)?;
        Some(String::from_utf8_lossy(&text[..text.len().min(IDENTIFIER_LIMIT)]))
    }

    /// The bytes of a strings column: cheaper than [`Metadata::text`] if only equality matters.
    pub(crate) fn raw_text(&self, table: Table, row: u32, column: usize) -> Option<&[u8]> {
        let offset = self.cell(table, row, column)? as usize;
        let tail = self.bytes[self.strings.clone()].get(offset..)?;
        let length = tail.iter().position(|&byte| byte == 0)?;
        Some(&tail[..length])
    }

    pub(crate) fn guid(&self, table: Table, row: u32, column: usize) -> Option<Guid> {
        let index = (self.cell(table, row, column)? as usize).checked_sub(1)?;
        let start = index.checked_mul(16)?;
        let bytes = self.bytes[self.guids.clone()].get(start..start.checked_add(16)?)?;
        Some(Guid(bytes.try_into().ok()?))
    }

    /// The blob in a blob column.
    pub(crate) fn blob(&self, table: Table, row: u32, column: usize) -> Option<&[u8]> {
        self.blob_at(self.cell(table, row, column)?)
    }

    pub(crate) fn blob_at(&self, offset: u32) -> Option<&[u8]> {
        Reader::at(&self.bytes[self.blobs.clone()], offset as usize)?.blob()
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
        let pointers = self.rows(Table::MethodPtr);
        let listed = if pointers == 0 {
            method
        } else {
            (1..=pointers).find(|&pointer| self.cell(Table::MethodPtr, pointer, 0) == Some(method))?
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

#[derive(Default)]
struct Streams {
    strings: Range<usize>,
    guids: Range<usize>,
    blobs: Range<usize>,
    tables: Option<Range<usize>>,
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
                b"#~" | b"#-" => streams.tables = Some(range),
                b"#Pdb" => streams.pdb = Some(range),
                _ => {}
            }
        }
        Some(streams)
    }
}
