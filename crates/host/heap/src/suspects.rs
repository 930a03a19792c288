//! Suspects: objects that keep a large part of the heap alive, and what accumulates below them.
//!
//! An object is suspect if it alone keeps a tenth of the heap. Objects with two or more referrers have no such holder: a leaked type that is
//! in a list and in a cache, for instance. So all objects of one type that nothing else dominates are suspect together.

use crate::dominators::{DominatorTree, Node};
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::{TypeFlags, TypeIx};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A suspect retains at least one of this many parts of the heap: there are at most as many.
const PART: u64 = 10;
/// Memory accumulates at the last object that still retains this many tenths of the suspect's retained size.
const TOGETHER: u64 = 8;

/// One object, or the objects of one type, with much of the heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// The objects that keep the rest alive: one, or all of a type.
    pub holders: Vec<ObjectIx>,
    /// Their retained size.
    pub retained: u64,
    /// Number of retained objects, themselves included.
    pub retained_count: u64,
    /// From the only holder to the object below which it accumulates, both included. Empty for several holders.
    pub way: Vec<ObjectIx>,
    /// What accumulates.
    pub content: Option<Content>,
    /// Objects that keep the content alive together, and how often each, or what it alone keeps, refers to it. Most first.
    pub referrers: Vec<(ObjectIx, u64)>,
}

/// The objects of one type that accumulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// The type.
    pub of: TypeIx,
    /// Number of objects.
    pub count: u64,
    /// Their own size.
    pub bytes: u64,
    /// Their retained size.
    pub retained: u64,
}

/// A type's part in a suspect, while it is counted.
struct Sum {
    content: Content,
    covered: Option<Node>,
}

/// All suspects, the largest first. `is_application` has an item for each type.
pub fn suspects(graph: &HeapGraph, tree: &DominatorTree, is_application: &[bool]) -> Vec<Suspect> {
    let search = Search { graph, tree, is_application };
    let enough = tree.retained(tree.root()).div_ceil(PART).max(1);
    let mut found: Vec<Suspect> = search.singles(enough).chain(search.groups(enough)).collect();
    found.sort_by_key(|suspect| (Reverse(suspect.retained), suspect.holders.first().copied()));
    found
}

impl Suspect {
    /// The collection, delegate or other object where memory accumulates. Arrays and parts of collections on the way are skipped.
    pub fn place(&self, graph: &HeapGraph) -> Option<ObjectIx> {
        let is_part = |object: &ObjectIx| {
            let of = graph.type_of(*object);
            of.flags.contains(TypeFlags::ARRAY)
                || graph.facts(graph.type_ix(*object)).array.is_some()
                || of.name.contains(">.")
        };
        self.way.iter().copied().rev().find(|object| !is_part(object))
    }
}

struct Search<'a> {
    graph: &'a HeapGraph,
    tree: &'a DominatorTree,
    is_application: &'a [bool],
}

impl<'a> Search<'a> {
    fn singles(&'a self, enough: u64) -> impl Iterator<Item = Suspect> + 'a {
        let biggest = self.tree.biggest(self.tree.root(), PART as usize).into_iter();
        let enough = move |node: &Node| self.tree.retained(*node) >= enough;
        // Unreached objects have no dominator object.
        biggest.filter(enough).filter_map(|node| self.single(node, self.tree.object(node)?))
    }

    fn single(&self, node: Node, object: ObjectIx) -> Option<Suspect> {
        let way = self.way(node);
        let pile = *way.last()?;
        let below: Vec<Node> = self.tree.children(pile).collect();
        let content = self.content(&below, self.tree.retained(pile));
        Some(Suspect {
            holders: vec![object],
            retained: self.tree.retained(node),
            retained_count: self.tree.retained_count(node),
            way: way.into_iter().filter_map(|node| self.tree.object(node)).collect(),
            referrers: content.map(|content| self.referrers(pile, content.of)).unwrap_or_default(),
            content,
        })
    }

    /// Objects that nothing but the root dominates and that another object refers to, by type.
    fn groups(&'a self, enough: u64) -> impl Iterator<Item = Suspect> + 'a {
        let Search { graph, tree, .. } = self;
        let rooted: BTreeSet<ObjectIx> = graph.roots().iter().map(|root| root.object).collect();
        let mut of_type = BTreeMap::<TypeIx, Vec<Node>>::new();
        for node in tree.children(tree.root()).filter(|node| tree.retained(*node) < enough) {
            if let Some(object) = tree.object(node).filter(|object| !rooted.contains(object)) {
                of_type.entry(graph.type_ix(object)).or_default().push(node);
            }
        }
        of_type.into_values().filter_map(move |nodes| {
            let retained = nodes.iter().map(|node| tree.retained(*node)).sum();
            (retained >= enough).then(|| self.group(nodes, retained))
        })
    }

    fn group(&self, mut nodes: Vec<Node>, retained: u64) -> Suspect {
        let tree = self.tree;
        let content = self.content(&nodes, retained);
        nodes.sort_by_key(|node| Reverse(tree.retained(*node)));
        let holders: Vec<ObjectIx> = nodes.iter().filter_map(|node| tree.object(*node)).collect();
        let of = holders.first().map(|object| self.graph.type_ix(*object));
        Suspect {
            retained,
            retained_count: nodes.iter().map(|node| tree.retained_count(*node)).sum(),
            way: Vec::new(),
            content,
            referrers: of.map(|of| self.referrers(tree.root(), of)).unwrap_or_default(),
            holders,
        }
    }

    /// Down the tree, as long as one object still retains nearly all of `node`'s retained size; below the last one the memory is spread over
    /// many objects.
    /// In a list, each element retains a little less than the one before. The way then ends early in the list, not at its end.
    fn way(&self, node: Node) -> Vec<Node> {
        let enough = self.tree.retained(node) / 10 * TOGETHER;
        let next = |node: &Node| {
            self.tree.biggest(*node, 1).first().copied().filter(|next| self.tree.retained(*next) >= enough)
        };
        std::iter::successors(Some(node), next).collect()
    }

    /// The application's type that retains most in these subtrees, if that is half of their `retained` size; otherwise the type with most
    /// bytes.
    fn content(&self, subtrees: &[Node], retained: u64) -> Option<Content> {
        let Search { graph, tree, .. } = self;
        let mut sums = BTreeMap::<TypeIx, Sum>::new();
        for node in subtrees.iter().flat_map(|node| tree.nodes_under(*node)) {
            let Some(object) = tree.object(node) else { continue };
            let of = graph.type_ix(object);
            let sum = sums
                .entry(of)
                .or_insert(Sum { content: Content { of, count: 0, bytes: 0, retained: 0 }, covered: None });
            sum.content.count += 1;
            sum.content.bytes += graph.bytes(object);
            if sum.covered.is_none_or(|covered| !tree.dominates(covered, node)) {
                sum.covered = Some(node);
                sum.content.retained += tree.retained(node);
            }
        }
        let all = || sums.values().map(|sum| sum.content);
        let own = all().filter(|content| self.is_own(content.of) && content.retained >= retained / 2);
        let own = own.max_by_key(|content| (content.retained, content.bytes, Reverse(content.of)));
        own.or_else(|| all().max_by_key(|content| (content.bytes, Reverse(content.of))))
    }

    /// Whether the application's source has a class of this name: arrays and classes that the compiler made say less.
    fn is_own(&self, of: TypeIx) -> bool {
        let is_application = self.is_application.get(of.0 as usize).copied().unwrap_or(false);
        is_application && self.graph.facts(of).array.is_none() && !self.graph.type_at(of).name.contains(".<")
    }

    /// The objects right below `above` that refer, or of which the subtrees refer, to the objects of a type there. Those with less than a
    /// tenth of the references are not among them.
    fn referrers(&self, above: Node, of: TypeIx) -> Vec<(ObjectIx, u64)> {
        let Search { graph, tree, .. } = self;
        let children: Vec<Node> = tree.children(above).collect();
        let mut counts = BTreeMap::<Node, u64>::new();
        let mut all = 0;
        for node in tree.nodes_under(above).skip(1) {
            let Some(source) = tree.object(node).filter(|object| graph.type_ix(*object) != of) else { continue };
            let is_meant =
                |target: &ObjectIx| graph.type_ix(*target) == of && tree.dominates(above, tree.node(*target));
            let count = graph.references(source).filter(is_meant).count() as u64;
            if count > 0 {
                // Children are in the order of their nodes, each before its subtree.
                let child = children[children.partition_point(|child| *child <= node) - 1];
                *counts.entry(child).or_default() += count;
                all += count;
            }
        }
        let mut found: Vec<(ObjectIx, u64)> = counts
            .into_iter()
            .filter(|(_, count)| *count >= all / PART && *count > 1)
            .filter_map(|(node, count)| Some((tree.object(node)?, count)))
            .collect();
        found.sort_by_key(|(object, count)| (Reverse(*count), *object));
        found
    }
}
