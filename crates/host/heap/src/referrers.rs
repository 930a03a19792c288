//! Referrers: the references, inverted.

use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;

/// For each object the objects that refer to it.
#[derive(Debug, Clone)]
pub struct Referrers {
    /// Start of each object's referrers; one more entry for the end.
    first: Vec<u32>,
    sources: Vec<u32>,
}

impl Referrers {
    /// The referrers of a graph. Worth its memory for many queries; for one, see [`Referrers::of_one`].
    pub fn new(graph: &HeapGraph) -> Referrers {
        let mut first = vec![0_u32; graph.object_count() + 1];
        for &target in graph.edges() {
            first[target as usize] += 1;
        }
        let mut end = 0;
        for count in &mut first {
            end += *count;
            *count = end;
        }
        // Filled from the end, so each end moves down to its start.
        let mut sources = vec![0; graph.reference_count()];
        for object in graph.objects().rev() {
            for &target in graph.targets(object.0).iter().rev() {
                let place = &mut first[target as usize];
                *place -= 1;
                sources[*place as usize] = object.0;
            }
        }
        Referrers { first, sources }
    }

    /// The referrers of `object`, ascending; one with two references appears twice.
    pub fn of(&self, object: ObjectIx) -> impl ExactSizeIterator<Item = ObjectIx> + '_ {
        let (begin, end) = (self.first[object.0 as usize], self.first[object.0 as usize + 1]);
        self.sources[begin as usize..end as usize].iter().copied().map(ObjectIx)
    }

    /// The referrers of one object without an index: reads all references, keeps nothing.
    pub fn of_one(graph: &HeapGraph, object: ObjectIx) -> impl Iterator<Item = ObjectIx> + '_ {
        let times = move |source: ObjectIx| graph.targets(source.0).iter().filter(move |&&target| target == object.0);
        graph.objects().flat_map(move |source| times(source).map(move |_| source))
    }
}
