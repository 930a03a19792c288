//! Offsets and column widths of each table: computed once from the header. Cells are read on demand.

use super::schema::{COLUMN_COUNT, Column, TABLE_COUNT, Table, columns};
use crate::bytes::Reader;

/// Heaps with four-byte offsets: bits of the header's HeapSizes.
const WIDE_STRINGS: u8 = 1;
const WIDE_GUIDS: u8 = 2;
const WIDE_BLOBS: u8 = 4;
/// Four bytes of extra data follow the row counts (written by edit-and-continue).
const EXTRA_DATA: u8 = 0x40;

#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    /// Offset of the first row in the table stream.
    offset: usize,
    row_size: usize,
    columns: [Cell; COLUMN_COUNT],
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    offset: usize,
    width: usize,
}

/// The tables of one metadata blob. Rows are counted from 1, as in tokens.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    rows: [u32; TABLE_COUNT],
    layouts: Box<[Layout; TABLE_COUNT]>,
}

impl Tables {
    /// Reads the header of a table stream. `outside` has the row counts of tables in another file (for a PDB: in its module).
    pub(crate) fn parse(stream: &[u8], outside: &[u32; TABLE_COUNT]) -> Option<Tables> {
        let mut reader = Reader::new(stream);
        reader.take(6)?;
        let heap_sizes = reader.byte()?;
        reader.byte()?;
        let present = reader.u64()?;
        let _sorted = reader.u64()?;
        let rows = row_counts(&mut reader, present)?;
        if heap_sizes & EXTRA_DATA != 0 {
            reader.u32()?;
        }
        let mut sizes = *outside;
        for (size, &count) in sizes.iter_mut().zip(&rows) {
            *size = (*size).max(count);
        }
        let mut layouts = Box::new([Layout::default(); TABLE_COUNT]);
        let mut offset = stream.len() - reader.rest().len();
        for number in 0..TABLE_COUNT {
            if rows[number] == 0 {
                continue;
            }
            let layout = Layout::new(columns(number)?, heap_sizes, &sizes, offset);
            offset = offset.checked_add(layout.row_size.checked_mul(rows[number] as usize)?)?;
            if offset > stream.len() {
                return None;
            }
            layouts[number] = layout;
        }
        Some(Tables { rows, layouts })
    }

    pub(crate) fn rows(&self, table: Table) -> u32 {
        self.rows[table as usize]
    }

    /// The value of a cell; `None` for a row that does not exist.
    pub(crate) fn cell(&self, stream: &[u8], table: Table, row: u32, column: usize) -> Option<u32> {
        if row == 0 || row > self.rows(table) {
            return None;
        }
        let layout = &self.layouts[table as usize];
        let cell = layout.columns.get(column)?;
        let start = layout.offset + layout.row_size * (row as usize - 1) + cell.offset;
        let bytes = stream.get(start..start + cell.width)?;
        match *bytes {
            [a, b] => Some(u32::from(u16::from_le_bytes([a, b]))),
            [a, b, c, d] => Some(u32::from_le_bytes([a, b, c, d])),
            _ => None,
        }
    }
}

/// The number of rows of each table whose bit is set; none of the others.
pub(super) fn row_counts(reader: &mut Reader<'_>, tables: u64) -> Option<[u32; TABLE_COUNT]> {
    let mut counts = [0; TABLE_COUNT];
    for (number, count) in counts.iter_mut().enumerate() {
        if tables >> number & 1 == 1 {
            *count = reader.u32()?;
        }
    }
    Some(counts)
}

impl Layout {
    fn new(columns: &[Column], heap_sizes: u8, sizes: &[u32; TABLE_COUNT], offset: usize) -> Layout {
        let mut layout = Layout { offset, ..Layout::default() };
        for (cell, column) in layout.columns.iter_mut().zip(columns) {
            *cell = Cell { offset: layout.row_size, width: width(*column, heap_sizes, sizes) };
            layout.row_size += cell.width;
        }
        layout
    }
}

fn width(column: Column, heap_sizes: u8, sizes: &[u32; TABLE_COUNT]) -> usize {
    let wide = match column {
        Column::Two => false,
        Column::Four => true,
        Column::Strings => heap_sizes & WIDE_STRINGS != 0,
        Column::Guids => heap_sizes & WIDE_GUIDS != 0,
        Column::Blobs => heap_sizes & WIDE_BLOBS != 0,
        Column::Row(table) => sizes[table as usize] > 0xffff,
        Column::Coded(bits, tables) => tables.iter().any(|&table| sizes[table as usize] > 0xffff >> bits),
    };
    if wide { 4 } else { 2 }
}
