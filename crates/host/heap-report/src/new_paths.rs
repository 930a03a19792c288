//! Paths to roots that the objects of a type have in the later of two snapshots, and had not in the earlier one.
//!
//! Objects have no identity across a GC. So a path is the root's name and the types along the way.

use crate::roots;
use remora_heap::{HeapGraph, ObjectIx, ShortestPaths, Step};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The path of an object that no root reaches, and of one whose path is not known yet.
const NONE: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;
/// The path before a root.
const START: u32 = u32::MAX - 2;

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewPath {
    /// The objects with this path.
    pub(crate) objects: u64,
    /// The root, and the types from there to the objects. A type follows itself once: in a list, each node has another length.
    pub(crate) steps: Vec<String>,
}

/// The paths of two snapshots: each is a step after another path.
#[derive(Default)]
struct Paths {
    known: HashMap<(u32, String), u32>,
    steps: Vec<(u32, String)>,
}

/// The new paths of the objects of these types, by name and assembly. Most objects first.
pub(crate) fn new_paths(before: &HeapGraph, after: &HeapGraph, types: &[(&str, &str)]) -> Vec<NewPath> {
    let mut paths = Paths::default();
    let old = paths.count(before, types);
    let new = paths.count(after, types).into_iter().filter(|(path, _)| !old.contains_key(path));
    let mut new: Vec<NewPath> = new.map(|(path, objects)| NewPath { objects, steps: paths.written(path) }).collect();
    new.sort_by(|a, b| (Reverse(a.objects), &a.steps).cmp(&(Reverse(b.objects), &b.steps)));
    new
}

impl Paths {
    /// The paths of the objects of these types, and how many objects have each.
    fn count(&mut self, graph: &HeapGraph, types: &[(&str, &str)]) -> HashMap<u32, u64> {
        let wanted: Vec<bool> = graph.types().iter().map(|of| types.contains(&(&*of.name, &*of.assembly))).collect();
        let (shortest, roots) = (ShortestPaths::new(graph), roots::all_holders(graph));
        let mut path_of = vec![UNKNOWN; graph.object_count()];
        let mut counts = HashMap::new();
        for object in graph.objects().filter(|object| wanted[graph.type_ix(*object).0 as usize]) {
            let path = self.of(graph, object, (&shortest, &roots), &mut path_of);
            if path != NONE {
                *counts.entry(path).or_default() += 1;
            }
        }
        counts
    }

    fn of(
        &mut self,
        graph: &HeapGraph,
        object: ObjectIx,
        (shortest, roots): (&ShortestPaths, &HashMap<ObjectIx, String>),
        path_of: &mut [u32],
    ) -> u32 {
        let (mut way, mut here) = (vec![object], object);
        let mut path = loop {
            match (path_of[here.0 as usize], shortest.step(here)) {
                (UNKNOWN, Step::Object(next)) => {
                    way.push(next);
                    here = next;
                }
                (UNKNOWN, Step::Root) => {
                    break self.after(START, roots.get(&here).map_or("a root that is not known", String::as_str));
                }
                (UNKNOWN, Step::Nothing) => break NONE,
                (known, _) => {
                    way.pop();
                    break known;
                }
            }
        };
        for passed in way.into_iter().rev() {
            if path != NONE {
                path = self.after(path, &graph.type_of(passed).name);
            }
            path_of[passed.0 as usize] = path;
        }
        path
    }

    fn after(&mut self, path: u32, step: &str) -> u32 {
        if self.steps.get(path as usize).is_some_and(|(_, last)| last == step) {
            return path;
        }
        let next = self.steps.len() as u32;
        let known = *self.known.entry((path, step.to_owned())).or_insert(next);
        if known == next {
            self.steps.push((path, step.to_owned()));
        }
        known
    }

    fn written(&self, path: u32) -> Vec<String> {
        let mut steps: Vec<String> =
            std::iter::successors(self.steps.get(path as usize), |(before, _)| self.steps.get(*before as usize))
                .map(|(_, step)| step.clone())
                .collect();
        steps.reverse();
        steps
    }
}
