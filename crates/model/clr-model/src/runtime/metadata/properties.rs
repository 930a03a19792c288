//! The properties of a row, and the answers for a row that does not exist.

use super::Scope;
use super::names::{answer_name, answer_type_name};
use super::rows::{self, METHOD, MethodRow, OBJECT, ONLY, Rows, TYPE_REFERENCE, kind_of, row_of};
use crate::runtime::answers::write_answers;
use crate::runtime::info::{Answer, NO_ARGUMENTS, invalid_if, list, refuse_if, text};
use corprof::{HResult, sys};
use remora_clr_abi::metadata::args;
use std::ffi::{CString, c_char, c_void};

/// CLDB_E_INDEX_NOTFOUND and CLDB_E_RECORD_NOTFOUND: no such row, and no row with this content (source: corerror.h).
pub(super) const NO_ROW: HResult = HResult(0x8013_1124_u32 as i32);
pub(super) const NOT_FOUND: HResult = HResult::CLDB_E_RECORD_NOTFOUND;
/// META_E_BAD_INPUT_PARAMETER and META_E_INVALID_TOKEN_TYPE.
pub(super) const BAD_INPUT: HResult = HResult(0x8013_1193_u32 as i32);
pub(super) const WRONG_KIND: HResult = HResult(0x8013_115F_u32 as i32);
/// META_E_CANNOTRESOLVETYPEREF: other modules are not searched.
const UNRESOLVED: HResult = HResult(0x8013_1196_u32 as i32);
/// pmCallConvWinapi: no signature here specifies another (source: corhdr.h).
pub(super) const PLATFORMS_OWN: u32 = 0x0100;
/// CALG_SHA1, which compilers write.
pub(super) const SHA1: u32 = 0x8004;
/// No assembly of the model is signed.
pub(super) const NO_KEY: *const c_void = std::ptr::null();
/// The runtime that it was compiled for: every compiler since the .NET Framework 4 writes this.
pub(super) const VERSION: &str = "v4.0.30319";

/// mdPrivate, mdStatic and mdHideBySig (source: corhdr.h).
const PRIVATE_STATIC: u32 = 0x91;
/// Address of the one IL body that all methods have.
const ADDRESS: u32 = 0x2050;

/// A search in an empty table: the place gets an invalid token of this kind.
pub(super) fn unfound(name: *const u16, kind: u32, place: *mut u32) -> HResult {
    if name.is_null() {
        return HResult::E_INVALIDARG;
    }
    write_answers! { place => kind }
    NOT_FOUND
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
pub(super) fn write_address(rows: &Rows, token: u32, address: *mut u32, implementation: *mut u32) -> HResult {
    if kind_of(token) != METHOD {
        write_answers! { address => 0 }
        return NOT_FOUND;
    }
    if row_of(token) != 0 && !rows.has(token) {
        return NO_ROW;
    }
    let place = if row_of(token) == 0 { 0 } else { ADDRESS };
    write_answers! { address => place, implementation => 0 }
    HResult::S_OK
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

    /// # Safety
    /// The name is null or has the stated room; the other pointers are null or places.
    pub(super) unsafe fn write_type(&self, args: args::GetTypeDefProps) -> Answer {
        let room = (args.szTypeDef, args.cchTypeDef);
        if kind_of(args.td) != rows::TYPE {
            return Ok(HResult::S_FALSE);
        }
        if row_of(args.td) == 0 {
            write_answers! { args.pdwTypeDefFlags => 0, args.ptkExtends => TYPE_REFERENCE }
            // SAFETY: the caller guarantees the room. Without a name nothing is truncated.
            unsafe { answer_type_name("", room, args.pchTypeDef) };
            return Ok(HResult::S_OK);
        }
        let rows = self.rows()?;
        let class = rows.types.get(&args.td).ok_or(NO_ROW)?;
        write_answers! { args.pdwTypeDefFlags => class.flags, args.ptkExtends => class.extends }
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { answer_type_name(&class.name, room, args.pchTypeDef) })
    }

    /// # Safety
    /// The name is null or has the stated room; the other pointers are null or places.
    pub(super) unsafe fn write_type_reference(&self, args: args::GetTypeRefProps) -> Answer {
        let room = (args.szName, args.cchName);
        if kind_of(args.tr) != TYPE_REFERENCE {
            return Ok(HResult::S_FALSE);
        }
        if row_of(args.tr) == 0 {
            write_answers! { args.ptkResolutionScope => 0 }
            // SAFETY: the caller guarantees the room.
            unsafe { answer_type_name("", room, args.pchName) };
            return Ok(HResult::S_OK);
        }
        refuse_if(!self.rows()?.has(args.tr), NO_ROW)?;
        write_answers! { args.ptkResolutionScope => rows::ASSEMBLY_REFERENCE | ONLY }
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { answer_type_name(OBJECT, room, args.pchName) })
    }

    /// The class of a method without a type is an invalid token.
    ///
    /// # Safety
    /// The name is null or has the stated room; the other pointers are null or places.
    pub(super) unsafe fn write_method(&self, args: args::GetMethodProps) -> Answer {
        let rows = self.rows()?;
        let method = rows.method(args.mb)?;
        write_answers! {
            args.pClass => if method.class == rows::NO_TYPE { rows::TYPE } else { method.class },
            args.pdwAttr => PRIVATE_STATIC,
            args.ppvSigBlob => NO_ARGUMENTS.as_ptr(),
            args.pcbSigBlob => NO_ARGUMENTS.len() as u32,
            args.pulCodeRVA => ADDRESS,
            args.pdwImplFlags => 0,
        }
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { self.name(&method.name, (args.szMethod, args.cchMethod), args.pchMethod) })
    }

    /// The model has no nested types.
    ///
    /// # Safety
    /// The name is null or ends with a zero; the place is null or valid.
    pub(super) unsafe fn find_type(&self, args: args::FindTypeDefByName) -> Answer {
        invalid_if(args.szTypeDef.is_null())?;
        // SAFETY: the caller guarantees the final zero.
        let name = unsafe { text(args.szTypeDef) };
        let rows = self.rows()?;
        let found = rows.types.iter().find(|(_, class)| class.name == name).map(|(token, _)| *token);
        let found = found.filter(|_| row_of(args.tkEnclosingClass) == 0);
        write_answers! { args.ptd => found.unwrap_or(rows::TYPE) }
        found.map(|_| HResult::S_OK).ok_or(NOT_FOUND)
    }

    /// # Safety
    /// The name is null or ends with a zero; the place is null or valid.
    pub(super) unsafe fn find_type_reference(&self, args: args::FindTypeRef) -> Answer {
        // SAFETY: the caller guarantees the final zero.
        let name = unsafe { text(args.szName) };
        let is_framework = args.tkResolutionScope == rows::ASSEMBLY_REFERENCE | ONLY;
        let is_there = self.rows()?.framework.is_some() && is_framework && name == OBJECT;
        write_answers! { args.ptr => if is_there { TYPE_REFERENCE | ONLY } else { TYPE_REFERENCE } }
        refuse_if(!is_there, NOT_FOUND).map(|()| HResult::S_OK)
    }

    /// Resolves a type token: a type of this module is found, a referenced type is not (live: the same test).
    ///
    /// # Safety
    /// An identifier, and null or places for the answers.
    pub(super) unsafe fn resolve(&self, args: args::ResolveTypeRef) -> Answer {
        write_answers! { args.ppIScope => std::ptr::null_mut(), args.ptd => 0 }
        if kind_of(args.tr) == rows::TYPE {
            let both = self.runtime.upgrade().zip(self.profiler.upgrade());
            let (runtime, profiler) = both.filter(|_| !args.ppIScope.is_null()).ok_or(HResult::E_INVALIDARG)?;
            write_answers! { args.ptd => args.tr }
            // SAFETY: the caller guarantees the identifier; the place is not null.
            return Ok(unsafe { runtime.open_metadata(&profiler, self.module, args.riid, args.ppIScope) });
        }
        if row_of(args.tr) == 0 {
            write_answers! { args.ptd => rows::TYPE }
            return Err(HResult::E_INVALIDARG);
        }
        Err(if self.rows()?.has(args.tr) { UNRESOLVED } else { NO_ROW })
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
