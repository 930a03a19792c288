//! Objects that only an event keeps alive: they subscribed and never unsubscribed.
//!
//! A subscriber is reported only if its publisher's delegate dominates it: without the delegate, the subscriber would be garbage.
//! Objects that a subscriber owns, its own publisher for instance, are no finding.
//! Lambdas that captured nothing are not reported, nor are those that did not capture their enclosing object.
//! A delegate belongs to an event if the publisher declares an event of its type: the graph does not record fields.

use super::Looked;
use super::delegates::Delegates;
use super::kinds::{Kinds, bare, captures_nothing, written_in};
use crate::dominators::Node;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::root::RootKind;
use crate::types::{Event, TypeIx};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A delegate in a static field may not be an event's. A type name with this suffix, or several handlers, make it probable.
const HANDLER: &str = "EventHandler";

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
        let mut search =
            Search { looked, kinds, delegates, definitions, found: BTreeMap::new(), fields: BTreeMap::new() };
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
                if self.delegates.is_type(kind) && !self.events(of, kind).is_empty() {
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
            if name.trim_end_matches("`1").ends_with(HANDLER) || self.delegates.called(delegate).len() > 1 {
                self.handlers(delegate, None);
            }
        }
    }

    /// The events of a type, declared or inherited, with this delegate type.
    fn events(&self, publisher: TypeIx, delegate: TypeIx) -> Vec<String> {
        let Some(definition) = self.definitions.get(&delegate) else { return Vec::new() };
        let declared = self.kinds.line(publisher).flat_map(|at| &self.looked.graph.facts(at).events);
        declared.filter(|Event { delegate, .. }| delegate == definition).map(|event| event.name.clone()).collect()
    }

    fn handlers(&mut self, delegate: ObjectIx, publisher: Option<(ObjectIx, TypeIx)>) {
        let Looked { graph, tree, .. } = self.looked;
        let above = tree.node(delegate);
        for handler in self.delegates.called(delegate) {
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
    fn subscriber(&self, target: ObjectIx) -> Option<ObjectIx> {
        let graph = self.looked.graph;
        let name = &graph.type_of(target).name;
        let Some(within) = written_in(name) else { return Some(target) };
        if captures_nothing(name) {
            return None;
        }
        graph
            .references(target)
            .find(|captured| self.kinds.line(graph.type_ix(*captured)).any(|at| graph.type_at(at).name == within))
    }

    /// Counts a subscriber that another subscriber dominates, but does not add its size twice.
    fn summed(mut self) -> Subscriptions {
        let Looked { graph, tree, .. } = self.looked;
        let mut rows = BTreeMap::<Group, SubscriptionRow>::new();
        let (mut covered, mut retained) = (None::<Node>, 0);
        for (node, group) in std::mem::take(&mut self.found) {
            let Some(object) = tree.object(node) else { continue };
            let (publisher, delegate, subscriber) = group;
            let row = rows.entry(group).or_insert_with(|| SubscriptionRow {
                publisher,
                events: match publisher {
                    Some(of) => self.events(of, delegate),
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
