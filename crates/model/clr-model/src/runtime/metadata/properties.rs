//! The properties of a row, and the answers for a row that does not exist.

use super::Scope;
use super::names::answer_name;
use super::rows::{METHOD, MethodRow, Rows, kind_of, row_of};
use crate::runtime::answers::{answered, write_answers};
use crate::runtime::info::{NO_ARGUMENTS, invalid_if, list, refuse_if, text};
use corprof::{HResult, sys};
use remora_clr_abi::Answer;
use remora_clr_abi::metadata::args;
use std::ffi::{CString, c_char, c_void};

/// CLDB_E_INDEX_NOTFOUND and CLDB_E_RECORD_NOTFOUND: no such row, and no row with this content (source: corerror.h).
pub(super) const NO_ROW: HResult = HResult(0x8013_1124_u32 as i32);
pub(super) const NOT_FOUND: HResult = HResult::CLDB_E_RECORD_NOTFOUND;
/// META_E_BAD_INPUT_PARAMETER and META_E_INVALID_TOKEN_TYPE.
pub(super) const BAD_INPUT: HResult = HResult(0x8013_1193_u32 as i32);
pub(super) const WRONG_KIND: HResult = HResult(0x8013_115F_u32 as i32);
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
    refuse_if(row_of(token) != 0 && !rows.has(token), NO_ROW)?;
    let place = if row_of(token) == 0 { 0 } else { ADDRESS };
    answered! { address => place, implementation => 0 }
}

impl Rows {
    /// A method by its row, whatever the token's kind is.
    pub(super) fn method(&self, token: u32) -> Result<&MethodRow, HResult> {
        self.methods.get(&(METHOD | row_of(token))).ok_or(NO_ROW)
    }
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
    pub(super) fn kept(&self, token: u32, name: String) -> *const c_char {
        let mut given = self.given.lock().expect("no panic while locked");
        given.entry(token).or_insert_with(|| CString::new(name).unwrap_or_default()).as_ptr()
    }

    /// The first method of that name, and of that signature if given. Without a match, the answer is an invalid token of the kind `last`.
    ///
    /// # Safety
    /// The name is null or ends with a zero, the signature is null or has the stated length, and the place is null or valid.
    pub(super) unsafe fn find_method_of(&self, args: args::FindMethod, last: u32) -> Answer {
        invalid_if(args.szName.is_null())?;
        // SAFETY: the caller guarantees the final zero.
        let name = unsafe { text(args.szName) };
        // SAFETY: the caller guarantees the length.
        let signature = unsafe { list(args.pvSigBlob, args.cbSigBlob) };
        let fits = signature.is_empty() || signature == NO_ARGUMENTS;
        let found = self.rows()?.methods_called(args.td, &name).unwrap_or_default().first().copied();
        let found = found.filter(|_| fits);
        write_answers! { args.pmb => found.unwrap_or(last) }
        found.map(|_| HResult::S_OK).ok_or(NOT_FOUND)
    }
}
