//! Makes tokens in a module.

use super::open;
use corprof::buffer::units_of;
use corprof::{Alive, Attached, Guid, HResult, Info, ModuleId, sys};
use std::ffi::c_void;
use std::ptr::NonNull;

/// `IMetaDataEmit`: cor.h of dotnet/runtime.
const IID_EMIT: Guid = Guid::from_u128(0xBA3F_EE4C_ECB9_4E41_83B7_183F_A41C_D859);
/// Slots of its functions.
const DEFINE_TYPE_REF_BY_NAME: usize = 12;
const DEFINE_MEMBER_REF: usize = 14;
const GET_TOKEN_FROM_SIG: usize = 23;
const GET_TOKEN_FROM_TYPE_SPEC: usize = 26;

/// Makes tokens in a module.
pub(crate) struct Emitter {
    raw: NonNull<c_void>,
}

impl Drop for Emitter {
    fn drop(&mut self) {
        // SAFETY: releases the one reference that the runtime handed over.
        unsafe { sys::IUnknown::Release(self.raw.as_ptr().cast()) };
    }
}

impl Emitter {
    /// Opens the metadata of a module for additions. They stay: a few bytes for each signature.
    pub(crate) fn of(info: &Info<Attached, Alive>, module: ModuleId) -> Result<Emitter, HResult> {
        Ok(Emitter { raw: open(info, module, sys::ofRead | sys::ofWrite, &IID_EMIT)? })
    }

    /// The token of a signature; the same one for the same signature.
    pub(crate) fn signature(&self, signature: &[u8]) -> Result<u32, HResult> {
        self.of_bytes(GET_TOKEN_FROM_SIG, signature)
    }

    /// The token of a type by its signature; the same one for the same signature.
    pub(crate) fn type_spec(&self, signature: &[u8]) -> Result<u32, HResult> {
        self.of_bytes(GET_TOKEN_FROM_TYPE_SPEC, signature)
    }

    fn of_bytes(&self, slot: usize, bytes: &[u8]) -> Result<u32, HResult> {
        type Of = unsafe extern "system" fn(*mut c_void, *const u8, u32, *mut u32) -> i32;
        let mut token = 0;
        // SAFETY: both slots have functions of this type. This value keeps the object alive; the bytes and the out-pointer are live.
        HResult(unsafe {
            std::mem::transmute::<usize, Of>(self.function(slot))(
                self.raw.as_ptr(),
                bytes.as_ptr(),
                bytes.len() as u32,
                &mut token,
            )
        })
        .ok()?;
        Ok(token)
    }

    /// The token of a type in another assembly; the same one for the same type.
    pub(crate) fn type_reference(&self, scope: u32, name: &str) -> Result<u32, HResult> {
        type Define = unsafe extern "system" fn(*mut c_void, u32, *const u16, *mut u32) -> i32;
        let (name, mut token) = (units_of(name), 0);
        // SAFETY: the slot has a function of this type. This value keeps the object alive; the name ends with a zero.
        HResult(unsafe {
            std::mem::transmute::<usize, Define>(self.function(DEFINE_TYPE_REF_BY_NAME))(
                self.raw.as_ptr(),
                scope,
                name.as_ptr(),
                &mut token,
            )
        })
        .ok()?;
        Ok(token)
    }

    /// The token of a member of a referenced type; the same one for the same member.
    pub(crate) fn member_reference(&self, class: u32, name: &str, signature: &[u8]) -> Result<u32, HResult> {
        type Define = unsafe extern "system" fn(*mut c_void, u32, *const u16, *const u8, u32, *mut u32) -> i32;
        let (name, mut token) = (units_of(name), 0);
        // SAFETY: the slot has a function of this type. This value keeps the object alive; the name ends with a zero.
        HResult(unsafe {
            std::mem::transmute::<usize, Define>(self.function(DEFINE_MEMBER_REF))(
                self.raw.as_ptr(),
                class,
                name.as_ptr(),
                signature.as_ptr(),
                signature.len() as u32,
                &mut token,
            )
        })
        .ok()?;
        Ok(token)
    }

    /// The address of a function of the interface.
    fn function(&self, slot: usize) -> usize {
        // SAFETY: a COM object begins with the address of its vtable, which has all slots of this interface.
        unsafe { self.raw.as_ptr().cast::<*const usize>().read().add(slot).read() }
    }
}
