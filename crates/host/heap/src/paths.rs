//! Shortest paths: why an object is alive.

use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::root::Root;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Not visited yet.
const NEVER: u32 = u32::MAX;
/// A root holds the object.
const AT_ROOT: u32 = u32::MAX - 1;

/// For each object the next step on a shortest path to a root.
#[derive(Debug, Clone)]
pub struct ShortestPaths {
    next: Vec<u32>,
}

/// The next step on a shortest path from an object to a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A root holds the object itself.
    Root,
    /// This object refers to it.
    Object(ObjectIx),
    /// No root reaches it.
    Nothing,
}

/// A path from a root to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The root of the first object.
    pub root: Root,
    /// The objects from there to the queried one, both included.
    pub objects: Vec<ObjectIx>,
}

impl ShortestPaths {
    /// The shortest paths of a graph.
    pub fn new(graph: &HeapGraph) -> ShortestPaths {
        let mut next = vec![NEVER; graph.object_count()];
        let mut queue = Vec::new();
        for root in graph.roots() {
            if next[root.object.0 as usize] == NEVER {
                next[root.object.0 as usize] = AT_ROOT;
                queue.push(root.object.0);
            }
        }
        let mut done = 0;
        while let Some(&object) = queue.get(done) {
            done += 1;
            for &target in graph.targets(object) {
                if next[target as usize] == NEVER {
                    next[target as usize] = object;
                    queue.push(target);
                }
            }
        }
        ShortestPaths { next }
    }

    /// The next step from `object`.
    pub fn step(&self, object: ObjectIx) -> Step {
        match self.next[object.0 as usize] {
            NEVER => Step::Nothing,
            AT_ROOT => Step::Root,
            next => Step::Object(ObjectIx(next)),
        }
    }

    /// The first objects on the shortest paths to `objects`, and to how many of these each leads, most first.
    /// Objects that no root reaches are not counted.
    pub fn beginnings(&self, objects: impl Iterator<Item = ObjectIx>) -> Vec<(ObjectIx, u64)> {
        let mut known = vec![NEVER; self.next.len()];
        let mut counts: HashMap<u32, u64> = HashMap::new();
        let mut way = Vec::new();
        for object in objects {
            let mut here = object.0;
            let beginning = loop {
                match (known[here as usize], self.step(ObjectIx(here))) {
                    (NEVER, Step::Object(ObjectIx(next))) => {
                        way.push(here);
                        here = next;
                    }
                    (NEVER, Step::Root) => break here,
                    (NEVER, Step::Nothing) => break NEVER,
                    (beginning, _) => break beginning,
                }
            };
            // From now on it is known for each object on the path.
            for passed in way.drain(..) {
                known[passed as usize] = beginning;
            }
            if beginning != NEVER {
                *counts.entry(beginning).or_default() += 1;
            }
        }
        let mut counts: Vec<(ObjectIx, u64)> = counts.into_iter().map(|(at, count)| (ObjectIx(at), count)).collect();
        counts.sort_unstable_by_key(|(at, count)| (Reverse(*count), at.0));
        counts
    }

    /// A shortest path to `object`, from the earliest root of its first object; `None` if no root reaches it.
    pub fn to(&self, graph: &HeapGraph, object: ObjectIx) -> Option<Path> {
        let mut objects = vec![object];
        let mut here = object;
        loop {
            match self.step(here) {
                Step::Nothing => return None,
                Step::Root => break,
                Step::Object(next) => here = next,
            }
            objects.push(here);
        }
        objects.reverse();
        let root = *graph.roots().iter().find(|root| root.object == here)?;
        Some(Path { root, objects })
    }
}
