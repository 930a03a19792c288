//! A module's metadata: the parts that a search and a rewrite need beyond those of `corprof`.

mod emitter;
mod enums;

use corprof::buffer::{text_of, units_of};
use corprof::{Alive, Guid, HResult, Info, Loading, ModuleId, sys};
use remora_il::{MethodSignature, type_text};
use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};

pub(crate) use emitter::Emitter;
pub(crate) use enums::Enumeration;

/// Types or methods fetched at a time.
const BLOCK: usize = 64;
/// Types inside types, deeper than any compiler writes.
const DEEPEST: usize = 16;
/// Bytes of the parameters that tell methods of one name apart.
const LONGEST_OVERLOAD: usize = 256;
/// Longest name that is read, UTF-16 units.
const LONGEST_NAME: usize = 1024;

/// A method's row.
#[derive(Debug, Clone)]
pub(crate) struct Method {
    pub(crate) token: u32,
    pub(crate) class: u32,
    pub(crate) name: String,
    pub(crate) attributes: u32,
    pub(crate) signature: Vec<u8>,
    pub(crate) implementation: u32,
}

/// Open metadata of a module.
pub(crate) struct Metadata {
    raw: NonNull<sys::IMetaDataImport>,
}

impl Drop for Metadata {
    fn drop(&mut self) {
        // SAFETY: releases the one reference that the runtime handed over.
        unsafe { sys::IUnknown::Release(self.raw.as_ptr().cast()) };
    }
}

fn open<L: Loading>(
    info: &Info<L, Alive>,
    module: ModuleId,
    flags: u32,
    iid: &Guid,
) -> Result<NonNull<c_void>, HResult> {
    let mut made = null_mut();
    // SAFETY: the object is valid; the identifier and the out-pointer are live.
    HResult(unsafe { sys::ICorProfilerInfo::GetModuleMetaData(info.as_raw(), module.0, flags, iid, &mut made) })
        .ok()?;
    NonNull::new(made.cast()).ok_or(HResult::E_NOINTERFACE)
}

impl Metadata {
    /// Opens the metadata of a module.
    pub(crate) fn of<L: Loading>(info: &Info<L, Alive>, module: ModuleId) -> Result<Metadata, HResult> {
        Ok(Metadata { raw: open(info, module, sys::ofRead, &sys::IID_IMetaDataImport2)?.cast() })
    }

    fn raw(&self) -> *mut sys::IMetaDataImport {
        self.raw.as_ptr()
    }

    /// All type definitions, `<Module>` included.
    pub(crate) fn types(&self) -> Vec<u32> {
        // The module's own type, which is not enumerated, has global methods.
        let mut types = vec![0x0200_0001];
        self.enumerate(&mut types, |cursor, block, fetched| {
            // SAFETY: this value keeps the object alive; the block has room for its length.
            unsafe { sys::IMetaDataImport::EnumTypeDefs(self.raw(), cursor, block, BLOCK as u32, fetched) }
        });
        types
    }

    /// The methods of a type.
    pub(crate) fn methods(&self, class: u32) -> Vec<u32> {
        let mut methods = Vec::new();
        self.enumerate(&mut methods, |cursor, block, fetched| {
            // SAFETY: this value keeps the object alive; the block has room for its length.
            unsafe { sys::IMetaDataImport::EnumMethods(self.raw(), cursor, class, block, BLOCK as u32, fetched) }
        });
        methods
    }

    /// Whether a type has several methods of a name.
    fn has_several(&self, class: u32, method: &str) -> bool {
        let (name, mut found) = (units_of(method), Vec::new());
        self.enumerate(&mut found, |cursor, block, fetched| {
            // SAFETY: this value keeps the object alive; the name ends with a zero, and the block has room for its length.
            unsafe {
                sys::IMetaDataImport::EnumMethodsWithName(
                    self.raw(),
                    cursor,
                    class,
                    name.as_ptr(),
                    block,
                    BLOCK as u32,
                    fetched,
                )
            }
        });
        found.len() > 1
    }

    /// The parameters of a method whose type has others of its name, as C# writes them: `(int, Order)`; else nothing.
    pub(crate) fn overload(&self, class: u32, method: &str, signature: &[u8]) -> String {
        let signature = MethodSignature::read(signature).ok().filter(|_| self.has_several(class, method));
        let name = |token| self.name_of(token).map(|name| without_arity(name.rsplit('.').next().unwrap_or(&name)));
        signature.map_or_else(String::new, |signature| {
            let texts = signature.parameters.iter().map(|of_type| type_text(of_type, &name).unwrap_or_default());
            let text = format!("({})", texts.collect::<Vec<_>>().join(", "));
            if text.len() > LONGEST_OVERLOAD { "(…)".to_owned() } else { text }
        })
    }

    fn enumerate(&self, into: &mut Vec<u32>, next: impl Fn(*mut *mut c_void, *mut u32, *mut u32) -> i32) {
        let mut cursor = null_mut();
        loop {
            let (mut block, mut fetched) = ([0_u32; BLOCK], 0);
            let answer = HResult(next(&mut cursor, block.as_mut_ptr(), &mut fetched));
            into.extend_from_slice(&block[..(fetched as usize).min(BLOCK)]);
            if !answer.is_success() || fetched == 0 {
                break;
            }
        }
        if !cursor.is_null() {
            // SAFETY: this value keeps the object alive; the cursor is not used again.
            unsafe { sys::IMetaDataImport::CloseEnum(self.raw(), cursor) };
        }
    }

    /// A method's row.
    pub(crate) fn method(&self, method: u32) -> Result<Method, HResult> {
        let (mut class, mut attributes, mut length) = (0, 0, 0);
        let (mut signature, mut bytes, mut address, mut implementation) = (null(), 0, 0, 0);
        let mut name = [0_u16; LONGEST_NAME];
        // SAFETY: this value keeps the object alive; the out-pointers are live, and the buffer has room for its length.
        HResult(unsafe {
            sys::IMetaDataImport::GetMethodProps(
                self.raw(),
                method,
                &mut class,
                name.as_mut_ptr(),
                LONGEST_NAME as u32,
                &mut length,
                &mut attributes,
                &mut signature,
                &mut bytes,
                &mut address,
                &mut implementation,
            )
        })
        .ok()?;
        // SAFETY: the runtime's own copy, valid while the metadata is open.
        let signature = unsafe { copied(signature, bytes) };
        let name = text_of(&name[..(length as usize).min(LONGEST_NAME)]);
        Ok(Method { token: method, class, name, attributes, signature, implementation })
    }

    /// A type's own name, with its namespace, and its base type.
    fn type_row(&self, class: u32) -> Option<(String, u32)> {
        let (mut length, mut flags, mut extends) = (0, 0, 0);
        let mut name = [0_u16; LONGEST_NAME];
        // SAFETY: this value keeps the object alive; the out-pointers are live, and the buffer has room for its length.
        let answer = HResult(unsafe {
            sys::IMetaDataImport::GetTypeDefProps(
                self.raw(),
                class,
                name.as_mut_ptr(),
                LONGEST_NAME as u32,
                &mut length,
                &mut flags,
                &mut extends,
            )
        });
        answer.is_success().then(|| (text_of(&name[..(length as usize).min(LONGEST_NAME)]), extends))
    }

    /// A type's full name in the form `Namespace.Outer+Inner`, with the numbers of type parameters.
    pub(crate) fn metadata_name(&self, class: u32) -> Option<String> {
        let (mut name, _) = self.type_row(class)?;
        let mut inner = class;
        for _ in 0..DEEPEST {
            let mut outer = 0;
            // SAFETY: this value keeps the object alive; the out-pointer is live.
            let answer = HResult(unsafe { sys::IMetaDataImport::GetNestedClassProps(self.raw(), inner, &mut outer) });
            if !answer.is_success() || outer & 0x00FF_FFFF == 0 {
                break;
            }
            name = format!("{}+{name}", self.type_row(outer)?.0);
            inner = outer;
        }
        Some(name)
    }

    /// A type's full name, as shown: without the numbers of type parameters.
    pub(crate) fn type_name(&self, class: u32) -> Option<String> {
        self.metadata_name(class).map(|name| without_arity(&name))
    }

    /// A method's full name.
    pub(crate) fn full_name(&self, method: u32) -> Option<String> {
        let row = self.method(method).ok()?;
        Some(format!("{}.{}", self.type_name(row.class)?, row.name))
    }

    /// The signature of locals with this token; empty for none.
    pub(crate) fn signature(&self, token: u32) -> Result<Vec<u8>, HResult> {
        if token & 0x00FF_FFFF == 0 {
            return Ok(Vec::new());
        }
        let (mut signature, mut bytes) = (null(), 0);
        // SAFETY: this value keeps the object alive; the out-pointers are live.
        HResult(unsafe { sys::IMetaDataImport::GetSigFromToken(self.raw(), token, &mut signature, &mut bytes) })
            .ok()?;
        // SAFETY: the runtime's own copy, valid while the metadata is open.
        Ok(unsafe { copied(signature, bytes) })
    }

    /// The value of an attribute.
    pub(crate) fn attribute(&self, owner: u32, name: &str) -> Option<Vec<u8>> {
        let (name, mut data, mut bytes) = (units_of(name), null(), 0);
        // SAFETY: this value keeps the object alive; the name ends with a zero, and the out-pointers are live.
        let answer = HResult(unsafe {
            sys::IMetaDataImport::GetCustomAttributeByName(self.raw(), owner, name.as_ptr(), &mut data, &mut bytes)
        });
        // SAFETY: the runtime's own copy, valid while the metadata is open.
        (answer == HResult::S_OK).then(|| unsafe { copied(data.cast(), bytes) })
    }

    /// The name of a parameter, from 1.
    pub(crate) fn parameter(&self, method: u32, number: u32) -> Option<String> {
        let mut token = 0;
        // SAFETY: this value keeps the object alive; the out-pointer is live.
        let answer =
            HResult(unsafe { sys::IMetaDataImport::GetParamForMethodIndex(self.raw(), method, number, &mut token) });
        if answer != HResult::S_OK {
            return None;
        }
        let mut name = [0_u16; LONGEST_NAME];
        let mut length = 0;
        // SAFETY: this value keeps the object alive. The buffer has room for its length, and null out-pointers are allowed.
        let answer = HResult(unsafe {
            sys::IMetaDataImport::GetParamProps(
                self.raw(),
                token,
                null_mut(),
                null_mut(),
                name.as_mut_ptr(),
                LONGEST_NAME as u32,
                &mut length,
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut(),
            )
        });
        answer.is_success().then(|| text_of(&name[..(length as usize).min(LONGEST_NAME)]))
    }

    /// The name of a type definition or reference.
    pub(crate) fn name_of(&self, token: u32) -> Option<String> {
        if token >> 24 == 2 {
            return self.type_row(token).map(|(name, _)| name);
        }
        self.type_reference(token).map(|(name, _)| name)
    }

    /// The name of a type reference, and the token of the assembly, module or type that has the type.
    pub(crate) fn type_reference(&self, token: u32) -> Option<(String, u32)> {
        let (mut scope, mut length) = (0, 0);
        let mut name = [0_u16; LONGEST_NAME];
        // SAFETY: this value keeps the object alive; the out-pointers are live, and the buffer has room for its length.
        let answer = HResult(unsafe {
            sys::IMetaDataImport::GetTypeRefProps(
                self.raw(),
                token,
                &mut scope,
                name.as_mut_ptr(),
                LONGEST_NAME as u32,
                &mut length,
            )
        });
        answer.is_success().then(|| (text_of(&name[..(length as usize).min(LONGEST_NAME)]), scope))
    }

    /// The name of a referenced member, and the token of its type.
    fn member_reference(&self, token: u32) -> Option<(String, u32)> {
        let (mut class, mut length, mut signature, mut bytes) = (0, 0, null(), 0);
        let mut name = [0_u16; LONGEST_NAME];
        // SAFETY: this value keeps the object alive; the out-pointers are live, and the buffer has room for its length.
        let answer = HResult(unsafe {
            sys::IMetaDataImport::GetMemberRefProps(
                self.raw(),
                token,
                &mut class,
                name.as_mut_ptr(),
                LONGEST_NAME as u32,
                &mut length,
                &mut signature,
                &mut bytes,
            )
        });
        answer.is_success().then(|| (text_of(&name[..(length as usize).min(LONGEST_NAME)]), class))
    }

    /// The name of a field or method in IL, and the token of its type.
    pub(crate) fn member(&self, token: u32) -> Option<(String, u32)> {
        match token >> 24 {
            0x04 => self.field_row(token).map(|row| (row.name, row.class)),
            0x06 => self.method(token).ok().map(|row| (row.name, row.class)),
            0x0A => self.member_reference(token),
            _ => None,
        }
    }

    /// The signature of a type that a token stands for.
    pub(crate) fn type_signature(&self, token: u32) -> Option<Vec<u8>> {
        let (mut signature, mut bytes) = (null(), 0);
        // SAFETY: this value keeps the object alive; the out-pointers are live.
        let answer = HResult(unsafe {
            sys::IMetaDataImport::GetTypeSpecFromToken(self.raw(), token, &mut signature, &mut bytes)
        });
        // SAFETY: the runtime's own copy, valid while the metadata is open.
        answer.is_success().then(|| unsafe { copied(signature, bytes) })
    }

    /// The name of a referenced assembly.
    pub(crate) fn assembly_reference(&self, token: u32) -> Option<String> {
        let assemblies = self.assemblies()?;
        let mut length = 0;
        let mut name = [0_u16; LONGEST_NAME];
        // SAFETY: `assemblies` keeps the object alive. The buffer has room for its length, and null out-pointers are allowed.
        let answer = HResult(unsafe {
            sys::IMetaDataAssemblyImport::GetAssemblyRefProps(
                assemblies.as_ptr(),
                token,
                null_mut(),
                null_mut(),
                name.as_mut_ptr(),
                LONGEST_NAME as u32,
                &mut length,
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut(),
            )
        });
        // SAFETY: releases the one reference that `assemblies` handed over.
        unsafe { sys::IUnknown::Release(assemblies.as_ptr().cast()) };
        answer.is_success().then(|| text_of(&name[..(length as usize).min(LONGEST_NAME)]))
    }

    /// The same metadata by its other interface; the caller releases it.
    fn assemblies(&self) -> Option<NonNull<sys::IMetaDataAssemblyImport>> {
        let mut made = null_mut();
        // SAFETY: this value keeps the object alive; the identifier and the out-pointer are live.
        let answer = HResult(unsafe {
            sys::IUnknown::QueryInterface(self.raw().cast(), &sys::IID_IMetaDataAssemblyImport, &mut made)
        });
        NonNull::new(made.cast()).filter(|_| answer.is_success())
    }

    /// Whether this module defines a type with a method of this name.
    pub(crate) fn defines(&self, class: &str, method: &str) -> bool {
        let is_it = |found: u32| self.method(found).is_ok_and(|row| row.name == method);
        self.find_type(class, 0).is_some_and(|class| self.methods(class).into_iter().any(is_it))
    }

    /// The type definition of this name, inside of another one if `outer` is not 0.
    fn find_type(&self, name: &str, outer: u32) -> Option<u32> {
        let (name, mut token) = (units_of(name), 0);
        // SAFETY: this value keeps the object alive; the name ends with a zero, and the out-pointer is live.
        let answer =
            HResult(unsafe { sys::IMetaDataImport::FindTypeDefByName(self.raw(), name.as_ptr(), outer, &mut token) });
        (answer == HResult::S_OK).then_some(token)
    }
}

/// `List`1` as `List`.
fn without_arity(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(character) = rest.next() {
        if character == '`' && rest.peek().is_some_and(char::is_ascii_digit) {
            while rest.next_if(char::is_ascii_digit).is_some() {}
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A copy of the runtime's bytes.
///
/// # Safety
/// `data` is null or `length` readable bytes.
unsafe fn copied(data: *const u8, length: u32) -> Vec<u8> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: `data` is not null, so the caller guarantees `length` readable bytes.
    unsafe { std::slice::from_raw_parts(data, length as usize) }.to_vec()
}

#[cfg(test)]
mod tests {
    use super::without_arity;

    #[test]
    fn names_are_shown_without_the_number_of_type_parameters() {
        assert_eq!(without_arity("A.List`1+Enumerator"), "A.List+Enumerator");
        assert_eq!(without_arity("A.`x"), "A.`x");
        assert_eq!(without_arity("A.Map`12"), "A.Map");
    }
}
