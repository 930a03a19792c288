//! Objects that an event alone keeps alive: they have subscribed, and never unsubscribed.
//!
//! A subscriber is told of only if all ways to it lead through the delegate in which its publisher keeps its handlers: if it were let go of,
//! the subscriber would go. What a subscriber owns goes with it, its own publisher for instance, and is no finding: it is not kept by it.
//! Lambdas that captured nothing, and those that captured no object that they were written in, are not told of either.
//! A delegate is that of an event if the publisher declares an event of its type: which field it stands in is not in a graph.

use super::Looked;
use super::delegates::Delegates;
use super::kinds::{Kinds, bare, captures_nothing, written_in};
use crate::dominators::Node;
use crate::graph::{HeapGraph, ObjectIx};
use crate::root::RootKind;
use crate::types::{Event, TypeIx};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Of a delegate in a static field nobody says whether it is an event's: by this ending of its type's name it most probably is.
const HANDLER: &str = "EventHandler";

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// Those by which most would be freed come first.
    pub rows: Vec<SubscriptionRow>,
    /// What would be freed by all of them together.
    pub retained: u64,
}

/// Subscribers of one type to one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// Whose event it is; `None` if the delegate is in a static field.
    pub publisher: Option<TypeIx>,
    /// The names of its events that it may be; of static fields their whole names, where these are known.
    pub events: Vec<String>,
    /// The type of the delegate.
    pub delegate: TypeIx,
    /// The subscribers.
    pub subscriber: TypeIx,
    /// How many there are.
    pub count: u64,
    /// What would go with them.
    pub retained: u64,
    /// One of them: that which keeps most.
    pub example: ObjectIx,
}

/// What subscribers are counted by.
type Group = (Option<TypeIx>, TypeIx, TypeIx);

/// What the definition of a type is called.
fn definition(graph: &HeapGraph, of: TypeIx) -> String {
    let name = bare(&graph.type_at(of).name);
    match graph.facts(of).arguments.len() {
        0 => name,
        arguments => format!("{name}`{arguments}"),
    }
}

/// Looks for them.
struct Search<'a> {
    looked: Looked<'a>,
    kinds: Kinds<'a>,
    delegates: &'a Delegates<'a>,
    /// For each type of delegate, what its definition is called.
    definitions: BTreeMap<TypeIx, String>,
    /// Each subscriber once, in the order of the tree.
    found: BTreeMap<Node, Group>,
    /// What the static fields are called whose delegates these are.
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

    /// Delegates that are held by nothing but static fields: those that are known, or the arrays in which they are kept.
    fn statics(&mut self) {
        let graph = self.looked.graph;
        let known = graph.roots().iter().filter(|root| root.kind == RootKind::Static).map(|root| root.object);
        let in_arrays = self.kinds.statics().flat_map(|array| graph.references(array));
        let delegates: BTreeSet<ObjectIx> = known.chain(in_arrays).collect();
        for delegate in delegates {
            let kind = graph.type_ix(delegate);
            if self.definitions.get(&kind).is_some_and(|name| name.trim_end_matches("`1").ends_with(HANDLER)) {
                self.handlers(delegate, None);
            }
        }
    }

    /// The events of a type, its own and inherited ones, that have delegates of this type.
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

    /// Who has subscribed: the object whose method is called, or for a lambda the captured one that it was written in.
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

    /// A subscriber below another one goes with it, and is counted, but not added up.
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
