//! A snapshot with a record, a chunk and a field of every kind: what the golden files of each version hold.

use remora_heap::layout::{Field, Layout, Layouts, Shape, Slot, SlotKind, Source};
use remora_heap::{StaticContent, StaticField, TypeIx};
use remora_heap_file::{Error, MethodRow, State, TypeRow, Writer};
use remora_heap_stream::{
    ARRAY_CLASS, BROKEN, CLASS, CONTENT, DEPENDENT_ROOT, END, FINALIZER_ROOT, FIRST_CLASS, FORM, FROZEN, GAP,
    HANDLE_ROOT, LENGTHY, OTHER_ROOT, PINNED_ROOT, PLAIN_CLASS, RANGE, ROOT, STACK_ROOT, UNKNOWN_CLASS, VALUES,
    distance, written,
};

/// Where the first object is.
pub const BASE: u64 = 0x7f00_0000_0000;

const NODE: u64 = FIRST_CLASS;
const NODES: u64 = FIRST_CLASS + 1;
const TEXT: u64 = FIRST_CLASS + 2;
const NAMELESS: u64 = FIRST_CLASS + 3;

/// The objects: nodes at 0 and 32, an array of both at 64, a string at 104, one of an unknown class at 136, then 16 free bytes. A second
/// range cannot be walked behind its first node. The third is frozen.
fn stream() -> Vec<u8> {
    let at = |offset: u64| BASE + offset;
    let mut numbers = vec![RANGE, 2, at(0), 176];
    numbers.extend([CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0x79, 1, 0x71]);
    numbers.extend([CLASS, 0x71, ARRAY_CLASS, 0x70, 0x12, 1]);
    numbers.extend([CLASS, 0x72, PLAIN_CLASS, 0x81, 0x0200_0004, 0, 0]);
    numbers.extend([CLASS, 0x73, UNKNOWN_CLASS, 0x8000_4005]);
    numbers.extend([
        NODE,
        32,
        distance(at(0), at(32)),
        distance(at(0), at(0)),
        0,
        VALUES,
        8,
        8,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
    ]);
    // Every node from here on has 32 bytes and one place for a reference.
    numbers.extend([FORM, 0, 32, 1, NODE, distance(at(32), at(104))]);
    numbers.extend([NODES, 40, distance(at(64), at(0)), distance(at(64), at(32)), 0]);
    numbers.extend([TEXT, 26, 0, CONTENT, 4, 4, 0x48, 0, 0x69, 0]);
    numbers.extend([NAMELESS, 24, 0, GAP, 16]);
    numbers.extend([RANGE, 0, at(4096), 96, LENGTHY, NODE, 32, 0, BROKEN, at(4128)]);
    numbers.extend([RANGE, FROZEN, at(8192), 32, TEXT, 30, 0, CONTENT, 8, 4, 0x7a, 0, 0x7a, 0]);
    for (kind, object, detail) in [
        (STACK_ROOT, at(0), 0x4001),
        (HANDLE_ROOT, at(32), 0x5001),
        (FINALIZER_ROOT, at(64), 0),
        (PINNED_ROOT, at(104), 0x4002),
        (DEPENDENT_ROOT, at(32), at(0)),
        (OTHER_ROOT, at(4096), 0),
    ] {
        numbers.extend([ROOT, kind, object, detail]);
    }
    numbers.extend([END, 7]);
    written(&numbers)
}

fn types() -> Vec<TypeRow> {
    let row = |name: &str, flags| TypeRow { name: name.into(), assembly: "Known".into(), flags, ..TypeRow::default() };
    let events = vec![("Changed".to_owned(), "System.EventHandler".to_owned())];
    vec![TypeRow { events, ..row("Known.Node", 0) }, row("Known.Node[]", 1), row("string", 2)]
}

fn layouts() -> Layouts {
    let slot = |kind, of: &str| Slot { kind, of: of.into(), layout: None };
    let mut layouts = Layouts::default();
    let mut add = |class: Option<u32>, name: &str, shape, source| {
        layouts.add(Layout { class: class.map(TypeIx), name: name.into(), family: format!("{name}`1"), shape, source });
    };
    let number = Slot { layout: Some(remora_heap::layout::LayoutIx(1)), ..slot(SlotKind::VALUE, "Known.Kind") };
    let fields = vec![
        Field { name: "next".into(), offset: 8, slot: slot(SlotKind::CLASS, "Known.Node") },
        Field { name: "kind".into(), offset: 16, slot: number },
    ];
    add(Some(0), "Known.Node", Shape::Class { base: None, fields: fields.clone() }, Source::Reported);
    let members = vec![("None".to_owned(), 0), ("All".to_owned(), u64::MAX)];
    add(
        None,
        "Known.Kind",
        Shape::Enum { number: slot(SlotKind(8), "int"), is_flags: true, members },
        Source::Reported,
    );
    add(
        Some(1),
        "Known.Node[]",
        Shape::Array { element: slot(SlotKind::CLASS, "Known.Node"), rank: 1 },
        Source::Reported,
    );
    add(None, "Known.Pair", Shape::Value { bytes: 16, fields }, Source::Computed);
    add(Some(3), "Known.Other", Shape::Unknown, Source::Reported);
    layouts
}

fn statics() -> Vec<StaticField> {
    let field = |name: &str, kind, content| StaticField {
        owner: "Known.Cache".into(),
        assembly: "Known".into(),
        name: name.into(),
        slot: Slot { kind, of: "Node".into(), layout: None },
        content,
    };
    vec![
        field("first", SlotKind::CLASS, StaticContent::Bits(BASE)),
        field("boxed", SlotKind::VALUE, StaticContent::Box(BASE + 32)),
        field("number", SlotKind(0x0a), StaticContent::Bits(7)),
        field("not kept", SlotKind(0x0a), StaticContent::NotKept),
    ]
}

fn state() -> State {
    State {
        taken_unix_nanoseconds: 1_790_000_000_000_000_000,
        process_id: 7,
        application: "known".into(),
        command_line: "known --all".into(),
        runtime: ".NET 8.0.4".into(),
        collection_nanoseconds: Some(57_200_000),
        copy_nanoseconds: Some(2_100_000),
        extra_memory_bytes: Some(4096),
        has_garbage: true,
        has_texts: true,
        has_values: true,
        ranges_unwalked: 1,
        objects_unwalked: 2,
        complete: true,
        has_static_fields: true,
        notes: vec!["a note".into(), "another".into()],
    }
}

/// The file that the current version writes.
pub fn file() -> Result<Vec<u8>, Error> {
    let mut writer = Writer::create(Vec::new())?;
    writer.stream(&stream())?;
    writer.types(&types())?;
    writer.methods(&[
        MethodRow { id: 0x4001, name: "Known.Program.Main(string[])".into() },
        MethodRow { id: 0x4002, name: "Known.Program.Pin()".into() },
    ])?;
    writer.layouts(&layouts())?;
    writer.statics(&statics())?;
    writer.finish(&state())
}
