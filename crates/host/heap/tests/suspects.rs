//! Who holds much of a heap, and what accumulates there, in graphs that were made by hand.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use remora_heap::suspects::{Suspect, suspects};
use remora_heap::{
    ArrayFacts, Builder, DominatorTree, HeapGraph, Object, ObjectIx, Place, RootKind, Type, TypeFacts, TypeFlags,
    TypeIx,
};

const TYPES: [(&str, &str); 6] = [
    ("System.Collections.Generic.List<App.Order>", "System.Private.CoreLib"),
    ("App.Order[]", "App"),
    ("App.Order", "App"),
    ("System.Byte[]", "System.Private.CoreLib"),
    ("App.Index", "App"),
    ("System.String", "System.Private.CoreLib"),
];
const LIST: u32 = 0;
const ARRAY: u32 = 1;
const ORDER: u32 = 2;
const BYTES: u32 = 3;
const INDEX: u32 = 4;
const TEXT: u32 = 5;
const ORDERS: u64 = 100;

/// A list with orders, each with bytes; if `indexed`, an index refers to each of them, too. And some texts that nothing refers to.
fn orders(indexed: bool) -> HeapGraph {
    let mut builder = Builder::new();
    for (name, assembly) in TYPES {
        let flags = if name.ends_with("[]") { TypeFlags::ARRAY } else { TypeFlags::default() };
        builder.add_type(Type { name: name.into(), assembly: assembly.into(), flags }).unwrap();
    }
    let mut add = |address, of, bytes, to: &[u64]| {
        let object = Object { address, type_ix: TypeIx(of), bytes };
        builder.add_object(object, to.iter().copied()).unwrap();
    };
    let orders: Vec<u64> = (0..ORDERS).map(|order| 0x10000 + order * 0x1000).collect();
    add(0x1000, LIST, 32, &[0x2000]);
    add(0x2000, ARRAY, 24 + 8 * ORDERS, &orders);
    add(0x3000, INDEX, 24 + 8 * ORDERS, if indexed { &orders } else { &[] });
    for order in &orders {
        add(*order, ORDER, 24, &[order + 0x100]);
        add(order + 0x100, BYTES, 500, &[]);
    }
    (0..ORDERS).for_each(|text| add(0x800_0000 + text * 0x1000, TEXT, 500, &[]));
    [0x1000, 0x3000].into_iter().for_each(|held| builder.add_root(held, RootKind::Static).unwrap());
    let mut graph = builder.finish().unwrap();
    graph.infer_roots();
    graph
}

fn found(graph: &HeapGraph, is_application: &[bool]) -> Vec<Suspect> {
    suspects(graph, &DominatorTree::new(graph), is_application)
}

fn own(graph: &HeapGraph) -> Vec<bool> {
    graph.types().iter().map(|of| of.assembly == "App").collect()
}

fn at(graph: &HeapGraph, address: u64) -> ObjectIx {
    graph.object_at(address).unwrap()
}

#[test]
fn who_alone_holds_much_is_suspect_with_the_collection_and_the_applications_type_in_it() {
    let graph = orders(false);
    let [suspect] = &found(&graph, &own(&graph))[..] else { panic!("one is suspect") };
    let [list, array] = [0x1000, 0x2000].map(|address| at(&graph, address));
    assert_eq!((&suspect.holders[..], &suspect.way[..]), (&[list][..], &[list, array][..]));
    assert_eq!(suspect.place(&graph), Some(list));
    let content = suspect.content.unwrap();
    assert_eq!((content.of, content.count), (TypeIx(ORDER), ORDERS));
    assert_eq!((content.bytes, content.retained), (24 * ORDERS, 524 * ORDERS));
    assert_eq!(suspect.retained, 32 + 24 + 8 * ORDERS + content.retained);
    // If nothing is the application's, the type with most bytes is all that can be said.
    assert_eq!(found(&graph, &[])[0].content.unwrap().of, TypeIx(BYTES));
}

#[test]
fn a_type_that_two_hold_is_suspect_with_both_and_texts_that_only_roots_hold_are_not() {
    let graph = orders(true);
    let [suspect] = &found(&graph, &own(&graph))[..] else { panic!("one is suspect") };
    assert_eq!((suspect.holders.len() as u64, &suspect.way[..]), (ORDERS, &[][..]));
    assert_eq!((suspect.retained, suspect.retained_count), (524 * ORDERS, 2 * ORDERS));
    assert_eq!(suspect.content.unwrap().of, TypeIx(ORDER));
    let [list, index] = [0x1000, 0x3000].map(|address| at(&graph, address));
    assert_eq!(suspect.referrers, [(list, ORDERS), (index, ORDERS)]);
}

/// Types by name; an array if it ends so.
fn with_types(names: &[&str]) -> Builder {
    let mut builder = Builder::new();
    for name in names {
        let is_array = name.ends_with("[]");
        let flags = if is_array { TypeFlags::ARRAY } else { TypeFlags::default() };
        let index = builder.add_type(Type { name: (*name).into(), assembly: "App".into(), flags }).unwrap();
        let array = is_array.then_some(ArrayFacts { element: None, place: Place::Reference, rank: 1 });
        builder.describe_type(index, TypeFacts { array, ..TypeFacts::default() }).unwrap();
    }
    builder
}

fn add(builder: &mut Builder, address: u64, of: u32, bytes: u64, to: &[u64]) {
    builder.add_object(Object { address, type_ix: TypeIx(of), bytes }, to.iter().copied()).unwrap();
}

#[test]
fn a_linked_list_that_several_enter_is_reported_by_its_owner_and_not_by_whom_holds_a_few_elements() {
    let mut builder = with_types(&["App.Source.Entries", "App.Source", "App.Entry", "App.Scope", "App.Guest"]);
    let (entries, count) = (0x2000, 1000_u64);
    let entry = |index: u64| 0x10000 + index * 0x100;
    add(&mut builder, 0x1000, 1, 24, &[entries]);
    add(&mut builder, entries, 0, 24, &[0x1000, entry(0)]);
    for index in 0..count {
        let near = [index.wrapping_sub(1), index + 1].into_iter().filter(|index| *index < count).map(entry);
        let to: Vec<u64> = near.chain([entries, entry(index) + 0x80]).collect();
        add(&mut builder, entry(index), 2, 48, &to);
        add(&mut builder, entry(index) + 0x80, 3, 500, &[]);
    }
    // Two objects hold seven elements each: from each, all are reached.
    for (place, guest) in [(3_u64, 0x3000), (500, 0x4000)] {
        let held: Vec<u64> = (place..place + 7).map(entry).collect();
        add(&mut builder, guest, 4, 80, &held);
        builder.add_root(guest, RootKind::Static).unwrap();
    }
    builder.add_root(0x1000, RootKind::Static).unwrap();
    let graph = builder.finish().unwrap();
    let suspects = found(&graph, &own(&graph));
    let suspect = &suspects[0];
    assert_eq!(graph.type_of(suspect.holders[0]).name, "App.Entry");
    assert_eq!(suspect.owners, [(at(&graph, 0x1000), suspect.holders.len() as u64)]);
    assert_eq!(suspect.referrers, [], "seven of a thousand elements are no reason to be named");
}

#[test]
fn the_path_into_a_linked_list_ends_at_its_owner_and_elements_are_not_named() {
    let mut builder = with_types(&["App.Queue", "App.Timer", "App.Session"]);
    let timer = |index: u64| 0x10000 + index * 0x100;
    add(&mut builder, 0x1000, 0, 24, &[timer(0)]);
    for index in 0..1000 {
        let next = if index < 999 { timer(index + 1) } else { 0 };
        add(&mut builder, timer(index), 1, 48, &[next, timer(index) + 0x80]);
        add(&mut builder, timer(index) + 0x80, 2, 100, &[]);
    }
    builder.add_root(0x1000, RootKind::Static).unwrap();
    let graph = builder.finish().unwrap();
    let [suspect] = &found(&graph, &own(&graph))[..] else { panic!("one is suspect") };
    assert_eq!((&suspect.way[..], suspect.place(&graph)), (&[at(&graph, 0x1000)][..], Some(at(&graph, 0x1000))));
    assert_eq!((suspect.content.unwrap().count, &suspect.referrers[..]), (1000, &[][..]));
}

#[test]
fn suspects_of_one_type_in_one_array_are_one() {
    let mut builder = with_types(&["App.Queue", "App.Queue[]", "App.Session", "App.Cache"]);
    let (queues, array) = ([0x10000_u64, 0x20000], 0x1000);
    add(&mut builder, array, 1, 40, &queues);
    for queue in queues {
        let sessions: Vec<u64> = (1..=50).map(|session| queue + session * 0x100).collect();
        add(&mut builder, queue, 0, 24, &sessions);
        sessions.iter().for_each(|session| add(&mut builder, *session, 2, 100, &[]));
        builder.add_root(queue, RootKind::Inferred).unwrap();
    }
    // One of another type in no array, and one of the same type in none.
    for (alone, of) in [(0x30000, 3), (0x40000, 0)] {
        add(&mut builder, alone, of, 3000, &[]);
        builder.add_root(alone, RootKind::Static).unwrap();
    }
    builder.add_root(array, RootKind::Static).unwrap();
    let graph = builder.finish().unwrap();
    let suspects = found(&graph, &own(&graph));
    let held: Vec<(usize, Option<ObjectIx>)> =
        suspects.iter().map(|suspect| (suspect.holders.len(), suspect.array)).collect();
    assert_eq!(held, [(2, Some(at(&graph, array))), (1, None), (1, None)]);
    assert_eq!((suspects[0].retained, suspects[0].content.unwrap().count), (2 * (24 + 50 * 100), 100));
}
