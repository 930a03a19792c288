//! Objects that have a finalizer, and those whose finalizer is to run.
//!
//! Whether an object has been taken out of the finalizer's care (`GC.SuppressFinalize`) stands in its head, which is not in a graph.

use super::Looked;
use super::kinds::is_finalizable;
use crate::graph::HeapGraph;
use crate::root::RootKind;
use crate::tables::TypeRow;
use crate::types::TypeIx;
use std::cmp::Reverse;
use std::collections::HashSet;

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finalizers {
    /// The types of them; those with most objects come first.
    pub rows: Vec<FinalizerRow>,
    /// Objects of all of them.
    pub count: u64,
    /// Of these, such as wait in the queue. `None` if nobody has seen the queue.
    pub waiting: Option<u64>,
}

/// The objects of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinalizerRow {
    /// Their type.
    pub type_ix: TypeIx,
    /// How many there are.
    pub count: u64,
    /// What would go with them.
    pub retained: u64,
    /// How many of them wait in the queue.
    pub waiting: u64,
}

impl Finalizers {
    pub(super) fn of(looked: Looked<'_>) -> Finalizers {
        let Looked { graph, rows, .. } = looked;
        let mut waiting = vec![0_u64; graph.types().len()];
        let queue = queue(graph);
        queue.iter().for_each(|object| waiting[graph.type_ix(*object).0 as usize] += 1);
        let row = |row: &TypeRow| {
            let waiting = waiting[row.type_ix.0 as usize];
            let is_one = is_finalizable(graph.type_at(row.type_ix).flags) || waiting > 0;
            let (count, retained) = (row.totals.count, row.totals.retained);
            is_one.then_some(FinalizerRow { type_ix: row.type_ix, count, retained, waiting })
        };
        let mut rows: Vec<FinalizerRow> = rows.iter().filter_map(row).collect();
        rows.sort_by_key(|row| (Reverse(row.count), row.type_ix));
        // Static fields are known of every snapshot.
        let is_told = |kind| !matches!(kind, RootKind::Inferred | RootKind::Static);
        let was_seen = graph.roots().iter().any(|root| is_told(root.kind));
        Finalizers {
            count: rows.iter().map(|row| row.count).sum(),
            waiting: was_seen.then_some(queue.len() as u64),
            rows,
        }
    }
}

/// What the queue holds, each once.
fn queue(graph: &HeapGraph) -> HashSet<crate::graph::ObjectIx> {
    graph.roots().iter().filter(|root| root.kind == RootKind::Finalizer).map(|root| root.object).collect()
}
