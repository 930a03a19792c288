//! Graphs that are known, and indexes of them.
#![allow(dead_code, reason = "each test uses a part")]

use remora_heap::layout::{Field, Layout, Layouts, Shape, Slot, SlotKind, Source};
use remora_heap::{Builder, HeapGraph, Object, RootKind, Type, TypeFlags, TypeIx};
use remora_heap_view::{About, Error, Index, Key, Parts, make};
use std::fs::File;
use std::io::Write;

/// The snapshot that all of them are of.
pub const KEY: Key = Key { length: 4711, digest: 0x1234_5678_9abc_def0 };

/// Where things are in [`shop`].
pub const CACHE: u64 = 0x1000;
pub const ARRAY: u64 = 0x2000;
pub const ORDERS: u64 = 0x3000;
pub const TEXTS: u64 = 0x10000;
pub const HOSTILE: u64 = 0x40000;
pub const ORPHAN: u64 = 0x50000;
/// A name that wants to be markup, and to turn round what stands beside it.
pub const HOSTILE_NAME: &str =
    "Evil.<img src=x onerror=\"window.hurt=1\">\u{202e}</script><script>window.hurt=1</script>&amp;\n";

/// A name that is written from right to left.
pub const HEBREW: &str = "\u{5e9}\u{5dc}\u{5d5}\u{5dd}";
/// The type of the links of [`chain`].
pub const LINK_NAME: &str = "Shop.\u{5d7}\u{5d5}\u{5dc}\u{5d9}\u{5d4}";

/// A cache (40 bytes) keeps an array (824), that keeps 100 orders (48 each), each of which refers to a text (22, 24, 26, …).
/// Something hostile (64) keeps one more (24), and refers to the first text, too, which therefore neither of the two keeps.
/// The cache is static, the root of the hostile one inferred; no root reaches an orphan (100) with a text of its own (30).
pub fn shop() -> HeapGraph {
    let mut builder = Builder::new();
    let names = ["Shop.Cache", "object[]", "Shop.Order", "string", HOSTILE_NAME, "Shop.Orphan", "Shop.Unused"];
    let [cache, array, order, text, hostile, orphan, _] = names.map(|name| {
        let flags = TypeFlags::default();
        builder.add_type(Type { name: name.into(), assembly: "Shop".into(), flags }).expect("there is room")
    });
    let mut add = |address, type_ix, bytes, to: &[u64]| {
        builder.add_object(Object { address, type_ix, bytes }, to.iter().copied()).expect("there is room");
    };
    let orders: Vec<u64> = (0..100).map(|index| ORDERS + index * 0x40).collect();
    add(CACHE, cache, 40, &[ARRAY]);
    add(ARRAY, array, 824, &orders);
    for index in 0..100 {
        add(ORDERS + index * 0x40, order, 48, &[TEXTS + index * 0x100]);
    }
    for index in 0..100 {
        add(TEXTS + index * 0x100, text, 22 + 2 * index, &[]);
    }
    add(HOSTILE, hostile, 64, &[HOSTILE + 0x100, TEXTS]);
    add(HOSTILE + 0x100, hostile, 24, &[]);
    add(ORPHAN, orphan, 100, &[ORPHAN + 0x100]);
    add(ORPHAN + 0x100, text, 30, &[]);
    builder.add_root(CACHE, RootKind::Static).expect("there is room");
    builder.add_root(HOSTILE, RootKind::Inferred).expect("there is room");
    let mut graph = builder.finish().expect("there is room");
    let cache = graph.object_at(CACHE).expect("it was added");
    graph.note_root(cache, RootKind::Static, "Shop.Cache.instance".to_owned());
    graph
}

/// `Cache { object[] orders; Order last }`, `object[]`, `Order { object text }`, and a hostile class with a field of its name.
pub fn shop_layouts() -> Layouts {
    let slot = |kind, of: &str| Slot { kind, of: of.into(), layout: None };
    let field = |name: &str, offset, slot| Field { name: name.into(), offset, slot };
    let mut layouts = Layouts::default();
    let mut add = |class, name: &str, shape| {
        let (name, family) = (name.to_owned(), String::new());
        layouts.add(Layout { class: Some(TypeIx(class)), name, family, shape, source: Source::Reported });
    };
    let class = |fields| Shape::Class { base: None, fields };
    let orders = field("orders", 0, slot(SlotKind::ARRAY, "object[]"));
    add(0, "Cache", class(vec![field("last", 8, slot(SlotKind::CLASS, "Order")), orders]));
    add(1, "object[]", Shape::Array { element: slot(SlotKind::OBJECT, "object"), rank: 1 });
    add(2, "Order", class(vec![field("text", 0, slot(SlotKind::OBJECT, "IText"))]));
    let hostile = field(HOSTILE_NAME, 0, slot(SlotKind::CLASS, HOSTILE_NAME));
    add(4, HOSTILE_NAME, class(vec![hostile, field("text", 8, slot(SlotKind::OBJECT, "IText"))]));
    layouts
}

/// So many objects in a ring, each with a reference to one far away: the way to the last is as long as the ring.
pub fn ring(count: u64) -> HeapGraph {
    let mut builder = Builder::new();
    let at = |index: u64| 0x10_0000 + index % count * 64;
    for index in 0..count {
        let object = Object { address: at(index), type_ix: TypeIx((index % 7) as u32), bytes: 24 + index % 5 * 8 };
        builder.add_object(object, [at(index + 1), at(index * 7 / 8)]).expect("there is room");
    }
    for number in 0..7 {
        let known = Type { name: format!("Ring.Of{number}"), assembly: "Ring".into(), flags: TypeFlags::default() };
        builder.add_type(known).expect("there is room");
    }
    builder.add_root(at(0), RootKind::Handle).expect("there is room");
    builder.finish().expect("there is room")
}

/// A linked list: so many links of 32 bytes, each with an array of 40 bytes. A static field refers to the first one.
pub fn chain(links: u64) -> HeapGraph {
    let mut builder = Builder::new();
    let [link, array] = [LINK_NAME, "byte[]"].map(|name| {
        let known = Type { name: name.into(), assembly: "Shop".into(), flags: TypeFlags::default() };
        builder.add_type(known).expect("there is room")
    });
    let at = |index: u64| 0x10_0000 + index * 0x80;
    for index in 0..links {
        let next = Some(at(index + 1)).filter(|_| index + 1 < links);
        let to = [Some(at(index) + 0x40), next];
        let object = Object { address: at(index), type_ix: link, bytes: 32 };
        builder.add_object(object, to.into_iter().flatten()).expect("there is room");
        let object = Object { address: at(index) + 0x40, type_ix: array, bytes: 40 };
        builder.add_object(object, []).expect("there is room");
    }
    builder.add_root(at(0), RootKind::Static).expect("there is room");
    let mut graph = builder.finish().expect("there is room");
    let first = graph.object_at(at(0)).expect("it was added");
    graph.note_root(first, RootKind::Static, format!("Shop.{HEBREW}"));
    graph
}

/// An array with so many objects of 32 bytes, each with an array of 40 bytes.
pub fn wide(objects: u64) -> HeapGraph {
    let mut builder = Builder::new();
    let [list, link, array] = ["object[]", LINK_NAME, "byte[]"].map(|name| {
        let known = Type { name: name.into(), assembly: "Shop".into(), flags: TypeFlags::default() };
        builder.add_type(known).expect("there is room")
    });
    let at = |index: u64| 0x10_0000 + index * 0x80;
    let root = Object { address: 0x1000, type_ix: list, bytes: 24 + 8 * objects };
    builder.add_object(root, (0..objects).map(at)).expect("there is room");
    for index in 0..objects {
        let object = Object { address: at(index), type_ix: link, bytes: 32 };
        builder.add_object(object, [at(index) + 0x40]).expect("there is room");
        let object = Object { address: at(index) + 0x40, type_ix: array, bytes: 40 };
        builder.add_object(object, []).expect("there is room");
    }
    builder.add_root(0x1000, RootKind::Handle).expect("there is room");
    builder.finish().expect("there is room")
}

pub fn about() -> About {
    About {
        application: "Shop".into(),
        process_id: 4711,
        runtime: ".NET 8.0.4".into(),
        taken_unix_nanoseconds: 1_700_000_000_123_456_789,
        complete: false,
        free_bytes: 2048,
        notes: vec!["3 ranges <b>of the heap</b> were not walked to their end".into()],
        ..About::default()
    }
}

/// The bytes of the index of a graph.
pub fn bytes_of(graph: &HeapGraph) -> Vec<u8> {
    bytes_with(graph, about())
}

/// The same, with something else to say.
pub fn bytes_with(graph: &HeapGraph, about: About) -> Vec<u8> {
    bytes_with_layouts(graph, &Layouts::default(), about)
}

/// The same, with layouts.
pub fn bytes_with_layouts(graph: &HeapGraph, layouts: &Layouts, about: About) -> Vec<u8> {
    let mut bytes = Vec::new();
    let found = about.found.clone();
    make(Parts { graph, layouts, about, found: &|_| found.clone(), key: KEY, goes_on: &|| true }, &mut bytes)
        .expect("memory can be written to");
    bytes
}

pub fn opened(bytes: &[u8], key: Key) -> Result<Index, Error> {
    Index::open(file_of(bytes), key)
}

pub fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("it can be written to");
    file
}

/// The index of [`shop`], with layouts.
pub fn index_of_shop() -> Index {
    opened(&bytes_with_layouts(&shop(), &shop_layouts(), about()), KEY).expect("it was just made")
}

pub fn index_of(graph: &HeapGraph) -> Index {
    opened(&bytes_of(graph), KEY).expect("it was just made")
}
