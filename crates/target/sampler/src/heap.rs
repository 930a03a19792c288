//! The heap walk in the forked copy of the process, where the heap no longer changes.
//!
//! The copy has one thread, and locks that will never be unlocked. So the walk allocates nothing, takes no lock, and calls only runtime
//! functions that do neither. It reports parts that it cannot walk, and skips them. A fault ends the copy, not the process.

mod classes;
mod runs;
mod shape;
mod statics;
mod stream_writer;
mod values;

use classes::Classes;
use remora_heap_stream::{
    ARRAY_CLASS, BROKEN, CLASS, END, FIRST_CLASS, FROZEN, GAP, LENGTHY, PLAIN_CLASS, RANGE, ROOT, UNKNOWN_CLASS,
    UNKNOWN_GENERATION, WORD, distance,
};
use remora_wire::Contents;
pub use shape::Shape;
use shape::{Digest, Form, Memory, Shapes, Trust};
pub use statics::Cursor;
use stream_writer::{Record, StreamWriter};
use values::{write_layout, write_text, write_values};

/// The maximum of type arguments written for a class.
pub const MOST_ARGUMENTS: usize = 64;

/// The smallest size of an object, bytes. A smaller one is invalid.
const SMALLEST: u64 = 24;

/// Prefetch distance ahead of an object, bytes. The heap is read in order, but most of the walk waited for memory: a processor prefetches
/// no further than a page. Eight million objects of 32 bytes took 140 ms without prefetch, 60 ms with it.
const AHEAD: u64 = 2048;

/// Proof that this is a forked copy of the process, in which no other thread runs.
#[derive(Debug)]
pub struct ForkedCopy(());

impl ForkedCopy {
    /// Must be made in the copy only.
    ///
    /// # Safety
    /// The calling thread is the only one of its process.
    pub unsafe fn new() -> ForkedCopy {
        ForkedCopy(())
    }
}

/// A range of the heap.
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

/// The known facts about a class, without its type arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapClass {
    /// The runtime returned only this code.
    Unknown(u32),
    /// A class or value type.
    Plain {
        /// ModuleID.
        module: u64,
        /// mdTypeDef.
        token: u32,
        /// ClassID of its parent class, or 0.
        parent: u64,
        /// Number of type arguments; as many as fit were written.
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

/// A heap that does not change while it is read.
pub trait HeapReader {
    /// Its ranges, in any order. Returns how many there are, which may be more than fitted.
    fn ranges(&self, into: &mut [HeapRange]) -> usize;
    /// The class of an object.
    fn class_of(&self, object: u64) -> Option<u64>;
    /// The size of an object, bytes.
    fn size_of(&self, object: u64) -> Option<u64>;
    /// Shows the references of an object.
    fn references(&self, object: u64, visit: &mut dyn FnMut(u64));
    /// The facts about a class.
    fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass;
    /// The fields that a class declares, each its token and its offset in an object, as many as fit. Returns how many there are, and the
    /// size of an object in bytes.
    fn layout(&self, _class: u64, _fields: &mut [[u32; 2]]) -> Option<(usize, u32)> {
        None
    }
    /// The class that declares a method, by its ModuleID and mdMethodDef; `None` if it is not loaded.
    fn class_with(&self, _module: u64, _method: u32) -> Option<u64> {
        None
    }
    /// The address of a static field of a class, by its mdFieldDef; an HRESULT if there is none.
    fn static_at(&self, _class: u64, _field: u32) -> Result<u64, u32> {
        Err(NOT_THERE)
    }
}

/// E_NOTIMPL.
const NOT_THERE: u32 = 0x8000_4001;

/// The copy's own memory.
struct Own<'a>(&'a ForkedCopy);

impl Memory for Own<'_> {
    #[inline]
    fn word(&self, address: u64) -> u64 {
        let ForkedCopy(()) = self.0;
        // SAFETY: no other thread runs here. The address lies in a range that the runtime reported, or in a class of an object there.
        // If it has become invalid, the fault handler makes the page readable or ends the copy.
        unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() }
    }

    #[inline]
    fn expect(&self, address: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch is a hint: it changes nothing and does not fault.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::without_provenance(address as usize)) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}

/// The destination of the stream.
pub trait StreamSink {
    /// Takes bytes; waits for room. Returns false if no reader is left.
    fn put(&mut self, bytes: &[u8]) -> bool;
    /// The same for a record that is sent a second time, beside the stream.
    fn put_aside(&mut self, record: &[u8]) -> bool;
    /// Reports the progress of the walk.
    fn progress(&mut self, walked: &Walked);
    /// A word of the questions about static fields ([`remora_heap_stream::statics`]). Waits until the questions are there. `None` after the
    /// last word.
    fn question(&mut self, _index: usize) -> Option<u64> {
        None
    }
    /// Takes an answer, as [`StreamSink::put`] does.
    fn answer(&mut self, _record: &[u8]) -> bool {
        true
    }
}

/// The progress of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walked {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of all ranges to walk, with the space between objects; 0 if that is not known beforehand.
    pub bytes_in_all: u64,
    /// References.
    pub references: u64,
    /// Ranges that could not be walked to their end.
    pub broken: u64,
    /// Ranges that did not fit into the list. The walk skipped them.
    pub left_out: u64,
    /// Objects whose class did not fit into the table: written with an unknown class.
    pub without_class: u64,
    /// Objects for which the runtime contradicted their class's description after it was trusted. Earlier objects of the class may have
    /// been written wrongly.
    pub contradicted: u64,
}

/// An object that the runtime reported as held from outside of the heap.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapRoot {
    /// A root kind of [`remora_heap_stream`].
    pub kind: u64,
    /// The object.
    pub address: u64,
    /// Its meaning depends on the kind.
    pub detail: u64,
}

/// Memory for a walk, mapped before the fork, all zero.
pub struct HeapArea<'a> {
    /// Room for the ranges of the heap.
    pub ranges: &'a mut [HeapRange],
    /// Room for classes, a power of two: the first word of their objects, and their number.
    pub table: &'a mut [[u64; 2]],
    /// The ClassIDs by number: at most half as many as in `table`.
    pub classes: &'a mut [u64],
    /// Room for the layouts of the classes' objects, a power of two.
    pub shapes: &'a mut [Shape],
    /// Room for the fields of a class.
    pub fields: &'a mut [[u32; 2]],
    /// Bytes that were not sent yet.
    pub buffer: &'a mut [u8],
    /// The stored roots.
    pub roots: &'a [HeapRoot],
}

/// Walks the whole heap and writes it to the sink.
pub fn walk_heap(
    fork: &ForkedCopy,
    heap: &dyn HeapReader,
    contents: Contents,
    area: HeapArea<'_>,
    sink: &mut dyn StreamSink,
) -> Walked {
    walk(Own(fork), heap, contents, area, sink)
}

/// Answers the questions about static fields from the cursor on, after the walk. If a question ends in a fault, the cursor is already after
/// it.
pub fn write_statics(fork: &ForkedCopy, heap: &dyn HeapReader, sink: &mut dyn StreamSink, cursor: &mut Cursor) {
    statics::tell(heap, &Own(fork), sink, cursor);
}

/// [`walk_heap`] over any memory. Compiled here for the copy's memory, not in the calling crate: that is faster.
fn walk(
    words: impl Memory,
    heap: &dyn HeapReader,
    contents: Contents,
    mut area: HeapArea<'_>,
    sink: &mut dyn StreamSink,
) -> Walked {
    // Taken out: the walk takes the rest.
    let ranges = core::mem::take(&mut area.ranges);
    let roots = core::mem::take(&mut area.roots);
    let total = heap.ranges(ranges);
    let count = total.min(ranges.len());
    let mut walk = Walk::new(words, heap, contents, area, sink);
    walk.walked.left_out = (total - count) as u64;
    walk.walked.bytes_in_all = ranges.iter().take(count).fold(0, |sum, range| range.length.saturating_add(sum));
    for range in ranges.iter().take(count) {
        walk.range(range);
        walk.say_how_far();
        if !walk.writer.wanted {
            break;
        }
    }
    for root in roots {
        walk.writer.numbers(&[ROOT, root.kind, root.address, root.detail]);
    }
    walk.end()
}

/// A walk that gets its objects one by one instead of ranges.
pub struct ShownWalk<'a> {
    walk: Walk<'a, Own<'a>>,
    /// The end of the last object.
    cursor: u64,
}

impl<'a> ShownWalk<'a> {
    /// Begins a walk without objects.
    pub fn new(
        fork: &'a ForkedCopy,
        heap: &'a dyn HeapReader,
        contents: Contents,
        area: HeapArea<'a>,
        sink: &'a mut dyn StreamSink,
    ) -> ShownWalk<'a> {
        ShownWalk { walk: Walk::new(Own(fork), heap, contents, area, sink), cursor: 0 }
    }

    /// Writes an object. Returns false if no reader is left.
    pub fn object(&mut self, object: u64) -> bool {
        let walk = &mut self.walk;
        if object != self.cursor {
            // The space between may contain objects.
            walk.writer.numbers(&[RANGE, UNKNOWN_GENERATION, object, 0]);
        }
        match walk.object(object, u64::MAX) {
            Some(next) => self.cursor = next,
            None => {
                walk.walked.broken += 1;
                walk.writer.numbers(&[BROKEN, object]);
                self.cursor = 0;
            }
        }
        walk.say_how_far_if_due();
        walk.writer.wanted
    }

    /// Ends the stream.
    pub fn end(mut self) -> Walked {
        self.walk.end()
    }
}

struct Walk<'a, M> {
    heap: &'a dyn HeapReader,
    words: M,
    classes: Classes<'a>,
    shapes: Shapes<'a>,
    contents: Contents,
    fields: &'a mut [[u32; 2]],
    writer: StreamWriter<'a>,
    walked: Walked,
    /// The next progress report is due at this number of objects.
    next_word: u64,
}

/// The address after an object of this size; `None` if the size is impossible.
#[inline]
fn behind(object: u64, size: u64, end: u64) -> Option<u64> {
    let next = object.checked_add(size.checked_next_multiple_of(WORD)?)?;
    (size >= SMALLEST && next <= end).then_some(next)
}

impl Walked {
    #[inline]
    fn add(&mut self, size: u64, references: u64) {
        self.objects += 1;
        self.bytes += size;
        self.references += references;
    }
}

/// Objects between two progress reports.
const BETWEEN_WORDS: u64 = 4096;

impl<'a, M: Memory> Walk<'a, M> {
    fn new(
        words: M,
        heap: &'a dyn HeapReader,
        contents: Contents,
        area: HeapArea<'a>,
        sink: &'a mut dyn StreamSink,
    ) -> Walk<'a, M> {
        let mut walk = Walk {
            heap,
            words,
            classes: Classes::new(area.table, area.classes),
            shapes: Shapes::new(area.shapes),
            contents,
            fields: area.fields,
            writer: StreamWriter::new(area.buffer, sink),
            walked: Walked::default(),
            next_word: BETWEEN_WORDS,
        };
        // Number 0 stands for objects without a known class.
        walk.classes.add(0);
        walk
    }

    fn say_how_far(&mut self) {
        let walked = self.walked;
        self.writer.sink.progress(&walked);
    }

    #[inline]
    fn say_how_far_if_due(&mut self) {
        if self.walked.objects >= self.next_word {
            self.next_word = self.walked.objects + BETWEEN_WORDS;
            self.say_how_far();
        }
    }

    /// Ends the stream.
    fn end(&mut self) -> Walked {
        let objects = self.walked.objects;
        // A reader that sees this record beside the stream has the whole stream.
        self.writer.last(&Record::of(&[END, objects]));
        self.say_how_far();
        self.walked
    }

    fn range(&mut self, range: &HeapRange) {
        self.writer.numbers(&[RANGE, u64::from(range.kind.unsigned_abs()), range.start, range.length]);
        let end = range.start.saturating_add(range.length);
        let mut object = range.start;
        while object < end && self.writer.wanted {
            let next = self.run(object, end);
            if next != object {
                object = next;
                self.say_how_far_if_due();
                continue;
            }
            match self.object(object, end) {
                Some(next) => object = next,
                None => {
                    self.walked.broken += 1;
                    self.writer.numbers(&[BROKEN, object]);
                    return;
                }
            }
            self.say_how_far_if_due();
        }
    }

    /// Writes one object. Returns the address of the next one, or `None` if there is no object here.
    #[inline]
    fn object(&mut self, object: u64, end: u64) -> Option<u64> {
        self.words.expect(object.wrapping_add(AHEAD));
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
                let (writer, mut references) = (&mut self.writer, 0);
                if shape.form == Form::Sent {
                    writer.number(LENGTHY);
                }
                writer.number(FIRST_CLASS + u64::from(shape.number));
                writer.number(size);
                shape.references(&self.words, object, size, |target| {
                    references += 1;
                    writer.number(distance(object, target));
                });
                writer.number(0);
                match self.contents {
                    Contents::None => {}
                    _ if shape.is_text() => write_text(writer, &self.words, object, size),
                    Contents::Strings => {}
                    Contents::Values => write_values(writer, &self.words, object, size),
                }
                self.walked.add(size, references);
                return Some(next);
            }
        }
        self.object_by_runtime(mark, object, end)
    }

    /// The same by the runtime's answers.
    #[inline(never)]
    fn object_by_runtime(&mut self, mark: u64, object: u64, end: u64) -> Option<u64> {
        let size = self.heap.size_of(object)?;
        let next = behind(object, size, end)?;
        if self.is_free(mark, object) {
            self.writer.numbers(&[GAP, size]);
            return Some(next);
        }
        let class = self.class(mark, object);
        if self.shapes.find(mark).is_some_and(|shape| shape.form == Form::Sent) {
            self.writer.numbers(&[LENGTHY]);
        }
        self.writer.numbers(&[FIRST_CLASS + class, size]);
        let (writer, mut reported) = (&mut self.writer, Digest::default());
        self.heap.references(object, &mut |target| {
            if target != 0 {
                reported.add(target);
                writer.numbers(&[distance(object, target)]);
            }
        });
        writer.numbers(&[0]);
        self.walked.add(size, reported.count);
        match self.contents {
            Contents::None => {}
            _ if self.shapes.find(mark).is_some_and(|shape| shape.is_text()) => {
                write_text(&mut self.writer, &self.words, object, size);
            }
            Contents::Strings => {}
            Contents::Values => write_values(&mut self.writer, &self.words, object, size),
        }
        self.compare(mark, object, size, reported);
        Some(next)
    }

    /// Compares the runtime's answers about an object with the description of its class.
    fn compare(&mut self, mark: u64, object: u64, size: u64, reported: Digest) {
        let words = &self.words;
        let Some(shape) = self.shapes.find(mark) else { return };
        if !matches!(shape.trust, Trust::Learning | Trust::Believed) {
            return;
        }
        let same = shape.size(words, object) == size && shape.digest(words, object, size) == reported;
        if !shape.compared(same, reported.count) {
            self.walked.contradicted += 1;
        }
    }

    /// Whether this is free space, which the runtime fills so that a heap can be walked. The runtime gives it class 0: seen on 3.1, 8, 9,
    /// 10.
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

    /// The number of an object's class. Writes the class if it is new.
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

    /// Writes the new classes. A class may name others as arguments or elements, and these name more. A parent may have no objects of its
    /// own.
    fn tell_classes(&mut self) {
        while let Some(id) = self.classes.next_unsent() {
            let mut arguments = [0; MOST_ARGUMENTS];
            let facts = if id == 0 { HeapClass::Unknown(0) } else { self.heap.class(id, &mut arguments) };
            let mut record = Record::of(&[CLASS, id]);
            match facts {
                HeapClass::Unknown(code) => record.add(&[UNKNOWN_CLASS, u64::from(code)]),
                HeapClass::Plain { module, token, parent, arguments: count } => {
                    let count = count.min(MOST_ARGUMENTS);
                    record.add(&[PLAIN_CLASS, module, u64::from(token), parent, count as u64]);
                    self.classes.meet(parent);
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
            self.writer.record_twice(&record);
            // Layouts also name the field of a reference, so every snapshot has them. The parents describe the inherited fields.
            let parent = if let HeapClass::Plain { parent, .. } = facts { parent } else { 0 };
            self.classes.meet(parent);
            if let Some((count, bytes)) = self.heap.layout(id, self.fields) {
                let reported = self.fields.get(..count.min(self.fields.len())).unwrap_or_default();
                write_layout(&mut self.writer, self.classes.last_sent(), bytes, count, reported);
            }
        }
    }
}

/// The kind of a frozen range.
pub const FROZEN_RANGE: i32 = FROZEN as i32;

#[cfg(test)]
mod tests;
