//! Findings: wasted memory and forgotten references, without a query.
//!
//! # Design constraints
//! Each finding is one or two passes over flat arrays. None requires field values. Where the graph leaves a doubt, the finding says so, and
//! [`FieldValues`] resolve it in a snapshot that has them.
//! Names of the runtime's types and fields differ between versions. Each has its file of dotnet/runtime beside it.

mod arrays;
mod awaits;
mod collections;
mod declared;
mod delegates;
mod events;
mod fields;
mod finalizers;
mod kinds;
mod tasks;
mod timers;
mod values;
mod waste;

pub use collections::Collections;
pub use events::{SubscriptionRow, Subscriptions};
pub use fields::{WantedFields, place_bytes};
pub use finalizers::{FinalizerRow, Finalizers};
pub use tasks::{TaskRow, Tasks};
pub use timers::{TimerRow, Timers};
pub use values::{FieldValues, NoValues, Wanted};
pub use waste::{Waste, WasteRow, Wasteful};

use crate::bits::Bits;
use crate::dominators::DominatorTree;
use crate::graph::HeapGraph;
use crate::tables::TypeRow;
use delegates::Delegates;
use kinds::Kinds;
use values::Wishes;

/// All findings.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Whether the snapshot had field values.
    pub had_values: bool,
    /// Mostly empty arrays of references, except those of collections.
    pub arrays: Waste,
    /// Collections with far more capacity than content.
    pub collections: Collections,
    /// Objects that only an event keeps alive.
    pub subscriptions: Subscriptions,
    /// Pending tasks.
    pub tasks: Tasks,
    /// Scheduled timers.
    pub timers: Timers,
    /// Objects with a finalizer, and the finalization queue.
    pub finalizers: Finalizers,
}

/// A snapshot and data derived from it.
#[derive(Clone, Copy)]
pub struct Looked<'a> {
    /// Its graph.
    pub graph: &'a HeapGraph,
    /// Its dominator tree.
    pub tree: &'a DominatorTree,
    /// The rows of [`crate::tables::by_type`].
    pub rows: &'a [TypeRow],
    /// Its field values.
    pub values: &'a dyn FieldValues,
}

impl Findings {
    /// The findings of a snapshot.
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
        let awaits = awaits::awaits(graph, kinds, &delegates, &in_tasks, &numbers);
        let mut tasks = Tasks { awaits, ..Tasks::of(looked, kinds, &in_tasks, &numbers) };
        tasks.others = awaits::others(graph, kinds, &in_tasks, &numbers, &tasks);
        Findings {
            had_values: looked.values.are_known(),
            arrays: arrays::empty_arrays(graph, kinds, &theirs),
            collections,
            subscriptions: Subscriptions::of(looked, kinds, &delegates),
            tasks,
            timers: Timers::of(graph, kinds, &delegates),
            finalizers: Finalizers::of(looked),
        }
    }
}
