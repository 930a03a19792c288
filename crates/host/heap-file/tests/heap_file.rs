//! Snapshots written and read back: whole, cut, changed, made up.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_heap::layout::{Field, Layout, Layouts, Shape, Slot, SlotKind, Source};
use remora_heap::{RootKind, StaticContent, StaticField, TypeIx};
use remora_heap_file::{
    Error, Identity, Limits, MethodRow, Snapshot, State, TypeRow, Writer, is_snapshot, read, texts,
};
use remora_heap_stream::{
    ARRAY_CLASS, BROKEN, CLASS, CONTENT, END, FIRST_CLASS, GAP, PLAIN_CLASS, RANGE, distance, written as bytes,
};

/// The objects of the known snapshot: a ring of so many nodes.
const NODES: u64 = 200_000;
const BASE: u64 = 0x7f00_0000_0000;

fn node(index: u64) -> u64 {
    BASE + index % NODES * 24
}

/// What a copy would tell of the ring, beside an array that is not in it, and a gap.
fn stream(last: &[u64]) -> Vec<u8> {
    let mut numbers = vec![RANGE, 2, BASE, NODES * 24 + 64];
    numbers.extend([CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0, 0]);
    numbers.extend([CLASS, 0x71, ARRAY_CLASS, 0x70, 0x12, 1]);
    for index in 0..NODES {
        numbers.extend([FIRST_CLASS, 24, distance(node(index), node(index + 1)), 0]);
    }
    numbers.extend([FIRST_CLASS + 1, 30, distance(node(NODES), node(0)), 0, GAP, 32]);
    numbers.extend(last);
    bytes(&numbers)
}

fn types() -> Vec<TypeRow> {
    let row = |name: &str, flags| TypeRow { name: name.into(), assembly: "Known".into(), flags, ..TypeRow::default() };
    vec![row("Known.Node", 0), row("Known.Node[]", 1)]
}

fn state() -> State {
    State {
        process_id: 7,
        application: "known".into(),
        complete: true,
        notes: vec!["a note".into()],
        ..State::default()
    }
}

fn written(stream: &[u8]) -> Vec<u8> {
    let mut writer = Writer::create(Vec::new()).unwrap();
    stream.chunks(70_001).for_each(|piece| writer.stream(piece).unwrap());
    writer.types(&types()).unwrap();
    writer.finish(&state()).unwrap()
}

fn whole() -> Vec<u8> {
    written(&stream(&[END, NODES + 1]))
}

fn read_all(file: &[u8]) -> Result<Snapshot, Error> {
    read(file, Limits::MOST)
}

#[test]
fn what_was_written_is_read() {
    let file = whole();
    assert!(is_snapshot(&file) && !is_snapshot(b"REMORA"));
    assert!(file.len() as u64 <= 12 * NODES, "12 bytes an object, its references included: {}", file.len());
    let snapshot = read_all(&file).unwrap();
    assert!(snapshot.is_complete());
    assert_eq!((snapshot.unknown_chunks, snapshot.torn_bytes, &snapshot.state), (0, 0, &state()));
    assert_eq!(snapshot.free_bytes, 32);
    let graph = &snapshot.graph;
    assert_eq!((graph.object_count() as u64, graph.reference_count() as u64), (NODES + 1, NODES + 1));
    let first = graph.object_at(node(0)).unwrap();
    assert_eq!((graph.bytes(first), &*graph.type_of(first).name), (24, "Known.Node"));
    assert_eq!(graph.references(first).map(|target| graph.address(target)).collect::<Vec<_>>(), [node(1)]);
}

#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there_and_never_called_whole() {
    let file = whole();
    let mut objects = 0;
    for cut in (0..file.len()).step_by(file.len() / 200) {
        match read_all(&file[..cut]) {
            Ok(snapshot) => {
                assert!(!snapshot.whole && !snapshot.is_complete(), "cut at {cut}");
                let now = snapshot.graph.object_count();
                assert!(now >= objects, "cut at {cut}");
                objects = now;
            }
            Err(Error::Truncated { length }) => assert_eq!(length, cut as u64),
            Err(Error::NotASnapshot) => assert_eq!(cut, 0),
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
    assert!(objects > 0);
}

#[test]
fn a_changed_byte_is_noticed_wherever_it_is() {
    let file = whole();
    for place in (0..file.len()).step_by(file.len() / 300) {
        let mut changed = file.clone();
        changed[place] ^= 0x55;
        if let Ok(snapshot) = read_all(&changed) {
            // Nothing is silent: a length that leads beyond the end looks like a file that ends early.
            assert!(!snapshot.is_complete(), "byte {place}");
        }
    }
}

#[test]
fn what_the_copy_could_not_walk_is_in_the_account() {
    let broken = stream(&[BROKEN, node(NODES - 1) + 24 + 64, END, NODES + 1]);
    let snapshot = read_all(&written(&broken)).unwrap();
    assert!(snapshot.whole && !snapshot.is_complete());
    assert_eq!(snapshot.graph.completeness().ranges_unwalked, 1);
    let unended = read_all(&written(&stream(&[]))).unwrap();
    assert!(!unended.whole && !unended.is_complete(), "the stream has no end");
}

#[test]
fn classes_without_a_row_have_a_type_that_says_so() {
    let mut writer = Writer::create(Vec::new()).unwrap();
    writer.stream(&stream(&[END, NODES + 1])).unwrap();
    let snapshot = read_all(&writer.finish(&state()).unwrap()).unwrap();
    assert_eq!(snapshot.graph.completeness().types_unknown, NODES + 1);
    assert!(!snapshot.is_complete());
}

#[test]
fn more_than_is_allowed_is_refused() {
    let limits = Limits { objects: 1000, ..Limits::MOST };
    assert!(matches!(read(&whole()[..], limits), Err(Error::Graph(_))));
}

#[test]
fn a_newer_file_names_who_reads_it_and_a_stranger_is_no_snapshot() {
    let mut newer = whole();
    // The number of the version.
    newer[6] = 9;
    assert!(matches!(read_all(&newer), Err(Error::Newer { version: 9, .. })));
    for stranger in [&b""[..], b"REMORA", b"PK\x03\x04 and more"] {
        assert!(matches!(read_all(stranger), Err(Error::NotASnapshot)));
    }
}

#[test]
fn the_characters_of_strings_are_shown_with_the_strings_that_have_them() {
    let mut numbers = vec![RANGE, 2, BASE, 96, CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0, 0];
    numbers.extend([FIRST_CLASS, 24, 0, FIRST_CLASS, 26, 0, CONTENT, 4, 4, 0x41, 0, 0x42, 0]);
    numbers.extend([FIRST_CLASS, 24, 0, CONTENT, 20_000, 2, 0x43, 0, END, 3]);
    let file = written(&bytes(&numbers));
    let mut seen = Vec::new();
    texts(&file[..], |text| seen.push((text.address, text.bytes, text.text(), text.characters, text.is_whole())))
        .unwrap();
    let expected = [(BASE + 24, 26, "AB".to_owned(), 2, true), (BASE + 56, 24, "C".to_owned(), 10_000, false)];
    assert_eq!(seen, expected);
    assert!(read_all(&file).unwrap().is_complete(), "the graph is the same with them");
    let mut none = 0;
    texts(&whole()[..], |_| none += 1).unwrap();
    assert_eq!(none, 0);
}

#[test]
fn a_file_with_another_content_has_another_identity() {
    let of = |file: &[u8]| Identity::of(std::io::Cursor::new(file)).unwrap();
    let file = whole();
    assert_eq!(of(&file), of(&whole()));
    let mut writer = Writer::create(Vec::new()).unwrap();
    writer.stream(&stream(&[END, NODES + 1])).unwrap();
    writer.types(&types()).unwrap();
    // As long as the other.
    let other = writer.finish(&State { process_id: 8, ..state() }).unwrap();
    assert_eq!(of(&other).length, of(&file).length);
    assert_ne!(of(&other).digest, of(&file).digest);
    assert_ne!(of(&file[..file.len() - 1]), of(&file));
    assert!(matches!(Identity::of(std::io::Cursor::new(b"PK")), Err(Error::NotASnapshot)));
}

/// What a static field holds is held by it: by a reference, or in a box; and its name stands with it.
#[test]
fn what_static_fields_hold_has_roots_with_their_names() {
    let field = |name: &str, kind, content| StaticField {
        owner: "Known.Cache".into(),
        assembly: "Known".into(),
        name: name.into(),
        slot: Slot { kind, of: "Node".into(), layout: None },
        content,
    };
    let fields = [
        field("first", SlotKind::CLASS, StaticContent::Bits(node(0))),
        field("<Again>k__BackingField", SlotKind::OBJECT, StaticContent::Bits(node(0))),
        field("boxed", SlotKind::VALUE, StaticContent::Box(node(1))),
        field("nowhere", SlotKind::CLASS, StaticContent::Bits(7)),
        field("nothing", SlotKind::CLASS, StaticContent::Bits(0)),
        field("number", SlotKind(0x0a), StaticContent::Bits(node(2))),
    ];
    let mut writer = Writer::create(Vec::new()).unwrap();
    writer.stream(&stream(&[END, NODES + 1])).unwrap();
    writer.types(&types()).unwrap();
    writer.statics(&fields).unwrap();
    let snapshot = read_all(&writer.finish(&state()).unwrap()).unwrap();
    assert_eq!(snapshot.statics, fields);
    let graph = &snapshot.graph;
    let note = |index| graph.root_note(graph.object_at(node(index)).unwrap(), RootKind::Static);
    assert_eq!(note(0), Some("Known.Cache.first, Known.Cache.Again"));
    assert_eq!((note(1), note(2)), (Some("Known.Cache.boxed"), None));
    assert_eq!(graph.roots().iter().filter(|root| root.kind == RootKind::Static).count(), 3);
}

#[test]
fn regression_whatever_names_a_process_has_its_snapshot_is_read() {
    // One name that packs to nothing, in so many rows; and rows that are as long as they can be, of bytes that are longest in JSON.
    for (count, text, events, fields) in [(600, "n", 0, 0), (12, "\u{1}", 300, 40)] {
        let long = text.repeat(20 << 10);
        let event = (text.repeat(2 << 10), text.repeat(2 << 10));
        let row = TypeRow { name: long.clone(), assembly: long.clone(), flags: 0, events: vec![event; events] };
        let slot = || Slot { kind: SlotKind::CLASS, of: long.clone(), layout: None };
        let field = StaticField {
            owner: long.clone(),
            assembly: long.clone(),
            name: long.clone(),
            slot: slot(),
            content: StaticContent::Bits(BASE),
        };
        let fields = vec![Field { name: long.clone(), offset: 0, slot: slot() }; fields];
        let mut layouts = Layouts::default();
        for index in 0..count {
            layouts.add(Layout {
                class: Some(TypeIx(index as u32)),
                name: long.clone(),
                family: long.clone(),
                shape: Shape::Class { base: None, fields: fields.clone() },
                source: Source::Reported,
            });
        }
        let mut writer = Writer::create(Vec::new()).unwrap();
        writer.stream(&stream(&[END, NODES + 1])).unwrap();
        writer.types(&vec![row; count]).unwrap();
        let method = |id| MethodRow { id, name: long.clone() };
        writer.methods(&(0..count as u64).map(method).collect::<Vec<_>>()).unwrap();
        writer.layouts(&layouts).unwrap();
        writer.statics(&vec![field; count]).unwrap();
        let notes = vec![long.clone(); 100];
        let file =
            writer.finish(&State { command_line: long.clone(), runtime: long.clone(), notes, ..state() }).unwrap();
        let snapshot = read_all(&file).unwrap();
        assert!(snapshot.whole);
        assert_eq!((snapshot.graph.types().len(), snapshot.statics.len()), (count, count));
        let layouts = remora_heap_file::layouts(&file[..]).unwrap();
        assert_eq!(layouts.iter().count(), count);
        assert_eq!(
            layouts.iter().all(|layout| matches!(layout.shape, Shape::Unknown)),
            events > 0,
            "too long to be kept"
        );
    }
}
