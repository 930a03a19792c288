//! Finds the objects that an unseen root must hold.
//!
//! The result is one object of each strongly connected component without references from other components.
//! The components themselves are not needed.
//!
//! 1. Nearly all such components are one object without referrers. The search first marks all that these reach.
//! 2. Then it visits the other objects in order, and marks what each unmarked one reaches. Nothing outside such a component reaches it.
//!    So its first object starts such a search, which marks the rest of the component.
//! 3. Some other objects start searches too: those visited before their referrers. A pass in reverse order finds them, because a later
//!    start reaches them. The remaining starts are one for each component.

use crate::bits::Bits;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::root::{Root, RootKind};

/// Objects whose references are followed together.
const AT_ONCE: usize = 32;

impl HeapGraph {
    /// Adds an inferred root wherever an unseen root must exist; returns their number.
    ///
    /// Valid only for a heap after a full GC, in which every object is alive.
    /// Among the objects that no root reaches, some strongly connected component has no reference from the others. So a root outside the
    /// heap holds it.
    /// Which object it holds is unknown: the inferred root holds the one at the lowest address that reaches the rest.
    pub fn infer_roots(&mut self) -> usize {
        let held = reached(self, self.roots().iter().map(|root| root.object.0));
        let sources = source_components(self, &held);
        let inferred = sources.iter().map(|&object| Root { object: ObjectIx(object), kind: RootKind::Inferred });
        self.add_roots(inferred);
        sources.len()
    }
}

/// All objects that `from` reaches, themselves included.
fn reached(graph: &HeapGraph, from: impl IntoIterator<Item = u32>) -> Bits {
    let mut marked = Bits::new(graph.object_count());
    let mut waiting = Vec::new();
    for object in from {
        flood(graph, object, &mut marked, &mut waiting);
    }
    marked
}

/// The first object of each source component among the objects that are not `held`, ascending. `held` is closed under references.
pub(crate) fn source_components(graph: &HeapGraph, held: &Bits) -> Vec<u32> {
    let mut waiting = Vec::new();
    let mut marked = held.clone();
    let mut sources = unreferred(graph);
    sources.retain(|&object| flood(graph, object, &mut marked, &mut waiting));
    let with_these = marked.clone();
    let mut begun: Vec<u32> = (0..graph.object_count() as u32).filter(|&object| !marked.contains(object)).collect();
    begun.retain(|&object| flood(graph, object, &mut marked, &mut waiting));
    marked = with_these;
    begun.reverse();
    begun.retain(|&object| flood(graph, object, &mut marked, &mut waiting));
    sources.append(&mut begun);
    sources.sort_unstable();
    sources
}

/// Objects without referrers.
fn unreferred(graph: &HeapGraph) -> Vec<u32> {
    let mut referred = Bits::new(graph.object_count());
    for &target in graph.edges() {
        referred.insert(target);
    }
    (0..graph.object_count() as u32).filter(|&object| !referred.contains(object)).collect()
}

/// Marks all that `object` reaches; returns whether `object` was unmarked.
fn flood(graph: &HeapGraph, object: u32, marked: &mut Bits, waiting: &mut Vec<u32>) -> bool {
    if !marked.insert(object) {
        return false;
    }
    waiting.push(object);
    let mut some = Vec::with_capacity(AT_ONCE);
    while !waiting.is_empty() {
        // Reads all positions of references before it follows any, so that the loads overlap.
        let rest = waiting.len().saturating_sub(AT_ONCE);
        some.clear();
        some.extend(waiting.drain(rest..).map(|object| graph.target_range(object)));
        for &(begin, end) in &some {
            let targets = &graph.edges()[begin as usize..end as usize];
            waiting.extend(targets.iter().copied().filter(|&target| marked.insert(target)));
        }
    }
    true
}
