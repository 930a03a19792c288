//! Which field refers to an object, from layouts alone.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use remora_heap::layout::{Field, Layout, LayoutIx, Layouts, Shape, Slot, SlotKind, Source};
use remora_heap::{Builder, HeapGraph, Object, ObjectIx, RootKind, Type, TypeFacts, TypeFlags, TypeIx, Ways};

const TYPES: [(&str, TypeFlags); 4] =
    [("object", TypeFlags(0)), ("Node", TypeFlags(0)), ("Leaf", TypeFlags(0)), ("String", TypeFlags::STRING)];
const NODE: u32 = 1;
const LEAF: u32 = 2;
const TEXT: u32 = 3;

/// A node at 0x1000 that refers to objects of these types, at 0x2000, 0x3000 and so on.
fn node(references: &[u32]) -> HeapGraph {
    let mut builder = Builder::new();
    for (name, flags) in TYPES {
        let of = builder.add_type(Type { name: name.into(), assembly: "App".into(), flags }).unwrap();
        let base = (name != "object").then_some(TypeIx(0));
        builder.describe_type(of, TypeFacts { base, ..TypeFacts::default() }).unwrap();
    }
    let targets: Vec<u64> = (2..).take(references.len()).map(|place| place * 0x1000).collect();
    let object = |address, of| Object { address, type_ix: TypeIx(of), bytes: 64 };
    builder.add_object(object(0x1000, NODE), targets.iter().copied()).unwrap();
    for (address, of) in targets.iter().zip(references) {
        builder.add_object(object(*address, *of), []).unwrap();
    }
    builder.add_root(0x1000, RootKind::Static).unwrap();
    builder.finish().unwrap()
}

/// `Node { Leaf first; string name; Pair { int count; Leaf last } at; IThing thing }`.
fn layouts() -> Layouts {
    let slot = |kind, of: &str, layout| Slot { kind, of: of.into(), layout };
    let field = |name: &str, offset, slot| Field { name: name.into(), offset, slot };
    let class = |name: &str, class, fields| Layout {
        class: Some(TypeIx(class)),
        name: name.into(),
        family: String::new(),
        shape: Shape::Class { base: None, fields },
        source: Source::Reported,
    };
    let mut layouts = Layouts::default();
    let pair = vec![
        field("count", 0, slot(SlotKind(0x08), "int", None)),
        field("last", 8, slot(SlotKind::CLASS, "Leaf", None)),
    ];
    layouts.add(class("object", 0, Vec::new()));
    let fields = vec![
        field("thing", 32, slot(SlotKind::CLASS, "IThing", None)),
        field("first", 0, slot(SlotKind::CLASS, "Leaf", None)),
        field("name", 8, slot(SlotKind::STRING, "string", None)),
        field("at", 16, slot(SlotKind::VALUE, "Pair", Some(LayoutIx(4)))),
    ];
    layouts.add(class("Node", NODE, fields));
    layouts.add(class("Leaf", LEAF, Vec::new()));
    layouts.add(class("String", TEXT, Vec::new()));
    layouts.add(Layout {
        class: None,
        shape: Shape::Value { bytes: 16, fields: pair },
        ..class("Pair", 9, Vec::new())
    });
    layouts
}

#[track_caller]
fn check(references: &[u32], expected: &[Option<&str>]) {
    let (graph, layouts) = (node(references), layouts());
    let ways = Ways::new(&graph, &layouts);
    let found: Vec<Option<String>> =
        (1..=references.len() as u32).map(|target| ways.between(ObjectIx(0), ObjectIx(target))).collect();
    assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
}

#[test]
fn a_reference_is_of_the_field_that_its_type_and_its_neighbours_leave() {
    check(&[LEAF, TEXT, LEAF, LEAF], &[Some("first"), Some("name"), Some("at.last"), Some("thing")]);
    check(&[TEXT, LEAF, LEAF], &[Some("name"), Some("at.last"), Some("thing")]);
    // An interface may be anything, so these remain in doubt.
    check(&[LEAF], &[Some("first|at.last|thing")]);
    check(&[TEXT, LEAF], &[Some("name"), Some("at.last|thing")]);
    // More references than fields, and a node where none fits: the layout is not that of the object.
    check(&[LEAF, TEXT, LEAF, LEAF, LEAF], &[None; 5]);
    check(&[NODE, NODE], &[None; 2]);
}
