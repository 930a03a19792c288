//! What has changed from one snapshot to a later one, by type.
//!
//! Objects have no identity that outlives a collection; types do, by name and assembly.

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
    /// By how much the bytes of the objects themselves have grown.
    pub fn growth(&self) -> i128 {
        i128::from(self.after.bytes) - i128::from(self.before.bytes)
    }

    /// By how much what they retain has grown.
    pub fn retained_growth(&self) -> i128 {
        i128::from(self.after.retained) - i128::from(self.before.retained)
    }
}

/// A snapshot and its table of types.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// The graph.
    pub graph: &'a HeapGraph,
    /// What [`crate::tables::by_type`] says of it.
    pub rows: &'a [TypeRow],
}

/// The types whose objects have changed in number or bytes, or in what they retain; those whose own bytes have changed most, in either
/// direction, come first.
///
/// Types of one name and assembly are one row: an assembly that was loaded twice, or unloaded and loaded again. What they retain is added up.
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
    rows.sort_by_key(|row| std::cmp::Reverse((row.growth().unsigned_abs(), row.retained_growth().unsigned_abs())));
    rows
}

fn key<'a>(snapshot: Snapshot<'a>, row: &TypeRow) -> (&'a str, &'a str) {
    let known = snapshot.graph.type_at(row.type_ix);
    (&known.name, &known.assembly)
}

fn add(sum: &mut Totals, more: Totals) {
    sum.count += more.count;
    sum.bytes += more.bytes;
    // The parts of two types may lie within one another, and so be more than all there is.
    sum.retained = sum.retained.saturating_add(more.retained);
    sum.unreached_count += more.unreached_count;
    sum.unreached_bytes += more.unreached_bytes;
}
