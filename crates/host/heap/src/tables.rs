//! Objects counted by type and by assembly.

use crate::dominators::DominatorTree;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::TypeIx;
use std::collections::HashMap;

/// Totals of a group of objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of objects.
    pub count: u64,
    /// Their own size.
    pub bytes: u64,
    /// Retained size: summed over the objects that no other object of the group dominates.
    pub retained: u64,
}

/// One row of the table of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeRow {
    /// The type.
    pub type_ix: TypeIx,
    /// Its objects.
    pub totals: Totals,
}

/// One row of the table of assemblies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssemblyRow {
    /// The assembly, as its types name it.
    pub assembly: String,
    /// The objects of all its types.
    pub totals: Totals,
}

/// Types with objects, largest retained size first.
pub fn by_type(graph: &HeapGraph, tree: &DominatorTree) -> Vec<TypeRow> {
    let totals = by_group(graph, tree, graph.types().len(), |object| graph.type_ix(object).0 as usize);
    let rows = totals.into_iter().enumerate().filter(|(_, totals)| totals.count > 0);
    let mut rows: Vec<TypeRow> =
        rows.map(|(index, totals)| TypeRow { type_ix: TypeIx(index as u32), totals }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.totals.retained, row.totals.bytes)));
    rows
}

/// Assemblies whose types have objects, largest retained size first.
pub fn by_assembly(graph: &HeapGraph, tree: &DominatorTree) -> Vec<AssemblyRow> {
    let mut names: Vec<&str> = Vec::new();
    let mut index = HashMap::new();
    let mut of_type = Vec::with_capacity(graph.types().len());
    for known in graph.types() {
        of_type.push(*index.entry(known.assembly.as_str()).or_insert_with(|| {
            names.push(&known.assembly);
            names.len() - 1
        }));
    }
    let totals = by_group(graph, tree, names.len(), |object| of_type[graph.type_ix(object).0 as usize]);
    let rows = names.iter().zip(totals).filter(|(_, totals)| totals.count > 0);
    let mut rows: Vec<AssemblyRow> =
        rows.map(|(name, totals)| AssemblyRow { assembly: (*name).to_owned(), totals }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.totals.retained, row.totals.bytes)));
    rows
}

/// Walks the tree from the root. An object below its group's last counted node is dominated by that node.
fn by_group(
    graph: &HeapGraph,
    tree: &DominatorTree,
    groups: usize,
    group_of: impl Fn(ObjectIx) -> usize,
) -> Vec<Totals> {
    let mut totals = vec![Totals::default(); groups];
    let mut covered = vec![tree.root(); groups];
    for node in tree.nodes() {
        let Some(object) = tree.object(node) else { continue };
        let group = group_of(object);
        let totals = &mut totals[group];
        totals.count += 1;
        totals.bytes += graph.bytes(object);
        // The root means that none was counted yet.
        if covered[group] == tree.root() || !tree.dominates(covered[group], node) {
            totals.retained += tree.retained(node);
            covered[group] = node;
        }
    }
    totals
}
