//! Objects that only an event keeps alive: they subscribed and never unsubscribed.
//!
//! A subscriber is reported only if its publisher's delegate dominates it: without the delegate, the subscriber would be garbage.
//! Objects that a subscriber owns, its own publisher for instance, are no finding.
//! Lambdas that captured nothing are not reported, nor are those that did not capture their enclosing object.
//! A delegate belongs to an event if the publisher declares an event of its type: the graph does not record fields.

use super::Looked;
use super::declared::Declared;
use super::delegates::Delegates;
use super::kinds::{Kinds, bare, captures_nothing, written_in};
use crate::dominators::Node;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::root::RootKind;
use crate::types::TypeIx;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A delegate in a static field may not be an event's. A type name with this suffix, or several handlers, make it probable.
const HANDLER: &str = "EventHandler";
/// Maximum bytes of the rows' event names. Each row may name all events of a long line of base types.
const MOST_NAMES: usize = 16 << 20;

/// Event subscriptions that keep objects alive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// Largest retained size first.
    pub rows: Vec<SubscriptionRow>,
    /// Retained size of all rows together.
    pub retained: u64,
}

/// Subscribers of one type to one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// The type with the event; `None` if the delegate is in a static field.
    pub publisher: Option<TypeIx>,
    /// The events it may be; for static fields their full names, where known.
    pub events: Vec<String>,
    /// The type of the delegate.
    pub delegate: TypeIx,
    /// The subscribers' type.
    pub subscriber: TypeIx,
    /// Number of subscribers.
    pub count: u64,
    /// Their retained size.
    pub retained: u64,
    /// The subscriber with the largest retained size.
    pub example: ObjectIx,
}

/// The key of a row.
type Group = (Option<TypeIx>, TypeIx, TypeIx);

/// The name of a type's definition.
fn definition(graph: &HeapGraph, of: TypeIx) -> String {
    let name = bare(&graph.type_at(of).name);
    match graph.facts(of).arguments.len() {
        0 => name,
        arguments => format!("{name}`{arguments}"),
    }
}

/// The search for subscriptions.
struct Search<'a> {
    looked: Looked<'a>,
    kinds: Kinds<'a>,
    delegates: &'a Delegates<'a>,
    /// For each delegate type, the name of its definition.
    definitions: BTreeMap<TypeIx, String>,
    declared: Declared<'a>,
    /// For each delegate of an event the first publisher, `None` after a second one: more add nothing.
    published: HashMap<ObjectIx, Option<ObjectIx>>,
    /// The subscribers of known targets: one closure may be the target of all handlers.
    subscribers: HashMap<ObjectIx, Option<ObjectIx>>,
    /// Numbers of the types' names, and those of each type, so that names are compared as numbers.
    names: HashMap<&'a str, usize>,
    numbers: Vec<usize>,
    /// Each subscriber once, in the order of the tree.
    found: BTreeMap<Node, Group>,
    /// The names of the static fields with these delegates.
    fields: BTreeMap<Group, BTreeSet<String>>,
}

impl Subscriptions {
    pub(super) fn of(looked: Looked<'_>, kinds: Kinds<'_>, delegates: &Delegates<'_>) -> Subscriptions {
        let graph = looked.graph;
        let types = (0..graph.types().len() as u32).map(TypeIx).filter(|index| delegates.is_type(*index));
        let definitions = types.map(|index| (index, definition(graph, index))).collect();
        let mut search = Search {
            looked,
            kinds,
            delegates,
            declared: Declared::of(graph, &definitions),
            definitions,
            published: HashMap::new(),
            subscribers: HashMap::new(),
            names: HashMap::new(),
            numbers: Vec::new(),
            found: BTreeMap::new(),
            fields: BTreeMap::new(),
        };
        for known in graph.types() {
            let number = search.names.len();
            search.numbers.push(*search.names.entry(&known.name).or_insert(number));
        }
        search.publishers();
        search.statics();
        search.summed()
    }
}

impl Search<'_> {
    fn publishers(&mut self) {
        let graph = self.looked.graph;
        let declares = self.kinds.each(|index| self.kinds.line(index).any(|at| !graph.facts(at).events.is_empty()));
        for publisher in graph.objects().filter(|object| declares[graph.type_ix(*object).0 as usize]) {
            let of = graph.type_ix(publisher);
            for delegate in graph.references(publisher) {
                let kind = graph.type_ix(delegate);
                if self.delegates.is_type(kind)
                    && self.declared.has(self.kinds, of, kind)
                    && self.is_next(delegate, publisher)
                {
                    self.handlers(delegate, Some((publisher, of)));
                }
            }
        }
    }

    /// Delegates that only static fields hold: known fields, or the arrays that contain them.
    fn statics(&mut self) {
        let graph = self.looked.graph;
        let known = graph.roots().iter().filter(|root| root.kind == RootKind::Static).map(|root| root.object);
        let in_arrays = self.kinds.statics().flat_map(|array| graph.references(array));
        let delegates: BTreeSet<ObjectIx> = known.chain(in_arrays).collect();
        for delegate in delegates {
            let Some(name) = self.definitions.get(&graph.type_ix(delegate)) else { continue };
            if name.trim_end_matches("`1").ends_with(HANDLER) || self.called(delegate).len() > 1 {
                self.handlers(delegate, None);
            }
        }
    }

    /// Whether this publisher of a delegate can add something. The first one has all handlers but itself; a second one adds that.
    fn is_next(&mut self, delegate: ObjectIx, publisher: ObjectIx) -> bool {
        match self.published.entry(delegate) {
            Entry::Vacant(place) => place.insert(Some(publisher)).is_some(),
            Entry::Occupied(mut place) => *place.get() != Some(publisher) && place.get_mut().take().is_some(),
        }
    }

    /// The delegates that a delegate calls. If it does not dominate its list, it dominates no handler of it. At most one delegate dominates a
    /// list, so that each list is read once.
    fn called(&self, delegate: ObjectIx) -> Vec<ObjectIx> {
        let tree = self.looked.tree;
        match self.delegates.list(delegate) {
            Some(list) if !tree.dominates(tree.node(delegate), tree.node(list)) => Vec::new(),
            _ => self.delegates.called(delegate),
        }
    }

    fn handlers(&mut self, delegate: ObjectIx, publisher: Option<(ObjectIx, TypeIx)>) {
        let Looked { graph, tree, .. } = self.looked;
        let above = tree.node(delegate);
        for handler in self.called(delegate) {
            let Some(subscriber) = self.delegates.target(handler).and_then(|target| self.subscriber(target)) else {
                continue;
            };
            let node = tree.node(subscriber);
            if tree.dominates(above, node) && publisher.is_none_or(|(publisher, _)| publisher != subscriber) {
                let group = (publisher.map(|(_, of)| of), graph.type_ix(delegate), graph.type_ix(subscriber));
                self.found.entry(node).or_insert(group);
                let field = graph.root_note(delegate, RootKind::Static).filter(|_| publisher.is_none());
                self.fields.entry(group).or_default().extend(field.map(str::to_owned));
            }
        }
    }

    /// The subscriber: the object whose method is called, or the captured `this` of a lambda.
    fn subscriber(&mut self, target: ObjectIx) -> Option<ObjectIx> {
        if let Some(known) = self.subscribers.get(&target) {
            return *known;
        }
        let found = self.found_in(target);
        self.subscribers.insert(target, found);
        found
    }

    fn found_in(&self, target: ObjectIx) -> Option<ObjectIx> {
        let graph = self.looked.graph;
        let name = &graph.type_of(target).name;
        let Some(within) = written_in(name) else { return Some(target) };
        if captures_nothing(name) {
            return None;
        }
        let within = self.names.get(within)?;
        let is_it = |at: TypeIx| self.numbers[at.0 as usize] == *within;
        graph.references(target).find(|captured| self.kinds.line(graph.type_ix(*captured)).any(is_it))
    }

    /// Counts a subscriber that another subscriber dominates, but does not add its size twice.
    fn summed(mut self) -> Subscriptions {
        let Looked { graph, tree, .. } = self.looked;
        let mut rows = BTreeMap::<Group, SubscriptionRow>::new();
        let (mut covered, mut retained) = (None::<Node>, 0);
        let mut room = MOST_NAMES;
        let mut named = |name: &str| {
            room = room.checked_sub(name.len().max(1))?;
            Some(name.to_owned())
        };
        for (node, group) in std::mem::take(&mut self.found) {
            let Some(object) = tree.object(node) else { continue };
            let (publisher, delegate, subscriber) = group;
            let row = rows.entry(group).or_insert_with(|| SubscriptionRow {
                publisher,
                events: match publisher {
                    Some(of) => self.declared.names(self.kinds, of, delegate).map_while(&mut named).collect(),
                    None => self.fields.remove(&group).unwrap_or_default().into_iter().collect(),
                },
                delegate,
                subscriber,
                count: 0,
                retained: 0,
                example: object,
            });
            row.count += 1;
            if tree.retained(node) > tree.retained(tree.node(row.example)) {
                row.example = object;
            }
            if covered.is_none_or(|covered| !tree.dominates(covered, node)) {
                covered = Some(node);
                row.retained += tree.retained(node);
                retained += tree.retained(node);
            }
        }
        let mut rows: Vec<SubscriptionRow> = rows.into_values().collect();
        let key = |row: &SubscriptionRow| (Reverse(row.retained), Reverse(row.count), graph.address(row.example));
        rows.sort_by_key(key);
        Subscriptions { rows, retained }
    }
}
