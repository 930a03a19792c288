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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RootKind {
    /// A local variable or parameter of a running method.
    Stack,
    /// A strong handle.
    Handle,
    /// A static field.
    Static,
    /// The finalization queue.
    Finalizer,
    /// A handle or local that also pins the object.
    Pinned,
    /// A dependent handle whose primary object is alive.
    Dependent,
    /// A root without a kind from the runtime.
    Other,
    /// No root was found. The object survived a full GC, and no object outside its component refers to it.
    Inferred,
}

impl RootKind {
    /// Every kind, in the order of ids.
    pub const ALL: [RootKind; 8] = [
        RootKind::Stack,
        RootKind::Handle,
        RootKind::Static,
        RootKind::Finalizer,
        RootKind::Pinned,
        RootKind::Dependent,
        RootKind::Other,
        RootKind::Inferred,
    ];

    /// The permanent id, for files.
    pub fn id(self) -> u32 {
        match self {
            RootKind::Stack => 1,
            RootKind::Handle => 2,
            RootKind::Static => 3,
            RootKind::Finalizer => 4,
            RootKind::Pinned => 5,
            RootKind::Dependent => 6,
            RootKind::Other => 7,
            RootKind::Inferred => 8,
        }
    }

    /// The kind with this id.
    pub fn from_id(id: u32) -> Option<RootKind> {
        RootKind::ALL.into_iter().find(|kind| kind.id() == id)
    }

    /// The name in JSON and on the terminal: `stack`.
    pub fn name(self) -> &'static str {
        match self {
            RootKind::Stack => "stack",
            RootKind::Handle => "handle",
            RootKind::Static => "static",
            RootKind::Finalizer => "finalizer",
            RootKind::Pinned => "pinned",
            RootKind::Dependent => "dependent",
            RootKind::Other => "other",
            RootKind::Inferred => "inferred",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_those_of_one_kind() {
        for (place, kind) in RootKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.id() as usize, place + 1);
            assert_eq!(RootKind::from_id(kind.id()), Some(kind));
            assert_eq!(RootKind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
        }
        assert_eq!((RootKind::from_id(0), RootKind::from_id(9)), (None, None));
    }
}
