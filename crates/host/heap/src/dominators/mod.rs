//! What would go with an object: the dominator tree and retained sizes.
//!
//! # Method
//! Semi-NCA (Georgiadis, "Linear-time algorithms for dominators and related problems", 2005): a search in depth numbers
//! the objects (`search.rs`), semidominators are found in descending order of numbers with path compression (`semi.rs`, from references that `by_target.rs` has put in order),
//! and the tree grows in ascending order (`nearest.rs`). Everything after the search works on the numbers, so that what belongs together lies together in memory.
//! The finished tree is numbered once more (`layout.rs`), so that what a node dominates is one range.

mod by_target;
mod layout;
mod nearest;
mod search;
mod semi;

use crate::graph::{HeapGraph, ObjectIx};

/// A node of a [`DominatorTree`]. What it dominates follows it directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

/// Stands for the object of a node that has none.
const NO_OBJECT: u32 = u32::MAX;

/// Who alone holds whom. Above everything is a root that stands for all that holds objects from outside.
///
/// Objects that nothing holds are below a node of their own, [`DominatorTree::unreached`], in a tree of their own:
/// what refers to a living object and is dead itself does not hold it.
#[derive(Debug, Clone)]
pub struct DominatorTree {
    /// For each node its object.
    objects: Vec<u32>,
    /// For each node the one behind all that it dominates.
    ends: Vec<u32>,
    /// For each node the one that it hangs under; the root's is itself.
    parents: Vec<u32>,
    /// For each node what all nodes before it take; and one more, for the end.
    bytes_before: Vec<u64>,
    /// For each object its node.
    nodes: Vec<u32>,
    unreached: Option<Node>,
}

impl DominatorTree {
    /// That of a graph.
    pub fn new(graph: &HeapGraph) -> DominatorTree {
        let mut search = search::Search::new(graph);
        let semi = semi::semidominators(graph, &mut search);
        let immediate = nearest::immediate_dominators(&search.parents, &semi);
        drop(semi);
        layout::tree(graph, search, &immediate)
    }

    /// What [`DominatorTree::new`] takes of the memory meanwhile, and what stays of that, in bytes at most.
    pub fn most_memory(graph: &HeapGraph) -> u64 {
        /// Arrays of numbers by object: those of the search, of the forest, and of the tree with its sums.
        const OBJECT: u64 = 40;
        /// A reference waits with its source, in arrays that double.
        const REFERENCE: u64 = 24;
        /// Buckets are made for each thread, however small the heap.
        const ALWAYS: u64 = 1 << 20;
        ALWAYS + OBJECT * graph.object_count() as u64 + REFERENCE * graph.reference_count() as u64
    }

    /// The node above all.
    pub fn root(&self) -> Node {
        Node(0)
    }

    /// The node above all objects that no root reaches, if there are such.
    pub fn unreached(&self) -> Option<Node> {
        self.unreached
    }

    /// Whether no root reaches the object of this node. True of [`DominatorTree::unreached`] itself, too.
    pub fn is_unreached(&self, node: Node) -> bool {
        self.unreached.is_some_and(|unreached| self.dominates(unreached, node))
    }

    /// All nodes, each before what it dominates.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Node> + use<> {
        (0..self.objects.len() as u32).map(Node)
    }

    /// The node of an object.
    pub fn node(&self, object: ObjectIx) -> Node {
        Node(self.nodes[object.0 as usize])
    }

    /// The object of a node; the root and [`DominatorTree::unreached`] have none.
    pub fn object(&self, node: Node) -> Option<ObjectIx> {
        let object = self.objects[node.0 as usize];
        (object != NO_OBJECT).then_some(ObjectIx(object))
    }

    /// The node that a node hangs under: its immediate dominator. The root has none.
    pub fn parent(&self, node: Node) -> Option<Node> {
        (node != self.root()).then(|| Node(self.parents[node.0 as usize]))
    }

    /// The nodes that hang under a node.
    pub fn children(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        let end = self.ends[node.0 as usize];
        let mut next = node.0 + 1;
        std::iter::from_fn(move || {
            let child = (next < end).then_some(Node(next))?;
            next = self.ends[next as usize];
            Some(child)
        })
    }

    /// All nodes that a node dominates, itself the first.
    pub fn nodes_under(&self, node: Node) -> impl ExactSizeIterator<Item = Node> + use<> {
        (node.0..self.ends[node.0 as usize]).map(Node)
    }

    /// Whether `lower` hangs under `upper`, or is `upper`.
    pub fn dominates(&self, upper: Node, lower: Node) -> bool {
        (upper.0..self.ends[upper.0 as usize]).contains(&lower.0)
    }

    /// How many objects there are in all that a node dominates, its own included.
    pub fn retained_count(&self, node: Node) -> u64 {
        let virtual_nodes = [Some(self.root()), self.unreached];
        let without_object = virtual_nodes.into_iter().flatten().filter(|&other| self.dominates(node, other)).count();
        u64::from(self.ends[node.0 as usize] - node.0) - without_object as u64
    }

    /// What all that a node dominates takes, its own object included.
    pub fn retained(&self, node: Node) -> u64 {
        self.bytes_before[self.ends[node.0 as usize] as usize] - self.bytes_before[node.0 as usize]
    }

    /// The `count` nodes directly under `node` that retain most, the largest first. Under the root: the biggest dominators of the heap.
    pub fn biggest(&self, node: Node, count: usize) -> Vec<Node> {
        let key = |node: &Node| std::cmp::Reverse((self.retained(*node), std::cmp::Reverse(node.0)));
        let mut biggest: Vec<Node> = self.children(node).collect();
        if (1..biggest.len()).contains(&count) {
            biggest.select_nth_unstable_by_key(count - 1, key);
        }
        biggest.truncate(count);
        biggest.sort_unstable_by_key(key);
        biggest
    }
}
