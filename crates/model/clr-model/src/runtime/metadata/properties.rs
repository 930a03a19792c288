//! The properties of a row, and the answers for a row that does not exist.

use super::Scope;
use super::names::answer_name;
use super::rows::{METHOD, Rows, kind_of, row_of};
use crate::runtime::answers::{answer, answered, write_answers};
use crate::runtime::info::invalid_if;
use corprof::{HResult, sys};
use remora_clr_abi::Answer;
use std::ffi::{c_char, c_void};

/// CLDB_E_INDEX_NOTFOUND and CLDB_E_RECORD_NOTFOUND: no such row, and no row with this content (source: corerror.h).
pub(super) const NO_ROW: HResult = HResult(0x8013_1124_u32 as i32);
pub(super) const NOT_FOUND: HResult = HResult::CLDB_E_RECORD_NOTFOUND;
/// META_E_BAD_INPUT_PARAMETER and META_E_INVALID_TOKEN_TYPE.
pub(super) const BAD_INPUT: HResult = HResult(0x8013_1193_u32 as i32);
pub(super) const WRONG_KIND: HResult = HResult(0x8013_115F_u32 as i32);
/// CLDB_E_FILE_CORRUPT: also a user string at an offset where none begins.
pub(super) const CORRUPT: HResult = HResult(0x8013_110E_u32 as i32);
/// META_E_CANNOTRESOLVETYPEREF: other modules are not searched.
pub(super) const UNRESOLVED: HResult = HResult(0x8013_1196_u32 as i32);
/// pmCallConvWinapi: no signature here specifies another (source: corhdr.h).
pub(super) const PLATFORMS_OWN: u32 = 0x0100;
/// CALG_SHA1, which compilers write.
pub(super) const SHA1: u32 = 0x8004;
/// No assembly of the model is signed.
pub(super) const NO_KEY: *const c_void = std::ptr::null();
/// The runtime that it was compiled for: every compiler since the .NET Framework 4 writes this.
pub(super) const VERSION: &str = "v4.0.30319";

/// mdPrivate, mdStatic and mdHideBySig (source: corhdr.h).
pub(super) const PRIVATE_STATIC: u32 = 0x91;
/// Address of the one IL body that all methods have.
pub(super) const ADDRESS: u32 = 0x2050;

/// A search in an empty table: the place gets an invalid token of this kind.
pub(super) fn unfound(name: *const u16, kind: u32, place: *mut u32) -> Answer {
    invalid_if(name.is_null())?;
    write_answers! { place => kind }
    Err(NOT_FOUND)
}

/// Every assembly of the model has version 0.0.0.0 and no culture.
///
/// # Safety
/// `place` is null, or valid with valid pointers of the profiler in it.
pub(super) unsafe fn write_version(place: *mut sys::ASSEMBLYMETADATA) {
    // SAFETY: the caller guarantees null or a valid place.
    let Some(facts) = (unsafe { place.as_mut() }) else { return };
    (facts.usMajorVersion, facts.usMinorVersion, facts.usBuildNumber, facts.usRevisionNumber) = (0, 0, 0, 0);
    if facts.cbLocale > 0 && !facts.szLocale.is_null() {
        // SAFETY: `cbLocale` states room for at least one.
        unsafe { facts.szLocale.write(0) };
    }
    (facts.cbLocale, facts.ulProcessor, facts.ulOS) = (0, 0, 0);
}

/// Address of a method's IL. Other tokens have none.
pub(super) fn write_address(rows: &Rows, token: u32, address: *mut u32, implementation: *mut u32) -> Answer {
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
