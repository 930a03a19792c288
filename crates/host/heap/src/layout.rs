//! How objects and values are laid out: what their bytes mean.
//!
//! A layout is that of a class, of a value type, which stands in others, of an enum, or of an array. Offsets in a class count from behind
//! what every object begins with, those in a value type from its own beginning.

use crate::TypeIx;
use std::collections::HashMap;

/// A layout among [`Layouts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutIx(pub u32);

/// One layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The type of the objects that are laid out so.
    pub class: Option<TypeIx>,
    /// What it is called where it is used: without its namespace.
    pub name: String,
    /// Its name with its namespace, and without its arguments: by it the few are known that are shown otherwise than by their fields.
    pub family: String,
    /// How it is laid out.
    pub shape: Shape,
    /// Who says so.
    pub source: Source,
}

/// How something is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Nobody knows.
    Unknown,
    /// An object.
    Class {
        /// What it derives from.
        base: Option<LayoutIx>,
        /// What it adds.
        fields: Vec<Field>,
    },
    /// A value that stands in others.
    Value {
        /// Its size.
        bytes: u32,
        /// What is in it.
        fields: Vec<Field>,
    },
    /// A number with names.
    Enum {
        /// What number.
        number: Slot,
        /// Whether its members are combined.
        is_flags: bool,
        /// The members; those of a signed number as a `long` has them.
        members: Vec<(String, u64)>,
    },
    /// An array.
    Array {
        /// What it holds.
        element: Slot,
        /// Its dimensions.
        rank: u32,
    },
}

/// Who says how something is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// The runtime.
    #[default]
    Told,
    /// It follows from its declaration, by rules that were found to hold for what the runtime told.
    Computed,
}

/// A field of each object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub offset: u32,
    /// What it holds.
    pub slot: Slot,
}

/// What a place holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its kind.
    pub kind: SlotKind,
    /// Its type as C# writes it.
    pub of: String,
    /// How a value type or an enum is laid out.
    pub layout: Option<LayoutIx>,
}

/// The kind of what a place holds; numbers are those of `CorElementType`, which files keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotKind(pub u8);

impl SlotKind {
    /// Nobody knows.
    pub const UNKNOWN: SlotKind = SlotKind(0);
    /// `bool`.
    pub const BOOL: SlotKind = SlotKind(0x02);
    /// `char`.
    pub const CHAR: SlotKind = SlotKind(0x03);
    /// A string.
    pub const STRING: SlotKind = SlotKind(0x0e);
    /// A pointer.
    pub const POINTER: SlotKind = SlotKind(0x0f);
    /// A value type or an enum.
    pub const VALUE: SlotKind = SlotKind(0x11);
    /// An object of some class.
    pub const CLASS: SlotKind = SlotKind(0x12);
    /// An array.
    pub const ARRAY: SlotKind = SlotKind(0x1d);
    /// Any object.
    pub const OBJECT: SlotKind = SlotKind(0x1c);

    /// Whether it is a reference.
    pub fn is_reference(self) -> bool {
        matches!(self, SlotKind::STRING | SlotKind::CLASS | SlotKind::ARRAY | SlotKind::OBJECT)
    }

    /// Its size, where the kind says it.
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
    /// Adds one. What it names may come later.
    pub fn add(&mut self, layout: Layout) -> LayoutIx {
        let index = LayoutIx(self.all.len() as u32);
        if let Some(class) = layout.class {
            self.of_class.insert(class, index);
        }
        self.all.push(layout);
        index
    }

    /// One of them; `None` for an index that a damaged file made up.
    pub fn at(&self, index: LayoutIx) -> Option<&Layout> {
        self.all.get(index.0 as usize)
    }

    /// The same, to change what it says.
    pub fn at_mut(&mut self, index: LayoutIx) -> Option<&mut Layout> {
        self.all.get_mut(index.0 as usize)
    }

    /// That of a class.
    pub fn of(&self, class: TypeIx) -> Option<LayoutIx> {
        self.of_class.get(&class).copied()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Layout> {
        self.all.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The size of what is in a place.
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
