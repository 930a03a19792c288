//! Layouts: how to read the bytes of objects and values.
//!
//! A layout describes a class, a value type, an enum or an array. Offsets in a class start after the class pointer of the object, those in
//! a value type at its first byte.

use crate::TypeIx;
use std::collections::HashMap;

/// Index of a layout in [`Layouts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutIx(pub u32);

/// One layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The type of the objects with this layout.
    pub class: Option<TypeIx>,
    /// Its name without namespace, as shown where it is used.
    pub name: String,
    /// Its name with namespace, without type arguments. Identifies the few types not shown by their fields.
    pub family: String,
    /// Its structure.
    pub shape: Shape,
    /// The origin of the layout.
    pub source: Source,
}

/// The structure of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Unknown.
    Unknown,
    /// An object.
    Class {
        /// Its base class.
        base: Option<LayoutIx>,
        /// The fields it declares.
        fields: Vec<Field>,
    },
    /// A value type.
    Value {
        /// Its size.
        bytes: u32,
        /// Its fields.
        fields: Vec<Field>,
    },
    /// An enum.
    Enum {
        /// Its underlying type.
        number: Slot,
        /// Whether members can be combined.
        is_flags: bool,
        /// The members; those of a signed enum as a `long`.
        members: Vec<(String, u64)>,
    },
    /// An array.
    Array {
        /// Its element.
        element: Slot,
        /// Number of dimensions.
        rank: u32,
    },
}

/// The origin of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// The runtime reported it.
    #[default]
    Reported,
    /// Computed from its declaration, by rules verified against the layouts that the runtime reported.
    Computed,
}

/// An instance field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its offset.
    pub offset: u32,
    /// Its value's kind and type.
    pub slot: Slot,
}

/// A typed place: a field, an element or a static field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its kind.
    pub kind: SlotKind,
    /// Its type as C# writes it.
    pub of: String,
    /// The layout of a value type or an enum.
    pub layout: Option<LayoutIx>,
}

/// The kind of a slot's value, numbered as in `CorElementType`, also in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotKind(pub u8);

impl SlotKind {
    /// Unknown.
    pub const UNKNOWN: SlotKind = SlotKind(0);
    /// `bool`.
    pub const BOOL: SlotKind = SlotKind(0x02);
    /// A string.
    pub const STRING: SlotKind = SlotKind(0x0e);
    /// A pointer.
    pub const POINTER: SlotKind = SlotKind(0x0f);
    /// A value type or an enum.
    pub const VALUE: SlotKind = SlotKind(0x11);
    /// An object of a class.
    pub const CLASS: SlotKind = SlotKind(0x12);
    /// An array.
    pub const ARRAY: SlotKind = SlotKind(0x1d);
    /// Any object.
    pub const OBJECT: SlotKind = SlotKind(0x1c);

    /// Whether it is a reference.
    pub fn is_reference(self) -> bool {
        matches!(self, SlotKind::STRING | SlotKind::CLASS | SlotKind::ARRAY | SlotKind::OBJECT)
    }

    /// Whether it is an integer, a `bool` or a `char`.
    pub fn is_integer(self) -> bool {
        matches!(self.0, 0x02..=0x0b | 0x18 | 0x19)
    }

    /// Whether it is an integer with a sign.
    pub fn is_signed(self) -> bool {
        matches!(self.0, 0x04 | 0x06 | 0x08 | 0x0a | 0x18)
    }

    /// Its size, if the kind determines it.
    pub fn bytes(self) -> Option<u32> {
        Some(match self.0 {
            0x02 | 0x04 | 0x05 => 1,
            0x03 | 0x06 | 0x07 => 2,
            0x08 | 0x09 | 0x0c => 4,
            0x0a | 0x0b | 0x0d | 0x0e | 0x0f | 0x12 | 0x18 | 0x19 | 0x1c | 0x1d => 8,
            _ => return None,
        })
    }
}

/// All layouts of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layouts {
    all: Vec<Layout>,
    of_class: HashMap<TypeIx, LayoutIx>,
}

impl Layouts {
    /// Adds a layout. The layouts it refers to may be added later.
    pub fn add(&mut self, layout: Layout) -> LayoutIx {
        let index = LayoutIx(self.all.len() as u32);
        if let Some(class) = layout.class {
            self.of_class.insert(class, index);
        }
        self.all.push(layout);
        index
    }

    /// The layout at an index; `None` if a damaged file has an invalid index.
    pub fn at(&self, index: LayoutIx) -> Option<&Layout> {
        self.all.get(index.0 as usize)
    }

    /// The layout at an index, mutable.
    pub fn at_mut(&mut self, index: LayoutIx) -> Option<&mut Layout> {
        self.all.get_mut(index.0 as usize)
    }

    /// The layout of a class.
    pub fn of(&self, class: TypeIx) -> Option<LayoutIx> {
        self.of_class.get(&class).copied()
    }

    /// All layouts.
    pub fn iter(&self) -> impl Iterator<Item = &Layout> {
        self.all.iter()
    }

    /// Number of layouts.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The size of a slot's value.
    pub fn bytes_of(&self, slot: &Slot) -> Option<u32> {
        if let Some(bytes) = slot.kind.bytes() {
            return Some(bytes);
        }
        match &self.at(slot.layout?)?.shape {
            Shape::Value { bytes, .. } => Some(*bytes),
            Shape::Enum { number, .. } => number.kind.bytes(),
            _ => None,
        }
    }
}
