//! Differences between two snapshots, by type.
//!
//! Objects have no identity across a GC; types do, by name and assembly.

use crate::graph::HeapGraph;
use crate::tables::{Totals, TypeRow};
use std::collections::BTreeMap;

/// One type in two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffRow {
    /// The type's full name.
    pub name: String,
    /// Its assembly.
    pub assembly: String,
    /// Its objects in the earlier snapshot.
    pub before: Totals,
    /// Its objects in the later snapshot.
    pub after: Totals,
}

impl DiffRow {
    /// Growth in bytes of the objects themselves.
    pub fn growth(&self) -> i128 {
        i128::from(self.after.bytes) - i128::from(self.before.bytes)
    }

    /// Growth of the retained size.
    pub fn retained_growth(&self) -> i128 {
        i128::from(self.after.retained) - i128::from(self.before.retained)
    }
}

/// A snapshot and its table of types.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// The graph.
    pub graph: &'a HeapGraph,
    /// The rows of [`crate::tables::by_type`].
    pub rows: &'a [TypeRow],
}

/// Types whose object count, bytes or retained size changed: those whose retained size grew, the largest growth first, then the others, the
/// largest change first.
///
/// Types of the same name and assembly share a row: an assembly loaded twice, or unloaded and loaded again. Their retained sizes are added
/// up.
pub fn by_type(before: Snapshot, after: Snapshot) -> Vec<DiffRow> {
    let mut known: BTreeMap<(&str, &str), (Totals, Totals)> = BTreeMap::new();
    for row in before.rows {
        add(&mut known.entry(key(before, row)).or_default().0, row.totals);
    }
    for row in after.rows {
        add(&mut known.entry(key(after, row)).or_default().1, row.totals);
    }
    let changed = known.into_iter().filter(|(_, (before, after))| before != after);
    let mut rows: Vec<DiffRow> = changed
        .map(|((name, assembly), (before, after))| DiffRow {
            name: name.to_owned(),
            assembly: assembly.to_owned(),
            before,
            after,
        })
        .collect();
    let key = |row: &DiffRow| {
        (row.retained_growth().max(0), row.retained_growth().unsigned_abs(), row.growth().unsigned_abs())
    };
    rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
    rows
}

fn key<'a>(snapshot: Snapshot<'a>, row: &TypeRow) -> (&'a str, &'a str) {
    let known = snapshot.graph.type_at(row.type_ix);
    (&known.name, &known.assembly)
}

fn add(sum: &mut Totals, more: Totals) {
    sum.count += more.count;
    sum.bytes += more.bytes;
    // Retained sets of two types can overlap, so the sum may exceed the heap.
    sum.retained = sum.retained.saturating_add(more.retained);
}
