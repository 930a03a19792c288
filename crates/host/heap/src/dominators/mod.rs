//! Dominator tree and retained sizes.
//!
//! # Method
//! Semi-NCA (Georgiadis, "Linear-time algorithms for dominators and related problems", 2005):
//!
//! 1. A depth-first search numbers the objects (`search.rs`).
//! 2. Semidominators are computed in descending order, with path compression (`semi.rs`), from references that `by_target.rs` sorted.
//! 3. The tree grows in ascending order (`nearest.rs`).
//! 4. A last numbering makes each subtree one range (`layout.rs`).
//!
//! Everything after the search uses its numbers, so related data is adjacent in memory.

mod by_target;
mod layout;
mod nearest;
mod search;
mod semi;

use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;

/// A node of a [`DominatorTree`]. Its subtree follows it directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

/// The object of nodes without one.
const NO_OBJECT: u32 = u32::MAX;

/// The dominator tree. Its root represents everything outside the heap that holds objects.
///
/// Objects that no root reaches are in a tree of their own, below [`DominatorTree::unreached`].
/// A dead object's reference to a living one does not retain it.
#[derive(Debug, Clone)]
pub struct DominatorTree {
    /// For each node its object.
    objects: Vec<u32>,
    /// For each node the end of its subtree.
    ends: Vec<u32>,
    /// For each node its parent; the root's is itself.
    parents: Vec<u32>,
    /// For each node the bytes of all nodes before it; one more entry for the end.
    bytes_before: Vec<u64>,
    /// For each object its node.
    nodes: Vec<u32>,
    unreached: Option<Node>,
}

impl DominatorTree {
    /// The dominator tree of a graph.
    pub fn new(graph: &HeapGraph) -> DominatorTree {
        let mut search = search::Search::new(graph);
        let semi = semi::semidominators(graph, &mut search);
        let immediate = nearest::immediate_dominators(&search.parents, &semi);
        drop(semi);
        layout::tree(graph, search, &immediate)
    }

    /// Upper bounds for the memory of [`DominatorTree::new`] while it runs, and for what the tree keeps, in bytes.
    pub fn most_memory(graph: &HeapGraph) -> u64 {
        /// Per-object arrays: those of the search, of the forest, and of the tree with its sums.
        const OBJECT: u64 = 40;
        /// A reference is stored with its source, in arrays that double.
        const REFERENCE: u64 = 24;
        /// Each thread has its buckets, however small the heap.
        const ALWAYS: u64 = 1 << 20;
        ALWAYS + OBJECT * graph.object_count() as u64 + REFERENCE * graph.reference_count() as u64
    }

    /// The root.
    pub fn root(&self) -> Node {
        Node(0)
    }

    /// The parent of all objects that no root reaches, if any.
    pub fn unreached(&self) -> Option<Node> {
        self.unreached
    }

    /// Whether no root reaches the node's object. True of [`DominatorTree::unreached`] itself, too.
    pub fn is_unreached(&self, node: Node) -> bool {
        self.unreached.is_some_and(|unreached| self.dominates(unreached, node))
    }

    /// All nodes, each before its subtree.
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

    /// The node's immediate dominator. The root has none.
    pub fn parent(&self, node: Node) -> Option<Node> {
        (node != self.root()).then(|| Node(self.parents[node.0 as usize]))
    }

    /// The node's children.
    pub fn children(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        let end = self.ends[node.0 as usize];
        let mut next = node.0 + 1;
        std::iter::from_fn(move || {
            let child = (next < end).then_some(Node(next))?;
            next = self.ends[next as usize];
            Some(child)
        })
    }

    /// The node's subtree, itself first.
    pub fn nodes_under(&self, node: Node) -> impl ExactSizeIterator<Item = Node> + use<> {
        (node.0..self.ends[node.0 as usize]).map(Node)
    }

    /// Whether `lower` is in the subtree of `upper`, or is `upper`.
    pub fn dominates(&self, upper: Node, lower: Node) -> bool {
        (upper.0..self.ends[upper.0 as usize]).contains(&lower.0)
    }

    /// Number of objects in the node's subtree, its own included.
    pub fn retained_count(&self, node: Node) -> u64 {
        let virtual_nodes = [Some(self.root()), self.unreached];
        let without_object = virtual_nodes.into_iter().flatten().filter(|&other| self.dominates(node, other)).count();
        u64::from(self.ends[node.0 as usize] - node.0) - without_object as u64
    }

    /// Retained size: bytes of the subtree, the node's own object included.
    pub fn retained(&self, node: Node) -> u64 {
        self.bytes_before[self.ends[node.0 as usize] as usize] - self.bytes_before[node.0 as usize]
    }

    /// The `count` children of `node` with the largest retained sizes, largest first. Of the root: the biggest dominators of the heap.
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
