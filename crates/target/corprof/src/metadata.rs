//! The metadata of one module, for modules without a file to read it from.
//!
//! It borrows from [`Info`] and is released on drop, so none is open when the detach is requested.

use crate::buffer;
use crate::guid::Guid;
use crate::ids::{MethodToken, ModuleId, Token, TypeToken};
use crate::{Alive, HResult, Info, Loading, sys};
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// The maximum number of generic parameters listed for one owner.
const MOST_GENERIC_PARAMETERS: usize = 1024;

/// The maximum length of a copied signature.
const LONGEST_SIGNATURE: usize = 64 * 1024;

/// A method's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodProperties {
    /// The type that declares it.
    pub class: TypeToken,
    /// Its name.
    pub name: String,
    /// Its CorMethodAttr flags.
    pub attributes: u32,
    /// Its signature, encoded by ECMA-335 II.23.2.1.
    pub signature: Vec<u8>,
}

/// A type's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeProperties {
    /// Namespace and name, with a backtick and the number of type parameters. Without the enclosing types.
    pub name: String,
    /// Its CorTypeAttr flags.
    pub flags: u32,
    /// Its base type.
    pub extends: Token,
}

impl TypeProperties {
    /// Whether it is nested in another type, by its visibility.
    pub fn is_nested(&self) -> bool {
        self.flags & 7 >= 2
    }
}

/// A type parameter's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenericParameter {
    /// Its position, from zero.
    pub position: u32,
    /// Its name.
    pub name: String,
}

/// A module's metadata, open for reading.
#[derive(Debug)]
pub struct ModuleMetadata<'info> {
    raw: NonNull<sys::IMetaDataImport2>,
    info: PhantomData<&'info ()>,
}

impl<L: Loading> Info<L, Alive> {
    /// The metadata of a module; `None` for a module without, such as a resource module.
    pub fn get_module_metadata(&self, module: ModuleId) -> Result<Option<ModuleMetadata<'_>>, HResult> {
        let mut made = core::ptr::null_mut();
        // SAFETY: this `Info` is `Alive`, so its object is valid; the identifier is a constant, and the out-pointer is a live local.
        let answer = unsafe {
            sys::ICorProfilerInfo::GetModuleMetaData(
                self.as_raw(),
                module.0,
                sys::ofRead,
                &sys::IID_IMetaDataImport2,
                &mut made,
            )
        };
        HResult(answer).ok()?;
        Ok(NonNull::new(made.cast()).map(|raw| ModuleMetadata { raw, info: PhantomData }))
    }
}

impl ModuleMetadata<'_> {
    /// The MVID: every compilation has its own.
    pub fn mvid(&self) -> Result<Guid, HResult> {
        let mut mvid = Guid::from_u128(0);
        let nothing = core::ptr::null_mut();
        // SAFETY: this value keeps the object alive until drop; `mvid` is a live local. A null name is allowed.
        let answer = unsafe {
            sys::IMetaDataImport::GetScopeProps(
                self.import(),
                nothing,
                0,
                core::ptr::null_mut(),
                (&raw mut mvid).cast(),
            )
        };
        HResult(answer).ok()?;
        Ok(mvid)
    }

    /// A method's name, type, flags and signature.
    pub fn method(&self, method: MethodToken) -> Result<MethodProperties, HResult> {
        let (mut class, mut attributes, mut address, mut implementation) = (0, 0, 0, 0);
        let (mut signature, mut length) = (core::ptr::null(), 0);
        let name = buffer::text(|capacity, needed, text| {
            // SAFETY: this value keeps the object alive until drop; the out-pointers are live, and the buffer has room for `capacity`.

            unsafe {
                sys::IMetaDataImport::GetMethodProps(
                    self.import(),
                    method.0,
                    &mut class,
                    text,
                    capacity,
                    needed,
                    &mut attributes,
                    &mut signature,
                    &mut length,
                    &mut address,
                    &mut implementation,
                )
            }
        })?;
        // SAFETY: the runtime's own copy of the signature, valid while the metadata is open.
        let signature = unsafe { copied(signature, length) };
        Ok(MethodProperties { class: TypeToken(class), name, attributes, signature })
    }

    /// A type's name, flags and base type.
    pub fn type_definition(&self, class: TypeToken) -> Result<TypeProperties, HResult> {
        let (mut flags, mut extends) = (0, 0);
        let name = buffer::text(|capacity, needed, text| {
            // SAFETY: this value keeps the object alive until drop; the out-pointers are live, and the buffer has room for `capacity`.

            unsafe {
                sys::IMetaDataImport::GetTypeDefProps(
                    self.import(),
                    class.0,
                    text,
                    capacity,
                    needed,
                    &mut flags,
                    &mut extends,
                )
            }
        })?;
        Ok(TypeProperties { name, flags, extends: Token(extends) })
    }

    /// The enclosing type; `None` if the type is not nested.
    pub fn enclosing_type(&self, class: TypeToken) -> Result<Option<TypeToken>, HResult> {
        let mut enclosing = 0;
        // SAFETY: this value keeps the object alive until drop; the out-pointer is a live local.
        let answer =
            HResult(unsafe { sys::IMetaDataImport::GetNestedClassProps(self.import(), class.0, &mut enclosing) });
        if answer == HResult::CLDB_E_RECORD_NOTFOUND {
            return Ok(None);
        }
        answer.ok()?;
        Ok(Some(TypeToken(enclosing)).filter(|enclosing| enclosing.is_some()))
    }

    /// The name of a type that another module defines.
    pub fn type_reference(&self, reference: Token) -> Result<String, HResult> {
        let mut scope = 0;
        buffer::text(|capacity, needed, text| {
            // SAFETY: this value keeps the object alive until drop; the out-pointer is live, and the buffer has room for `capacity`.

            unsafe {
                sys::IMetaDataImport::GetTypeRefProps(self.import(), reference.0, &mut scope, text, capacity, needed)
            }
        })
    }

    /// The type parameters of a type or method, in order.
    pub fn generic_parameters(&self, owner: impl Into<Token>) -> Result<Vec<GenericParameter>, HResult> {
        let mut tokens = self.generic_parameter_tokens(owner.into())?;
        let mut parameters =
            tokens.drain(..).map(|token| self.generic_parameter(token)).collect::<Result<Vec<_>, _>>()?;
        parameters.sort_by_key(|parameter| parameter.position);
        Ok(parameters)
    }

    fn generic_parameter_tokens(&self, owner: Token) -> Result<Vec<u32>, HResult> {
        let mut cursor: *mut c_void = core::ptr::null_mut();
        let mut tokens = Vec::new();
        let outcome = loop {
            let (mut block, mut fetched) = ([0u32; 16], 0);
            // SAFETY: this value keeps the object alive until drop.
            // `cursor` belongs to this enumeration, and `block` has room for its length.
            let answer = HResult(unsafe {
                sys::IMetaDataImport2::EnumGenericParams(
                    self.raw.as_ptr(),
                    &mut cursor,
                    owner.0,
                    block.as_mut_ptr(),
                    block.len() as u32,
                    &mut fetched,
                )
            });
            tokens.extend_from_slice(&block[..(fetched as usize).min(block.len())]);
            if !answer.is_success() || fetched == 0 || tokens.len() >= MOST_GENERIC_PARAMETERS {
                break answer;
            }
        };
        if !cursor.is_null() {
            // SAFETY: this value keeps the object alive until drop; `cursor` is not used again.
            unsafe { sys::IMetaDataImport::CloseEnum(self.import(), cursor) };
        }
        outcome.ok()?;
        Ok(tokens)
    }

    fn generic_parameter(&self, token: u32) -> Result<GenericParameter, HResult> {
        let (mut position, mut flags, mut owner, mut reserved) = (0, 0, 0, 0);
        let name = buffer::text(|capacity, needed, text| {
            // SAFETY: this value keeps the object alive until drop; the out-pointers are live, and the buffer has room for `capacity`.

            unsafe {
                sys::IMetaDataImport2::GetGenericParamProps(
                    self.raw.as_ptr(),
                    token,
                    &mut position,
                    &mut flags,
                    &mut owner,
                    &mut reserved,
                    text,
                    capacity,
                    needed,
                )
            }
        })?;
        Ok(GenericParameter { position, name })
    }

    fn import(&self) -> *mut sys::IMetaDataImport {
        self.raw.as_ptr().cast()
    }
}

impl Drop for ModuleMetadata<'_> {
    fn drop(&mut self) {
        // SAFETY: releases the one reference that the runtime handed over.
        unsafe { sys::IUnknown::Release(self.raw.as_ptr().cast()) };
    }
}

/// A copy of the runtime's bytes, cut off at [`LONGEST_SIGNATURE`].
///
/// # Safety
/// `data` is null or `length` readable bytes.
unsafe fn copied(data: *const u8, length: u32) -> Vec<u8> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: `data` is not null, so the caller guarantees `length` readable bytes.
    unsafe { core::slice::from_raw_parts(data, (length as usize).min(LONGEST_SIGNATURE)) }.to_vec()
}
