//! Fields and layout of a type as its metadata declares them, to decode values on a heap.
//!
//! A field's type is a structure, not text: the caller resolves it with the other modules.

use crate::bytes::Reader;
use crate::image::ManagedImage;
use crate::metadata::{Metadata, Table, row_of};

/// Maximum number of fields of one type.
const FIELD_LIMIT: usize = 1 << 16;
/// Maximum nesting of types in one signature. Deeper ones are unreadable.
const DEPTH_LIMIT: u32 = 64;
/// Maximum number of types in one signature. Larger ones are unreadable.
const TYPE_LIMIT: u32 = 1024;
/// Maximum number of generic arguments. Signatures with more are unreadable.
const ARGUMENT_LIMIT: u32 = 256;

const STATIC: u32 = 0x10;
const LITERAL: u32 = 0x40;
const HAS_ADDRESS: u32 = 0x100;
const LAYOUT_MASK: u32 = 0x18;
const SEQUENTIAL: u32 = 0x08;
const EXPLICIT: u32 = 0x10;
const INTERFACE: u32 = 0x20;

/// A declared field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its token.
    pub token: u32,
    /// Its name in the metadata.
    pub name: String,
    /// Its place.
    pub place: FieldPlace,
    /// Its type; `None` if that cannot be read.
    pub of: Option<FieldType>,
}

/// The place of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldPlace {
    /// In each object.
    Instance {
        /// The offset, if the layout is explicit.
        offset: Option<u32>,
    },
    /// Once for the type.
    Static {
        /// Once for each thread.
        of_thread: bool,
        /// In the module's file.
        in_file: bool,
    },
    /// A constant, stored nowhere.
    Literal {
        /// Its bits, if it is a number.
        value: Option<u64>,
    },
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// A primitive type by its `CorElementType`, including `string` and `object`.
    Primitive(u8),
    /// Another type.
    Named {
        /// The type.
        of: TypeReference,
        /// Whether it is a value type.
        is_value: bool,
        /// Its arguments.
        arguments: Vec<FieldType>,
    },
    /// A generic parameter of the type that declares the field.
    Parameter(u32),
    /// An array.
    Array {
        /// The element type.
        element: Box<FieldType>,
        /// Number of dimensions.
        rank: u32,
    },
    /// A pointer; `None` for a function pointer.
    Pointer(Option<Box<FieldType>>),
    /// A managed reference, which only values on a stack have.
    Reference(Box<FieldType>),
}

/// A type by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TypeReference {
    /// A TypeDef token of the same module.
    Own(u32),
    /// A type of another assembly.
    Other {
        /// Its simple name.
        assembly: String,
        /// Its namespace.
        namespace: String,
        /// Its names in the metadata, outermost first.
        names: Vec<String>,
    },
}

/// The declared layout of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Declared {
    /// Its kind.
    pub order: Order,
    /// Maximum alignment of a field, bytes; 0 if not declared.
    pub pack: u32,
    /// Minimum size, bytes; 0 if not declared.
    pub size: u32,
    /// Number of repetitions of its only field, for an inline array.
    pub repeated: Option<u32>,
}

/// The kind of layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The runtime orders the fields.
    #[default]
    Automatic,
    /// Source order.
    Sequential,
    /// Each field declares its offset.
    Explicit,
}

/// The kind of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeNature {
    /// A class.
    Class,
    /// An interface.
    Interface,
    /// A value type.
    Value,
    /// An enum.
    Enum {
        /// Whether it has the `Flags` attribute.
        is_flags: bool,
    },
}

impl ManagedImage {
    /// The fields of a type in metadata order, including constants.
    pub fn fields(&self, type_token: u32) -> Vec<Field> {
        let Some(row) = row_of(type_token, Table::TypeDef) else { return Vec::new() };
        self.metadata.fields_of(row).take(FIELD_LIMIT).filter_map(|row| self.field(row)).collect()
    }

    /// The tokens of all types.
    pub fn type_tokens(&self) -> impl Iterator<Item = u32> + use<> {
        (1..=self.metadata.rows(Table::TypeDef)).map(|row| (Table::TypeDef as u32) << 24 | row)
    }

    /// Whether this is `System.Private.CoreLib`, which defines the primitive types.
    pub fn is_core(&self) -> bool {
        self.metadata.text(Table::Assembly, 1, 7).is_some_and(|name| name == "System.Private.CoreLib")
    }

    /// The declared layout of a type.
    pub fn declared_layout(&self, type_token: u32) -> Option<Declared> {
        let row = row_of(type_token, Table::TypeDef)?;
        let order = match self.metadata.cell(Table::TypeDef, row, 0)? & LAYOUT_MASK {
            SEQUENTIAL => Order::Sequential,
            EXPLICIT => Order::Explicit,
            _ => Order::Automatic,
        };
        let layout = self.metadata.equal_rows(Table::ClassLayout, 2, row).next();
        let cell = |column| layout.and_then(|row| self.metadata.cell(Table::ClassLayout, row, column)).unwrap_or(0);
        let parent = type_def_parent(row);
        let repeated = self.metadata.attribute_number(parent, b"InlineArrayAttribute");
        Some(Declared { order, pack: cell(0), size: cell(1), repeated })
    }

    /// The kind of a type.
    pub fn nature(&self, type_token: u32) -> Option<TypeNature> {
        let row = row_of(type_token, Table::TypeDef)?;
        if self.metadata.cell(Table::TypeDef, row, 0)? & INTERFACE != 0 {
            return Some(TypeNature::Interface);
        }
        let parent = self.metadata.defined_type(self.metadata.cell(Table::TypeDef, row, 3)?);
        let own = self.metadata.type_def(row)?;
        Some(match parent {
            Some(parent) if parent.is("System", "Enum") => {
                TypeNature::Enum { is_flags: self.metadata.has_attribute(type_def_parent(row), b"FlagsAttribute") }
            }
            Some(parent) if parent.is("System", "ValueType") && !own.is("System", "Enum") => TypeNature::Value,
            _ => TypeNature::Class,
        })
    }

    /// The namespace and names of a type in the metadata, outermost first.
    pub fn names_of(&self, type_token: u32) -> Option<(String, Vec<String>)> {
        let raw = self.metadata.type_def(row_of(type_token, Table::TypeDef)?)?;
        Some((raw.namespace, raw.parts.into_iter().map(|(name, _)| name).collect()))
    }

    /// The assembly that this module forwards a type to.
    pub fn forwarded(&self, namespace: &str, name: &str) -> Option<String> {
        let metadata = &self.metadata;
        let is = |row: &u32, column, text: &str| {
            metadata.raw_text(Table::ExportedType, *row, column) == Some(text.as_bytes())
        };
        let row = (1..=metadata.rows(Table::ExportedType)).find(|row| is(row, 2, name) && is(row, 3, namespace))?;
        let implementation = metadata.cell(Table::ExportedType, row, 4)?;
        (implementation & 3 == 1).then(|| metadata.text(Table::AssemblyRef, implementation >> 2, 6))?.map(Into::into)
    }

    fn field(&self, row: u32) -> Option<Field> {
        let flags = self.metadata.cell(Table::Field, row, 0)?;
        let place = if flags & LITERAL != 0 {
            FieldPlace::Literal { value: self.metadata.constant(row) }
        } else if flags & STATIC != 0 {
            let of_thread = self.metadata.has_attribute(row << 5 | 1, b"ThreadStaticAttribute");
            FieldPlace::Static { of_thread, in_file: flags & HAS_ADDRESS != 0 }
        } else {
            let layout = self.metadata.equal_rows(Table::FieldLayout, 1, row).next();
            FieldPlace::Instance { offset: layout.and_then(|row| self.metadata.cell(Table::FieldLayout, row, 0)) }
        };
        let of = self.metadata.blob(Table::Field, row, 2).and_then(|blob| self.metadata.field_type(blob));
        let name = self.metadata.text(Table::Field, row, 1)?.into_owned();
        Some(Field { token: (Table::Field as u32) << 24 | row, name, place, of })
    }
}

/// A TypeDef row as a HasCustomAttribute index.
fn type_def_parent(row: u32) -> u32 {
    row << 5 | 3
}

impl Metadata {
    /// The bits of a constant number.
    fn constant(&self, field: u32) -> Option<u64> {
        let row = self.equal_rows(Table::Constant, 1, field << 2).next()?;
        let blob = self.blob(Table::Constant, row, 2)?;
        let mut bytes = [0; 8];
        bytes.get_mut(..blob.len())?.copy_from_slice(blob);
        let value = u64::from_le_bytes(bytes);
        // Signed numbers are extended to 64 bits: a short of -1 is the same number as a long of -1.
        Some(match self.cell(Table::Constant, row, 0)? & 0xff {
            0x04 => value as u8 as i8 as u64,
            0x06 => value as u16 as i16 as u64,
            0x08 => value as u32 as i32 as u64,
            _ => value,
        })
    }

    /// The first argument of an attribute of this class, a number.
    fn attribute_number(&self, parent: u32, class: &[u8]) -> Option<u32> {
        let row = self.attribute_row(parent, class)?;
        let mut reader = Reader::new(self.blob(Table::CustomAttribute, row, 2)?);
        (reader.u16()? == 1).then(|| reader.u32())?
    }

    fn field_type(&self, blob: &[u8]) -> Option<FieldType> {
        let mut reader = Reader::new(blob);
        // The calling convention of a field signature.
        (reader.byte()? & 0x0f == 0x06).then_some(())?;
        Types { metadata: self, left: TYPE_LIMIT }.read(&mut reader, DEPTH_LIMIT)
    }

    fn reference(&self, coded: u32) -> Option<TypeReference> {
        let row = coded >> 2;
        if coded & 3 == 0 {
            return Some(TypeReference::Own((Table::TypeDef as u32) << 24 | row));
        }
        let raw = self.type_ref(row)?;
        let mut scope = self.cell(Table::TypeRef, row, 0)?;
        for _ in 0..raw.parts.len() {
            if scope & 3 == 3 {
                scope = self.cell(Table::TypeRef, scope >> 2, 0)?;
            }
        }
        let assembly = (scope & 3 == 2).then(|| self.text(Table::AssemblyRef, scope >> 2, 6))?.map(Into::into)?;
        let names = raw.parts.into_iter().map(|(name, _)| name).collect();
        Some(TypeReference::Other { assembly, namespace: raw.namespace, names })
    }
}

/// Reads types of one signature.
struct Types<'a> {
    metadata: &'a Metadata,
    left: u32,
}

impl Types<'_> {
    fn read(&mut self, reader: &mut Reader<'_>, depth: u32) -> Option<FieldType> {
        let depth = depth.checked_sub(1)?;
        self.left = self.left.checked_sub(1)?;
        while matches!(reader.peek()?, 0x1f | 0x20 | 0x45) {
            if reader.byte()? != 0x45 {
                reader.compressed()?;
            }
        }
        Some(match reader.byte()? {
            0x0f if reader.peek()? == 0x01 => FieldType::Pointer(Some(Box::new(FieldType::Primitive(0x01)))),
            0x0f => FieldType::Pointer(Some(Box::new(self.read(reader, depth)?))),
            0x10 => FieldType::Reference(Box::new(self.read(reader, depth)?)),
            kind @ (0x11 | 0x12) => self.named(reader.compressed()?, kind == 0x11, Vec::new(), depth)?,
            0x13 => FieldType::Parameter(reader.compressed()?),
            0x14 => {
                let element = Box::new(self.read(reader, depth)?);
                FieldType::Array { element, rank: reader.compressed()? }
            }
            0x15 => {
                let is_value = reader.byte()? == 0x11;
                let (coded, count) = (reader.compressed()?, reader.compressed()?);
                (count <= ARGUMENT_LIMIT).then_some(())?;
                let arguments = (0..count).map(|_| self.read(reader, depth)).collect::<Option<_>>()?;
                self.named(coded, is_value, arguments, depth)?
            }
            0x1b => FieldType::Pointer(None),
            0x1d => FieldType::Array { element: Box::new(self.read(reader, depth)?), rank: 1 },
            element @ (0x02..=0x0e | 0x16 | 0x18 | 0x19 | 0x1c) => FieldType::Primitive(element),
            _ => return None,
        })
    }

    fn named(&mut self, coded: u32, is_value: bool, arguments: Vec<FieldType>, depth: u32) -> Option<FieldType> {
        if coded & 3 == 2 {
            let mut reader = Reader::new(self.metadata.blob(Table::TypeSpec, coded >> 2, 0)?);
            return self.read(&mut reader, depth);
        }
        Some(FieldType::Named { of: self.metadata.reference(coded)?, is_value, arguments })
    }
}
