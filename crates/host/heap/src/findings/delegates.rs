//! Delegates and the objects they call.

use super::kinds::Kinds;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::TypeIx;

/// Base class of all delegates.
const DELEGATE: &str = "System.MulticastDelegate";
/// Maximum handlers read of one delegate.
const MOST: usize = 1 << 20;

/// Which types are delegates.
pub(super) struct Delegates<'a> {
    graph: &'a HeapGraph,
    /// For each type.
    are: Vec<bool>,
}

impl<'a> Delegates<'a> {
    pub(super) fn of(graph: &'a HeapGraph, kinds: Kinds<'_>) -> Delegates<'a> {
        Delegates { graph, are: kinds.each(|index| kinds.derives_from(index, DELEGATE)) }
    }

    /// Whether objects of a type are delegates.
    pub(super) fn is_type(&self, index: TypeIx) -> bool {
        self.are[index.0 as usize]
    }

    /// Whether an object is a delegate.
    pub(super) fn is_one(&self, object: ObjectIx) -> bool {
        self.is_type(self.graph.type_ix(object))
    }

    /// The object whose method a delegate calls: its first field. A delegate of a static method or of several handlers refers to itself
    /// there.
    /// Source: `System.Private.CoreLib/src/System/Delegate.CoreCLR.cs` (`_target`) and `MulticastDelegate.CoreCLR.cs`
    /// (NewMulticastDelegate).
    pub(super) fn target(&self, delegate: ObjectIx) -> Option<ObjectIx> {
        self.graph.references(delegate).next().filter(|target| *target != delegate)
    }

    /// The delegates that a delegate calls: its invocation list, or itself.
    pub(super) fn called(&self, delegate: ObjectIx) -> Vec<ObjectIx> {
        match self.list(delegate) {
            // After the last handler in use, removed handlers may remain: they are not called, but kept alive.
            Some(list) => self.graph.references(list).filter(|one| self.is_one(*one)).take(MOST).collect(),
            None => vec![delegate],
        }
    }

    /// The invocation list of a delegate of several handlers.
    pub(super) fn list(&self, delegate: ObjectIx) -> Option<ObjectIx> {
        let of_several = self.graph.references(delegate).next() == Some(delegate);
        self.graph.references(delegate).nth(1).filter(|list| of_several && self.is_list(*list))
    }

    fn is_list(&self, object: ObjectIx) -> bool {
        self.graph.facts(self.graph.type_ix(object)).array.is_some()
    }
}
