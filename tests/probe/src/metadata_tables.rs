//! Raw calls about the tables and heaps of metadata: `ask meta MODULE QUESTION NUMBER...`.

use crate::answers::{answer, number};
use crate::metadata_contents::bytes;
use crate::open_metadata::{Open, UNTOUCHED};
use corprof::sys;
use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};

/// The tables during one call.
struct Tables(*mut sys::IMetaDataTables);

impl Drop for Tables {
    fn drop(&mut self) {
        // SAFETY: `ask` got this reference, and nobody else releases it.
        unsafe { sys::IUnknown::Release(self.0.cast()) };
    }
}

/// The answer with a string; `-` without one.
///
/// # Safety
/// The text is null or ends with a zero.
unsafe fn with_text(code: i32, numbers: &[u32], text: *const c_char) -> String {
    let numbers: Vec<usize> = numbers.iter().map(|one| *one as usize).collect();
    // SAFETY: the caller guarantees it if it is not null.
    let text = if text.is_null() { "".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
    format!("{} {}", answer(code, &numbers), if text.is_empty() { "-" } else { &text })
}

/// Makes one call; `None` for an unknown question.
///
/// # Safety
/// The metadata is open.
pub unsafe fn ask(open: &Open, question: &str, rest: &[&str]) -> Option<String> {
    let question = question.strip_prefix("table-")?;
    let mut object = null_mut();
    // SAFETY: `open` keeps the interface valid; `object` is valid for writing.
    let code = unsafe { sys::IUnknown::QueryInterface(open.import.cast(), &sys::IID_IMetaDataTables, &raw mut object) };
    if code != 0 {
        return Some(answer(code, &[]));
    }
    let tables = Tables(object.cast());
    // SAFETY: the object stays valid until the end of this call.
    unsafe { of_tables(tables.0, question, rest).or_else(|| of_heaps(tables.0, question, rest)) }
}

fn argument(rest: &[&str], at: usize) -> u32 {
    rest.get(at).map_or(0, |word| number(word)) as u32
}

unsafe fn of_tables(tables: *mut sys::IMetaDataTables, question: &str, rest: &[&str]) -> Option<String> {
    let [mut size, mut rows, mut columns, mut key] = [UNTOUCHED; 4];
    let mut name = null();
    let [table, column, row] = [0, 1, 2].map(|at| argument(rest, at));
    // SAFETY: the caller guarantees the interface; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "count" => answer(sys::IMetaDataTables::GetNumTables(tables, &raw mut rows), &[rows as usize]),
            "index" => answer(sys::IMetaDataTables::GetTableIndex(tables, table, &raw mut rows), &[rows as usize]),
            "info" => {
                let (a, b, c, d) = (&raw mut size, &raw mut rows, &raw mut columns, &raw mut key);
                let code = sys::IMetaDataTables::GetTableInfo(tables, table, a, b, c, d, &raw mut name);
                with_text(code, &[size, rows, columns, key], name)
            }
            "column" => {
                let (a, b, c) = (&raw mut size, &raw mut rows, &raw mut key);
                let code = sys::IMetaDataTables::GetColumnInfo(tables, table, column, a, b, c, &raw mut name);
                with_text(code, &[size, rows, key], name)
            }
            "coded" => {
                let mut list = null_mut();
                let code =
                    sys::IMetaDataTables::GetCodedTokenInfo(tables, table, &raw mut rows, &raw mut list, &raw mut name);
                let kinds = if code == 0 { std::slice::from_raw_parts(list.cast::<u32>(), rows as usize) } else { &[] };
                with_text(code, kinds, name)
            }
            "cell" => {
                let code = sys::IMetaDataTables::GetColumn(tables, table, column, row, &raw mut size);
                answer(code, &[size as usize])
            }
            // Every column of a row.
            "cells" => {
                sys::IMetaDataTables::GetTableInfo(
                    tables,
                    table,
                    null_mut(),
                    null_mut(),
                    &raw mut columns,
                    null_mut(),
                    null_mut(),
                );
                let cell = |at| {
                    let mut value = UNTOUCHED;
                    sys::IMetaDataTables::GetColumn(tables, table, at, column, &raw mut value);
                    value as usize
                };
                let cells: Vec<usize> = (0..columns).map(cell).collect();
                answer(0, &cells)
            }
            // The row's bytes.
            "row" => {
                sys::IMetaDataTables::GetTableInfo(
                    tables,
                    table,
                    &raw mut size,
                    null_mut(),
                    null_mut(),
                    null_mut(),
                    null_mut(),
                );
                let mut place = null_mut();
                let code = sys::IMetaDataTables::GetRow(tables, table, column, &raw mut place);
                answer(code, &bytes(place.cast(), if code == 0 { size } else { 0 }))
            }
            _ => return None,
        }
    })
}

unsafe fn of_heaps(tables: *mut sys::IMetaDataTables, question: &str, rest: &[&str]) -> Option<String> {
    let (index, mut size) = (argument(rest, 0), UNTOUCHED);
    let (mut text, mut data, mut id) = (null(), null(), null());
    let out = &raw mut size;
    // SAFETY: the caller guarantees the interface; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "strings" => answer(sys::IMetaDataTables::GetStringHeapSize(tables, out), &[*out as usize]),
            "blobs" => answer(sys::IMetaDataTables::GetBlobHeapSize(tables, out), &[*out as usize]),
            "ids" => answer(sys::IMetaDataTables::GetGuidHeapSize(tables, out), &[*out as usize]),
            "texts" => answer(sys::IMetaDataTables::GetUserStringHeapSize(tables, out), &[*out as usize]),
            "string" => {
                let code = sys::IMetaDataTables::GetString(tables, index, &raw mut text);
                with_text(code, &[], text)
            }
            "blob" => {
                let code = sys::IMetaDataTables::GetBlob(tables, index, out, &raw mut data);
                answer(code, &bytes(data.cast(), *out))
            }
            "text" => {
                let code = sys::IMetaDataTables::GetUserString(tables, index, out, &raw mut data);
                answer(code, &bytes(data.cast(), *out))
            }
            "id" => {
                let code = sys::IMetaDataTables::GetGuid(tables, index, &raw mut id);
                let is_empty = !id.is_null() && *id == corprof::Guid::from_u128(0);
                answer(code, &[usize::from(id.is_null()), usize::from(is_empty)])
            }
            "next-string" => answer(sys::IMetaDataTables::GetNextString(tables, index, out), &[*out as usize]),
            "next-blob" => answer(sys::IMetaDataTables::GetNextBlob(tables, index, out), &[*out as usize]),
            "next-id" => answer(sys::IMetaDataTables::GetNextGuid(tables, index, out), &[*out as usize]),
            "next-text" => answer(sys::IMetaDataTables::GetNextUserString(tables, index, out), &[*out as usize]),
            _ => return None,
        }
    })
}
