//! The walk over a heap that stands still, in a copy of the process that was forked for it.
//!
//! The copy has one thread, and locks that nobody will ever unlock: it allocates nothing, takes no lock, and calls of the runtime only
//! what does neither. What it cannot walk it says and passes over. A fault ends the copy, not the process.

mod pen;
mod shape;

use pen::{Pen, Record};
use remora_wire::Contents;
use remora_wire::heap::{
    ARRAY_CLASS, BROKEN, CLASS, CONTENT, END, FIRST_CLASS, FROZEN, GAP, MOST_CONTENT, PLAIN_CLASS, RANGE,
    UNKNOWN_CLASS, UNTOLD, WORD, distance,
};
pub use shape::Shape;
use shape::{Digest, Memory, Shapes, Trust};

/// Type arguments of a class that are told.
pub const MOST_ARGUMENTS: usize = 64;

/// The smallest object there is, bytes: what is said to be smaller is none.
const SMALLEST: u64 = 24;

/// Proof that this is a forked copy of the process, which nobody else runs in.
#[derive(Debug)]
pub struct InFork(());

impl InFork {
    /// To be made in the copy alone.
    ///
    /// # Safety
    /// The calling thread is the only one of its process.
    pub unsafe fn new() -> InFork {
        InFork(())
    }
}

/// A part of the heap.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapRange {
    /// A generation, or [`FROZEN_RANGE`].
    pub kind: i32,
    /// The first object.
    pub start: u64,
    /// Bytes in use.
    pub length: u64,
    /// Bytes reserved.
    pub reserved: u64,
}

/// What is known of a class, its type arguments apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapClass {
    /// The runtime says nothing but this code.
    Unknown(u32),
    /// A class or value type.
    Plain {
        /// ModuleID.
        module: u64,
        /// mdTypeDef.
        token: u32,
        /// ClassID of what it derives from, or 0.
        parent: u64,
        /// Type arguments, of which as many as fit were written.
        arguments: usize,
    },
    /// An array.
    Array {
        /// ClassID of the element, or 0.
        element: u64,
        /// CorElementType of the element.
        element_kind: u32,
        /// Dimensions.
        rank: u32,
    },
}

/// A heap that stands still.
pub trait StandingHeap {
    /// Its parts, in any order; how many there are, which may be more than fitted.
    fn ranges(&self, into: &mut [HeapRange]) -> usize;
    /// The class of an object.
    fn class_of(&self, object: u64) -> Option<u64>;
    /// The size of an object, bytes.
    fn size_of(&self, object: u64) -> Option<u64>;
    /// Shows what an object refers to.
    fn references(&self, object: u64, visit: &mut dyn FnMut(u64));
    /// What a class is.
    fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass;
}

/// The copy's own memory.
struct Own<'a>(&'a InFork);

impl Memory for Own<'_> {
    #[inline]
    fn word(&self, address: u64) -> u64 {
        let InFork(()) = self.0;
        // SAFETY: nobody else runs here, and the address lies in a range that the runtime has told, or in a class that an object in it
        // names. Where that is no longer true, the fault ends the copy, or is forgiven.
        unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() }
    }
}

/// Where the stream goes.
pub trait Outlet {
    /// Takes bytes; waits for room. False: nobody wants them any more.
    fn put(&mut self, bytes: &[u8]) -> bool;
    /// The same for a record that is told a second time, beside the stream.
    fn put_beside(&mut self, record: &[u8]) -> bool;
    /// So much has been walked.
    fn progress(&mut self, walked: &Walked);
}

/// What has been walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walked {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// References.
    pub references: u64,
    /// Ranges that could not be walked to their end.
    pub broken: u64,
    /// Ranges that did not fit into the list, so that nothing of them was walked.
    pub left_out: u64,
    /// Objects whose class did not fit into the table: they are told as of an unknown class.
    pub without_class: u64,
    /// Objects of which the runtime said otherwise than the description of their class, which was believed by then: others of the class
    /// may have been told of as they are not.
    pub contradicted: u64,
}

/// Memory for a walk, made before the fork and zero.
pub struct HeapArea<'a> {
    /// For the parts of the heap.
    pub ranges: &'a mut [HeapRange],
    /// A power of two of places for classes: what is met in objects, and the number behind it.
    pub table: &'a mut [[u64; 2]],
    /// The classes' ids by their numbers: no more than half of the table's places.
    pub classes: &'a mut [u64],
    /// A power of two of places for how the objects of a class lie.
    pub shapes: &'a mut [Shape],
    /// What has not been put yet.
    pub buffer: &'a mut [u8],
}

/// Walks the whole heap and tells of it.
pub fn walk_heap(
    fork: &InFork,
    heap: &dyn StandingHeap,
    contents: Contents,
    area: HeapArea<'_>,
    outlet: &mut dyn Outlet,
) -> Walked {
    walk(Own(fork), heap, contents, area, outlet)
}

/// The same over any memory. Made here for the copy's, and not where it is called, for the sake of its speed.
fn walk(
    words: impl Memory,
    heap: &dyn StandingHeap,
    contents: Contents,
    mut area: HeapArea<'_>,
    outlet: &mut dyn Outlet,
) -> Walked {
    // Taken out, since the rest goes into the walk.
    let ranges = core::mem::take(&mut area.ranges);
    let total = heap.ranges(ranges);
    let count = total.min(ranges.len());
    let mut walk = Walk::new(words, heap, contents, area, outlet);
    walk.walked.left_out = (total - count) as u64;
    for range in ranges.iter().take(count) {
        walk.range(range);
        walk.say_how_far();
        if !walk.pen.wanted {
            break;
        }
    }
    walk.end()
}

/// A walk that is shown its objects one by one, in place of ranges.
pub struct ShownWalk<'a> {
    walk: Walk<'a, Own<'a>>,
    /// Behind the last object.
    cursor: u64,
}

impl<'a> ShownWalk<'a> {
    /// Begins it.
    pub fn new(
        fork: &'a InFork,
        heap: &'a dyn StandingHeap,
        contents: Contents,
        area: HeapArea<'a>,
        outlet: &'a mut dyn Outlet,
    ) -> ShownWalk<'a> {
        ShownWalk { walk: Walk::new(Own(fork), heap, contents, area, outlet), cursor: 0 }
    }

    /// Tells of an object. False: nobody wants more.
    pub fn object(&mut self, object: u64) -> bool {
        let walk = &mut self.walk;
        if object != self.cursor {
            // What lies between is not known to be free.
            walk.pen.numbers(&[RANGE, UNTOLD, object, 0]);
        }
        match walk.object(object, u64::MAX) {
            Some(next) => self.cursor = next,
            None => {
                walk.walked.broken += 1;
                walk.pen.numbers(&[BROKEN, object]);
                self.cursor = 0;
            }
        }
        if walk.walked.objects.is_multiple_of(BETWEEN_WORDS) {
            walk.say_how_far();
        }
        walk.pen.wanted
    }

    /// That was all.
    pub fn end(mut self) -> Walked {
        self.walk.end()
    }
}

struct Walk<'a, M> {
    heap: &'a dyn StandingHeap,
    words: M,
    classes: Classes<'a>,
    shapes: Shapes<'a>,
    tells_texts: bool,
    pen: Pen<'a>,
    walked: Walked,
}

/// Where the object behind one of that size lies; `None` if there cannot be one of that size.
#[inline]
fn behind(object: u64, size: u64, end: u64) -> Option<u64> {
    let next = object.checked_add(size.checked_next_multiple_of(WORD)?)?;
    (size >= SMALLEST && next <= end).then_some(next)
}

/// Tells the characters of a string: their number is its second word's lower half, and they begin with the upper one (what GetStringLayout2
/// answers on every runtime: 8 and 12).
fn tell_text(pen: &mut Pen<'_>, words: &impl Memory, object: u64, size: u64) {
    let whole = (words.word(object + WORD) & u64::from(u32::MAX)) * 2;
    let told = whole.min(MOST_CONTENT).min(size.saturating_sub(shape::TEXT_BASE));
    pen.numbers(&[CONTENT, whole, told]);
    for index in 0..told {
        let at = object + TEXT_AT + index;
        pen.byte((words.word(at & !(WORD - 1)) >> (8 * (at % WORD))) as u8);
    }
}

/// Where the characters of a string begin.
const TEXT_AT: u64 = 12;

impl Walked {
    #[inline]
    fn add(&mut self, size: u64, references: u64) {
        self.objects += 1;
        self.bytes += size;
        self.references += references;
    }
}

/// How many objects are walked between two words on the progress.
const BETWEEN_WORDS: u64 = 4096;

impl<'a, M: Memory> Walk<'a, M> {
    fn new(
        words: M,
        heap: &'a dyn StandingHeap,
        contents: Contents,
        area: HeapArea<'a>,
        outlet: &'a mut dyn Outlet,
    ) -> Walk<'a, M> {
        let mut walk = Walk {
            heap,
            words,
            classes: Classes { table: area.table, ids: area.classes, count: 0, told: 0 },
            shapes: Shapes::new(area.shapes),
            tells_texts: contents == Contents::Strings,
            pen: Pen::new(area.buffer, outlet),
            walked: Walked::default(),
        };
        // Number 0 is for whatever has no other.
        walk.classes.add(0);
        walk
    }

    fn say_how_far(&mut self) {
        let walked = self.walked;
        self.pen.outlet.progress(&walked);
    }

    /// That was all.
    fn end(&mut self) -> Walked {
        let objects = self.walked.objects;
        self.pen.record_twice(&Record::of(&[END, objects]));
        self.pen.flush();
        self.say_how_far();
        self.walked
    }

    fn range(&mut self, range: &HeapRange) {
        self.pen.numbers(&[RANGE, u64::from(range.kind.unsigned_abs()), range.start, range.length]);
        let end = range.start.saturating_add(range.length);
        let mut object = range.start;
        while object < end && self.pen.wanted {
            match self.object(object, end) {
                Some(next) => object = next,
                None => {
                    self.walked.broken += 1;
                    self.pen.numbers(&[BROKEN, object]);
                    return;
                }
            }
            if self.walked.objects.is_multiple_of(BETWEEN_WORDS) {
                self.say_how_far();
            }
        }
    }

    /// Tells of one object; where the next one lies. `None` if there is none.
    #[inline]
    fn object(&mut self, object: u64, end: u64) -> Option<u64> {
        let mark = self.words.word(object) & !(WORD - 1);
        if mark == 0 {
            return None;
        }
        if let Some(shape) = self.shapes.find(mark)
            && shape.trust == Trust::Believed
            && !shape.is_due()
        {
            let size = shape.size(&self.words, object);
            if let Some(next) = behind(object, size, end) {
                let (pen, mut references) = (&mut self.pen, 0);
                pen.number(FIRST_CLASS + u64::from(shape.number));
                pen.number(size);
                shape.references(&self.words, object, size, |target| {
                    references += 1;
                    pen.number(distance(object, target));
                });
                pen.number(0);
                if self.tells_texts && shape.is_text() {
                    tell_text(pen, &self.words, object, size);
                }
                self.walked.add(size, references);
                return Some(next);
            }
        }
        self.object_by_runtime(mark, object, end)
    }

    /// The same, as the runtime says.
    #[inline(never)]
    fn object_by_runtime(&mut self, mark: u64, object: u64, end: u64) -> Option<u64> {
        let size = self.heap.size_of(object)?;
        let next = behind(object, size, end)?;
        if self.is_free(mark, object) {
            self.pen.numbers(&[GAP, size]);
            return Some(next);
        }
        let class = self.class(mark, object);
        self.pen.number(FIRST_CLASS + class);
        self.pen.number(size);
        let (pen, mut told) = (&mut self.pen, Digest::default());
        self.heap.references(object, &mut |target| {
            if target != 0 {
                told.add(target);
                pen.number(distance(object, target));
            }
        });
        pen.number(0);
        self.walked.add(size, told.count);
        if self.tells_texts && self.shapes.find(mark).is_some_and(|shape| shape.is_text()) {
            tell_text(&mut self.pen, &self.words, object, size);
        }
        self.compare(mark, object, size, told);
        Some(next)
    }

    /// Holds what the runtime said of an object beside what the description of its class says.
    fn compare(&mut self, mark: u64, object: u64, size: u64, told: Digest) {
        let words = &self.words;
        let Some(shape) = self.shapes.find(mark) else { return };
        if !matches!(shape.trust, Trust::Learning | Trust::Believed) {
            return;
        }
        let same = shape.size(words, object) == size && shape.digest(words, object, size) == told;
        if !shape.compared(same, told.count) {
            self.walked.contradicted += 1;
        }
    }

    /// Whether it is room that the runtime fills so that a heap can be walked. It says of it that it is of class 0: seen on 3.1, 8, 9, 10.
    fn is_free(&mut self, mark: u64, object: u64) -> bool {
        match self.shapes.find(mark) {
            Some(shape) => shape.trust == Trust::Free,
            None if self.heap.class_of(object) == Some(0) => {
                self.shapes.learn_free(mark);
                true
            }
            None => false,
        }
    }

    /// The number of an object's class; told of, if it is new.
    fn class(&mut self, mark: u64, object: u64) -> u64 {
        if let Some(shape) = self.shapes.find(mark) {
            return u64::from(shape.number);
        }
        let Some(number) = self.class_by_runtime(mark, object) else {
            self.walked.without_class += 1;
            return 0;
        };
        self.shapes.learn(&self.words, mark, number);
        number
    }

    fn class_by_runtime(&mut self, mark: u64, object: u64) -> Option<u64> {
        if let Some(number) = self.classes.number_of(mark) {
            return Some(number);
        }
        let id = self.heap.class_of(object)?;
        let number = self.classes.number_of(id).or_else(|| self.classes.add(id))?;
        if mark != id {
            self.classes.also(mark, number);
        }
        self.tell_classes();
        Some(number)
    }

    /// A class may have others as arguments or elements, and these others.
    fn tell_classes(&mut self) {
        while let Some(id) = self.classes.next_untold() {
            let mut arguments = [0; MOST_ARGUMENTS];
            let facts = if id == 0 { HeapClass::Unknown(0) } else { self.heap.class(id, &mut arguments) };
            let mut record = Record::of(&[CLASS, id]);
            match facts {
                HeapClass::Unknown(code) => record.add(&[UNKNOWN_CLASS, u64::from(code)]),
                HeapClass::Plain { module, token, parent, arguments: count } => {
                    let count = count.min(MOST_ARGUMENTS);
                    record.add(&[PLAIN_CLASS, module, u64::from(token), parent, count as u64]);
                    for argument in arguments.iter().take(count) {
                        record.add(&[*argument]);
                        self.classes.meet(*argument);
                    }
                }
                HeapClass::Array { element, element_kind, rank } => {
                    record.add(&[ARRAY_CLASS, element, u64::from(element_kind), u64::from(rank)]);
                    self.classes.meet(element);
                }
            }
            self.pen.record_twice(&record);
        }
    }
}

/// Numbers of classes, by what is met in objects.
struct Classes<'a> {
    /// Open addressing; a place without a key is free. The second word is the number plus 1.
    table: &'a mut [[u64; 2]],
    ids: &'a mut [u64],
    count: usize,
    told: usize,
}

impl Classes<'_> {
    fn place(&self, key: u64) -> Option<usize> {
        let mask = self.table.len().checked_sub(1)?;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        for _ in 0..self.table.len() {
            let held = self.table.get(at)?;
            if held[1] == 0 || held[0] == key {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn number_of(&self, key: u64) -> Option<u64> {
        let [_, number] = *self.table.get(self.place(key)?)?;
        number.checked_sub(1)
    }

    /// A new class; `None` if there is no room.
    fn add(&mut self, id: u64) -> Option<u64> {
        let place = self.place(id)?;
        *self.ids.get_mut(self.count)? = id;
        *self.table.get_mut(place)? = [id, self.count as u64 + 1];
        self.count += 1;
        Some(self.count as u64 - 1)
    }

    /// The same class under another key, as long as the table is not crowded.
    fn also(&mut self, key: u64, number: u64) {
        if let Some(held) = self.place(key).and_then(|place| self.table.get_mut(place)) {
            *held = [key, number + 1];
        }
    }

    fn meet(&mut self, id: u64) {
        if id != 0 && self.number_of(id).is_none() {
            self.add(id);
        }
    }

    fn next_untold(&mut self) -> Option<u64> {
        let id = (self.told < self.count).then(|| self.ids.get(self.told).copied()).flatten()?;
        self.told += 1;
        Some(id)
    }
}

/// The kind of a frozen range.
pub const FROZEN_RANGE: i32 = FROZEN as i32;

#[cfg(test)]
mod tests {
    use super::*;
    use remora_wire::heap::{ClassFacts, HeapDecoder, HeapVisitor};
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    struct Object {
        class: u64,
        size: u64,
        references: Vec<u64>,
    }

    /// Objects by their addresses, one range.
    struct Heap {
        range: HeapRange,
        objects: BTreeMap<u64, Object>,
    }

    impl StandingHeap for Heap {
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
                _ => HeapClass::Plain {
                    module: 5,
                    token: class as u32,
                    parent: 0,
                    arguments: usize::from(class == 0x700),
                },
            }
        }
    }

    impl Memory for &Heap {
        fn word(&self, address: u64) -> u64 {
            // A mark in the lowest bit, as the collector leaves one.
            self.objects.get(&address).map_or(0, |object| object.class | 1)
        }
    }

    #[derive(Default)]
    struct Stream(Vec<u8>, Vec<u8>);

    impl Outlet for Stream {
        fn put(&mut self, bytes: &[u8]) -> bool {
            self.0.extend_from_slice(bytes);
            true
        }
        fn put_beside(&mut self, record: &[u8]) -> bool {
            self.1.extend_from_slice(record);
            true
        }
        fn progress(&mut self, _: &Walked) {}
    }

    #[derive(Default)]
    struct Seen {
        classes: Vec<u64>,
        objects: Vec<(u64, u64, u64, Vec<u64>)>,
        gaps: Vec<(u64, u64)>,
        broken: Vec<u64>,
        contents: Vec<(u64, u64, Vec<u8>)>,
        end: Option<u64>,
    }

    impl HeapVisitor for Seen {
        fn range(&mut self, _: u64, _: u64, _: u64) {}
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
        fn end(&mut self, objects: u64) {
            self.end = Some(objects);
        }
    }

    fn walked<H: StandingHeap>(heap: &H, places: usize, buffer: usize) -> (Walked, Seen)
    where
        for<'a> &'a H: Memory,
    {
        let (mut ranges, mut table) = ([HeapRange::default(); 4], vec![[0; 2]; places]);
        let mut shapes = vec![Shape::default(); places];
        let (mut classes, mut buffer, mut stream) = (vec![0; places / 2], vec![0; buffer], Stream::default());
        let area = HeapArea {
            ranges: &mut ranges,
            table: &mut table,
            classes: &mut classes,
            shapes: &mut shapes,
            buffer: &mut buffer,
        };
        let walked = walk(heap, heap, Contents::Strings, area, &mut stream);
        let mut seen = Seen::default();
        HeapDecoder::default().push(&stream.0, &mut seen).expect("what was written is read");
        let mut beside = Seen::default();
        HeapDecoder::default().push(&stream.1, &mut beside).expect("what was written is read");
        assert_eq!((beside.classes, beside.end, beside.objects), (seen.classes.clone(), seen.end, Vec::new()));
        (walked, seen)
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
    fn every_object_is_told_of_with_its_class_size_and_references() {
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
        // What it has in the place of a class is one thing, what the runtime says of it another.
        const MARK: u64 = 0x600;
        struct Holes(Heap);
        impl StandingHeap for Holes {
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
        /// A string of five characters and an array of as many, as they lie in memory.
        struct Texts(Heap, BTreeMap<u64, u64>);
        impl StandingHeap for Texts {
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
}
