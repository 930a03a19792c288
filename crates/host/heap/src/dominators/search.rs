//! A depth-first search from the roots, which numbers the objects it finds.
//!
//! Number 0 is the root of everything. Unreached objects have the highest numbers: first the node above all of them, then the objects,
//! searched from one object of each source component.

use super::NO_OBJECT;
use crate::bits::Bits;
use crate::graph::HeapGraph;
use crate::inference::source_components;

/// The result of a depth-first search.
pub(super) struct Search {
    /// For each number its object.
    pub(super) objects: Vec<u32>,
    /// For each object its number.
    pub(super) numbers: Vec<u32>,
    /// For each number its parent in the search; the root's is its own.
    pub(super) parents: Vec<u32>,
    /// The number of the node above all unreached objects.
    pub(super) unreached: Option<u32>,
}

impl Search {
    /// Searches a graph.
    pub(super) fn new(graph: &HeapGraph) -> Search {
        let count = graph.object_count();
        let mut search = Search {
            objects: Vec::with_capacity(count + 2),
            numbers: vec![0; count],
            parents: Vec::with_capacity(count + 2),
            unreached: None,
        };
        let mut found = Bits::new(count);
        let root = search.number(NO_OBJECT, 0);
        search.descend_from(graph, graph.roots().iter().map(|root| root.object.0), root, &mut found);
        if search.objects.len() <= count {
            let sources = source_components(graph, &found);
            let unreached = search.number(NO_OBJECT, root);
            search.unreached = Some(unreached);
            search.descend_from(graph, sources, unreached, &mut found);
        }
        search
    }

    /// Numbers all objects that `starts` reach, with `parent` as their parent.
    ///
    /// It notes all references of an object at once, with their source. So it need not read the object again when the search returns to it.
    fn descend_from(
        &mut self,
        graph: &HeapGraph,
        starts: impl IntoIterator<Item = u32>,
        parent: u32,
        found: &mut Bits,
    ) {
        let mut noted = Vec::new();
        for start in starts {
            noted.push((start, parent));
            while let Some((object, parent)) = noted.pop() {
                if !found.insert(object) {
                    continue;
                }
                let number = self.number(object, parent);
                self.numbers[object as usize] = number;
                for &target in graph.targets(object) {
                    if !found.contains(target) {
                        noted.push((target, number));
                    }
                }
            }
        }
    }

    fn number(&mut self, object: u32, parent: u32) -> u32 {
        let number = self.objects.len() as u32;
        self.objects.push(object);
        self.parents.push(parent);
        number
    }
}
