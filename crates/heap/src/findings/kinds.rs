//! What types are, as far as findings ask: found out once for each type, so that objects need no names.

use crate::graph::{HeapGraph, ObjectIx};
use crate::types::{ArrayFacts, Place, TypeFlags, TypeIx};

/// Where the elements of an array begin, and the head that is counted to it: its class, its length, its own head
/// (`vm/object.h`, ArrayBase).
const ARRAY_HEAD: u64 = 24;
/// For each dimension of an array of several: where it begins and how long it is.
const DIMENSION: u64 = 8;
/// A reference.
pub(super) const REFERENCE: u64 = 8;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Kinds<'a> {
    graph: &'a HeapGraph,
}

impl<'a> Kinds<'a> {
    /// Those of a graph.
    pub(super) fn of(graph: &'a HeapGraph) -> Kinds<'a> {
        Kinds { graph }
    }

    /// What an array has places for.
    pub(super) fn places(&self, array: ObjectIx) -> Option<Places> {
        let ArrayFacts { place, rank, .. } = self.graph.facts(self.graph.type_ix(array)).array?;
        let head = ARRAY_HEAD + if rank > 1 { u64::from(rank) * DIMENSION } else { 0 };
        let bytes = self.graph.bytes(array).checked_sub(head)?;
        Some(Places { bytes, place })
    }
}

/// The part of an array behind its head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// How large it is.
    pub(super) bytes: u64,
    /// What is in each.
    pub(super) place: Place,
}

impl Places {
    /// How many there are, if that can be told.
    pub(super) fn count(self) -> Option<u64> {
        Some(self.bytes / self.each()?)
    }

    /// Bytes of one.
    pub(super) fn each(self) -> Option<u64> {
        match self.place {
            Place::Reference => Some(REFERENCE),
            Place::Value(bytes) => bytes.map(u64::from).filter(|bytes| *bytes > 0),
        }
    }
}

/// Whether objects of a type have a finalizer.
pub(super) fn is_finalizable(flags: TypeFlags) -> bool {
    flags.contains(TypeFlags::FINALIZABLE)
}
