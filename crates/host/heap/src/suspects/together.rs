//! Suspects of one type in one array: the runtime and applications split queues, caches and pools by CPU. They are one suspect.

use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::TypeIx;
use std::collections::BTreeMap;

/// Groups objects of one type to which one array refers; the others are a group each. The order is that of each group's first object.
pub(super) fn in_one_array(graph: &HeapGraph, objects: Vec<ObjectIx>) -> Vec<(Vec<ObjectIx>, Option<ObjectIx>)> {
    let mut of_type = BTreeMap::<TypeIx, Vec<ObjectIx>>::new();
    objects.iter().for_each(|object| of_type.entry(graph.type_ix(*object)).or_default().push(*object));
    of_type.retain(|_, alike| alike.len() > 1);
    let mut arrays = BTreeMap::new();
    if !of_type.is_empty() {
        let is_array = |object: &ObjectIx| graph.facts(graph.type_ix(*object)).array.is_some();
        for array in graph.objects().filter(is_array) {
            for alike in of_type.values() {
                let mut held: Vec<ObjectIx> = graph.references(array).filter(|target| alike.contains(target)).collect();
                held.sort_unstable();
                held.dedup();
                if held.len() > 1 {
                    held.into_iter().for_each(|object| _ = arrays.entry(object).or_insert(array));
                }
            }
        }
    }
    let mut groups = Vec::<(Vec<ObjectIx>, Option<ObjectIx>)>::new();
    for object in objects {
        let array = arrays.get(&object).copied();
        let of = graph.type_ix(object);
        let known = groups.iter_mut().find(|(group, by)| by.is_some() && *by == array && graph.type_ix(group[0]) == of);
        match known {
            Some((group, _)) => group.push(object),
            None => groups.push((vec![object], array)),
        }
    }
    groups.iter_mut().filter(|(group, _)| group.len() == 1).for_each(|(_, array)| *array = None);
    groups
}
