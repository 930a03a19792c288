//! Static fields of all types of a module, in brief: for asking a runtime where they are. What they are called and hold exactly,
//! [`ManagedImage::fields`] says of the few that are there.

use crate::bytes::Reader;
use crate::image::ManagedImage;
use crate::metadata::{Metadata, Table};

/// Marks of a field (ECMA-335 II.23.1.5): belongs to no object; is a constant; lies in the file.
const STATIC: u32 = 0x10;
const LITERAL: u32 = 0x40;
const HAS_ADDRESS: u32 = 0x100;
/// In the first byte of a method's signature (II.23.2.1): it has type parameters of its own.
const GENERIC: u8 = 0x10;

/// The static fields of a type that are the same for all threads and may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticFields {
    /// Token of the type.
    pub type_token: u32,
    /// Whether it has type parameters: then each of its instantiations has fields of its own.
    pub is_generic: bool,
    /// Token of a method that has no type parameters, if the type has one.
    pub method: Option<u32>,
    /// The fields: each one's token, and what it holds.
    pub fields: Vec<(u32, Holds)>,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A reference.
    Reference,
    /// A value, a pointer, or what cannot be read.
    Value,
    /// What the parameter of the type with this number stands for.
    Parameter(u32),
}

impl ManagedImage {
    /// The static fields of all types that have any.
    pub fn static_fields(&self) -> impl Iterator<Item = StaticFields> + '_ {
        let metadata = &self.metadata;
        (1..=metadata.rows(Table::TypeDef)).filter_map(|row| metadata.static_fields(row))
    }
}

impl Metadata {
    fn static_fields(&self, row: u32) -> Option<StaticFields> {
        let fields: Vec<(u32, Holds)> = self.fields_of(row).filter_map(|field| self.static_field(field)).collect();
        (!fields.is_empty()).then(|| StaticFields {
            type_token: (Table::TypeDef as u32) << 24 | row,
            is_generic: !self.equal_rows(Table::GenericParam, 2, row << 1).is_empty(),
            method: self.plain_method(row),
            fields,
        })
    }

    fn static_field(&self, row: u32) -> Option<(u32, Holds)> {
        let marks = self.cell(Table::Field, row, 0)?;
        let is_static = marks & (STATIC | LITERAL | HAS_ADDRESS) == STATIC;
        let is_of_all = is_static && !self.has_attribute(row << 5 | 1, b"ThreadStaticAttribute");
        let holds = || self.blob(Table::Field, row, 2).and_then(holds).unwrap_or(Holds::Value);
        is_of_all.then(|| ((Table::Field as u32) << 24 | row, holds()))
    }

    fn plain_method(&self, row: u32) -> Option<u32> {
        let is_plain = |method: &u32| {
            let signature = self.blob(Table::MethodDef, *method, 4);
            signature.and_then(<[u8]>::first).is_some_and(|first| first & GENERIC == 0)
        };
        self.methods_of(row).find(is_plain).map(|method| (Table::MethodDef as u32) << 24 | method)
    }
}

/// By the signature of a field (II.23.2.4).
fn holds(signature: &[u8]) -> Option<Holds> {
    let mut reader = Reader::new(signature);
    (reader.byte()? & 0x0f == 0x06).then_some(())?;
    while matches!(reader.peek()?, 0x1f | 0x20) {
        reader.byte()?;
        reader.compressed()?;
    }
    Some(match reader.byte()? {
        0x0e | 0x12 | 0x14 | 0x1c | 0x1d => Holds::Reference,
        0x15 if reader.peek()? == 0x12 => Holds::Reference,
        0x13 => Holds::Parameter(reader.compressed()?),
        _ => Holds::Value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gch_06_what_a_field_holds_is_told_by_its_signature() {
        let told = [
            (&[0x06, 0x0e][..], Some(Holds::Reference)),
            (&[0x06, 0x12, 0x09], Some(Holds::Reference)),
            (&[0x06, 0x15, 0x12, 0x09, 0x01, 0x08], Some(Holds::Reference)),
            (&[0x06, 0x15, 0x11, 0x09, 0x01, 0x08], Some(Holds::Value)),
            // A volatile one has a modifier in front.
            (&[0x06, 0x1f, 0x05, 0x1d, 0x08], Some(Holds::Reference)),
            (&[0x06, 0x13, 0x01], Some(Holds::Parameter(1))),
            (&[0x06, 0x08], Some(Holds::Value)),
            (&[0x07, 0x08], None),
            (&[0x06], None),
            (&[], None),
        ];
        for (signature, expected) in told {
            assert_eq!(holds(signature), expected, "{signature:x?}");
        }
    }
}
