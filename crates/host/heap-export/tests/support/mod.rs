//! Graphs that are known, and what is to be found in any export of them.
#![allow(dead_code, reason = "each test uses a part")]

use remora_heap::{Builder, HeapGraph, Object, RootKind, Type, TypeFlags};
use remora_heap_export::{About, Format, write};
use std::collections::BTreeMap;

/// Counts and bytes of each type, edges by the types at their ends, and roots by kind and type.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub types: BTreeMap<String, (u64, u64)>,
    pub edges: BTreeMap<(String, String), u64>,
    pub roots: BTreeMap<(String, String), u64>,
}

/// What a type is called in an export that names it and its assembly.
pub fn of_graph(graph: &HeapGraph, named: impl Fn(&Type) -> String) -> Facts {
    let mut facts = Facts::default();
    let name = |object| named(graph.type_of(object));
    for object in graph.objects() {
        let entry = facts.types.entry(name(object)).or_default();
        entry.0 += 1;
        entry.1 += graph.bytes(object);
        for target in graph.references(object) {
            *facts.edges.entry((name(object), name(target))).or_default() += 1;
        }
    }
    for root in graph.roots() {
        *facts.roots.entry((root.kind.name().to_owned(), name(root.object))).or_default() += 1;
    }
    facts
}

/// Cycles, several references to one object, hostile names, all kinds of roots, types without objects, and who is held by nothing.
pub fn small() -> HeapGraph {
    let mut builder = Builder::new();
    let names = [
        ("Shop.Node", "Shop"),
        ("string", "System.Private.CoreLib"),
        ("object[]", "System.Private.CoreLib"),
        ("Шоп<\"a\\b\">.Ω\u{1f980}\n", "Shop"),
        ("Nobody.Has.One", "Shop"),
        ("Shop.Node", "Other"),
    ];
    let [node, text, array, hostile, _, other] = names.map(|(name, assembly)| {
        let flags = TypeFlags::default();
        builder.add_type(Type { name: name.into(), assembly: assembly.into(), flags }).expect("there is room")
    });
    let mut add = |address, type_ix, bytes, to: &[u64]| {
        builder.add_object(Object { address, type_ix, bytes }, to.iter().copied()).expect("there is room");
    };
    add(0x1000, node, 32, &[0x1020, 0x2000, 0x2000]);
    add(0x1020, node, 32, &[0x1000, 0]);
    add(0x2000, text, 22, &[]);
    add(0x2020, text, 1_000_001, &[]);
    add(0x7fff_0000_0000, array, 70_000, &[0x1000, 0x2000, 0x2020, 0x7fff_0000_0000, 0x9000]);
    add(0x9000, hostile, 24, &[]);
    add(0x9100, hostile, 24, &[0x9120]);
    add(0x9120, other, 40, &[]);
    for (place, kind) in RootKind::ALL.iter().copied().enumerate() {
        builder.add_root([0x7fff_0000_0000, 0x1000, 0x2020][place % 3], kind).expect("there is room");
    }
    builder.add_root(0x1000, RootKind::Stack).expect("there is room");
    builder.finish().expect("there is room")
}

/// One object of more bytes than 32 bits count, among others of its type.
pub fn huge() -> HeapGraph {
    let mut builder = Builder::new();
    let flags = TypeFlags::ARRAY;
    let bytes = Type { name: "byte[]".into(), assembly: "System.Private.CoreLib".into(), flags };
    let type_ix = builder.add_type(bytes).expect("there is room");
    for (address, bytes) in [(0x1000, 24), (0x10_0000_0000, 13_000_000_007), (0x20_0000_0000, 3_000_000_000)] {
        builder.add_object(Object { address, type_ix, bytes }, [0x1000]).expect("there is room");
        builder.add_root(address, RootKind::Handle).expect("there is room");
    }
    builder.finish().expect("there is room")
}

/// So many objects in a ring, each with a reference to one far away.
pub fn ring(count: u64) -> HeapGraph {
    let mut builder = Builder::new();
    let at = |index: u64| 0x10_0000 + index % count * 64;
    for index in 0..count {
        let type_ix = remora_heap::TypeIx((index % 7) as u32);
        let object = Object { address: at(index), type_ix, bytes: 24 + index % 5 * 8 };
        builder.add_object(object, [at(index + 1), at(index * 7919 + 13)]).expect("there is room");
    }
    for number in 0..7 {
        let known = Type { name: format!("Ring.Of{number}"), assembly: "Ring".into(), flags: TypeFlags::default() };
        builder.add_type(known).expect("there is room");
    }
    builder.add_root(at(0), RootKind::Static).expect("there is room");
    builder.finish().expect("there is room")
}

pub fn about() -> About {
    About {
        application: "Shop".into(),
        process_id: 4711,
        runtime: ".NET 8.0.4".into(),
        taken_unix_nanoseconds: 1_700_000_000_123_456_789,
        complete: false,
        notes: vec!["3 ranges of the heap were not walked to their end".into()],
    }
}

pub fn exported(graph: &HeapGraph, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(graph, &about(), format, &mut bytes).expect("memory can be written to");
    bytes
}
