//! The type of an object, as C# names it, and its origin.

use std::collections::{HashMap, HashSet};

/// Index of a [`Type`] in a [`crate::HeapGraph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeIx(pub u32);

/// One type. Types of different assemblies, or of one assembly loaded twice, may share a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Type {
    /// The full name as C# writes it: `System.Collections.Generic.Dictionary<string, MyApp.Order>`, `byte[]`.
    pub name: String,
    /// The simple name of the assembly, without file extension: `MyApp`.
    pub assembly: String,
    /// Other known properties.
    pub flags: TypeFlags,
}

/// The structure of a type, as far as known. The indexes are untrusted: they may be invalid or form a cycle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeFacts {
    /// Its base type.
    pub base: Option<TypeIx>,
    /// Its type arguments, those of enclosing types first.
    pub arguments: Vec<TypeIx>,
    /// Its elements, if it is an array.
    pub array: Option<ArrayFacts>,
    /// The events that the type itself declares.
    pub events: Vec<Event>,
}

/// The elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayFacts {
    /// The element type.
    pub element: Option<TypeIx>,
    /// The kind of element.
    pub place: Place,
    /// How many dimensions it has.
    pub rank: u32,
}

/// The kind of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A reference.
    Reference,
    /// A value of this many bytes, if known.
    Value(Option<u32>),
}

/// An event of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `Changed`.
    pub name: String,
    /// The definition of its delegate, with the number of its type arguments: `System.EventHandler`1`.
    pub delegate: String,
}

/// Further properties of a type. Unknown bits are preserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TypeFlags(pub u32);

impl TypeFlags {
    /// An array.
    pub const ARRAY: TypeFlags = TypeFlags(1);
    /// `string`.
    pub const STRING: TypeFlags = TypeFlags(1 << 1);
    /// Its objects have a finalizer.
    pub const FINALIZABLE: TypeFlags = TypeFlags(1 << 2);
    /// Its assembly can be unloaded.
    pub const COLLECTIBLE: TypeFlags = TypeFlags(1 << 3);
    /// A value type: its objects are boxed.
    pub const VALUE: TypeFlags = TypeFlags(1 << 4);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: TypeFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for TypeFlags {
    type Output = TypeFlags;

    fn bitor(self, other: TypeFlags) -> TypeFlags {
        TypeFlags(self.0 | other.0)
    }
}

/// Of types by name and assembly, the indexes of those whose name a type of another assembly has, too.
pub fn ambiguous<'a>(types: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> HashSet<usize> {
    let mut assembly_of = HashMap::<&str, Option<&str>>::new();
    for (name, assembly) in types.clone() {
        let known = assembly_of.entry(name).or_insert(Some(assembly));
        *known = known.filter(|known| *known == assembly);
    }
    let is_ambiguous = |(name, assembly): (&str, &str)| !assembly.is_empty() && assembly_of[name].is_none();
    types.enumerate().filter(|(_, of)| is_ambiguous(*of)).map(|(index, _)| index).collect()
}
