//! What an object is: its type, as C# names it, and where that comes from.

/// Index of a [`Type`] in a [`crate::HeapGraph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeIx(pub u32);

/// One type. Two of them may bear the same name: of different assemblies, or of one assembly that was loaded twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Type {
    /// The full name as C# writes it: `System.Collections.Generic.Dictionary<string, MyApp.Order>`, `byte[]`.
    pub name: String,
    /// The simple name of the assembly, without a file's ending: `MyApp`.
    pub assembly: String,
    /// What else is known.
    pub flags: TypeFlags,
}

/// What a type is made of, as far as that is known. The indexes are not trusted: they may lead nowhere, or round in a circle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeFacts {
    /// What it derives from.
    pub base: Option<TypeIx>,
    /// Its type arguments, those of enclosing types first.
    pub arguments: Vec<TypeIx>,
    /// What it holds, if it is an array.
    pub array: Option<ArrayFacts>,
    /// The events of its objects that it declares itself.
    pub events: Vec<Event>,
}

/// What an array holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayFacts {
    /// The type of its places.
    pub element: Option<TypeIx>,
    /// What is in a place.
    pub place: Place,
    /// How many dimensions it has.
    pub rank: u32,
}

/// What is in a place of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A reference.
    Reference,
    /// A value of so many bytes, if that is known.
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

/// What is known of a type beyond its name. Bits that this version does not know are carried.
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
    /// A value type: its objects are boxes.
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
