//! Enums: the numbers below them, and the names of their constants.

use super::{BLOCK, DEEPEST, LONGEST_NAME, Metadata, copied};
use crate::fixed_modules::FixedModule;
use corprof::buffer::text_of;
use corprof::{Alive, HResult, Info, Loading, sys};
use remora_wire::is_framework;
use std::ptr::{null, null_mut};

/// A field with a constant: `fdLiteral` of CorFieldAttr, corhdr.h.
const LITERAL: u32 = 0x40;
/// Constants that are read of an enum.
const MOST_CONSTANTS: usize = 64;

/// An enum.
#[derive(Debug, Clone)]
pub(crate) struct Enumeration {
    /// The type of its numbers: one byte of a signature.
    pub(crate) element: u8,
    /// Its constants, or the first of them.
    pub(crate) constants: Vec<(i64, String)>,
    /// Whether a value is a set of constants.
    pub(crate) is_flags: bool,
}

/// A field's row.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) class: u32,
    signature: Vec<u8>,
    /// The bits of its constant.
    constant: Option<i64>,
}

impl Enumeration {
    /// Finds an enum by its token in a signature. The module itself defines it, or one of `others`. Those must not unload meanwhile.
    pub(crate) fn of<L: Loading>(
        info: &Info<L, Alive>,
        metadata: &Metadata,
        token: u32,
        others: &[FixedModule],
    ) -> Option<Enumeration> {
        if token >> 24 == 2 {
            return metadata.enumeration(token);
        }
        let (names, assembly) = metadata.referenced(token)?;
        // An assembly of the framework passes its types on to others of it, which define each of them once.
        let of_framework = is_framework(&assembly);
        let is_candidate =
            |other: &&FixedModule| *other.assembly == *assembly || of_framework && is_framework(&other.assembly);
        let mut found = None;
        for other in others.iter().filter(is_candidate) {
            let Ok(other) = Metadata::of(info, other.module) else { continue };
            let class = names.iter().try_fold(0, |outer, name| other.find_type(name, outer));
            let Some(class) = class else { continue };
            // Of two assemblies of one name, nobody knows which one is meant.
            if found.is_some() {
                return None;
            }
            found = Some(other.enumeration(class));
            if of_framework {
                break;
            }
        }
        found.flatten()
    }
}

impl Metadata {
    /// The names of a referenced type, that of the outermost first; and the assembly's.
    fn referenced(&self, token: u32) -> Option<(Vec<String>, String)> {
        let (mut names, mut scope) = (Vec::new(), token);
        for _ in 0..DEEPEST {
            match scope >> 24 {
                0x01 => {
                    let (name, outer) = self.type_reference(scope)?;
                    names.insert(0, name);
                    scope = outer;
                }
                0x23 => return Some((names, self.assembly_reference(scope)?)),
                _ => return None,
            }
        }
        None
    }

    /// Describes a type if it is an enum.
    fn enumeration(&self, class: u32) -> Option<Enumeration> {
        let (_, extends) = self.type_row(class)?;
        if self.name_of(extends)? != "System.Enum" {
            return None;
        }
        let mut tokens = Vec::new();
        self.enumerate(&mut tokens, |cursor, block, fetched| {
            // SAFETY: this value keeps the object alive; the block has room for its length.
            unsafe { sys::IMetaDataImport::EnumFields(self.raw(), cursor, class, block, BLOCK as u32, fetched) }
        });
        let fields: Vec<Field> =
            tokens.into_iter().take(MOST_CONSTANTS + 1).filter_map(|token| self.field_row(token)).collect();
        let value = fields.iter().find(|field| field.name == "value__")?;
        let [6, element] = *value.signature.as_slice() else { return None };
        let constants = fields.iter().filter_map(|field| Some((field.constant?, field.name.clone()))).collect();
        let is_flags = self.attribute(class, "System.FlagsAttribute").is_some();
        Some(Enumeration { element, constants, is_flags })
    }

    /// A field that this module defines.
    pub(super) fn field_row(&self, token: u32) -> Option<Field> {
        let (mut class, mut length, mut attributes) = (0, 0, 0);
        let (mut signature, mut bytes, mut element, mut constant) = (null(), 0, 0, null());
        let mut name = [0_u16; LONGEST_NAME];
        // SAFETY: this value keeps the object alive. The buffer has room for its length; the out-pointers are live, or null as allowed.
        let answer = HResult(unsafe {
            sys::IMetaDataImport::GetFieldProps(
                self.raw(),
                token,
                &mut class,
                name.as_mut_ptr(),
                LONGEST_NAME as u32,
                &mut length,
                &mut attributes,
                &mut signature,
                &mut bytes,
                &mut element,
                &mut constant,
                null_mut(),
            )
        });
        if !answer.is_success() {
            return None;
        }
        let length_of_constant = if attributes & LITERAL == 0 { 0 } else { bytes_of(element) };
        // SAFETY: the runtime's own copy, valid while the metadata is open.
        let signature = unsafe { copied(signature, bytes) };
        // SAFETY: the same; a constant of this type has that many bytes.
        let constant = unsafe { copied(constant.cast(), length_of_constant) };
        let name = text_of(&name[..(length as usize).min(LONGEST_NAME)]);
        Some(Field { name, class, signature, constant: number(element, &constant) })
    }
}

/// Bytes of a number of this type; 0 for any other type.
fn bytes_of(element: u32) -> u32 {
    match element {
        0x04 | 0x05 => 1,
        0x06 | 0x07 => 2,
        0x08 | 0x09 => 4,
        0x0A | 0x0B => 8,
        _ => 0,
    }
}

/// A number in little-endian order, extended as its type says.
fn number(element: u32, bytes: &[u8]) -> Option<i64> {
    let (last, is_signed) = (bytes.last()?, element.is_multiple_of(2));
    let rest = if is_signed && last & 0x80 != 0 { 0xFF } else { 0 };
    let mut all = [rest; 8];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    use super::{bytes_of, number};

    #[test]
    fn constants_keep_their_sign() {
        for (element, bytes, expected) in [
            (0x04, &[0xFE][..], -2),
            (0x05, &[0xFE], 0xFE),
            (0x06, &[0, 0x80], -0x8000),
            (0x09, &[0xFF, 0xFF, 0xFF, 0xFF], 0xFFFF_FFFF),
            (0x08, &[7, 0, 0, 0], 7),
            (0x0B, &[0xFF; 8], -1),
        ] {
            assert_eq!(bytes_of(element) as usize, bytes.len());
            assert_eq!(number(element, bytes), Some(expected), "{element:x}");
        }
        assert_eq!((bytes_of(0x0E), number(0x0E, &[])), (0, None));
    }
}
