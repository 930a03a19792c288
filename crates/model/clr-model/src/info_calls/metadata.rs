//! Calls about a module's metadata.

use super::{Answered, answered, calls};
use crate::scripted::Script;
use corprof::{Guid, HResult, sys};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// The longest name, including its zero.
const LONGEST: usize = 128;

/// A module's metadata, released on drop.
pub struct Metadata(*mut sys::IMetaDataImport2);

// SAFETY: the model's object may be used and released on any thread.
unsafe impl Send for Metadata {}
// SAFETY: the model's object may be used from several threads at a time.
unsafe impl Sync for Metadata {}

/// An open enumeration of it.
#[derive(Debug, Clone, Copy)]
pub struct TokenList(*mut c_void);

calls! {
    /// GetModuleMetaData: the address of an IMetaDataImport2.
    open_metadata(module: usize) -> (object: usize)
        = ICorProfilerInfo::GetModuleMetaData(module, 0, &sys::IID_IMetaDataImport2, (&raw mut object).cast());
    /// GetTokenAndMetaDataFromFunction: the address of an IMetaDataImport2, and the token.
    open_metadata_of_function(function: usize) -> (object: usize, token: u32)
        = ICorProfilerInfo::GetTokenAndMetaDataFromFunction(
            function, &sys::IID_IMetaDataImport2, (&raw mut object).cast(), &raw mut token);
}

impl Script {
    /// The metadata of a module.
    pub fn metadata(&self, module: usize) -> Answered<Metadata> {
        self.open_metadata(module).map(|object| Metadata(object as *mut sys::IMetaDataImport2))
    }

    /// The metadata of a function's module, and the function's token.
    pub fn metadata_of_function(&self, function: usize) -> Answered<(Metadata, u32)> {
        let (object, token) = self.open_metadata_of_function(function)?;
        Ok((Metadata(object as *mut sys::IMetaDataImport2), token))
    }
}

fn text(units: &[u16]) -> String {
    String::from_utf16_lossy(units).split('\0').next().unwrap_or_default().to_owned()
}

impl Metadata {
    fn first(&self) -> *mut sys::IMetaDataImport {
        self.0.cast()
    }

    /// GetScopeProps: the module's name and its id.
    pub fn scope(&self) -> Answered<(String, Guid)> {
        let (mut name, mut length, mut id) = ([0; LONGEST], 0, Guid::from_u128(0));
        let place = name.as_mut_ptr();
        // SAFETY: a live object, room and places.
        let code = unsafe {
            sys::IMetaDataImport::GetScopeProps(self.first(), place, LONGEST as u32, &raw mut length, &raw mut id)
        };
        answered(code, (text(&name), id))
    }

    /// GetTypeDefProps: name and base.
    pub fn type_of(&self, token: u32) -> Answered<(String, u32)> {
        let (mut name, mut length, mut flags, mut extends) = ([0; LONGEST], 0, 0, 0);
        let (place, count) = (name.as_mut_ptr(), &raw mut length);
        let (flags, base) = (&raw mut flags, &raw mut extends);
        // SAFETY: this reference keeps the object alive; the out pointers are locals, unwanted ones are null.
        let code = unsafe {
            sys::IMetaDataImport::GetTypeDefProps(self.first(), token, place, LONGEST as u32, count, flags, base)
        };
        answered(code, (text(&name), extends))
    }

    /// GetMethodProps: class and name.
    pub fn method(&self, token: u32) -> Answered<(u32, String)> {
        let (mut name, mut class) = ([0; LONGEST], 0);
        let (place, nothing) = (name.as_mut_ptr(), null_mut());
        // SAFETY: this reference keeps the object alive; the out pointers are locals, unwanted ones are null.
        let code = unsafe {
            sys::IMetaDataImport::GetMethodProps(
                self.first(),
                token,
                &raw mut class,
                place,
                LONGEST as u32,
                nothing,
                nothing,
                null_mut(),
                nothing,
                nothing,
                nothing,
            )
        };
        answered(code, (class, text(&name)))
    }

    /// FindMethod with any signature.
    pub fn find_method(&self, class: u32, name: &str) -> Answered<u32> {
        let (name, mut found): (Vec<u16>, _) = (name.encode_utf16().chain([0]).collect(), 0);
        // SAFETY: this reference keeps the object alive; the text ends with a zero, and the out pointer is a local.
        let code =
            unsafe { sys::IMetaDataImport::FindMethod(self.first(), class, name.as_ptr(), null(), 0, &raw mut found) };
        answered(code, found)
    }

    /// IsValidToken.
    pub fn is_valid(&self, token: u32) -> bool {
        // SAFETY: this reference keeps the object alive; the out pointers are locals.
        unsafe { sys::IMetaDataImport::IsValidToken(self.first(), token) != 0 }
    }

    /// EnumTypeDefs, read to its end and closed.
    pub fn types(&self) -> Answered<Vec<u32>> {
        // SAFETY: this reference keeps the object alive; the out pointers are locals.
        self.all(|cursor, place, count| unsafe {
            sys::IMetaDataImport::EnumTypeDefs(self.first(), cursor, place, 1, count)
        })
    }

    /// EnumMethods, read to its end and closed.
    pub fn methods(&self, class: u32) -> Answered<Vec<u32>> {
        // SAFETY: this reference keeps the object alive; the out pointers are locals.
        self.all(|cursor, place, count| unsafe {
            sys::IMetaDataImport::EnumMethods(self.first(), cursor, class, place, 1, count)
        })
    }

    /// EnumTypeDefs, begun and left open.
    pub fn list(&self) -> TokenList {
        let (mut cursor, mut one, mut count) = (null_mut(), 0, 0);
        let (begun, count) = (&raw mut cursor, &raw mut count);
        // SAFETY: this reference keeps the object alive; the out pointers are locals.
        unsafe { sys::IMetaDataImport::EnumTypeDefs(self.first(), begun, &raw mut one, 1, count) };
        TokenList(cursor)
    }

    /// CloseEnum.
    pub fn close(&self, list: TokenList) {
        // SAFETY: this reference keeps the object alive; it validates the list.
        unsafe { sys::IMetaDataImport::CloseEnum(self.first(), list.0) };
    }

    /// Reads an enumeration to its end.
    fn all(&self, next: impl Fn(*mut sys::HCORENUM, *mut u32, *mut u32) -> i32) -> Answered<Vec<u32>> {
        let (mut cursor, mut tokens) = (null_mut(), Vec::new());
        loop {
            let (mut token, mut count) = (0, 0);
            let code = HResult(next(&raw mut cursor, &raw mut token, &raw mut count));
            if code != HResult::S_OK || count != 1 {
                self.close(TokenList(cursor));
                return if code.is_success() { Ok(tokens) } else { Err(code) };
            }
            tokens.push(token);
        }
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        // SAFETY: releases the only reference.
        unsafe { sys::IUnknown::Release(self.0.cast()) };
    }
}
