//! What is found in graphs that were made by hand, to the last number, and what is not.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use remora_heap::findings::{FieldValues, Findings, Looked, NoValues, Wanted};
use remora_heap::{
    ArrayFacts, Builder, DominatorTree, Event, HeapGraph, Object, ObjectIx, Place, RootKind, Type, TypeFacts,
    TypeFlags, TypeIx, tables,
};
use std::collections::HashMap;

const CORE: &str = "System.Private.CoreLib";
/// Where the first object lies, and how far one is from the next.
const BASE: u64 = 0x1000;
const APART: u64 = 0x10_0000;

/// A heap in the making.
struct World {
    builder: Builder,
    types: HashMap<&'static str, TypeIx>,
    objects: Vec<(TypeIx, u64, Vec<u64>)>,
}

impl World {
    /// With the classes that the runtime's others derive from.
    fn new() -> World {
        let mut world = World { builder: Builder::new(), types: HashMap::new(), objects: Vec::new() };
        world.class("System.Object", CORE, None, &[]);
        for (name, base) in [
            ("System.ValueType", "System.Object"),
            ("System.MulticastDelegate", "System.Object"),
            ("System.Int32", "System.ValueType"),
            ("System.EventHandler", "System.MulticastDelegate"),
        ] {
            world.class(name, CORE, Some(base), &[]);
        }
        world.array("System.Object[]", CORE, Place::Reference);
        world.array("System.Int32[]", CORE, Place::Value(Some(4)));
        world
    }

    fn add(&mut self, name: &'static str, assembly: &str, flags: TypeFlags, facts: TypeFacts) -> TypeIx {
        let index = self.builder.add_type(Type { name: name.into(), assembly: assembly.into(), flags }).unwrap();
        self.builder.describe_type(index, facts).unwrap();
        self.types.insert(name, index);
        index
    }

    fn class(&mut self, name: &'static str, assembly: &str, base: Option<&str>, arguments: &[&str]) -> TypeIx {
        let base = base.map(|base| self.types[base]);
        let arguments = arguments.iter().map(|name| self.types[name]).collect();
        self.add(name, assembly, TypeFlags::default(), TypeFacts { base, arguments, ..TypeFacts::default() })
    }

    /// One of the program's own, which derives from nothing else.
    fn own(&mut self, name: &'static str) -> TypeIx {
        self.class(name, "App", Some("System.Object"), &[])
    }

    fn array(&mut self, name: &'static str, assembly: &str, place: Place) -> TypeIx {
        let array = Some(ArrayFacts { element: None, place, rank: 1 });
        self.add(name, assembly, TypeFlags::ARRAY, TypeFacts { array, ..TypeFacts::default() })
    }

    /// An object, by its number, that refers to others by theirs; they may come later.
    fn object(&mut self, of: &str, bytes: u64, references: &[u64]) -> u64 {
        self.objects.push((self.types[of], bytes, references.to_vec()));
        self.objects.len() as u64 - 1
    }

    /// An array of so many places of so many bytes.
    fn filled(&mut self, of: &str, (places, each): (u64, u64), references: &[u64]) -> u64 {
        self.object(of, 24 + places * each, references)
    }

    fn leaf(&mut self, of: &str) -> u64 {
        self.object(of, 24, &[])
    }

    fn root(&mut self, object: u64, kind: RootKind) {
        self.builder.add_root(address(object), kind).unwrap();
    }

    fn graph(mut self) -> HeapGraph {
        for (number, (type_ix, bytes, references)) in self.objects.into_iter().enumerate() {
            let object = Object { address: address(number as u64), type_ix, bytes };
            self.builder.add_object(object, references.into_iter().map(address)).unwrap();
        }
        self.builder.finish().unwrap()
    }
}

fn address(number: u64) -> u64 {
    BASE + number * APART
}

/// What fields hold: by type, name and object.
struct Known<'a>(&'a HeapGraph, Vec<(&'static str, u64, i64)>);

impl FieldValues for Known<'_> {
    fn are_known(&self) -> bool {
        true
    }

    fn place_bytes(&self, _: TypeIx) -> Option<u32> {
        Some(16)
    }

    fn integers(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, ObjectIx, i64)) {
        for (field, object, number) in &self.1 {
            let object = ObjectIx(*object as u32);
            let is_it = |wish: &Wanted| wish.type_ix == self.0.type_ix(object) && wish.field == *field;
            if let Some(which) = wanted.iter().position(is_it) {
                found(which, object, *number);
            }
        }
    }
}

fn found(graph: &HeapGraph, values: &dyn FieldValues) -> Findings {
    let tree = DominatorTree::new(graph);
    let rows = tables::by_type(graph, &tree);
    Findings::new(Looked { graph, tree: &tree, rows: &rows, values })
}

fn name(graph: &HeapGraph, index: TypeIx) -> &str {
    &graph.type_at(index).name
}

#[test]
fn arrays_are_found_whose_greater_part_is_empty() {
    let mut world = World::new();
    world.own("App.Node");
    world.array("App.Node[]", "App", Place::Reference);
    world.array("App.Value[]", "App", Place::Value(None));
    let node = world.leaf("App.Node");
    let holder = world.own("App.Holder");
    assert_eq!(holder, world.types["App.Holder"]);
    let nodes = |count: usize| vec![node; count];
    let arrays = [
        world.filled("App.Node[]", (100, 8), &nodes(10)),
        world.filled("App.Node[]", (16, 8), &nodes(7)),
        // Half full, nearly as small as can be, and one whose places are no references.
        world.filled("App.Node[]", (16, 8), &nodes(8)),
        world.filled("App.Node[]", (15, 8), &[]),
        world.filled("App.Value[]", (100, 8), &[]),
    ];
    let holder = world.object("App.Holder", 48, &arrays);
    // The runtime's own, for static fields, and one of the program's.
    let own = world.filled("System.Object[]", (50, 8), &[]);
    let statics = world.filled("System.Object[]", (1000, 8), &[holder, own]);
    world.root(statics, RootKind::Handle);
    let graph = world.graph();
    let arrays = found(&graph, &NoValues).arrays;
    let rows: Vec<_> = arrays
        .rows
        .iter()
        .map(|row| (name(&graph, row.type_ix), row.count, row.places, row.places - row.used, row.wasted))
        .collect();
    assert_eq!(rows, [("App.Node[]", 2, 116, 99, 99 * 8), ("System.Object[]", 1, 50, 50, 400)]);
    assert_eq!(arrays.wasted, 99 * 8 + 400);
    let worst: Vec<_> = arrays.worst.iter().map(|one| (one.object.0, one.places, one.places - one.used)).collect();
    assert_eq!(worst, [(1, 100, 90), (own as u32, 50, 50), (2, 16, 9)]);
}

/// A list of nodes, one of numbers, a dictionary from numbers to nodes, and something that is called like a list.
fn collections() -> HeapGraph {
    let mut world = World::new();
    world.own("App.Node");
    world.array("App.Node[]", "App", Place::Reference);
    world.array("App.Entry[]", "App", Place::Value(None));
    let list = "System.Collections.Generic.List<Node>";
    let dictionary = "System.Collections.Generic.Dictionary<int, Node>";
    world.class(list, CORE, Some("System.Object"), &["App.Node"]);
    world.class("System.Collections.Generic.List<int>", CORE, Some("System.Object"), &["System.Int32"]);
    world.class(dictionary, CORE, Some("System.Object"), &["System.Int32", "App.Node"]);
    world.class("App.Nodes", "App", Some(list), &[]);
    world.class("System.Collections.Generic.List<Other>", "App", Some("System.Object"), &["App.Node"]);
    let node = world.leaf("App.Node"); // 0
    let array = world.filled("App.Node[]", (100, 8), &[node; 3]); // 1
    world.object(list, 32, &[array]); // 2
    let array = world.filled("App.Node[]", (100, 8), &[node; 60]); // 3
    world.object(list, 32, &[array]); // 4
    let array = world.filled("App.Node[]", (40, 8), &[node]); // 5
    world.object("App.Nodes", 40, &[array]); // 6
    let array = world.filled("System.Int32[]", (1000, 4), &[]); // 7
    world.object("System.Collections.Generic.List<int>", 32, &[array]); // 8
    let buckets = world.filled("System.Int32[]", (107, 4), &[]); // 9
    let entries = world.filled("App.Entry[]", (107, 24), &[node; 5]); // 10
    world.object(dictionary, 80, &[buckets, entries]); // 11
    let array = world.filled("App.Node[]", (64, 8), &[]); // 12
    world.object("System.Collections.Generic.List<Other>", 32, &[array]); // 13
    world.object(list, 32, &[]); // 14
    world.graph()
}

#[track_caller]
fn assert_collections(graph: &HeapGraph, findings: &Findings, expected: &[(&str, u64, u64, u64, u64, bool)]) {
    let rows = findings.collections.waste.rows.iter();
    let rows: Vec<_> =
        rows.map(|row| (name(graph, row.type_ix), row.count, row.places, row.used, row.wasted, row.is_exact)).collect();
    assert_eq!(rows, expected);
    assert_eq!(findings.collections.waste.wasted, expected.iter().map(|row| row.4).sum::<u64>());
}

#[test]
fn collections_are_found_by_their_references_where_these_tell_and_no_array_is_found_twice() {
    let graph = collections();
    let findings = found(&graph, &NoValues);
    assert_collections(
        &graph,
        &findings,
        &[
            ("System.Collections.Generic.Dictionary<int, Node>", 1, 107, 5, 102 * (24 + 4), false),
            ("System.Collections.Generic.List<Node>", 1, 100, 3, 97 * 8, false),
            ("App.Nodes", 1, 40, 1, 39 * 8, false),
        ],
    );
    assert_eq!((findings.collections.not_judged, findings.collections.not_judged_bytes), (1, 4000));
    // That of what only has the name.
    assert_eq!(findings.arrays.worst.iter().map(|array| array.object.0).collect::<Vec<_>>(), [12]);
    assert_eq!(findings.collections.waste.worst[0].object.0, 11);
}

#[test]
fn what_fields_say_of_collections_is_believed_more_than_references() {
    let graph = collections();
    let values = [
        ("_size", 2, 90),
        ("_size", 4, 30),
        ("_size", 6, 2),
        ("_size", 8, 7),
        ("_count", 11, 50),
        ("_freeCount", 11, 10),
    ];
    let findings = found(&graph, &Known(&graph, values.to_vec()));
    assert_collections(
        &graph,
        &findings,
        &[
            ("System.Collections.Generic.List<int>", 1, 1000, 7, 993 * 4, true),
            ("System.Collections.Generic.Dictionary<int, Node>", 1, 107, 40, 67 * 28, true),
            ("System.Collections.Generic.List<Node>", 1, 100, 30, 70 * 8, true),
            ("App.Nodes", 1, 40, 2, 38 * 8, true),
        ],
    );
    assert_eq!(findings.collections.not_judged, 0);
}

/// Publisher, event, subscriber, count and retained bytes.
type Subscription = (Option<String>, Vec<String>, String, u64, u64);

/// A publisher and its handlers: what each test is about.
struct Events {
    world: World,
    publisher: u64,
}

/// Subscribers that one event alone keeps, and others.
fn events() -> Events {
    let mut world = World::new();
    for name in ["App.Subscriber", "App.Payload", "App.Keeper"] {
        world.own(name);
    }
    world.own("App.Subscriber.<>c__DisplayClass0_0");
    world.own("App.Subscriber.<>c");
    world.class("System.Action", CORE, Some("System.MulticastDelegate"), &[]);
    let object = Some(world.types["System.Object"]);
    let events = vec![Event { name: "Changed".into(), delegate: "System.EventHandler".into() }];
    world.add("App.Publisher", "App", TypeFlags::default(), TypeFacts { base: object, events, ..TypeFacts::default() });
    world.class("App.Derived", "App", Some("App.Publisher"), &[]);
    Events { world, publisher: 0 }
}

impl Events {
    /// A subscriber with a payload of its own.
    fn subscriber(&mut self) -> u64 {
        let payload = self.world.object("App.Payload", 1000, &[]);
        self.world.object("App.Subscriber", 24, &[payload])
    }

    /// A delegate that calls an object.
    fn handler(&mut self, of: &str, target: u64) -> u64 {
        self.world.object(of, 64, &[target])
    }

    /// One that calls several: it refers to itself, and to their list.
    fn several(&mut self, handlers: &[u64]) -> u64 {
        let list = self.world.filled("System.Object[]", (4, 8), handlers);
        let itself = list + 1;
        self.world.object("System.EventHandler", 64, &[itself, list])
    }

    fn publish(&mut self, of: &str, references: &[u64]) {
        self.publisher = self.world.object(of, 32, references);
        self.world.root(self.publisher, RootKind::Stack);
    }

    /// What is found, and the bytes of all together.
    fn found(self) -> (Vec<Subscription>, u64) {
        let graph = self.world.graph();
        let found = found(&graph, &NoValues).subscriptions;
        let named = |index: TypeIx| name(&graph, index).to_owned();
        let row = |row: &remora_heap::findings::SubscriptionRow| {
            (row.publisher.map(named), row.events.clone(), named(row.subscriber), row.count, row.retained)
        };
        (found.rows.iter().map(row).collect(), found.retained)
    }
}

fn changed(publisher: &str, count: u64, retained: u64) -> Subscription {
    (Some(publisher.into()), vec!["Changed".into()], "App.Subscriber".into(), count, retained)
}

#[test]
fn subscribers_of_one_and_of_several_are_found_also_by_an_inherited_event() {
    let mut one = events();
    let subscriber = one.subscriber();
    let handler = one.handler("System.EventHandler", subscriber);
    one.publish("App.Derived", &[handler]);
    assert_eq!(one.found(), (vec![changed("App.Derived", 1, 1024)], 1024));

    let mut two = events();
    let subscribers = [two.subscriber(), two.subscriber()];
    let handlers = subscribers.map(|subscriber| two.handler("System.EventHandler", subscriber));
    let several = two.several(&handlers);
    two.publish("App.Publisher", &[several]);
    assert_eq!(two.found(), (vec![changed("App.Publisher", 2, 2048)], 2048));
}

#[test]
fn who_has_subscribed_twice_counts_once_and_who_keeps_another_subscriber_is_not_added_up_twice() {
    let mut events = events();
    let inner = events.subscriber();
    let outer = events.world.object("App.Subscriber", 32, &[inner]);
    let handlers = [outer, outer, inner].map(|subscriber| events.handler("System.EventHandler", subscriber));
    let several = events.several(&handlers);
    events.publish("App.Publisher", &[several]);
    // Each of the two is kept by the event; the inner one by both of its ways.
    assert_eq!(events.found(), (vec![changed("App.Publisher", 2, 32 + 1024)], 32 + 1024));

    // The outer one has a publisher of its own, by which alone the inner one is kept.
    let mut nested = self::events();
    let inner = nested.subscriber();
    let handler = nested.handler("System.EventHandler", inner);
    let own = nested.world.object("App.Publisher", 32, &[handler]);
    let outer = nested.world.object("App.Subscriber", 32, &[own]);
    let handler = nested.handler("System.EventHandler", outer);
    nested.publish("App.Publisher", &[handler]);
    let all = 32 + 32 + 64 + 1024;
    assert_eq!(nested.found(), (vec![changed("App.Publisher", 2, all)], all));
}

#[test]
fn who_is_kept_otherwise_owns_its_publisher_or_is_no_events_is_not_found() {
    // Somebody else keeps it.
    let mut kept = events();
    let subscriber = kept.subscriber();
    let handler = kept.handler("System.EventHandler", subscriber);
    let keeper = kept.world.object("App.Keeper", 24, &[subscriber]);
    kept.world.root(keeper, RootKind::Stack);
    kept.publish("App.Publisher", &[handler]);
    assert_eq!(kept.found(), (vec![], 0));

    // It keeps its publisher, and nothing keeps that otherwise.
    let mut owner = events();
    let payload = owner.world.object("App.Payload", 1000, &[]);
    let (publisher, handler) = (payload + 2, payload + 3);
    let subscriber = owner.world.object("App.Subscriber", 32, &[payload, publisher]);
    owner.world.object("App.Publisher", 32, &[handler]);
    owner.handler("System.EventHandler", subscriber);
    owner.world.root(subscriber, RootKind::Stack);
    assert_eq!(owner.found(), (vec![], 0));

    // It publishes to itself.
    let mut itself = events();
    let handler = itself.handler("System.EventHandler", 1);
    itself.publish("App.Publisher", &[handler]);
    assert_eq!(itself.found(), (vec![], 0));

    // A callback, of which the publisher has no event.
    let mut callback = events();
    let subscriber = callback.subscriber();
    let handler = callback.handler("System.Action", subscriber);
    callback.publish("App.Publisher", &[handler]);
    assert_eq!(callback.found(), (vec![], 0));
}

#[test]
fn of_lambdas_who_was_captured_is_found_and_nobody_else() {
    let mut events = events();
    let subscriber = events.subscriber();
    let payload = events.world.object("App.Payload", 500, &[]);
    let captures = events.world.object("App.Subscriber.<>c__DisplayClass0_0", 40, &[payload, subscriber]);
    let only_data = events.world.object("App.Subscriber.<>c__DisplayClass0_0", 40, &[payload]);
    let nothing = events.world.leaf("App.Subscriber.<>c");
    let handlers = [captures, only_data, nothing].map(|target| events.handler("System.EventHandler", target));
    let several = events.several(&handlers);
    events.publish("App.Publisher", &[several]);
    assert_eq!(events.found(), (vec![changed("App.Publisher", 1, 1024)], 1024));
}

#[test]
fn what_a_static_event_keeps_is_found_without_its_name() {
    let mut events = events();
    let (first, second) = (events.subscriber(), events.subscriber());
    let handler = events.handler("System.EventHandler", first);
    let action = events.handler("System.Action", second);
    let statics = events.world.filled("System.Object[]", (1000, 8), &[handler, action]);
    events.world.root(statics, RootKind::Inferred);
    assert_eq!(events.found(), (vec![(None, vec![], "App.Subscriber".into(), 1, 1024)], 1024));
}

#[test]
fn what_a_static_event_of_any_delegate_type_keeps_is_found_if_it_has_several_handlers() {
    let mut events = events();
    events.world.class("App.PriceChanged", "App", Some("System.MulticastDelegate"), &[]);
    let subscribers = [events.subscriber(), events.subscriber()];
    let handlers = subscribers.map(|subscriber| events.handler("App.PriceChanged", subscriber));
    let list = events.world.filled("System.Object[]", (4, 8), &handlers);
    let delegate = events.world.object("App.PriceChanged", 64, &[list + 1, list]);
    events.world.root(delegate, RootKind::Static);
    assert_eq!(events.found(), (vec![(None, vec![], "App.Subscriber".into(), 2, 2048)], 2048));
}

#[test]
fn what_a_static_event_keeps_is_found_by_its_name_where_that_is_known() {
    let mut events = events();
    let subscriber = events.subscriber();
    let handler = events.handler("System.EventHandler", subscriber);
    // A program's own array in a static field is none of those in which the runtime keeps these.
    let other = events.subscriber();
    let own = events.handler("System.EventHandler", other);
    let array = events.world.filled("System.Object[]", (10, 8), &[own]);
    [handler, array].into_iter().for_each(|object| events.world.root(object, RootKind::Static));
    let mut graph = events.world.graph();
    let held = graph.object_at(address(handler)).unwrap();
    graph.note_root(held, RootKind::Static, "App.Bus.Closed".into());
    let rows = found(&graph, &NoValues).subscriptions.rows;
    let reported: Vec<_> = rows.iter().map(|row| (row.publisher, &row.events[..], row.count, row.retained)).collect();
    assert_eq!(reported, [(None, &["App.Bus.Closed".to_owned()][..], 1, 1024)]);
}

#[test]
fn tasks_are_recognized_by_their_methods_and_with_values_which_are_done() {
    let mut world = World::new();
    let task = "System.Threading.Tasks.Task";
    world.class(task, CORE, Some("System.Object"), &[]);
    world.own("App.Shop.OrderAsync.StateMachine<int>");
    let state = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<int>.AsyncStateMachineBox<Shop.OrderAsync.StateMachine<int>>";
    world.class(state, CORE, Some(task), &["System.Int32", "App.Shop.OrderAsync.StateMachine<int>"]);
    world.class("App.Task", "App", Some("System.Object"), &[]);
    let tasks = [(state, 3), (task, 1), ("App.Task", 5)];
    let objects: Vec<u64> =
        tasks.into_iter().flat_map(|(of, count)| (0..count).map(move |_| of)).map(|of| world.leaf(of)).collect();
    objects.iter().for_each(|object| world.root(*object, RootKind::Stack));
    // One that only has the name.
    let other = world.class(task, "App", Some("System.Object"), &[]);
    world.objects.push((other, 24, Vec::new()));
    let graph = world.graph();
    let reported = |findings: &Findings| -> Vec<_> {
        findings.tasks.rows.iter().map(|row| (row.method.clone(), row.count, row.pending, row.retained)).collect()
    };
    let method = Some("App.Shop.OrderAsync<int>".to_owned());
    let without = found(&graph, &NoValues);
    assert_eq!(reported(&without), [(method.clone(), 3, None, 72), (None, 1, None, 24)]);
    assert_eq!((without.tasks.count, without.tasks.pending), (4, None));
    // Done, failed, begun; and one that is done.
    let states = [(0, 0x100_0000), (1, 0x21_0000), (2, 0x1_0400), (3, 0x40_0000)];
    let states: Vec<_> = states.map(|(object, state)| ("m_stateFlags", object, state)).to_vec();
    let with = found(&graph, &Known(&graph, states.clone()));
    assert_eq!(reported(&with), [(method.clone(), 3, Some(1), 72), (None, 1, Some(0), 24)]);
    assert_eq!(with.tasks.pending, Some(1));
    let of_some = found(&graph, &Known(&graph, states[1..].to_vec()));
    assert_eq!(reported(&of_some)[0], (method, 3, None, 72));
    assert_eq!(of_some.tasks.pending, None, "nobody can say of all");
}

#[test]
fn an_async_method_that_awaits_no_task_is_found_with_the_channel_operation_that_holds_it() {
    let (mut world, machine, channels) = (World::new(), "App.PollAsync.StateMachine", "System.Threading.Channels");
    let method = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<int>.AsyncStateMachineBox<Machine>";
    world.class("System.Threading.Tasks.Task", CORE, Some("System.Object"), &[]);
    world.own(machine);
    world.class(method, CORE, Some("System.Threading.Tasks.Task"), &["System.Int32", machine]);
    world.class("System.Threading.Channels.AsyncOperation<int>", channels, Some("System.Object"), &[]);
    // One that writes, and one that only knows this operation; one that awaits the second.
    [&[3][..], &[3], &[]].iter().for_each(|to| _ = world.object(method, 64, to));
    world.object("System.Threading.Channels.AsyncOperation<int>", 64, &[0]);
    let graph = world.graph();
    let mut fields = [0, 1, 2].map(|object| ("m_stateFlags", object, 0x1_0400)).to_vec();
    fields.push(("m_continuationObject", 1, address(2).cast_signed()));
    let found = found(&graph, &Known(&graph, fields));
    assert_eq!(found.tasks.others, [(ObjectIx(0), Some(ObjectIx(3))), (ObjectIx(1), None)]);
}

#[test]
fn who_waits_for_a_task_is_read_from_its_continuation_and_not_from_other_references() {
    let mut world = World::new();
    let task = "System.Threading.Tasks.Task";
    let (list, objects) = ("System.Collections.Generic.List<object>", "System.Object[]");
    let (delegate, with_delegate) = ("System.Action", "System.Threading.Tasks.AwaitTaskContinuation");
    world.class(task, CORE, Some("System.Object"), &[]);
    world.class(list, CORE, Some("System.Object"), &[]);
    world.class(with_delegate, CORE, Some("System.Object"), &[]);
    world.class(delegate, CORE, Some("System.MulticastDelegate"), &[]);
    // The order of objects: each is its number.
    let inner = world.object(task, 64, &[1]);
    let outer = world.object(task, 64, &[0]);
    let shared = world.object(task, 64, &[6]);
    let done = world.object(task, 64, &[1]);
    let callback = world.object(delegate, 64, &[outer]);
    let continuation = world.object(with_delegate, 64, &[callback]);
    let several = world.object(list, 32, &[7]);
    world.filled(objects, (4, 8), &[outer, continuation, inner]);
    let plain = world.object(task, 64, &[4]);
    let graph = world.graph();
    let state = |object: u64, state: i64| ("m_stateFlags", object, state);
    let next = |object: u64, to: u64| ("m_continuationObject", object, address(to).cast_signed());
    let pending = [inner, outer, shared, plain].map(|object| state(object, 0x1_0400));
    let fields =
        [next(inner, outer), next(shared, several), next(done, outer), next(plain, callback), state(done, 0x100_0000)];
    let findings = found(&graph, &Known(&graph, [&pending[..], &fields].concat()));
    let ix = |object: u64| ObjectIx(object as u32);
    // `outer` refers to `inner`, too, as one that awaits it; that proves nothing.
    let expected = [(inner, shared), (outer, inner), (outer, shared), (outer, plain)];
    assert_eq!(findings.tasks.awaits, expected.map(|(waiting, task)| (ix(waiting), ix(task))));
    assert!(found(&graph, &NoValues).tasks.awaits.is_empty());
}

#[test]
fn timers_are_recognized_by_whom_they_call_and_fire_if_they_are_in_a_queue() {
    let mut world = World::new();
    let timer = "System.Threading.TimerQueueTimer";
    for name in [timer, "System.Threading.TimerQueue", "System.Threading.ExecutionContext"] {
        world.class(name, CORE, Some("System.Object"), &[]);
    }
    world.class("System.Threading.TimerCallback", CORE, Some("System.MulticastDelegate"), &[]);
    for name in ["App.Clock", "App.State", "App.Clock.<>c"] {
        world.own(name);
    }
    let (clock, state, nothing) = (world.leaf("App.Clock"), world.leaf("App.State"), world.leaf("App.Clock.<>c"));
    let context = world.leaf("System.Threading.ExecutionContext");
    let calls = world.object("System.Threading.TimerCallback", 64, &[clock]);
    let lambda = world.object("System.Threading.TimerCallback", 64, &[nothing]);
    let queue = lambda + 1;
    let [first, second, stopped] = [queue + 1, queue + 2, queue + 3];
    world.object("System.Threading.TimerQueue", 64, &[first]);
    world.object(timer, 96, &[queue, second, calls]);
    world.object(timer, 96, &[queue, first, context, state, lambda]);
    world.object(timer, 96, &[queue, calls]);
    for object in [queue, stopped] {
        world.root(object, RootKind::Stack);
    }
    let graph = world.graph();
    let timers = found(&graph, &NoValues).timers;
    let row = |row: &remora_heap::findings::TimerRow| (row.calls.map(|of| name(&graph, of)), row.count, row.scheduled);
    let rows: Vec<_> = timers.rows.iter().map(row).collect();
    assert_eq!(rows, [(Some("App.Clock"), 2, 1), (Some("App.State"), 1, 1)]);
    assert_eq!((timers.count, timers.scheduled), (3, 2));
}

#[test]
fn objects_with_a_finalizer_are_counted_and_who_waits_for_it_where_the_queue_was_seen() {
    let made = |kinds: [RootKind; 2]| {
        let mut world = World::new();
        world.own("App.Plain");
        world.add("App.File", "App", TypeFlags::FINALIZABLE, TypeFacts::default());
        let plain = world.leaf("App.Plain");
        let files = [world.object("App.File", 24, &[plain]), world.leaf("App.File")];
        world.root(files[0], kinds[0]);
        world.root(files[1], kinds[1]);
        let graph = world.graph();
        let found = found(&graph, &NoValues).finalizers;
        let rows: Vec<_> = found.rows.iter().map(|row| (row.count, row.retained, row.waiting)).collect();
        (rows, found.count, found.waiting)
    };
    assert_eq!(made([RootKind::Finalizer, RootKind::Stack]), (vec![(2, 72, 1)], 2, Some(1)));
    assert_eq!(made([RootKind::Inferred; 2]), (vec![(2, 72, 0)], 2, None));
}

#[test]
fn facts_that_make_no_sense_are_no_findings_and_end() {
    let mut world = World::new();
    let nowhere = Some(TypeIx(u32::MAX));
    let array = Some(ArrayFacts { element: nowhere, place: Place::Value(Some(0)), rank: u32::MAX });
    let facts = TypeFacts { base: nowhere, arguments: vec![TypeIx(77)], array, events: Vec::new() };
    world.add("System.Collections.Generic.List<?>", CORE, TypeFlags(u32::MAX), facts);
    let itself = TypeIx(world.types.len() as u32);
    let events = vec![Event { name: String::new(), delegate: String::new() }];
    let circle = TypeFacts { base: Some(itself), arguments: vec![itself], events, ..TypeFacts::default() };
    assert_eq!(world.add("System.Threading.Tasks.Task", CORE, TypeFlags::default(), circle), itself);
    let list = world.object("System.Collections.Generic.List<?>", 8, &[1, 0]);
    world.object("System.Threading.Tasks.Task", u64::from(u32::MAX), &[list, 1]);
    world.object("System.EventHandler", 0, &[2, 2, 0]);
    let graph = world.graph();
    let findings = found(&graph, &NoValues);
    assert_eq!(findings.tasks.count, 1);
    assert_eq!((findings.arrays.wasted, findings.collections.waste.wasted, findings.subscriptions.retained), (0, 0, 0));
}
