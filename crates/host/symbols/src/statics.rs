//! Static fields of all types of a module, in brief: enough to ask a runtime for their addresses. [`ManagedImage::fields`] has names and
//! types.

use crate::bytes::Reader;
use crate::image::ManagedImage;
use crate::metadata::{Metadata, Table};

/// Field flags (ECMA-335 II.23.1.5): static; constant; stored in the file (RVA).
const STATIC: u32 = 0x10;
const LITERAL: u32 = 0x40;
const HAS_ADDRESS: u32 = 0x100;
/// Flag in the first byte of a method's signature (II.23.2.1): a generic method.
const GENERIC: u8 = 0x10;

/// The static fields of a type, without constants, thread-static fields and fields stored in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticFields {
    /// Token of the type.
    pub type_token: u32,
    /// Token of a method without type parameters, if the type has one.
    pub method: Option<u32>,
    /// Each field's token, and whether it holds a reference.
    pub fields: Vec<(u32, bool)>,
}

impl ManagedImage {
    /// The static fields of all types, except generic types: each of their instantiations has its own.
    pub fn static_fields(&self) -> impl Iterator<Item = StaticFields> + '_ {
        let metadata = &self.metadata;
        (1..=metadata.rows(Table::TypeDef)).filter_map(|row| metadata.static_fields(row))
    }
}

impl Metadata {
    fn static_fields(&self, row: u32) -> Option<StaticFields> {
        let fields: Vec<(u32, bool)> = self.fields_of(row).filter_map(|field| self.static_field(field)).collect();
        let is_generic = || !self.equal_rows(Table::GenericParam, 2, row << 1).is_empty();
        (!fields.is_empty() && !is_generic()).then(|| StaticFields {
            type_token: (Table::TypeDef as u32) << 24 | row,
            method: self.plain_method(row),
            fields,
        })
    }

    fn static_field(&self, row: u32) -> Option<(u32, bool)> {
        let marks = self.cell(Table::Field, row, 0)?;
        let is_static = marks & (STATIC | LITERAL | HAS_ADDRESS) == STATIC;
        let is_of_all = is_static && !self.has_attribute(row << 5 | 1, b"ThreadStaticAttribute");
        let is_reference = || self.blob(Table::Field, row, 2).and_then(is_reference).unwrap_or(false);
        is_of_all.then(|| ((Table::Field as u32) << 24 | row, is_reference()))
    }

    fn plain_method(&self, row: u32) -> Option<u32> {
        let is_plain = |method: &u32| {
            let signature = self.blob(Table::MethodDef, *method, 4);
            signature.and_then(<[u8]>::first).is_some_and(|first| first & GENERIC == 0)
        };
        self.methods_of(row).find(is_plain).map(|method| (Table::MethodDef as u32) << 24 | method)
    }
}

/// Whether a field holds a reference, by its signature (II.23.2.4).
fn is_reference(signature: &[u8]) -> Option<bool> {
    let mut reader = Reader::new(signature);
    (reader.byte()? & 0x0f == 0x06).then_some(())?;
    while matches!(reader.peek()?, 0x1f | 0x20) {
        reader.byte()?;
        reader.compressed()?;
    }
    Some(match reader.byte()? {
        0x0e | 0x12 | 0x14 | 0x1c | 0x1d => true,
        0x15 => reader.peek()? == 0x12,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_field_holds_is_recognized_by_its_signature() {
        let signatures = [
            (&[0x06, 0x0e][..], Some(true)),
            (&[0x06, 0x12, 0x09], Some(true)),
            (&[0x06, 0x15, 0x12, 0x09, 0x01, 0x08], Some(true)),
            (&[0x06, 0x15, 0x11, 0x09, 0x01, 0x08], Some(false)),
            // A volatile field has a modifier in front.
            (&[0x06, 0x1f, 0x05, 0x1d, 0x08], Some(true)),
            (&[0x06, 0x08], Some(false)),
            (&[0x07, 0x08], None),
            (&[0x06], None),
            (&[], None),
        ];
        for (signature, expected) in signatures {
            assert_eq!(is_reference(signature), expected, "{signature:x?}");
        }
    }
}
