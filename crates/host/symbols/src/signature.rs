//! Decodes method signatures (ECMA-335 II.23.2) to text in C# notation.
//!
//! A signature may name type specifications that name others: depth and number of types in one signature are bounded.

use crate::argument::array_of;
use crate::bytes::Reader;
use crate::keyword::Primitive;
use crate::metadata::{Metadata, Table};

/// Maximum nesting of types in one signature. Deeper ones are unreadable.
const DEPTH_LIMIT: u32 = 64;
/// Maximum number of types in one signature. Larger ones are unreadable.
const TYPE_LIMIT: u32 = 1024;

/// A method's signature, every type as text.
#[derive(Debug, Default)]
pub(crate) struct MethodSignature {
    pub(crate) result: String,
    /// The result carries the marker of an `init` accessor.
    pub(crate) init_only: bool,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) variable_arguments: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Parameter {
    /// Without `ref`.
    pub(crate) text: String,
    pub(crate) by_reference: bool,
    /// A reference to the captured variables of a local function: no parameter in the source.
    pub(crate) closure: bool,
}

/// Generic arguments, as text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments<'a> {
    pub(crate) class: &'a [String],
    pub(crate) method: &'a [String],
}

/// Decodes the signature of a MethodDef; `None` if it is damaged.
pub(crate) fn method_signature(metadata: &Metadata, row: u32, arguments: Arguments<'_>) -> Option<MethodSignature> {
    let mut reader = Reader::new(metadata.blob(Table::MethodDef, row, 4)?);
    let mut decoder = Decoder { metadata, arguments, types_left: TYPE_LIMIT, init_only: false, closure: false };
    decoder.method(&mut reader, DEPTH_LIMIT)
}

struct Decoder<'a> {
    metadata: &'a Metadata,
    arguments: Arguments<'a>,
    types_left: u32,
    init_only: bool,
    closure: bool,
}

const GENERIC: u8 = 0x10;
const CALLING_CONVENTION: u8 = 0x0f;
const VARIABLE_ARGUMENTS: u8 = 0x05;
const SENTINEL: u8 = 0x41;
const BY_REFERENCE: u8 = 0x10;

impl Decoder<'_> {
    fn method(&mut self, reader: &mut Reader<'_>, depth: u32) -> Option<MethodSignature> {
        let convention = reader.byte()?;
        if convention & GENERIC != 0 {
            reader.compressed()?;
        }
        let count = reader.compressed()?;
        self.init_only = false;
        let result = self.parameter(reader, depth)?;
        let mut signature = MethodSignature {
            result: if result.by_reference { format!("ref {}", result.text) } else { result.text },
            init_only: self.init_only,
            parameters: Vec::new(),
            variable_arguments: convention & CALLING_CONVENTION == VARIABLE_ARGUMENTS,
        };
        for _ in 0..count {
            if reader.peek()? == SENTINEL {
                reader.byte()?;
            }
            let parameter = self.parameter(reader, depth)?;
            signature.parameters.push(parameter);
        }
        Some(signature)
    }

    fn parameter(&mut self, reader: &mut Reader<'_>, depth: u32) -> Option<Parameter> {
        self.modifiers(reader)?;
        let by_reference = reader.peek()? == BY_REFERENCE;
        if by_reference {
            reader.byte()?;
            self.modifiers(reader)?;
        }
        self.closure = false;
        let text = self.type_text(reader, depth)?;
        Some(Parameter { text, by_reference, closure: by_reference && self.closure })
    }

    /// Skips required and optional modifiers, and notes the one of an `init` accessor.
    fn modifiers(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        while matches!(reader.peek()?, 0x1f | 0x20) {
            reader.byte()?;
            let raw = self.metadata.defined_type(reader.compressed()?);
            self.init_only |= raw.is_some_and(|raw| raw.is("System.Runtime.CompilerServices", "IsExternalInit"));
        }
        Some(())
    }

    fn type_text(&mut self, reader: &mut Reader<'_>, depth: u32) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        self.types_left = self.types_left.checked_sub(1)?;
        self.modifiers(reader)?;
        let element = reader.byte()?;
        self.closure = false;
        match element {
            0x0f => Some(self.type_text(reader, depth)? + "*"),
            0x10 => Some(format!("ref {}", self.type_text(reader, depth)?)),
            0x11 | 0x12 => self.named(reader.compressed()?, &[], depth),
            0x13 => Some(argument(self.arguments.class, reader.compressed()?, "T")),
            0x1e => Some(argument(self.arguments.method, reader.compressed()?, "M")),
            0x14 => self.array(reader, depth),
            0x15 => self.instance(reader, depth),
            0x1b => self.function_pointer(reader, depth),
            0x1d => Some(array_of(&self.type_text(reader, depth)?, 1)),
            0x45 => self.type_text(reader, depth),
            _ => Primitive::from_element_type(element).map(|primitive| primitive.keyword().to_owned()),
        }
    }

    fn array(&mut self, reader: &mut Reader<'_>, depth: u32) -> Option<String> {
        let element = self.type_text(reader, depth)?;
        let rank = reader.compressed()?;
        for _ in 0..2 {
            // Sizes, then lower bounds: C# shows neither.
            for _ in 0..reader.compressed()? {
                reader.compressed()?;
            }
        }
        Some(array_of(&element, rank))
    }

    fn instance(&mut self, reader: &mut Reader<'_>, depth: u32) -> Option<String> {
        reader.byte()?;
        let token = reader.compressed()?;
        let count = reader.compressed()?;
        let mut arguments = Vec::new();
        for _ in 0..count {
            arguments.push(self.type_text(reader, depth)?);
        }
        self.named(token, &arguments, depth)
    }

    fn function_pointer(&mut self, reader: &mut Reader<'_>, depth: u32) -> Option<String> {
        let unmanaged = match reader.peek()? & CALLING_CONVENTION {
            1 => " unmanaged[Cdecl]",
            2 => " unmanaged[Stdcall]",
            3 => " unmanaged[Thiscall]",
            4 => " unmanaged[Fastcall]",
            9 => " unmanaged",
            _ => "",
        };
        let outer_init = self.init_only;
        let signature = self.method(reader, depth)?;
        self.init_only = outer_init;
        let mut types: Vec<String> = signature.parameters.into_iter().map(Parameter::with_ref).collect();
        types.push(signature.result);
        Some(format!("delegate*{unmanaged}<{}>", types.join(", ")))
    }

    fn named(&mut self, coded: u32, arguments: &[String], depth: u32) -> Option<String> {
        if coded & 3 == 2 {
            let mut reader = Reader::new(self.metadata.blob(Table::TypeSpec, coded >> 2, 0)?);
            return self.type_text(&mut reader, depth);
        }
        let raw = self.metadata.defined_type(coded)?;
        let text = raw.short(arguments);
        self.closure = raw.is_closure();
        Some(text)
    }
}

impl Parameter {
    fn with_ref(self) -> String {
        if self.by_reference { format!("ref {}", self.text) } else { self.text }
    }
}

fn argument(arguments: &[String], index: u32, letter: &str) -> String {
    arguments.get(index as usize).cloned().unwrap_or_else(|| format!("{letter}{index}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Arguments<'_> = Arguments { class: &[], method: &[] };

    /// Metadata with one method and these type specifications, each given as a blob.
    fn metadata(method: &[u8], specifications: &[Vec<u8>]) -> Metadata {
        let mut blobs = vec![0];
        let mut add = |blob: &[u8]| {
            let offset = blobs.len() as u16;
            blobs.push(blob.len() as u8);
            blobs.extend_from_slice(blob);
            offset.to_le_bytes()
        };
        let mut tables = vec![0, 0, 0, 0, 2, 0, 0, 1];
        tables.extend((1u64 << 0x06 | 1 << 0x1b).to_le_bytes());
        tables.extend([0; 8]);
        tables.extend(1u32.to_le_bytes());
        tables.extend((specifications.len() as u32).to_le_bytes());
        tables.extend([0; 10]);
        tables.extend(add(method));
        tables.extend([0; 2]);
        specifications.iter().for_each(|blob| tables.extend(add(blob)));
        let mut bytes = b"BSJB\x01\0\x01\0\0\0\0\0\x04\0\0\0v4\0\0\0\0\x02\0".to_vec();
        let start = bytes.len() as u32 + 12 + 16;
        for (name, offset, size) in
            [(&b"#~\0\0"[..], start, tables.len()), (b"#Blob\0\0\0", start + tables.len() as u32, blobs.len())]
        {
            bytes.extend(offset.to_le_bytes());
            bytes.extend((size as u32).to_le_bytes());
            bytes.extend(name);
        }
        bytes.extend(tables);
        bytes.extend(blobs);
        Metadata::parse(bytes.into()).expect("well-formed")
    }

    /// The coded index of a type specification.
    fn specification(row: u8) -> u8 {
        row << 2 | 2
    }

    fn parameters(method: &[u8], specifications: &[Vec<u8>]) -> Option<Vec<String>> {
        let signature = method_signature(&metadata(method, specifications), 1, NOTHING)?;
        Some(signature.parameters.into_iter().map(Parameter::with_ref).collect())
    }

    #[test]
    fn signatures_are_decoded() {
        for (method, expected) in [
            (&[0, 0, 1][..], Some(vec![])),
            (&[0, 2, 1, 8, 0x10, 0x0e], Some(vec!["int", "ref string"])),
            (&[0, 1, 1, 0x12, specification(1)], Some(vec!["int[]"])),
            (&[0, 1, 1, 0x13, 3], Some(vec!["T3"])),
            (&[0, 1, 1, 0x14, 8, 2, 2, 3, 4, 1, 0], Some(vec!["int[,]"])),
            (&[5, 2, 1, 8, 0x41, 9], Some(vec!["int", "uint"])),
            (&[0, 2, 1, 8], None),
            (&[0, 1, 1, 0x12, specification(9)], None),
            (&[0, 1, 1, 0x77], None),
            (&[], None),
        ] {
            let expected = expected.map(|texts| texts.into_iter().map(str::to_owned).collect());
            assert_eq!(parameters(method, &[vec![0x1d, 8]]), expected, "{method:x?}");
        }
    }

    #[test]
    fn a_type_that_contains_itself_has_no_text() {
        let method = [0, 1, 1, 0x12, specification(1)];
        assert_eq!(parameters(&method, &[vec![0x1d, 0x12, specification(1)]]), None);
        assert_eq!(parameters(&method, &[vec![0x12, specification(2)], vec![0x12, specification(1)]]), None);
    }

    #[test]
    fn a_type_that_would_grow_without_end_has_no_text() {
        // Each function pointer type has ten of the next level: ten to the power of thirty types without the limit.
        let level = |row: u8| {
            let mut blob = vec![0x1b, 0, 10, 1];
            (0..10).for_each(|_| blob.extend([0x12, specification(row + 1)]));
            blob
        };
        let mut levels: Vec<_> = (1..=30).map(level).collect();
        levels.push(vec![8]);
        assert_eq!(parameters(&[0, 1, 1, 0x12, specification(1)], &levels), None);
        assert_eq!(
            parameters(&[0, 1, 1, 0x12, specification(30)], &levels).map(|texts| texts[0].len()),
            Some("delegate*<".len() + 10 * 5 + 5)
        );
    }
}
