//! The properties of a row, and the answers for a row that does not exist.

use super::Scope;
use super::codes::NOT_FOUND;
use super::names::answer_name;
use super::rows::Rows;
use crate::runtime::answers::{answer, answered, write_answers};
use crate::runtime::info::invalid_if;
use crate::runtime::metadata_contents::tokens::{METHOD, kind_of, row_of};
use corprof::{HResult, sys};
use remora_clr_abi::Answer;
use std::ffi::c_char;

/// A search in an empty table: the place gets an invalid token of this kind.
///
/// # Safety
/// `place` is null or valid.
pub(super) unsafe fn unfound(name: *const u16, kind: u32, place: *mut u32) -> Answer {
    invalid_if(name.is_null())?;
    write_answers! { place => kind }
    Err(NOT_FOUND)
}

/// Every assembly of the model has version 0.0.0.0 and no culture. The rest of the memory may be
/// uninitialized, so there is no reference to it.
///
/// # Safety
/// `place` is null, or valid for writes with a name's room and a pointer that is null or has it.
pub(super) unsafe fn write_version(place: *mut sys::ASSEMBLYMETADATA) {
    if place.is_null() {
        return;
    }
    // SAFETY: the caller guarantees that the profiler has written both.
    let (room, locale) = unsafe { ((*place).cbLocale, (*place).szLocale) };
    if room > 0 {
        write_answers! { locale => 0 }
    }
    write_answers! {
        &raw mut (*place).usMajorVersion => 0,
        &raw mut (*place).usMinorVersion => 0,
        &raw mut (*place).usBuildNumber => 0,
        &raw mut (*place).usRevisionNumber => 0,
        &raw mut (*place).cbLocale => 0,
        &raw mut (*place).ulProcessor => 0,
        &raw mut (*place).ulOS => 0,
    }
}

/// Address of a method's IL. Other tokens have none.
///
/// # Safety
/// The places are null or valid.
pub(super) unsafe fn write_address(rows: &Rows, token: u32, address: *mut u32, implementation: *mut u32) -> Answer {
    if kind_of(token) != METHOD {
        write_answers! { address => 0 }
        return Err(NOT_FOUND);
    }
    let place = if row_of(token) == 0 { 0 } else { rows.row(METHOD, token)?.number(0) };
    answered! { address => place, implementation => 0 }
}

impl Scope {
    /// A name, truncated as this runtime does it.
    ///
    /// # Safety
    /// The room and the place must be valid.
    pub(super) unsafe fn name(&self, text: &str, room: (*mut u16, u32), count: *mut u32) -> HResult {
        let fits = self.runtime.upgrade().is_none_or(|runtime| runtime.differences().names_are_written_as_they_fit);
        // SAFETY: the caller guarantees the room and the place.
        unsafe { answer_name(text, room, count, fits) }
    }

    /// A name as memory that stays valid while the metadata is open.
    pub(super) fn kept(&self, name: &str) -> *const c_char {
        self.heaps().address_of_string(name).cast()
    }

    /// A blob as memory that stays valid while the metadata is open, and its length.
    ///
    /// # Safety
    /// The places are null or valid.
    pub(super) unsafe fn write_blob<T>(&self, bytes: &[u8], place: *mut *const T, length: *mut u32) {
        let address = self.heaps().address_of_blob(bytes);
        // SAFETY: the caller guarantees null or a valid place.
        unsafe { answer(place, address.cast()) };
        // SAFETY: the caller guarantees null or a valid place.
        unsafe { answer(length, bytes.len() as u32) };
    }
}
