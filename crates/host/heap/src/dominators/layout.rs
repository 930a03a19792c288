//! Numbers the finished tree so that the nodes a node dominates follow it directly.

use super::search::Search;
use super::{DominatorTree, NO_OBJECT, Node};
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;

/// The tree in which each number is a child of its immediate dominator.
pub(super) fn tree(graph: &HeapGraph, search: Search, immediate: &[u32]) -> DominatorTree {
    let Search { objects: objects_by_number, unreached, parents, .. } = search;
    drop(parents);
    let counts = subtree_counts(immediate);
    let places = places(immediate, &counts);
    drop(counts);
    let count = immediate.len();
    let mut objects = vec![NO_OBJECT; count];
    let mut parents = vec![0; count];
    let mut nodes = vec![0; graph.object_count()];
    for ((&object, &place), &above) in objects_by_number.iter().zip(&places).zip(immediate) {
        objects[place as usize] = object;
        parents[place as usize] = places[above as usize];
        if object != NO_OBJECT {
            nodes[object as usize] = place;
        }
    }
    let unreached = unreached.map(|number| Node(places[number as usize]));
    drop(places);
    let ends = ends(&parents);
    DominatorTree { bytes_before: bytes_before(graph, &objects), objects, ends, parents, nodes, unreached }
}

/// For each number the size of its subtree, itself included. A dominator has the lower number.
fn subtree_counts(immediate: &[u32]) -> Vec<u32> {
    let mut counts = vec![1; immediate.len()];
    for number in (1..immediate.len()).rev() {
        counts[immediate[number] as usize] += counts[number];
    }
    counts
}

/// For each number its place in the tree: after its dominator and the siblings with lower numbers.
fn places(immediate: &[u32], counts: &[u32]) -> Vec<u32> {
    let mut places = vec![0; immediate.len()];
    // The place of each number's next child.
    let mut next = vec![1; immediate.len()];
    for number in 1..immediate.len() {
        let free = &mut next[immediate[number] as usize];
        let place = *free;
        *free += counts[number];
        places[number] = place;
        next[number] = place + 1;
    }
    places
}

/// For each place the end of its subtree.
fn ends(parents: &[u32]) -> Vec<u32> {
    let mut ends: Vec<u32> = (1..=parents.len() as u32).collect();
    for place in (1..parents.len()).rev() {
        let end = ends[place];
        let above = &mut ends[parents[place] as usize];
        *above = end.max(*above);
    }
    ends
}

/// For each place the bytes of all objects before it; one more entry for the end.
fn bytes_before(graph: &HeapGraph, objects: &[u32]) -> Vec<u64> {
    let mut sum = 0;
    let mut before = Vec::with_capacity(objects.len() + 1);
    for &object in objects {
        before.push(sum);
        sum += if object == NO_OBJECT { 0 } else { graph.bytes(ObjectIx(object)) };
    }
    before.push(sum);
    before
}
