//! What a heap shows of wasted room and forgotten holders, found without being asked.
//!
//! # Design constraints
//! Each finding is one or two passes over flat arrays. None needs what fields hold; where the graph alone leaves a doubt, the finding says
//! so, and [`FieldValues`] settle it in a snapshot that has them.
//! Names of the runtime's own types and fields differ between its versions: each stands beside the file of dotnet/runtime that it was read in.

mod arrays;
mod finalizers;
mod kinds;
mod values;

pub use arrays::{ArrayRow, EmptyArray, EmptyArrays};
pub use finalizers::{FinalizerRow, Finalizers};
pub use values::{FieldValues, NoValues, Wanted};

use crate::dominators::DominatorTree;
use crate::graph::HeapGraph;
use crate::tables::TypeRow;
use kinds::Kinds;

/// All of it.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Arrays of references that are mostly empty.
    pub arrays: EmptyArrays,
    /// Objects that have a finalizer, and those whose is to run.
    pub finalizers: Finalizers,
}

/// A snapshot, and what was made of it.
#[derive(Clone, Copy)]
pub struct Looked<'a> {
    /// Its graph.
    pub graph: &'a HeapGraph,
    /// Who alone holds whom.
    pub tree: &'a DominatorTree,
    /// What [`crate::tables::by_type`] says.
    pub rows: &'a [TypeRow],
    /// What is in fields.
    pub values: &'a dyn FieldValues,
}

impl Findings {
    /// Those of a snapshot.
    pub fn new(looked: Looked<'_>) -> Findings {
        let kinds = Kinds::of(looked.graph);
        Findings { arrays: EmptyArrays::of(looked.graph, &kinds), finalizers: Finalizers::of(looked) }
    }
}
