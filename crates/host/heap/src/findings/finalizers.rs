//! Objects with a finalizer, and the finalization queue.
//!
//! `GC.SuppressFinalize` sets a bit in the object header, which the graph does not have.

use super::Looked;
use super::kinds::is_finalizable;
use crate::graph::HeapGraph;
use crate::root::RootKind;
use crate::tables::TypeRow;
use crate::types::TypeIx;
use std::cmp::Reverse;
use std::collections::HashSet;

/// Objects with a finalizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finalizers {
    /// Their types, most objects first.
    pub rows: Vec<FinalizerRow>,
    /// Number of objects.
    pub count: u64,
    /// Objects in the finalization queue. `None` if the snapshot has no queue.
    pub waiting: Option<u64>,
}

/// The objects of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinalizerRow {
    /// Their type.
    pub type_ix: TypeIx,
    /// Number of objects.
    pub count: u64,
    /// Their retained size.
    pub retained: u64,
    /// Objects in the finalization queue.
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
        // Every snapshot has static fields.
        let is_reported = |kind| !matches!(kind, RootKind::Inferred | RootKind::Static);
        let was_seen = graph.roots().iter().any(|root| is_reported(root.kind));
        Finalizers {
            count: rows.iter().map(|row| row.count).sum(),
            waiting: was_seen.then_some(queue.len() as u64),
            rows,
        }
    }
}

/// The objects in the queue, each once.
fn queue(graph: &HeapGraph) -> HashSet<crate::object_ix::ObjectIx> {
    graph.roots().iter().filter(|root| root.kind == RootKind::Finalizer).map(|root| root.object).collect()
}
