//! Makes an index: computes everything that needs the whole graph once.
//!
//! The sections are written one after the other, and data for one section lives only while it is written. Besides the graph and the
//! dominator tree this takes at most about 28 bytes per object; after the tree is freed, 4 per reference.

use super::layout::{BESIDE, Counts, Header, Key, MOST_OUTLINES, OBJECT, TYPE};
use super::record::{NONE, Raw, bit};
use super::sink::Sink;
use super::types;
use crate::{About, Error};
use remora_heap::layout::Layouts;
use remora_heap::tables::{Totals, by_type};
use remora_heap::{DominatorTree, HeapGraph, Node, ObjectIx, ShortestPaths, Step, TypeIx, both};
use std::cmp::Reverse;
use std::io::Write;

/// The input of an index.
pub struct Parts<'a> {
    /// The graph, with inferred roots if wanted.
    pub graph: &'a HeapGraph,
    /// The layouts of its types, as far as they are known.
    pub layouts: &'a Layouts,
    /// Further properties; [`make`] counts the roots.
    pub about: About,
    /// Suspects and findings, from the dominator tree.
    pub found: &'a dyn Fn(&DominatorTree) -> serde_json::Value,
    /// The snapshot's identity.
    pub key: Key,
    /// Called now and then; false cancels.
    pub goes_on: &'a dyn Fn() -> bool,
}

/// Makes the index of a graph.
///
/// # Errors
/// [`Error::Write`], [`Error::Interrupted`], [`Error::TooLarge`].
pub fn make(parts: Parts<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let Parts { graph, layouts, mut about, found, key, goes_on } = parts;
    about.take_roots(graph);
    let (ways, tree) = both(|| Ways::of(graph), || DominatorTree::new(graph));
    about.found = found(&tree);
    // Plain data: serialization cannot fail.
    let about = serde_json::to_vec(&about).unwrap_or_default();
    let outlines = outlines(graph, layouts);
    let names: usize = graph.types().iter().map(|known| known.name.len() + known.assembly.len()).sum();
    let counts = Counts {
        objects: graph.object_count() as u64,
        unreached: tree.unreached().is_some().into(),
        references: graph.reference_count() as u64,
        types: graph.types().len() as u64,
        names: names as u64,
        outlines: outlines.len() as u64,
        about: about.len() as u64,
    };
    counts.checked()?;
    let mut sink = Sink::new(out, goes_on);
    sink.header(&Header { key, counts }.bytes())?;
    Making { graph, counts, sink }.sections(tree, ways, [&outlines, &about])
}

/// The outlines of the types as JSON; empty without layouts. Beyond the room, they are without fields.
fn outlines(graph: &HeapGraph, layouts: &Layouts) -> Vec<u8> {
    if layouts.is_empty() {
        return Vec::new();
    }
    let fields = remora_heap::Ways::new(graph, layouts);
    // Each type has at least `{},`.
    let mut room = (MOST_OUTLINES as usize - 2).saturating_sub(graph.types().len() * 3);
    let mut json = vec![b'['];
    for of in 0..graph.types().len() as u32 {
        let outline = fields.outline(TypeIx(of));
        // Plain data: serialization cannot fail.
        let mut row = serde_json::to_vec(&outline).unwrap_or_default();
        if row.len() > room + 2 {
            row = b"{}".to_vec();
        }
        room -= row.len() - 2;
        if of > 0 {
            json.push(b',');
        }
        json.extend(row);
    }
    json.push(b']');
    json
}

struct Making<'a> {
    graph: &'a HeapGraph,
    counts: Counts,
    sink: Sink<'a>,
}

impl Making<'_> {
    fn sections(mut self, tree: DominatorTree, ways: Ways, json: [&[u8]; 2]) -> Result<(), Error> {
        let totals = self.totals(&tree);
        let mut children = Lists::counted(self.records(), self.hanging(&tree).map(|(_, above)| above));
        let mut referrers = Lists::counted(
            self.graph.object_count(),
            self.graph.objects().flat_map(|object| self.graph.references(object)).map(|target| target.0),
        );
        self.objects(&tree, &ways, &children, &referrers)?;
        drop(ways);
        let order = self.order(&tree);
        self.hang(&tree, &order, &mut children);
        drop(tree);
        self.sink.numbers(children.items.drain(..))?;
        drop(children);
        let mut of_types =
            Lists::counted(self.graph.types().len(), self.graph.objects().map(|object| self.graph.type_ix(object).0));
        order.iter().for_each(|&id| of_types.put(self.graph.type_ix(ObjectIx(id)).0, id));
        self.sink.numbers(of_types.items.drain(..))?;
        let graph = self.graph;
        graph.objects().try_for_each(|object| self.sink.numbers(graph.references(object).map(|target| target.0)))?;
        for &id in &order {
            graph.references(ObjectIx(id)).for_each(|target| referrers.put(target.0, id));
        }
        drop(order);
        self.sink.numbers(referrers.items.drain(..))?;
        self.types(&totals)?;
        json.into_iter().try_for_each(|json| self.sink.put(json))?;
        self.sink.finish()
    }

    /// Nodes of all records but the last, which has none.
    fn records(&self) -> usize {
        self.graph.object_count() + BESIDE as usize - 1
    }

    fn node(&self, tree: &DominatorTree, id: u32) -> Node {
        match id.checked_sub(self.counts.objects as u32) {
            None => tree.node(ObjectIx(id)),
            Some(0) => tree.root(),
            Some(_) => tree.unreached().unwrap_or(tree.root()),
        }
    }

    fn id(&self, tree: &DominatorTree, node: Node) -> u32 {
        let beside = self.counts.objects as u32 + u32::from(node != tree.root());
        tree.object(node).map_or(beside, |object| object.0)
    }

    /// Each node but the root, with its parent.
    fn hanging<'b>(&'b self, tree: &'b DominatorTree) -> impl Iterator<Item = (u32, u32)> + 'b {
        tree.nodes().filter_map(move |node| Some((self.id(tree, node), self.id(tree, tree.parent(node)?))))
    }

    /// Gives each node its children, largest retained size first.
    fn hang(&self, tree: &DominatorTree, order: &[u32], children: &mut Lists) {
        let retained = |id: u32| tree.retained(self.node(tree, id));
        let unreached = (self.counts.unreached > 0).then_some(self.counts.objects as u32 + 1);
        let greater = unreached.map_or(0, |unreached| order.partition_point(|&id| retained(id) >= retained(unreached)));
        let (greater, smaller) = order.split_at(greater);
        for id in greater.iter().copied().chain(unreached).chain(smaller.iter().copied()) {
            if let Some(above) = tree.parent(self.node(tree, id)) {
                children.put(self.id(tree, above), id);
            }
        }
    }

    /// The objects, largest retained size first.
    fn order(&self, tree: &DominatorTree) -> Vec<u32> {
        let mut keyed: Vec<(Reverse<u64>, u32)> =
            self.graph.objects().map(|object| (Reverse(tree.retained(tree.node(object))), object.0)).collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, id)| id).collect()
    }

    fn totals(&self, tree: &DominatorTree) -> Vec<Totals> {
        let mut totals = vec![Totals::default(); self.graph.types().len()];
        by_type(self.graph, tree).iter().for_each(|row| totals[row.type_ix.0 as usize] = row.totals);
        totals
    }

    fn objects(&mut self, tree: &DominatorTree, ways: &Ways, children: &Lists, referrers: &Lists) -> Result<(), Error> {
        let mut kinds = vec![0_u16; self.graph.object_count()];
        self.graph.roots().iter().for_each(|root| kinds[root.object.0 as usize] |= bit(root.kind) as u16);
        let mut references = 0;
        for object in self.graph.objects() {
            let (id, node) = (object.0, tree.node(object));
            let above = tree.parent(node).map_or(NONE, |above| self.id(tree, above));
            let (step, origin, distance) = ways.at(id);
            let raw = Raw {
                sizes: [self.graph.address(object), self.graph.bytes(object), tree.retained(node)],
                numbers: [
                    self.graph.type_ix(object).0,
                    tree.retained_count(node) as u32,
                    above,
                    step,
                    origin,
                    distance,
                    children.begin(id),
                    references,
                    referrers.begin(id),
                    kinds[id as usize].into(),
                ],
            };
            references += self.graph.references(object).len() as u32;
            self.sink.put(&raw.bytes::<{ OBJECT as usize }>())?;
        }
        self.beside(tree, children)
    }

    /// The records after those of objects.
    fn beside(&mut self, tree: &DominatorTree, children: &Lists) -> Result<(), Error> {
        let (objects, references) = (self.counts.objects as u32, self.counts.references as u32);
        let nodes = [Some(tree.root()), tree.unreached(), None];
        for (place, node) in nodes.into_iter().enumerate() {
            let (retained, count) = node.map_or((0, 0), |node| (tree.retained(node), tree.retained_count(node)));
            let above = if place == 1 { objects } else { NONE };
            let begin = children.begin(objects + place as u32);
            let numbers = [NONE, count as u32, above, NONE, NONE, 0, begin, references, references, 0];
            self.sink.put(&Raw { sizes: [0, 0, retained], numbers }.bytes::<{ OBJECT as usize }>())?;
        }
        Ok(())
    }

    fn types(&mut self, totals: &[Totals]) -> Result<(), Error> {
        let (mut name, mut first) = (0, 0);
        for (place, known) in self.graph.types().iter().enumerate() {
            let of = totals[place];
            let assembly = name + known.name.len() as u32;
            let raw = types::Raw {
                sizes: [of.bytes, of.retained, of.count],
                numbers: [first, name, assembly, known.flags.0],
            };
            self.sink.put(&raw.bytes::<{ TYPE as usize }>())?;
            name = assembly + known.assembly.len() as u32;
            first += of.count as u32;
        }
        let end = types::Raw { sizes: [0; 3], numbers: [first, name, name, 0] };
        self.sink.put(&end.bytes::<{ TYPE as usize }>())?;
        for known in self.graph.types() {
            self.sink.put(known.name.as_bytes())?;
            self.sink.put(known.assembly.as_bytes())?;
        }
        Ok(())
    }
}

/// Lists of numbers in one array. Counted first, then filled.
struct Lists {
    /// Position of each list's next item; before filling, the start of the list.
    next: Vec<u32>,
    /// Allocated with the first item.
    items: Vec<u32>,
    length: u32,
}

impl Lists {
    /// `lists` lists, with room for one item each time that `named` yields a list.
    fn counted(lists: usize, named: impl Iterator<Item = u32>) -> Lists {
        let mut next = vec![0; lists + 1];
        named.for_each(|list| next[list as usize] += 1);
        let mut length = 0;
        for count in &mut next {
            length += std::mem::replace(count, length);
        }
        Lists { next, items: Vec::new(), length }
    }

    /// Start of a list. Valid only before filling.
    fn begin(&self, list: u32) -> u32 {
        self.next[list as usize]
    }

    fn put(&mut self, list: u32, item: u32) {
        if self.items.is_empty() {
            self.items = vec![0; self.length as usize];
        }
        let place = &mut self.next[list as usize];
        self.items[*place as usize] = item;
        *place += 1;
    }
}

/// Shortest paths from objects to roots.
struct Ways {
    paths: ShortestPaths,
    /// The last object of each path.
    origin: Vec<u32>,
    /// Objects on it; 0 if there is no path.
    distance: Vec<u32>,
}

impl Ways {
    fn of(graph: &HeapGraph) -> Ways {
        let paths = ShortestPaths::new(graph);
        let (mut origin, mut distance) = (vec![NONE; graph.object_count()], vec![0_u32; graph.object_count()]);
        let mut way = Vec::new();
        for object in graph.objects() {
            let mut here = object.0;
            let (end, mut length) = loop {
                if distance[here as usize] > 0 {
                    break (origin[here as usize], distance[here as usize]);
                }
                match paths.step(ObjectIx(here)) {
                    Step::Nothing => break (NONE, 0),
                    Step::Root => {
                        way.push(here);
                        break (here, 0);
                    }
                    Step::Object(next) => {
                        way.push(here);
                        here = next.0;
                    }
                }
            };
            while let Some(on) = way.pop() {
                length += 1;
                (origin[on as usize], distance[on as usize]) = (end, length);
            }
        }
        Ways { paths, origin, distance }
    }

    /// Step, origin and distance.
    fn at(&self, id: u32) -> (u32, u32, u32) {
        let step = match self.paths.step(ObjectIx(id)) {
            Step::Object(next) => next.0,
            _ => NONE,
        };
        (step, self.origin[id as usize], self.distance[id as usize])
    }
}
