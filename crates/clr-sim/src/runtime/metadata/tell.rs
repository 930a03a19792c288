//! What is told of one row, and what is answered where there is no such row.

use super::Scope;
use super::rows::{self, METHOD, MethodRow, OBJECT, ONLY, Rows, TYPE_REFERENCE, kind_of, row_of};
use super::texts::{answer_name, answer_type_name};
use crate::runtime::answers::{answer, tell};
use crate::runtime::info::{NO_ARGUMENTS, code, text};
use corprof::{HResult, sys};
use std::ffi::{CString, c_char, c_void};

/// CLDB_E_INDEX_NOTFOUND and CLDB_E_RECORD_NOTFOUND: no such row, and no row that says such a thing (source: corerror.h).
pub(super) const NO_ROW: HResult = HResult(0x8013_1124_u32 as i32);
pub(super) const NOT_FOUND: HResult = HResult::CLDB_E_RECORD_NOTFOUND;
/// META_E_BAD_INPUT_PARAMETER and META_E_INVALID_TOKEN_TYPE.
pub(super) const BAD_INPUT: HResult = HResult(0x8013_1193_u32 as i32);
pub(super) const WRONG_KIND: HResult = HResult(0x8013_115F_u32 as i32);
/// META_E_CANNOTRESOLVETYPEREF: other modules are not looked through.
const UNRESOLVED: HResult = HResult(0x8013_1196_u32 as i32);
/// pmCallConvWinapi: no signature here says another (source: corhdr.h).
pub(super) const PLATFORMS_OWN: u32 = 0x0100;
/// CALG_SHA1, which compilers write.
pub(super) const SHA1: u32 = 0x8004;
/// No assembly of the model is signed.
pub(super) const NO_KEY: *const c_void = std::ptr::null();
/// For which runtime it was compiled: every compiler since the .NET Framework 4 writes this.
pub(super) const VERSION: &str = "v4.0.30319";

/// mdPrivate, mdStatic and mdHideBySig (source: corhdr.h).
const PRIVATE_STATIC: u32 = 0x91;
/// Where the one body of IL lies that all methods have.
const ADDRESS: u32 = 0x2050;

/// Where a profiler wants what is told of a method beside its name.
pub(super) struct MethodPlaces {
    pub(super) class: *mut u32,
    pub(super) attributes: *mut u32,
    pub(super) signature: (*mut sys::PCCOR_SIGNATURE, *mut u32),
    pub(super) address: *mut u32,
    pub(super) implementation: *mut u32,
}

/// A search for what there is none of: the place gets a token of that kind that is nobody's.
pub(super) fn unfound(name: *const u16, kind: u32, place: *mut u32) -> HResult {
    if name.is_null() {
        return HResult::E_INVALIDARG;
    }
    tell! { place => kind }
    NOT_FOUND
}

/// Every assembly of the model has the version 0.0.0.0 and is of no culture.
///
/// # Safety
/// Null, or a place whose other pointers are the profiler's.
pub(super) unsafe fn tell_version(place: *mut sys::ASSEMBLYMETADATA) {
    // SAFETY: the caller's promise.
    let Some(facts) = (unsafe { place.as_mut() }) else { return };
    (facts.usMajorVersion, facts.usMinorVersion, facts.usBuildNumber, facts.usRevisionNumber) = (0, 0, 0, 0);
    if facts.cbLocale > 0 && !facts.szLocale.is_null() {
        // SAFETY: room for one at least.
        unsafe { facts.szLocale.write(0) };
    }
    (facts.cbLocale, facts.ulProcessor, facts.ulOS) = (0, 0, 0);
}

/// Where a method's IL lies. Of what is no method nothing lies anywhere.
pub(super) fn tell_address(rows: &Rows, token: u32, address: *mut u32, implementation: *mut u32) -> HResult {
    if kind_of(token) != METHOD {
        tell! { address => 0 }
        return NOT_FOUND;
    }
    if row_of(token) != 0 && !rows.has(token) {
        return NO_ROW;
    }
    let place = if row_of(token) == 0 { 0 } else { ADDRESS };
    tell! { address => place, implementation => 0 }
    HResult::S_OK
}

impl Rows {
    /// A method, whatever the kind of its token says.
    pub(super) fn method(&self, token: u32) -> Result<&MethodRow, HResult> {
        self.methods.get(&(METHOD | row_of(token))).ok_or(NO_ROW)
    }
}

impl Scope {
    /// A name, in the way of this runtime.
    ///
    /// # Safety
    /// The profiler's room and place.
    pub(super) unsafe fn name(&self, text: &str, room: (*mut u16, u32), count: *mut u32) -> HResult {
        let fits = self.runtime.upgrade().is_none_or(|runtime| runtime.differences().names_are_written_as_they_fit);
        // SAFETY: the caller's promise.
        unsafe { answer_name(text, room, count, fits) }
    }

    /// A name as memory that lasts as long as the metadata is open.
    pub(super) fn kept(&self, token: u32, name: String) -> *const c_char {
        let mut given = self.given.lock().expect("no panic while locked");
        given.entry(token).or_insert_with(|| CString::new(name).unwrap_or_default()).as_ptr()
    }

    /// # Safety
    /// The profiler's room and places.
    pub(super) unsafe fn tell_type(
        &self,
        token: u32,
        room: (*mut u16, u32),
        count: *mut u32,
        flags: *mut u32,
        extends: *mut u32,
    ) -> HResult {
        if kind_of(token) != rows::TYPE {
            return HResult::S_FALSE;
        }
        if row_of(token) == 0 {
            tell! { flags => 0, extends => TYPE_REFERENCE }
            // SAFETY: the caller's promise. It is not cut where there is no room.
            unsafe { answer_type_name("", room, count) };
            return HResult::S_OK;
        }
        code(self.rows().and_then(|rows| {
            let class = rows.types.get(&token).ok_or(NO_ROW)?;
            tell! { flags => class.flags, extends => class.extends }
            // SAFETY: the caller's promise.
            Ok(unsafe { answer_type_name(&class.name, room, count) })
        }))
    }

    /// # Safety
    /// The profiler's room and places.
    pub(super) unsafe fn tell_type_reference(
        &self,
        token: u32,
        scope: *mut u32,
        room: (*mut u16, u32),
        count: *mut u32,
    ) -> HResult {
        if kind_of(token) != TYPE_REFERENCE {
            return HResult::S_FALSE;
        }
        if row_of(token) == 0 {
            tell! { scope => 0 }
            // SAFETY: the caller's promise.
            unsafe { answer_type_name("", room, count) };
            return HResult::S_OK;
        }
        code(self.rows().map(|rows| {
            if !rows.has(token) {
                return NO_ROW;
            }
            tell! { scope => rows::ASSEMBLY_REFERENCE | ONLY }
            // SAFETY: the caller's promise.
            unsafe { answer_type_name(OBJECT, room, count) }
        }))
    }

    /// # Safety
    /// The profiler's room and places.
    pub(super) unsafe fn tell_method(
        &self,
        token: u32,
        room: (*mut u16, u32),
        count: *mut u32,
        places: MethodPlaces,
    ) -> HResult {
        code(self.rows().and_then(|rows| {
            let method = rows.method(token)?;
            // Where a method is of no type, nobody's token says so.
            let class = if method.class == rows::NO_TYPE { rows::TYPE } else { method.class };
            tell! {
                places.class => class,
                places.attributes => PRIVATE_STATIC,
                places.signature.0 => NO_ARGUMENTS.as_ptr(),
                places.signature.1 => NO_ARGUMENTS.len() as u32,
                places.address => ADDRESS,
                places.implementation => 0,
            }
            // SAFETY: the caller's promise.
            Ok(unsafe { self.name(&method.name, room, count) })
        }))
    }

    /// No type of the model lies inside another.
    ///
    /// # Safety
    /// The profiler's text and place.
    pub(super) unsafe fn find_type(&self, name: *const u16, enclosing: u32, place: *mut u32) -> HResult {
        if name.is_null() {
            return HResult::E_INVALIDARG;
        }
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) };
        code(self.rows().map(|rows| {
            let found = rows.types.iter().find(|(_, class)| class.name == name).map(|(token, _)| *token);
            let found = found.filter(|_| row_of(enclosing) == 0);
            tell! { place => found.unwrap_or(rows::TYPE) }
            if found.is_some() { HResult::S_OK } else { NOT_FOUND }
        }))
    }

    /// # Safety
    /// The profiler's text and place.
    pub(super) unsafe fn find_type_reference(&self, scope: u32, name: *const u16, place: *mut u32) -> HResult {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) };
        code(self.rows().map(|rows| {
            let is_there = rows.framework.is_some() && scope == rows::ASSEMBLY_REFERENCE | ONLY && name == OBJECT;
            tell! { place => if is_there { TYPE_REFERENCE | ONLY } else { TYPE_REFERENCE } }
            if is_there { HResult::S_OK } else { NOT_FOUND }
        }))
    }

    /// Where a type is that a token means: one of this module's is here, and one that is referred to is not found (live: the same test).
    ///
    /// # Safety
    /// The profiler's identifier and places.
    pub(super) unsafe fn resolve(
        &self,
        token: u32,
        interface: sys::REFIID,
        scope: *mut *mut sys::IUnknown,
        place: *mut u32,
    ) -> HResult {
        tell! { scope => std::ptr::null_mut(), place => 0 }
        if kind_of(token) == rows::TYPE {
            let both = self.runtime.upgrade().zip(self.profiler.upgrade());
            let Some((runtime, profiler)) = both.filter(|_| !scope.is_null()) else { return HResult::E_INVALIDARG };
            tell! { place => token }
            // SAFETY: the caller's promise, and a place for the answer.
            return unsafe { runtime.open_metadata(&profiler, self.module, interface, scope) };
        }
        if row_of(token) == 0 {
            tell! { place => rows::TYPE }
            return HResult::E_INVALIDARG;
        }
        code(self.rows().map(|rows| if rows.has(token) { UNRESOLVED } else { NO_ROW }))
    }

    /// The first of that name, and of that signature if one is given. Who finds none gets nobody's token, of the kind that was looked for last.
    ///
    /// # Safety
    /// The profiler's text, bytes and place.
    pub(super) unsafe fn find_method_of(
        &self,
        (class, last): (u32, u32),
        name: *const u16,
        (signature, length): (*const u8, u32),
        place: *mut u32,
    ) -> HResult {
        if name.is_null() {
            return HResult::E_INVALIDARG;
        }
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) };
        let is_any = signature.is_null() || length == 0;
        // SAFETY: as above.
        let fits = is_any || unsafe { std::slice::from_raw_parts(signature, length as usize) } == NO_ARGUMENTS;
        code(self.rows().map(|rows| {
            let found = rows.methods_called(class, &name).unwrap_or_default().first().copied().filter(|_| fits);
            // SAFETY: as above.
            unsafe { answer(place, found.unwrap_or(last)) };
            if found.is_some() { HResult::S_OK } else { NOT_FOUND }
        }))
    }
}
