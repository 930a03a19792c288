//! Who holds much of a heap, and what accumulates there, in graphs that were made by hand.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use remora_heap::suspects::{Suspect, suspects};
use remora_heap::{Builder, DominatorTree, HeapGraph, Object, ObjectIx, RootKind, Type, TypeFlags, TypeIx};

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
