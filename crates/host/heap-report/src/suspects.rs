//! Suspects, as text and JSON: who holds much of the heap, the event or collection where it accumulates, and what accumulates there.

use crate::long_paths::{JSON, middle_within};
use crate::reached::Reached;
use crate::roots;
use remora_heap::findings::{SubscriptionRow, Subscriptions};
use remora_heap::suspects::{self, Content, Suspect};
use remora_heap::{Allowance, DominatorTree, HeapGraph, Node, ObjectIx, RootKind};
use remora_heap_file::State;
use remora_profile::ApplicationRule;
use remora_terminal::size::shown;
use remora_terminal::{Page, Table, counted, grouped, line, percent};
use serde::Serialize;
use std::collections::HashSet;

/// The arrays in which the runtime keeps static fields that it does not report.
const STATICS: &str = "System.Object[]";
/// So many owners of lists are named; in JSON.
const OWNERS_JSON: usize = 100;
/// In text.
const OWNERS: usize = 3;

/// An object, as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct PlaceJson {
    pub(crate) address: u64,
    r#type: String,
    /// The root's kind and details; null if no root was seen.
    held_by: Option<String>,
}

/// A suspect, as JSON. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
pub(crate) struct SuspectJson {
    /// The number of objects that keep the rest alive.
    holders: u64,
    /// The one with the largest retained size.
    holder: PlaceJson,
    /// The array that refers to all holders, if each of them alone keeps much.
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<PlaceJson>,
    /// The static field that holds the only holder or the array, and the array or collection in that field.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_through: Option<ThroughJson>,
    /// The only holder, or the array, may have no root of its own: then a shortest path to it from a known root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path_from_root: Option<PathFromRootJson>,
    /// The owners of linked lists that the holders form, most elements first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lists: Vec<ListJson>,
    /// What probably holds the only holder, in words, if no known root reaches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) probably_held_by: Option<&'static str>,
    /// The command whose snapshot would name that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name_it_by: Option<String>,
    retained: u64,
    retained_count: u64,
    /// From the only holder to the place where it accumulates.
    path: Vec<PlaceJson>,
    /// Objects of a long path that are left out in its middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_left_out: Option<usize>,
    /// The event where it accumulates, if it is one; several if the snapshot does not show which.
    event: Option<String>,
    /// The collection or other object where it accumulates.
    place: Option<PlaceJson>,
    accumulates: Option<ContentJson>,
    /// Other objects that keep it alive, too.
    referred_from: Vec<ReferrerJson>,
}

#[derive(Debug, Serialize)]
struct ThroughJson {
    /// `static App.Cache.entries`.
    root: String,
    #[serde(flatten)]
    through: PlaceJson,
}

#[derive(Debug, Serialize)]
pub(crate) struct PathFromRootJson {
    /// `stack in App.Program.Main()`.
    pub(crate) root: String,
    /// The last one is the holder or the array.
    pub(crate) objects: Vec<PlaceJson>,
    /// Objects of a long path that are left out in its middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects_left_out: Option<usize>,
}

#[derive(Debug, Serialize)]
struct ListJson {
    #[serde(flatten)]
    owner: PlaceJson,
    /// Number of its elements among the holders.
    elements: u64,
}

#[derive(Debug, Serialize)]
struct ContentJson {
    r#type: String,
    count: u64,
    bytes: u64,
    retained: u64,
}

#[derive(Debug, Serialize)]
struct ReferrerJson {
    #[serde(flatten)]
    object: PlaceJson,
    references: u64,
}

/// Whether each type belongs to the application.
pub(crate) fn application(graph: &HeapGraph) -> Vec<bool> {
    graph.types().iter().map(|of| of_application(&of.assembly, &of.name)).collect()
}

/// Whether a type belongs to the application.
pub(crate) fn of_application(assembly: &str, name: &str) -> bool {
    ApplicationRule::default().includes_type(assembly, name)
}

/// The suspects of a snapshot.
pub(crate) struct Suspects<'a> {
    pub(crate) graph: &'a HeapGraph,
    pub(crate) tree: &'a DominatorTree,
    pub(crate) state: &'a State,
    pub(crate) subscriptions: &'a Subscriptions,
    pub(crate) all: &'a [Suspect],
}

impl Suspects<'_> {
    /// A sentence for each, largest first.
    pub(crate) fn sentences(&self) -> Vec<String> {
        self.all.iter().map(|suspect| self.sentence(suspect)).collect()
    }

    fn sentence(&self, suspect: &Suspect) -> String {
        let part = percent(suspect.retained, self.tree.retained(self.tree.root()));
        let (bytes, objects) = (shown(suspect.retained), counted(suspect.retained_count, "object"));
        let mut text = format!("{} {part} of the heap: {bytes} in {objects}", self.holders(suspect));
        if let Some(pile) = suspect.way.last().filter(|_| suspect.way.len() > 1) {
            text += &format!("; it accumulates under {}", object(self.graph, *pile));
        }
        if let Some(content) = &suspect.content {
            let (of, bytes) = (self.graph.shown_type(content.of), shown(content.bytes));
            text += &match content.count {
                1 => format!(", mostly one {of} ({bytes} of its own)"),
                many => format!(", mostly {} objects of {of} ({bytes} of their own)", grouped(many)),
            };
        }
        text
    }

    /// `App.Cache (at 0x7f0012345678) keeps`, `1,774 objects of App.Order keep`.
    fn holders(&self, suspect: &Suspect) -> String {
        match suspect.holders[..] {
            [one] => format!("{} keeps", object(self.graph, one)),
            [first, ..] => {
                format!("{} objects of {} keep", grouped(suspect.holders.len() as u64), self.graph.shown_type_of(first))
            }
            [] => String::new(),
        }
    }

    pub(crate) fn json(&self) -> Vec<SuspectJson> {
        let (allowance, reached) = (Allowance::new(Allowance::VALUES), self.reached());
        self.all.iter().filter_map(|suspect| self.suspect_json(suspect, &reached, &allowance)).collect()
    }

    /// Why suspects and owners of lists without a root of their own are alive.
    fn reached(&self) -> Reached {
        let held = self.all.iter().filter_map(|suspect| self.held_by_unknown(suspect)).collect();
        let owners = self.all.iter().flat_map(|suspect| suspect.owners.iter().take(OWNERS));
        Reached::of(self.graph, &held, owners.map(|(owner, _)| *owner))
    }

    fn suspect_json(&self, suspect: &Suspect, reached: &Reached, allowance: &Allowance) -> Option<SuspectJson> {
        let place = suspect.place(self.graph);
        let held = self.held_by_unknown(suspect);
        let through = held.and_then(|held| reached.fields.get(&held));
        let from_root = held.and_then(|held| reached.paths.get(&held)).map(|(root, path)| {
            let (objects, left_out) = self.path_json(path, allowance);
            PathFromRootJson {
                root: root.clone(),
                objects,
                objects_left_out: Some(left_out).filter(|count| *count > 0),
            }
        });
        let held = held.filter(|_| through.is_none() && from_root.is_none());
        let (path, left_out) = self.path_json(&suspect.way, allowance);
        Some(SuspectJson {
            holders: suspect.holders.len() as u64,
            holder: self.place_json(*suspect.holders.first()?),
            array: suspect.array.map(|array| self.place_json(array)),
            held_through: through
                .map(|path| ThroughJson { root: path.root.clone(), through: self.place_json(path.through) }),
            path_from_root: from_root,
            lists: suspect
                .owners
                .iter()
                .take(OWNERS_JSON)
                .map(|(owner, elements)| ListJson { owner: self.place_json(*owner), elements: *elements })
                .collect(),
            probably_held_by: held.map(|held| self.unknown_root(held)),
            name_it_by: held.and_then(|held| self.command_for(held)),
            retained: suspect.retained,
            retained_count: suspect.retained_count,
            path,
            path_left_out: Some(left_out).filter(|count| *count > 0),
            event: place.and_then(|place| self.event(suspect, place)),
            place: place.map(|place| self.place_json(place)),
            accumulates: suspect.content.map(|content| ContentJson {
                r#type: self.graph.shown_type(content.of).into_owned(),
                count: content.count,
                bytes: content.bytes,
                retained: content.retained,
            }),
            referred_from: suspect
                .referrers
                .iter()
                .map(|(object, references)| ReferrerJson { object: self.place_json(*object), references: *references })
                .collect(),
        })
    }

    /// A path, and the number of objects left out in its middle.
    fn path_json(&self, way: &[ObjectIx], allowance: &Allowance) -> (Vec<PlaceJson>, usize) {
        let name = |place: usize| &*self.graph.type_of(way[place]).name;
        let hidden = middle_within(way.len(), JSON, allowance, name);
        let shown: Vec<ObjectIx> = [&way[..hidden.start], &way[hidden.end..]].concat();
        let objects: HashSet<ObjectIx> = shown.iter().copied().collect();
        let mut roots = roots::holders_of(self.graph, |object| objects.contains(&object));
        let place = |object: ObjectIx| PlaceJson {
            address: self.graph.address(object),
            r#type: self.graph.shown_type_of(object).into_owned(),
            held_by: roots.remove(&object),
        };
        (shown.into_iter().map(place).collect(), hidden.len())
    }

    fn place_json(&self, object: ObjectIx) -> PlaceJson {
        PlaceJson {
            address: self.graph.address(object),
            r#type: self.graph.shown_type_of(object).into_owned(),
            held_by: roots::holder(self.graph, object),
        }
    }

    /// As text, a block for each.
    pub(crate) fn text(&self) -> Page {
        let reached = self.reached();
        self.all.iter().map(|suspect| line("") + self.block(suspect, &reached)).sum()
    }

    fn block(&self, suspect: &Suspect, reached: &Reached) -> Page {
        let part = percent(suspect.retained, self.tree.retained(self.tree.root()));
        let (bytes, objects) = (shown(suspect.retained), counted(suspect.retained_count, "object"));
        let mut table = Table::new(&["suspect", &format!("{part} of the heap: {bytes} in {objects}")]);
        let mut row = |label: &str, text: String| table.row([label.to_owned(), text]);
        if let [one] = suspect.holders[..] {
            self.held_by(one, reached, &mut row);
            row(self.label(one, "object"), object(self.graph, one));
        } else if let Some(first) = suspect.holders.first() {
            let several = format!("{} × {}", grouped(suspect.holders.len() as u64), self.graph.shown_type_of(*first));
            match suspect.array {
                Some(array) => {
                    self.held_by(array, reached, &mut row);
                    row("objects", format!("{several}, in {}", object(self.graph, array)));
                }
                None if suspect.owners.is_empty() => row("objects", format!("{several}, each kept by several")),
                None => row("objects", format!("{several}, in a linked list")),
            }
        }
        for (owner, elements) in suspect.owners.iter().take(OWNERS) {
            let root =
                reached.root_of(self.graph, self.tree, *owner).map(|root| format!(", {root}")).unwrap_or_default();
            row("list of", format!("{}{root}: {} of them", object(self.graph, *owner), grouped(*elements)));
        }
        match suspect.owners.len().saturating_sub(OWNERS) as u64 {
            0 => {}
            others => row("list of", format!("and {}", counted(others, "other"))),
        }
        if let Some(place) = suspect.place(self.graph) {
            match self.event(suspect, place) {
                Some(event) => row("event", event),
                None if suspect.holders.first() != Some(&place) => {
                    row(self.label(place, "under"), object(self.graph, place))
                }
                None => {}
            }
        }
        if let Some(Content { of, count, bytes, retained }) = suspect.content {
            // One large object, or a small part of many, does not accumulate.
            let label = if count > 1 && retained >= suspect.retained / 2 { "accumulates" } else { "mostly" };
            let (count, of) = (grouped(count), self.graph.shown_type(of));
            row(label, format!("{count} × {of}: {}, retained {}", shown(bytes), shown(retained)));
        }
        for (by, references) in &suspect.referrers {
            let root = roots::holder(self.graph, *by).map(|root| format!(", {root}")).unwrap_or_default();
            let references = counted(*references, "reference");
            row("referred by", format!("{}{root}: {references}", object(self.graph, *by)));
        }
        table.render()
    }

    /// What holds an object, and how to find out.
    fn held_by(&self, held: ObjectIx, reached: &Reached, row: &mut impl FnMut(&str, String)) {
        let root = reached.root_of(self.graph, self.tree, held);
        let is_known = root.is_some();
        row("held by", root.unwrap_or_else(|| self.unknown_root(held).to_owned()));
        if let Some(command) = self.command_for(held).filter(|_| !is_known) {
            row("name it by", command);
        }
    }

    fn label(&self, object: ObjectIx, otherwise: &'static str) -> &'static str {
        if self.graph.type_of(object).name.starts_with("System.Collections.") { "collection" } else { otherwise }
    }

    /// What may hold an object without a known root.
    fn unknown_root(&self, held: ObjectIx) -> &'static str {
        match () {
            () if self.state.has_garbage => "nothing that is known: it may be garbage",
            () if self.is_of_statics(held) => "probably a static field of a generic type: its name is not known",
            () if !self.may_be_local(held) => "a root of unknown kind",
            () if self.state.has_static_fields => "a local variable or a handle",
            () => "a static field, a local variable or a handle",
        }
    }

    /// The only holder, or the array of several, if no root of it was seen.
    fn held_by_unknown(&self, suspect: &Suspect) -> Option<ObjectIx> {
        let one = match suspect.holders[..] {
            [one] => one,
            _ => suspect.array?,
        };
        roots::holder(self.graph, one).is_none().then_some(one)
    }

    /// The command that would name what holds an object without a known root.
    fn command_for(&self, held: ObjectIx) -> Option<String> {
        self.may_be_local(held).then(|| format!("remora heap -p {} --roots", self.state.process_id))
    }

    /// Whether `--roots` would name what holds an object without a known root.
    fn may_be_local(&self, held: ObjectIx) -> bool {
        let has_locals = self.graph.roots().iter().any(|root| root.kind == RootKind::Stack);
        !has_locals && !self.state.has_garbage && !self.is_of_statics(held)
    }

    fn is_of_statics(&self, held: ObjectIx) -> bool {
        self.graph.type_of(held).name == STATICS
    }

    /// The event whose delegate is at `place`: `App.Shop.Changed`.
    pub(crate) fn event(&self, suspect: &Suspect, place: ObjectIx) -> Option<String> {
        let of = |object: ObjectIx| self.graph.type_ix(object);
        let before = suspect.way.iter().position(|object| *object == place)?.checked_sub(1);
        let publisher = before.map(|publisher| of(suspect.way[publisher]));
        let field = self.graph.root_note(place, RootKind::Static);
        let is_held = |row: &&SubscriptionRow| match row.publisher {
            Some(_) => row.publisher == publisher,
            None => field.is_none_or(|field| row.events.iter().any(|event| event == field)),
        };
        let mut rows = self.subscriptions.rows.iter().filter(|row| row.delegate == of(place));
        rows.find(is_held).map(|row| event(self.graph, row))
    }
}

/// `App.Shop.Changed`; for an unnamed static field the delegate's type.
pub(crate) fn event(graph: &HeapGraph, row: &SubscriptionRow) -> String {
    let name = |of| graph.shown_type(of);
    match row.publisher {
        Some(publisher) => format!("{}.{}", name(publisher), row.events.join("|")),
        None if row.events.is_empty() => format!("a static {}", name(row.delegate)),
        None => format!("static {}", row.events.join("|")),
    }
}

/// `MyApp.Cache (at 0x7f0012345678)`.
pub(crate) fn object(graph: &HeapGraph, object: ObjectIx) -> String {
    format!("{} (at {:#x})", graph.shown_type_of(object), graph.address(object))
}

/// The same for a node.
pub(crate) fn name(graph: &HeapGraph, tree: &DominatorTree, node: Node) -> Option<String> {
    tree.object(node).map(|of| object(graph, of))
}

/// The suspects of a snapshot.
pub(crate) fn find(graph: &HeapGraph, tree: &DominatorTree) -> Vec<Suspect> {
    suspects::suspects(graph, tree, &application(graph))
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_heap::{ArrayFacts, Builder, Object, Place, RootKind, Type, TypeFacts, TypeFlags, TypeIx};

    /// A root with a chain of `nodes` nodes, each with a leaf of its own.
    fn chain(nodes: u64) -> HeapGraph {
        let mut builder = Builder::new();
        let mut of = |name: &str| {
            let flags = TypeFlags::default();
            builder.add_type(Type { name: name.into(), assembly: "Known".into(), flags }).expect("there is room")
        };
        let (holder, node, leaf) = (of("Known.Holder"), of("Known.Node"), of("Known.Leaf"));
        let mut add = |address, type_ix, bytes, references: &[u64]| {
            builder.add_object(Object { address, type_ix, bytes }, references.iter().copied()).expect("there is room");
        };
        add(0x1000, holder, 24, &[0x10000]);
        for index in 0..nodes {
            let next = if index + 1 < nodes { 0x10000 + (index + 1) * 64 } else { 0 };
            add(0x10000 + index * 64, node, 32, &[next, 0x10020 + index * 64]);
            add(0x10020 + index * 64, leaf, 24, &[]);
        }
        builder.add_root(0x1000, RootKind::Static).expect("there is room");
        builder.finish().expect("there is room")
    }

    fn json(graph: &HeapGraph) -> Vec<SuspectJson> {
        let tree = DominatorTree::new(graph);
        let (state, subscriptions, all) = (State::default(), Subscriptions::default(), find(graph, &tree));
        Suspects { graph, tree: &tree, state: &state, subscriptions: &subscriptions, all: &all }.json()
    }

    fn sentences(graph: &HeapGraph) -> Vec<String> {
        let tree = DominatorTree::new(graph);
        let (state, subscriptions, all) = (State::default(), Subscriptions::default(), find(graph, &tree));
        Suspects { graph, tree: &tree, state: &state, subscriptions: &subscriptions, all: &all }.sentences()
    }

    #[test]
    fn a_long_list_piles_up_at_its_owner_as_the_many_that_it_is_made_of() {
        let graph = chain(1000);
        let tree = DominatorTree::new(&graph);
        let sentences = sentences(&graph);
        assert_eq!(sentences.len(), 1);
        assert!(
            sentences[0].starts_with("Known.Holder (at 0x1000) keeps 100.0% of the heap: 54.7 KiB in 2,001 objects")
        );
        let pile = find(&graph, &tree)[0].way.last().map(|pile| graph.address(*pile));
        assert_eq!(pile, Some(0x1000), "the owner of the list");
        assert!(sentences[0].contains("objects of Known.Node"), "{}", sentences[0]);
    }

    /// Objects of this type, each of which holds the next one; the last one is large.
    fn path_to_a_large_object(objects: u64, name: &str) -> HeapGraph {
        let mut builder = Builder::new();
        let of = Type { name: name.into(), assembly: "App".into(), flags: TypeFlags::default() };
        let type_ix = builder.add_type(of).expect("there is room");
        for index in 0..objects {
            let next = (index + 1 < objects).then_some(0x1000 + (index + 1) * 24);
            let bytes = if next.is_none() { 1 << 40 } else { 24 };
            builder.add_object(Object { address: 0x1000 + index * 24, type_ix, bytes }, next).expect("there is room");
        }
        builder.add_root(0x1000, RootKind::Static).expect("there is room");
        builder.finish().expect("there is room")
    }

    #[test]
    fn regression_the_path_of_a_suspect_had_all_objects_of_a_long_list() {
        let suspects = json(&path_to_a_large_object(100_000, "App.Node"));
        let [SuspectJson { path, path_left_out, .. }] = &suspects[..] else { panic!("one suspect") };
        assert_eq!((path.len(), *path_left_out), (10_000, Some(90_000)));
        let [first, last] = [0, 9999].map(|place| (path[place].address, path[place].held_by.as_deref()));
        assert_eq!([first, last], [(0x1000, Some("static")), (0x1000 + 99_999 * 24, None)]);
        let short = json(&path_to_a_large_object(10_000, "App.Node"));
        assert_eq!((short[0].path.len(), short[0].path_left_out), (10_000, None));
    }

    #[test]
    fn regression_the_type_name_of_a_long_list_was_repeated_for_each_object_on_the_path_of_a_suspect() {
        let suspects = json(&path_to_a_large_object(10_000, &"N".repeat(16 << 10)));
        let SuspectJson { path, path_left_out, .. } = &suspects[0];
        let bytes: usize = path.iter().map(|place| place.r#type.len()).sum();
        assert!((60 << 20..=Allowance::VALUES).contains(&bytes), "{bytes} bytes of names");
        assert_eq!(*path_left_out, Some(10_000 - path.len()));
    }

    /// Two queues in an array, each with much, which something else holds, too.
    fn queues() -> HeapGraph {
        let mut builder = Builder::new();
        for name in ["App.Queue", "App.Queue[]", "App.Session"] {
            let is_array = name.ends_with("[]");
            let flags = if is_array { TypeFlags::ARRAY } else { TypeFlags::default() };
            let index = builder.add_type(Type { name: name.into(), assembly: "App".into(), flags }).expect("room");
            let array = is_array.then_some(ArrayFacts { element: None, place: Place::Reference, rank: 1 });
            builder.describe_type(index, TypeFacts { array, ..TypeFacts::default() }).expect("room");
        }
        let mut add = |address, of, bytes, references: &[u64]| {
            let object = Object { address, type_ix: TypeIx(of), bytes };
            builder.add_object(object, references.iter().copied()).expect("room");
        };
        add(0x1000, 1, 40, &[0x2000, 0x3000]);
        for queue in [0x2000, 0x3000] {
            add(queue, 0, 24, &[queue + 0x100, queue + 0x200]);
            add(queue + 0x100, 2, 1000, &[]);
            add(queue + 0x200, 2, 1000, &[]);
        }
        builder.add_root(0x1000, RootKind::Static).expect("room");
        [0x2000, 0x3000].iter().for_each(|held| builder.add_root(*held, RootKind::Inferred).expect("room"));
        let mut graph = builder.finish().expect("room");
        graph.note_root(remora_heap::ObjectIx(0), RootKind::Static, "App.Queue.All".to_owned());
        graph
    }

    #[test]
    fn a_static_field_that_holds_through_an_array_is_named_and_nobody_is_sent_to_look_for_roots() {
        let graph = queues();
        let tree = DominatorTree::new(&graph);
        let (state, subscriptions, all) = (State::default(), Subscriptions::default(), find(&graph, &tree));
        let suspects = Suspects { graph: &graph, tree: &tree, state: &state, subscriptions: &subscriptions, all: &all };
        let text = suspects.text().to_string();
        assert!(text.contains("held by      static App.Queue.All\n"), "{text}");
        assert!(text.contains("objects      2 × App.Queue, in App.Queue[] (at 0x1000)\n"), "{text}");
        assert!(!text.contains("name it by"), "{text}");
        // Each of them alone, as if the other were small.
        let one = Suspect { holders: vec![all[0].holders[0]], array: None, ..all[0].clone() };
        let suspects = Suspects { all: &[one], ..suspects };
        let text = suspects.text().to_string();
        assert!(text.contains("held by      static App.Queue.All, through App.Queue[]\n"), "{text}");
        assert!(!text.contains("name it by"), "{text}");
        let json = suspects.json();
        let through = json[0].held_through.as_ref().map(|held| (held.root.as_str(), held.through.address));
        assert_eq!(through, Some(("static App.Queue.All", 0x1000)));
        assert_eq!((json[0].probably_held_by, &json[0].name_it_by), (None, &None));
    }

    #[test]
    fn one_object_is_not_called_objects() {
        let text = sentences(&chain(1)).pop().unwrap_or_default();
        assert!(text.ends_with(", mostly one Known.Node (32 B of its own)"), "{text}");
    }

    #[test]
    fn who_holds_little_is_no_suspect() {
        let mut builder = Builder::new();
        for index in 1..=20_u64 {
            let object = Object { address: index * 64, type_ix: remora_heap::TypeIx(0), bytes: 24 };
            builder.add_object(object, []).expect("there is room");
            builder.add_root(index * 64, RootKind::Handle).expect("there is room");
        }
        let graph = builder.finish().expect("there is room");
        assert_eq!(sentences(&graph), Vec::<String>::new());
    }
}
