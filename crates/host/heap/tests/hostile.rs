//! Snapshots that were forged so that looking at them takes hours: each took minutes in this size.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_heap::findings::{Findings, Looked, NoValues, Wanted, WantedFields};
use remora_heap::layout::{Field, Layout, LayoutIx, Layouts, Shape, Slot, SlotKind, Source};
use remora_heap::{
    Allowance, ArrayFacts, Builder, DominatorTree, Event, HeapGraph, Object, ObjectIx, Place, RootKind, Type,
    TypeFacts, TypeFlags, TypeIx, Ways, tables, values::Inside,
};
use std::time::{Duration, Instant};

const BASE: u64 = 0x1000;
const APART: u64 = 32;
const MANY: u64 = 50_000;

/// Far more than any of this takes, and far less than it took.
fn soon<T>(made: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let made = made();
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    made
}

/// A heap of delegates, lists, publishers and subscribers, each object by its type and the places of those that it refers to.
fn heap(subscriber: &str, events: Vec<Event>, objects: &[(u32, Vec<u64>)]) -> HeapGraph {
    let mut builder = Builder::new();
    let mut add = |name: &str, assembly: &str, facts: TypeFacts| {
        let of = Type { name: name.into(), assembly: assembly.into(), flags: TypeFlags::default() };
        let index = builder.add_type(of).unwrap();
        builder.describe_type(index, facts).unwrap();
    };
    let list = ArrayFacts { element: None, place: Place::Reference, rank: 1 };
    add("System.MulticastDelegate", "System.Private.CoreLib", TypeFacts::default());
    add("App.Handler", "App", TypeFacts { base: Some(TypeIx(0)), ..TypeFacts::default() });
    add("object[]", "App", TypeFacts { array: Some(list), ..TypeFacts::default() });
    // Its line of base types is a circle.
    add("App.Publisher", "App", TypeFacts { base: Some(TypeIx(PUBLISHER)), events, ..TypeFacts::default() });
    add(subscriber, "App", TypeFacts::default());
    for (place, (of, references)) in (0..).zip(objects) {
        let object = Object { address: BASE + place * APART, type_ix: TypeIx(*of), bytes: 24 };
        builder.add_object(object, references.iter().map(|place| BASE + place * APART)).unwrap();
        if *of == PUBLISHER {
            builder.add_root(object.address, RootKind::Handle).unwrap();
        }
    }
    builder.finish().unwrap()
}

const HANDLER: u32 = 1;
const LIST: u32 = 2;
const PUBLISHER: u32 = 3;
const SUBSCRIBER: u32 = 4;

fn found(graph: &HeapGraph) -> Findings {
    let tree = DominatorTree::new(graph);
    let rows = tables::by_type(graph, &tree);
    Findings::new(Looked { graph, tree: &tree, rows: &rows, values: &NoValues })
}

fn event(delegate: &str) -> Event {
    Event { name: "Changed".into(), delegate: delegate.into() }
}

#[test]
fn regression_the_list_of_a_delegate_was_read_again_for_each_of_its_publishers() {
    // A delegate of many handlers, each with a subscriber, and as many publishers that share it. The first subscribes to itself.
    let mut objects = vec![(HANDLER, vec![0, 1]), (LIST, (2..MANY + 2).collect())];
    objects.extend((0..MANY).map(|place| (HANDLER, vec![MANY + 2 + place])));
    objects.extend((0..MANY).map(|_| (SUBSCRIBER, vec![])));
    objects.extend((0..MANY).map(|_| (PUBLISHER, vec![0])));
    let graph = heap("App.Subscriber", vec![event("App.Handler")], &objects);
    let rows = soon(|| found(&graph)).subscriptions.rows;
    assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), MANY);
}

#[test]
fn regression_a_list_was_read_again_for_each_delegate_that_has_it() {
    let mut objects = vec![(LIST, (1..MANY + 1).collect())];
    objects.extend((0..MANY).map(|place| (HANDLER, vec![MANY + 1 + place])));
    objects.extend((0..MANY).map(|_| (SUBSCRIBER, vec![])));
    let delegates = objects.len() as u64;
    objects.extend((0..MANY).map(|place| (HANDLER, vec![delegates + place, 0])));
    objects.push((PUBLISHER, (delegates..delegates + MANY).collect()));
    let graph = heap("App.Subscriber", vec![event("App.Handler")], &objects);
    assert_eq!(soon(|| found(&graph)).subscriptions.rows, []);
}

#[test]
fn regression_a_closure_was_searched_again_for_each_handler_that_it_is_the_target_of() {
    let mut objects = vec![(HANDLER, vec![0, 1]), (LIST, (2..MANY + 2).collect())];
    objects.extend((0..MANY).map(|_| (HANDLER, vec![MANY + 2])));
    objects.push((SUBSCRIBER, vec![MANY + 3; MANY as usize]));
    objects.extend([(LIST, vec![]), (PUBLISHER, vec![0])]);
    let graph = heap("App.Form.<>c__DisplayClass0_0", vec![event("App.Handler")], &objects);
    assert_eq!(soon(|| found(&graph)).subscriptions.rows, []);
}

#[test]
fn regression_all_events_of_a_type_were_compared_for_each_of_its_delegates() {
    let mut events = vec![event("App.Handles"); 1000];
    events.push(event("App.Handler"));
    let mut objects = vec![(HANDLER, vec![1]), (SUBSCRIBER, vec![])];
    objects.push((PUBLISHER, vec![0; MANY as usize]));
    let rows = soon(|| found(&heap("App.Subscriber", events, &objects))).subscriptions.rows;
    assert_eq!((rows.len(), rows[0].count), (1, 1));
}

fn slot(kind: SlotKind, of: &str, layout: Option<u32>) -> Slot {
    Slot { kind, of: of.into(), layout: layout.map(LayoutIx) }
}

fn layout(class: Option<u32>, shape: Shape) -> Layout {
    let class = class.map(TypeIx);
    Layout { class, name: "App.Node".into(), family: String::new(), shape, source: Source::Reported }
}

fn fields(count: usize, of: &Slot) -> Vec<Field> {
    vec![Field { name: "field".into(), offset: 0, slot: of.clone() }; count]
}

#[test]
fn regression_the_fields_of_a_common_base_were_compared_again_for_each_type_and_each_turn_of_a_circle() {
    let mut layouts = Layouts::default();
    let number = slot(SlotKind(8), "int", None);
    let types = 5_000;
    layouts.add(layout(None, Shape::Class { base: Some(LayoutIx(1)), fields: fields(5_000, &number) }));
    for class in 0..types {
        let base = LayoutIx(u32::from(class == 0) * types);
        layouts.add(layout(Some(class), Shape::Class { base: Some(base), fields: vec![] }));
    }
    let wanted: Vec<Wanted> = (0..types).map(|class| Wanted { type_ix: TypeIx(class), field: "_size" }).collect();
    assert!(soon(|| WantedFields::of(&layouts, &wanted)).is_empty());
}

/// A class with a value that consists of `count` of itself, with a type name of this length.
fn of_itself(count: usize, name: usize) -> Layouts {
    let value = slot(SlotKind::VALUE, &"n".repeat(name), Some(1));
    let mut layouts = Layouts::default();
    layouts.add(layout(Some(0), Shape::Class { base: Some(LayoutIx(0)), fields: fields(count, &value) }));
    layouts.add(layout(None, Shape::Value { bytes: 8, fields: fields(count, &value) }));
    layouts
}

#[test]
fn regression_the_fields_of_a_value_that_has_another_twice_and_so_on_were_searched_without_end() {
    let graph = heap("App.Subscriber", vec![], &[(0, vec![1]), (0, vec![])]);
    let mut layouts = Layouts::default();
    let twice = |next| fields(2, &slot(SlotKind::VALUE, "Value", Some(next)));
    layouts.add(layout(Some(0), Shape::Class { base: None, fields: twice(1) }));
    (2..50).for_each(|next| _ = layouts.add(layout(None, Shape::Value { bytes: 8, fields: twice(next) })));
    layouts.add(layout(None, Shape::Value { bytes: 8, fields: fields(1, &slot(SlotKind(8), "int", None)) }));
    let ways = Ways::new(&graph, &layouts);
    assert_eq!(soon(|| ways.between(ObjectIx(0), ObjectIx(1))), None);
}

#[test]
fn regression_each_field_of_a_value_that_has_itself_had_a_long_name_of_its_own() {
    let allowance = Allowance::new(Allowance::VALUES);
    let layouts = of_itself(100, 16 << 10);
    let inside = || layouts.inside(TypeIx(0), (&[0; 64], 64), 9, &allowance);
    let Inside::Fields(members) = soon(inside) else { panic!("it has fields") };
    fn bytes(members: &[remora_heap::values::Member]) -> usize {
        let inner = |value: &_| if let remora_heap::values::Value::Fields(inner) = value { bytes(inner) } else { 0 };
        members.iter().map(|member| member.of.len() + inner(&member.value)).sum()
    }
    assert!(bytes(&members) <= Allowance::VALUES, "{} MiB", bytes(&members) >> 20);
    // What is shown next has the rest of the same allowance.
    let Inside::Fields(members) = soon(inside) else { panic!("it has fields") };
    assert_eq!(members, []);
}
