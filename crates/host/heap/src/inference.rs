//! Which objects must be held from outside, where nobody has seen by what.
//!
//! Wanted is one object of each strongly connected component that no other component refers to. The components themselves are not needed.
//! An object that nobody refers to is one, and they are nearly all there are: what they reach is marked first.
//! Then all other objects are gone through in order, and whatever an object reaches is marked. The first object of such a component that
//! is met begins a search of its own, for nobody outside reaches it, and marks the rest of the component. Other objects may begin one too: those that
//! are met before what refers to them. Gone through backwards, these are reached by one that began later: those left are one for each component.

use crate::bits::Bits;
use crate::graph::HeapGraph;

/// Objects whose references are followed together.
const AT_ONCE: usize = 32;

/// What the objects in `from` reach, themselves included.
pub(crate) fn reached(graph: &HeapGraph, from: impl IntoIterator<Item = u32>) -> Bits {
    let mut marked = Bits::new(graph.object_count());
    let mut waiting = Vec::new();
    for object in from {
        flood(graph, object, &mut marked, &mut waiting);
    }
    marked
}

/// The first object of each source component among the objects that are not `held`, ascending. What is held is closed under references.
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

/// The objects that nobody refers to.
fn unreferred(graph: &HeapGraph) -> Vec<u32> {
    let mut referred = Bits::new(graph.object_count());
    for &target in graph.edges() {
        referred.insert(target);
    }
    (0..graph.object_count() as u32).filter(|&object| !referred.contains(object)).collect()
}

/// Marks what `object` reaches; whether it was not marked itself.
fn flood(graph: &HeapGraph, object: u32, marked: &mut Bits, waiting: &mut Vec<u32>) -> bool {
    if !marked.insert(object) {
        return false;
    }
    waiting.push(object);
    let mut some = Vec::with_capacity(AT_ONCE);
    while !waiting.is_empty() {
        // Where their references are is read for all of them before any is followed: so it is on its way all at once.
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
