//! Answers about tables and heaps. A profiler may read them in any way: each answer agrees with the other interfaces.

use super::Scope;
use super::codes::{CORRUPT, NO_ROW};
use super::heaps::{Heap, Heaps};
use super::schema::{GROUPS, Holds, TABLES, Table};
use crate::runtime::answers::{answered, write_answers};
use crate::runtime::info::refuse_if;
use crate::runtime::metadata_contents::Row;
use crate::runtime::metadata_contents::stored::blob_in;
use crate::runtime::metadata_contents::tokens::kind_of;
use corprof::{Guid, HResult, sys};
use remora_clr_abi::Answer;
use remora_clr_abi::metadata::args;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::MutexGuard;

/// The answer about a row that is in no table.
static NO_ID: Guid = Guid::from_u128(0);

fn table(index: u32) -> Result<&'static Table, HResult> {
    TABLES.get(index as usize).ok_or(HResult::E_INVALIDARG)
}

impl Scope {
    /// The heaps with everything that the module's current rows refer to.
    fn filled_heaps(&self) -> Result<MutexGuard<'_, Heaps>, HResult> {
        self.rows()?;
        Ok(self.heaps())
    }

    /// # Safety
    /// The profiler's arguments: pointers are null or valid. This holds for each method here.
    pub(super) unsafe fn table_info(&self, args: args::TablesGetTableInfo) -> Answer {
        let table = table(args.ixTbl)?;
        answered! {
            args.pcbRow => table.size(),
            args.pcRows => self.rows()?.count(args.ixTbl << 24),
            args.pcCols => table.columns.len() as u32,
            args.piKey => table.key.unwrap_or(u32::MAX),
            args.ppName => table.name.as_ptr(),
        }
    }

    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn column_info(&self, args: args::TablesGetColumnInfo) -> Answer {
        let table = table(args.ixTbl)?;
        let column = table.columns.get(args.ixCol as usize).ok_or(HResult::E_INVALIDARG)?;
        answered! {
            args.poCol => table.offset(args.ixCol as usize),
            args.pcbCol => column.holds.size(),
            args.pType => column.holds.number(),
            args.ppName => column.name.as_ptr(),
        }
    }

    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn group_info(&self, args: args::TablesGetCodedTokenInfo) -> Answer {
        let group = GROUPS.get(args.ixCdTkn as usize).ok_or(HResult::E_INVALIDARG)?;
        answered! {
            args.pcTokens => group.kinds.len() as u32,
            args.ppTokens => group.kinds.as_ptr().cast_mut().cast(),
            args.ppName => group.name.as_ptr(),
        }
    }

    /// The row of a table; only rows up to the last one may be asked for.
    fn row_of_table(&self, index: u32, row: u32) -> Result<Row, HResult> {
        let rows = self.rows()?;
        let kind = index << 24;
        refuse_if(row == 0 || row > rows.count(kind), HResult::E_INVALIDARG)?;
        rows.row(kind, row).cloned()
    }

    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn cell(&self, args: args::TablesGetColumn) -> Answer {
        let column = args.ixCol as usize;
        table(args.ixTbl)?.columns.get(column).ok_or(HResult::E_INVALIDARG)?;
        let row = self.row_of_table(args.ixTbl, args.rid)?;
        let value = row.cells().nth(column).map_or(0, |cell| self.heaps().value_of(cell));
        answered! { args.pVal => value }
    }

    /// The bytes of a row, as its table stores it.
    ///
    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn row_bytes(&self, args: args::TablesGetRow) -> Answer {
        let table = table(args.ixTbl)?;
        let row = self.row_of_table(args.ixTbl, args.rid)?;
        let mut bytes = Vec::new();
        for (column, cell) in table.columns.iter().zip(row.cells()) {
            let value = self.heaps().value_of(cell);
            match column.holds {
                Holds::Long => bytes.extend(value.to_le_bytes()),
                Holds::Coded(group) => bytes.extend((GROUPS[group].coded(value) as u16).to_le_bytes()),
                // The kind of a row is not stored. A byte fills its gap with a zero.
                _ => bytes.extend((value as u16).to_le_bytes()),
            }
        }
        bytes.resize(table.size() as usize, 0);
        let mut kept = self.row_bytes.lock().expect("no panic while locked");
        let key = (args.ixTbl, args.rid, bytes.clone());
        let place = kept.entry(key).or_insert_with(|| bytes.into_boxed_slice());
        answered! { args.ppRow => place.as_mut_ptr().cast() }
    }

    /// Strings have no table.
    ///
    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn table_of(&self, args: args::TablesGetTableIndex) -> Answer {
        let index = kind_of(args.token) >> 24;
        answered! { args.pixTbl => if (index as usize) < TABLES.len() { index } else { u32::MAX } }
    }

    /// Bytes of a heap.
    ///
    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn heap_size(&self, size: impl Fn(&Heaps) -> u32, place: *mut u32) -> Answer {
        answered! { place => size(&*self.filled_heaps()?) }
    }

    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn string_at(&self, args: args::TablesGetString) -> Answer {
        let heaps = self.filled_heaps()?;
        let found = heaps.strings.from(args.ixString);
        write_answers! { args.ppString => found.map_or(null(), |text| text.as_ptr().cast()) }
        found.map(|_| HResult::S_OK).ok_or(NO_ROW)
    }

    /// A blob or a user string.
    ///
    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn blob_at(
        &self,
        heap: impl Fn(&Heaps) -> &Heap,
        offset: u32,
        (size, place): (*mut u32, *mut sys::UVCP_CONSTANT),
    ) -> Answer {
        let heaps = self.filled_heaps()?;
        let stored = heap(&heaps).from(offset);
        let found = stored.ok_or(NO_ROW).and_then(|stored| blob_in(stored).ok_or(CORRUPT));
        let bytes = found.unwrap_or_default();
        let address: *const c_void = if found.is_ok() { bytes.as_ptr().cast() } else { null() };
        write_answers! { size => bytes.len() as u32, place => address }
        found.map(|_| HResult::S_OK)
    }

    /// Number 0 is an id of zeros. So is a number without one, with an error.
    ///
    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn id_at(&self, args: args::TablesGetGuid) -> Answer {
        let heaps = self.filled_heaps()?;
        let found = heaps.id(args.ixGuid);
        write_answers! { args.ppGUID => found.map_or(&raw const NO_ID, |id| id.as_ptr().cast()) }
        refuse_if(found.is_none() && args.ixGuid != 0, NO_ROW).map(|()| HResult::S_OK)
    }

    /// The place behind an entry of a heap.
    ///
    /// # Safety
    /// As for [`Scope::table_info`].
    pub(super) unsafe fn next_in(&self, next: impl Fn(&Heaps) -> Option<u32>, place: *mut u32) -> Answer {
        let next = next(&*self.filled_heaps()?);
        write_answers! { place => next.unwrap_or(0) }
        Ok(if next.is_some() { HResult::S_OK } else { HResult::S_FALSE })
    }
}
