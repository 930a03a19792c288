//! Suspects: objects that keep a large part of the heap alive, and what accumulates below them.
//!
//! An object is suspect if it alone keeps a tenth of the heap. Objects with two or more referrers have no such holder: a leaked type that is
//! in a list and in a cache, for instance. So all objects of one type that nothing else dominates are suspect together.
//!
//! Objects of one type that refer to each other are a linked list. Its elements say nothing: who refers to one of them holds them all. So the
//! object that owns the list is reported.

mod lists;
mod together;

use crate::dominators::{DominatorTree, Node};
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::{TypeFlags, TypeIx};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A suspect retains at least one of this many parts of the heap: there are at most as many.
const PART: u64 = 10;
/// A referrer matters if it has one of this many parts of the references to the content.
const IRRELEVANT: u64 = 100;
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
    /// The array that refers to all holders, if each of them alone is a suspect.
    pub array: Option<ObjectIx>,
    /// The owners of linked lists that the holders form, and how many of them each has. Most first.
    pub owners: Vec<(ObjectIx, u64)>,
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
    let mut found: Vec<Suspect> = search.singles(enough).into_iter().chain(search.groups(enough)).collect();
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
    fn singles(&self, enough: u64) -> Vec<Suspect> {
        let biggest = self.tree.biggest(self.tree.root(), PART as usize).into_iter();
        let enough = move |node: &Node| self.tree.retained(*node) >= enough;
        // Unreached objects have no dominator object.
        let objects: Vec<ObjectIx> = biggest.filter(enough).filter_map(|node| self.tree.object(node)).collect();
        let groups = together::in_one_array(self.graph, objects).into_iter();
        groups.filter_map(|(objects, array)| self.held(&objects, array)).collect()
    }

    /// A suspect of one object, or of several in one array.
    fn held(&self, objects: &[ObjectIx], array: Option<ObjectIx>) -> Option<Suspect> {
        let tree = self.tree;
        let nodes: Vec<Node> = objects.iter().map(|object| tree.node(*object)).collect();
        let retained = nodes.iter().map(|node| tree.retained(*node)).sum();
        let way = match nodes[..] {
            [one] => self.way(one),
            _ => Vec::new(),
        };
        let piles = way.last().map_or(&nodes[..], std::slice::from_ref);
        let below: Vec<Node> = piles.iter().flat_map(|pile| tree.children(*pile)).collect();
        let content = self.content(&below, piles.iter().map(|pile| tree.retained(*pile)).sum());
        let by = way.last().zip(content).map(|(pile, content)| self.referrers(*pile, content.of));
        Some(Suspect {
            holders: objects.to_vec(),
            retained,
            retained_count: nodes.iter().map(|node| tree.retained_count(*node)).sum(),
            way: way.into_iter().filter_map(|node| tree.object(node)).collect(),
            // One alone is only a part of the way.
            referrers: by.filter(|by| by.len() > 1).unwrap_or_default(),
            content,
            array,
            owners: Vec::new(),
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
            array: None,
            owners: lists::owners(self.graph, &holders),
            holders,
        }
    }

    /// Down the tree, as long as one object still retains nearly all of `node`'s retained size; below the last one the memory is spread over
    /// many objects.
    /// In a linked list, each element retains a little less than the one before: the way would end early in the list. It ends at the object
    /// before the list.
    fn way(&self, node: Node) -> Vec<Node> {
        let of = |node: Node| self.tree.object(node).map(|object| self.graph.type_ix(object));
        let enough = self.tree.retained(node) / 10 * TOGETHER;
        let next = |node: &Node| {
            self.tree.biggest(*node, 1).first().copied().filter(|next| self.tree.retained(*next) >= enough)
        };
        let mut way: Vec<Node> = std::iter::successors(Some(node), next).collect();
        let last = way.last().copied().unwrap_or(node);
        let goes_on = self.tree.biggest(last, 1).first().is_some_and(|next| of(*next) == of(last));
        if goes_on {
            let before = way.iter().rposition(|node| of(*node) != of(last));
            way.truncate(before.map_or(1, |before| before + 1));
        }
        way
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
    /// tenth of the references from other types, or with less than a hundredth of all, are not among them.
    fn referrers(&self, above: Node, of: TypeIx) -> Vec<(ObjectIx, u64)> {
        let Search { graph, tree, .. } = self;
        let children: Vec<Node> = tree.children(above).collect();
        let mut counts = BTreeMap::<Node, u64>::new();
        let (mut all, mut from_others) = (0, 0);
        for node in tree.nodes_under(above).skip(1) {
            let Some(source) = tree.object(node) else { continue };
            let is_meant =
                |target: &ObjectIx| graph.type_ix(*target) == of && tree.dominates(above, tree.node(*target));
            let count = graph.references(source).filter(is_meant).count() as u64;
            all += count;
            if count > 0 && graph.type_ix(source) != of {
                // Children are in the order of their nodes, each before its subtree.
                let child = children[children.partition_point(|child| *child <= node) - 1];
                *counts.entry(child).or_default() += count;
                from_others += count;
            }
        }
        let mut found: Vec<(ObjectIx, u64)> = counts
            .into_iter()
            .filter(|(_, count)| *count >= from_others / PART && *count >= all / IRRELEVANT && *count > 1)
            .filter_map(|(node, count)| Some((tree.object(node)?, count)))
            .collect();
        found.sort_by_key(|(object, count)| (Reverse(*count), *object));
        found
    }
}
