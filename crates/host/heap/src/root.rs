//! Roots: references into the heap from outside.

use crate::object_ix::ObjectIx;

/// One reference from outside the heap. An object may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Root {
    /// The object it keeps alive.
    pub object: ObjectIx,
    /// The kind of root.
    pub kind: RootKind,
}

/// Kinds of roots. The ids are permanent; an obsolete id is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum RootKind {
    /// A local variable or parameter of a running method.
    Stack = 1,
    /// A strong handle.
    Handle = 2,
    /// A static field.
    Static = 3,
    /// The finalization queue.
    Finalizer = 4,
    /// A handle or local that also pins the object.
    Pinned = 5,
    /// A dependent handle whose primary object is alive.
    Dependent = 6,
    /// A root without a kind from the runtime.
    Other = 7,
    /// No root was found. The object survived a full GC, and no object outside its component refers to it.
    Inferred = 8,
}

impl RootKind {
    /// Every kind, in the order of ids.
    pub const ALL: &[RootKind] = <RootKind as strum::VariantArray>::VARIANTS;

    /// The permanent id, for files.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The kind with this id.
    pub fn from_id(id: u32) -> Option<RootKind> {
        RootKind::ALL.iter().copied().find(|kind| kind.id() == id)
    }

    /// The name in JSON and on the terminal: `stack`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_those_of_one_kind() {
        for (place, kind) in RootKind::ALL.iter().copied().enumerate() {
            assert_eq!(kind.id() as usize, place + 1);
            assert_eq!(RootKind::from_id(kind.id()), Some(kind));
            assert_eq!(RootKind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
        }
        assert_eq!((RootKind::from_id(0), RootKind::from_id(9)), (None, None));
    }
}
