//! Walks over invented heaps.

use super::*;
use remora_heap_stream::statics::{Answer, Asked, FIELDS_AT_ONCE, Owner, Place, answer, question};
use remora_heap_stream::{ClassFacts, HANDLE_ROOT, HeapDecoder, HeapVisitor, LAYOUT_FIELDS, Layout, MOST_VALUES};
use remora_holds::holds;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

struct Object {
    class: u64,
    size: u64,
    references: Vec<u64>,
}

/// Fields of a class with more fields than fit into one record, and room for fewer.
const FIELDS: usize = 45;
const ROOM: usize = 40;

/// Objects by their addresses, one range.
struct Heap {
    range: HeapRange,
    objects: BTreeMap<u64, Object>,
}

impl HeapReader for Heap {
    fn ranges(&self, into: &mut [HeapRange]) -> usize {
        into[0] = self.range;
        1
    }
    fn class_of(&self, object: u64) -> Option<u64> {
        self.objects.get(&object).map(|object| object.class)
    }
    fn size_of(&self, object: u64) -> Option<u64> {
        self.objects.get(&object).map(|object| object.size)
    }
    fn references(&self, object: u64, visit: &mut dyn FnMut(u64)) {
        self.objects[&object].references.iter().for_each(|target| visit(*target));
    }
    fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
        arguments[0] = 0x900;
        match class {
            0x900 => HeapClass::Array { element: 0x700, element_kind: 0x12, rank: 1 },
            _ => HeapClass::Plain { module: 5, token: class as u32, parent: 0, arguments: usize::from(class == 0x700) },
        }
    }
    fn layout(&self, class: u64, fields: &mut [[u32; 2]]) -> Option<(usize, u32)> {
        (class == 0x800).then_some(())?;
        fields.iter_mut().zip(1..).for_each(|(place, number)| *place = [0x0400_0000 + number, 8 * number]);
        Some((FIELDS, 400))
    }
    fn class_with(&self, module: u64, method: u32) -> Option<u64> {
        (module == 5 && method < 0x0600_0010).then_some(u64::from(method))
    }
    fn static_at(&self, class: u64, field: u32) -> Result<u64, u32> {
        if field < 0x0400_0100 { Ok(class + u64::from(field & 0xff)) } else { Err(0x8013_1351) }
    }
}

impl Memory for &Heap {
    fn word(&self, address: u64) -> u64 {
        // The GC may set the lowest bit as a mark.
        self.objects.get(&address).map_or(0, |object| object.class | 1)
    }
}

/// The stream, the records beside it, the question words, and the answers.
#[derive(Default)]
struct Stream(Vec<u8>, Vec<u8>, Vec<u64>, Vec<Vec<u8>>);

impl StreamSink for Stream {
    fn put(&mut self, bytes: &[u8]) -> bool {
        self.0.extend_from_slice(bytes);
        true
    }
    fn put_aside(&mut self, record: &[u8]) -> bool {
        self.1.extend_from_slice(record);
        true
    }
    fn progress(&mut self, _: &Walked) {}
    fn question(&mut self, index: usize) -> Option<u64> {
        assert!(!self.0.is_empty(), "the stream is out before questions are read");
        self.2.get(index).copied()
    }
    fn answer(&mut self, record: &[u8]) -> bool {
        self.3.push(record.to_vec());
        true
    }
}

#[derive(Default)]
pub(super) struct Seen {
    classes: Vec<u64>,
    pub(super) objects: Vec<(u64, u64, u64, Vec<u64>)>,
    gaps: Vec<(u64, u64)>,
    broken: Vec<u64>,
    contents: Vec<(u64, u64, Vec<u8>)>,
    values: Vec<(u64, Vec<u8>)>,
    layouts: Vec<(u32, Layout)>,
    roots: Vec<(u64, u64, u64)>,
    pub(super) end: Option<u64>,
}

impl HeapVisitor for Seen {
    fn class(&mut self, id: u64, _: ClassFacts) {
        self.classes.push(id);
    }
    fn object(&mut self, address: u64, class: u32, size: u64) {
        self.objects.push((address, self.classes[class as usize], size, Vec::new()));
    }
    fn reference(&mut self, target: u64) {
        self.objects.last_mut().expect("an object").3.push(target);
    }
    fn gap(&mut self, address: u64, length: u64) {
        self.gaps.push((address, length));
    }
    fn broken(&mut self, address: u64) {
        self.broken.push(address);
    }
    fn content(&mut self, whole: u64, bytes: &[u8]) {
        let object = self.objects.last().expect("an object").0;
        self.contents.push((object, whole, bytes.to_vec()));
    }
    fn root(&mut self, kind: u64, address: u64, detail: u64) {
        self.roots.push((kind, address, detail));
    }
    fn values(&mut self, whole: u64, bytes: &[u8]) {
        self.values.push((whole, bytes.to_vec()));
    }
    fn layout(&mut self, class: u32, layout: Layout) {
        self.layouts.push((class, layout));
    }
    fn end(&mut self, objects: u64) {
        self.end = Some(objects);
    }
}

pub(super) fn walked<H: HeapReader>(heap: &H, places: usize, buffer: usize) -> (Walked, Seen)
where
    for<'a> &'a H: Memory,
{
    walked_for(Contents::Strings, heap, places, buffer)
}

fn walked_for<H: HeapReader>(contents: Contents, heap: &H, places: usize, buffer: usize) -> (Walked, Seen)
where
    for<'a> &'a H: Memory,
{
    let mut stream = Stream::default();
    let walked = walk_with(contents, heap, (places, buffer), &mut stream);
    let mut seen = Seen::default();
    HeapDecoder::default().push((&stream.0).into(), &mut seen).expect("what was written is read");
    assert_eq!(seen.roots, [(HANDLE_ROOT, 0x1000, 0x70)]);
    let mut beside = Seen::default();
    HeapDecoder::default().push((&stream.1).into(), &mut beside).expect("what was written is read");
    assert_eq!((beside.classes, beside.end, beside.objects), (seen.classes.clone(), seen.end, Vec::new()));
    assert_eq!(seen.layouts, [], "they are not kept as they are told");
    seen.layouts = beside.layouts;
    (walked, seen)
}

fn walk_with<H: HeapReader>(
    contents: Contents,
    heap: &H,
    (places, buffer): (usize, usize),
    stream: &mut Stream,
) -> Walked
where
    for<'a> &'a H: Memory,
{
    let (mut ranges, mut table) = ([HeapRange::default(); 4], vec![[0; 2]; places]);
    let mut shapes = vec![Shape::default(); places];
    let (mut classes, mut buffer) = (vec![0; places / 2], vec![0; buffer]);
    let area = HeapArea {
        ranges: &mut ranges,
        table: &mut table,
        classes: &mut classes,
        shapes: &mut shapes,
        fields: &mut [[0; 2]; ROOM],
        buffer: &mut buffer,
        roots: &[HeapRoot { kind: HANDLE_ROOT, address: 0x1000, detail: 0x70 }],
    };
    walk(heap, heap, contents, area, stream)
}

/// A walk into a stream, and then the answers about static fields from the cursor on.
fn walk_into(heap: &Heap, stream: &mut Stream, mut cursor: Cursor) -> Cursor {
    walk_with(Contents::None, heap, (16, 4096), stream);
    statics::tell(heap, &heap, stream, &mut cursor);
    cursor
}

fn heap(objects: &[(u64, u64, u64, &[u64])], length: u64) -> Heap {
    let object = |(address, class, size, references): &(u64, u64, u64, &[u64])| {
        (*address, Object { class: *class, size: *size, references: references.to_vec() })
    };
    Heap {
        range: HeapRange { kind: 2, start: 0x1000, length, reserved: length },
        objects: objects.iter().map(object).collect(),
    }
}

#[test]
fn every_object_is_reported_with_its_class_size_and_references() {
    let heap = heap(&[(0x1000, 0x700, 24, &[0x1018, 0]), (0x1018, 0x800, 30, &[0x1000, 0x1018])], 56);
    for buffer in [10, 64, 4096] {
        let (walked, seen) = walked(&heap, 16, buffer);
        assert_eq!((walked.objects, walked.bytes, walked.references, walked.broken), (2, 54, 3, 0));
        let expected = [(0x1000, 0x700, 24, vec![0x1018]), (0x1018, 0x800, 30, vec![0x1000, 0x1018])];
        assert_eq!((&seen.objects[..], seen.end), (&expected[..], Some(2)));
        // The argument of the first, and the element of that.
        assert_eq!(seen.classes, [0, 0x700, 0x900, 0x800]);
    }
}

#[test]
fn free_room_is_a_gap_and_no_object() {
    // The object's first word differs from its ClassID.
    const MARK: u64 = 0x600;
    struct Holes(Heap);
    impl HeapReader for Holes {
        fn ranges(&self, into: &mut [HeapRange]) -> usize {
            self.0.ranges(into)
        }
        fn class_of(&self, object: u64) -> Option<u64> {
            self.0.class_of(object).map(|class| if class == MARK { 0 } else { class })
        }
        fn size_of(&self, object: u64) -> Option<u64> {
            self.0.size_of(object)
        }
        fn references(&self, object: u64, visit: &mut dyn FnMut(u64)) {
            self.0.references(object, visit);
        }
        fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
            self.0.class(class, arguments)
        }
    }
    impl Memory for &Holes {
        fn word(&self, address: u64) -> u64 {
            (&self.0).word(address)
        }
    }
    let objects = [
        (0x1000, MARK, 24, &[][..]),
        (0x1018, 0x800, 24, &[0x1030]),
        (0x1030, 0x800, 24, &[]),
        (0x1048, MARK, 100, &[]),
        (0x10b0, 0x800, 24, &[]),
    ];
    let (walked, seen) = walked(&Holes(heap(&objects, 0xc8)), 16, 64);
    assert_eq!((walked.objects, walked.bytes, walked.without_class, walked.broken), (3, 72, 0, 0));
    assert_eq!(seen.objects.iter().map(|object| object.0).collect::<Vec<_>>(), [0x1018, 0x1030, 0x10b0]);
    assert_eq!(seen.gaps, [(0x1000, 24), (0x1048, 100)]);
}

#[test]
fn the_characters_of_a_string_follow_it_and_those_of_nothing_else() {
    const TEXT: u64 = 0x600;
    const OTHER: u64 = 0x640;
    /// A string of five characters and an array of as many, as in memory.
    struct Texts(Heap, BTreeMap<u64, u64>);
    impl HeapReader for Texts {
        fn ranges(&self, into: &mut [HeapRange]) -> usize {
            self.0.ranges(into)
        }
        fn class_of(&self, object: u64) -> Option<u64> {
            self.0.class_of(object)
        }
        fn size_of(&self, object: u64) -> Option<u64> {
            self.0.size_of(object)
        }
        fn references(&self, _: u64, _: &mut dyn FnMut(u64)) {}
        fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
            self.0.class(class, arguments)
        }
    }
    impl Memory for &Texts {
        fn word(&self, address: u64) -> u64 {
            self.1.get(&address).copied().unwrap_or_else(|| (&self.0).word(address))
        }
    }
    let elements = 0x8000_0000 | 2;
    let memory = BTreeMap::from([
        (TEXT, shape::TEXT_BASE << 32 | elements),
        (OTHER, 24 << 32 | elements),
        (0x1008, 0x0042_0041_0000_0005),
        (0x1010, 0x0045_0044_0043),
        (0x1028, 5),
        (0x1030, 0x0044_0043_0042_0041),
    ]);
    let heap = heap(&[(0x1000, TEXT, 32, &[]), (0x1020, OTHER, 34, &[])], 72);
    for buffer in [10, 64, 4096] {
        let (_, seen) = walked(&Texts(clone(&heap), memory.clone()), 16, buffer);
        assert_eq!(seen.contents, [(0x1000, 10, b"A\0B\0C\0D\0E\0".to_vec())]);
        assert_eq!(seen.objects.len(), 2);
    }
}

fn clone(heap: &Heap) -> Heap {
    let copy = |object: &Object| Object { references: object.references.clone(), ..*object };
    Heap { range: heap.range, objects: heap.objects.iter().map(|(at, object)| (*at, copy(object))).collect() }
}

#[test]
fn with_values_what_stands_in_objects_is_reported_and_how_their_classes_are_laid_out() {
    let heap = heap(&[(0x1000, 0x800, 24, &[]), (0x1018, 0x800, 5001, &[])], 24 + 5008);
    for buffer in [10, 64, 4096] {
        let (walked, seen) = walked_for(Contents::Values, &heap, 16, buffer);
        // After the class, without the header of the next object.
        let reported: Vec<(u64, usize)> = seen.values.iter().map(|(whole, bytes)| (*whole, bytes.len())).collect();
        assert_eq!((walked.objects, &reported[..]), (2, &[(8, 8), (4985, MOST_VALUES as usize)][..]));
        let [(1, first), (1, second)] = &seen.layouts[..] else { panic!("{:?}", seen.layouts) };
        let numbers = |layout: &Layout| (layout.bytes, layout.count as usize, layout.fields.len());
        assert_eq!(numbers(first), (400, FIELDS, LAYOUT_FIELDS));
        assert_eq!(numbers(second), (400, FIELDS, ROOM - LAYOUT_FIELDS));
        assert_eq!((first.fields[0], second.fields[0]), ((0x0400_0001, 8), (0x0400_001f, 8 * 31)));
    }
    let (_, seen) = walked_for(Contents::Strings, &heap, 16, 64);
    // Layouts hold no data of the application: every snapshot has them.
    assert_eq!((seen.values.len(), seen.layouts.len()), (0, 2));
}

#[test]
fn a_range_that_cannot_be_walked_is_said_to_be_broken_from_there_on() {
    for (objects, length) in [
        (&[(0x1000, 0x700, 24, &[][..])][..], 64),
        (&[(0x1000, 0x700, 24, &[][..]), (0x1018, 0x700, 8, &[][..])][..], 64),
        (&[(0x1000, 0x700, 24, &[][..]), (0x1018, 0x700, 64, &[][..])][..], 64),
    ] {
        let (walked, seen) = walked(&heap(objects, length), 16, 64);
        assert_eq!((walked.objects, walked.broken, &seen.broken[..]), (1, 1, &[0x1018][..]));
    }
}

#[test]
fn a_class_for_which_there_is_no_room_is_unknown_and_counted() {
    let heap = heap(&[(0x1000, 0x700, 24, &[]), (0x1018, 0x800, 24, &[])], 48);
    let (walked, seen) = walked(&heap, 4, 64);
    assert_eq!((walked.without_class, seen.objects[1].1), (1, 0));
}

#[test]
fn gch_06_static_fields_are_reported_behind_the_walk_and_those_of_classes_that_are_not_loaded_are_not() {
    let heap = heap(&[(0x1000, 0x800, 24, &[])], 24);
    let asked = |fields: &[(u32, bool)]| -> Vec<Asked> {
        fields.iter().map(|(field, reads)| Asked { field: 0x0400_0000 | field, reads: *reads }).collect()
    };
    let many: Vec<(u32, bool)> = (0..FIELDS_AT_ONCE as u32 + 2).map(|field| (field, false)).collect();
    let questions = [
        question(Owner::OfMethod { module: 5, method: 0x0600_0011 }, &asked(&[(1, true)])).collect::<Vec<_>>(),
        question(Owner::Class(0x1000), &asked(&[(0, true), (2, true), (2, false), (0x100, true)])).collect(),
        question(Owner::OfMethod { module: 5, method: 0x0600_0001 }, &asked(&many)).collect(),
    ];
    let mut stream = Stream(Vec::new(), Vec::new(), questions.concat(), Vec::new());
    let end = walk_into(&heap, &mut stream, Cursor::default());
    let place = |address, value| Ok(Place { address, value });
    // A mark in the lowest bit; the rest of the word after two bytes.
    let first = vec![place(0x1000, Some(0x801)), place(0x1002, Some(0)), place(0x1002, None), Err(0x8013_1351)];
    let of_many = |from: u64, count: u64| (from..from + count).map(|at| place(0x0600_0001 + at, None)).collect();
    let expected = [
        Answer::Fields { question: 1, first: 0, places: first },
        Answer::Fields { question: 2, first: 0, places: of_many(0, 28) },
        Answer::Fields { question: 2, first: 28, places: of_many(28, 2) },
        Answer::End(3),
    ];
    let reported = |stream: &Stream| -> Vec<Answer> {
        stream.3.iter().map(|bytes| answer(bytes.into()).expect("what was written is read")).collect()
    };
    holds!(GCH_06 rem, reported(&stream) == expected);
    // After a fault in the first question, the answers continue after it.
    let mut rest = Stream(Vec::new(), Vec::new(), questions.concat(), Vec::new());
    let mut cut = Stream(Vec::new(), Vec::new(), questions[..2].concat(), Vec::new());
    let behind_the_second = walk_into(&heap, &mut cut, Cursor::default());
    assert_eq!(walk_into(&heap, &mut rest, behind_the_second), end);
    assert_eq!(reported(&rest), expected[1..]);
}

#[test]
fn questions_that_are_cut_short_are_no_answer() {
    let heap = heap(&[(0x1000, 0x800, 24, &[])], 24);
    let fields = [Asked { field: 0x0400_0001, reads: false }; 3];
    let mut words: Vec<u64> = question(Owner::Class(0x1000), &fields).collect();
    words.pop();
    let mut stream = Stream(Vec::new(), Vec::new(), words, Vec::new());
    walk_into(&heap, &mut stream, Cursor::default());
    assert_eq!(stream.3, Vec::<Vec<u8>>::new(), "neither an answer nor an end");
}
