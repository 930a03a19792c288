//! What a heap shows of wasted room and forgotten holders, found without being asked.
//!
//! # Design constraints
//! Each finding is one or two passes over flat arrays. None needs what fields hold; where the graph alone leaves a doubt, the finding says
//! so, and [`FieldValues`] settle it in a snapshot that has them.
//! Names of the runtime's own types and fields differ between its versions: each stands beside the file of dotnet/runtime that it was read in.

mod arrays;
mod collections;
mod delegates;
mod events;
mod fields;
mod finalizers;
mod kinds;
mod tasks;
mod timers;
mod values;

pub use arrays::{ArrayRow, EmptyArray, EmptyArrays};
pub use collections::{CollectionRow, Collections, Oversized};
pub use events::{SubscriptionRow, Subscriptions};
pub use fields::{WantedFields, place_bytes};
pub use finalizers::{FinalizerRow, Finalizers};
pub use tasks::{TaskRow, Tasks};
pub use timers::{TimerRow, Timers};
pub use values::{FieldValues, NoValues, Wanted};

use crate::bits::Bits;
use crate::dominators::DominatorTree;
use crate::graph::HeapGraph;
use crate::tables::TypeRow;
use delegates::Delegates;
use kinds::Kinds;
use values::Wishes;

/// All of it.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Whether what fields hold was known.
    pub had_values: bool,
    /// Arrays of references that are mostly empty, those of collections apart.
    pub arrays: EmptyArrays,
    /// Collections that have far more room than content.
    pub collections: Collections,
    /// Objects that an event alone keeps alive.
    pub subscriptions: Subscriptions,
    /// What waits to be done.
    pub tasks: Tasks,
    /// Timers that will fire.
    pub timers: Timers,
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
        let graph = looked.graph;
        let arrays = kinds::arrays(graph, looked.values);
        let kinds = Kinds::of(graph, &arrays);
        let mut wishes = Wishes::default();
        let in_collections = collections::Plan::of(graph, kinds, &mut wishes);
        let in_tasks = tasks::Plan::of(kinds, &mut wishes);
        let numbers = wishes.granted(looked.values);
        let mut theirs = Bits::new(graph.object_count());
        let collections = Collections::of(kinds, graph, &in_collections, &numbers, &mut theirs);
        let delegates = Delegates::of(graph, kinds);
        Findings {
            had_values: looked.values.are_known(),
            arrays: EmptyArrays::of(graph, kinds, &theirs),
            collections,
            subscriptions: Subscriptions::of(looked, kinds, &delegates),
            tasks: Tasks::of(looked, kinds, &in_tasks, &numbers),
            timers: Timers::of(graph, kinds, &delegates),
            finalizers: Finalizers::of(looked),
        }
    }
}
