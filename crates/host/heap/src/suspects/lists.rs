//! The owners of linked lists: an element refers to its owner, and the owner to an element. `LinkedList`, the runtime's timers and the
//! callbacks of a cancellation token are such lists.

use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The owners of the lists that `elements` of one type form, and how many of them each has. Most first. Empty if most elements do not refer to
/// each other.
pub(super) fn owners(graph: &HeapGraph, elements: &[ObjectIx]) -> Vec<(ObjectIx, u64)> {
    let Some(of) = elements.first().map(|element| graph.type_ix(*element)) else { return Vec::new() };
    let others = |element: ObjectIx| graph.references(element).filter(move |target| *target != element);
    let is_linked = |element: &&ObjectIx| others(**element).any(|target| graph.type_ix(target) == of);
    if elements.iter().filter(is_linked).count() <= elements.len() / 2 {
        return Vec::new();
    }
    let mut counts = HashMap::<ObjectIx, u64>::new();
    for element in elements {
        let mut targets: Vec<ObjectIx> = others(*element).filter(|target| graph.type_ix(*target) != of).collect();
        targets.sort_unstable();
        targets.dedup();
        targets.into_iter().for_each(|target| *counts.entry(target).or_default() += 1);
    }
    let is_owner = |owner: ObjectIx| {
        let is_element =
            |target: ObjectIx| graph.type_ix(target) == of && graph.references(target).any(|back| back == owner);
        graph.references(owner).any(is_element)
    };
    let mut owners: Vec<(ObjectIx, u64)> =
        counts.into_iter().filter(|(object, count)| *count > 1 && is_owner(*object)).collect();
    owners.sort_unstable_by_key(|(object, count)| (Reverse(*count), *object));
    owners.into_iter().map(|(owner, count)| (enclosing(graph, owner).unwrap_or(owner), count)).collect()
}

/// The object of the enclosing class that has `owner` as a part: both refer to each other.
fn enclosing(graph: &HeapGraph, owner: ObjectIx) -> Option<ObjectIx> {
    let (outer, _) = graph.type_of(owner).name.rsplit_once('.')?;
    graph
        .references(owner)
        .find(|object| graph.type_of(*object).name == outer && graph.references(*object).any(|target| target == owner))
}
