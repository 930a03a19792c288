//! The layout of a class's objects, from the GC's own description of the class. It replaces two runtime calls for each object, once it has
//! agreed with the runtime's answers.
//!
//! A class begins with the words that the GC uses (`MethodTable` in `gc/env/gcenv.object.h`, the same from 3.1 to 10). The first are flags:
//! with bit 31, their low half is the size of an element. Then comes the size of an object without elements. Before the class, downwards,
//! is its GC descriptor (`gc/gcdesc.h`). It begins with the number of runs of references. Then each run has its offset, and its length
//! minus the object's size. A negative number means an array of values with references. Then comes the offset of the first value. Each
//! stretch of a value has its number of references, and the bytes after them.
//!
//! None of this is guaranteed. So the walk trusts a description only after objects of that same class agreed with the runtime's answers.
//! Then it still asks the runtime about one object of many. If a class has another description, or once disagrees, the walk asks the
//! runtime about all its further objects.

use super::SMALLEST;
use remora_heap_stream::{MOST_PLACES, WORD};

/// Memory, read in words.
pub(crate) trait Memory {
    /// The word at an address.
    fn word(&self, address: u64) -> u64;

    /// Prefetches the memory at an address, which may be invalid.
    #[inline]
    fn expect(&self, _address: u64) {}
}

/// The maximum of stored runs of references. The walk asks the runtime about classes with more.
const MOST_RUNS: usize = 12;
/// Objects of a class that must agree before its description is trusted.
const ENOUGH: u8 = 4;
/// The walk asks the runtime about one of this many objects of a trusted class. Prime, so that no pattern of the heap has this period.
const ONE_OF: u16 = 251;
/// Flag: there are elements, and the low half is the size of one.
const HAS_ELEMENTS: u64 = 0x8000_0000;
/// Flag: there are references.
const HAS_REFERENCES: u64 = 0x0100_0000;
/// The size of an empty string by its class: two headers, the length, and a zero after the characters.
pub(crate) const TEXT_BASE: u64 = 22;
/// The offset of the number of elements in an object.
const ELEMENTS_AT: u64 = 8;
/// Bytes of the header before the next object, which belong to this object's size.
const HEAD: u64 = 8;

/// A run of references. In arrays of values: their number, and the bytes after them. Otherwise: its offset, and its length minus the
/// object's size.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Run {
    first: u32,
    second: i32,
}

/// How far the description of a class is trusted.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trust {
    /// The slot is free.
    #[default]
    None = 0,
    /// Its description is being compared.
    Learning = 1,
    /// Its description is trusted.
    Believed = 2,
    /// The runtime is asked about all objects.
    Asked = 3,
    /// Free space between objects.
    Free = 4,
}

/// Whether objects of a class are written without their common parts.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// Not decided yet.
    #[default]
    Undecided = 0,
    /// They are, and the common parts were written.
    Sent = 1,
    /// They are not.
    None = 2,
}

/// The layout of a class's objects. All zeros is a free slot.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    mark: u64,
    /// The class's number in the stream.
    pub(crate) number: u32,
    base: u32,
    /// The offset of an array's values.
    begin: u32,
    element: u16,
    pub(crate) trust: Trust,
    agreed: u8,
    /// Number of runs; negative for an array of values.
    count: i32,
    /// Objects to write before the runtime is asked about the next one.
    pub(crate) until_asked: u16,
    pub(crate) form: Form,
    /// Number of references in each object of a class with a form.
    place_count: u8,
    /// Their offsets in the object, in words.
    places: [u16; MOST_PLACES],
    runs: [Run; MOST_RUNS],
}

/// A hash of references in order: compares two lists without storing either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Digest {
    /// How many there are.
    pub(crate) count: u64,
    mixed: u64,
}

impl Digest {
    pub(crate) fn add(&mut self, target: u64) {
        self.count += 1;
        self.mixed = (self.mixed.rotate_left(7) ^ target).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Shape {
    /// Reads the description at and before a class. If it is no valid one, the runtime is asked about all objects.
    fn read(memory: &impl Memory, mark: u64, number: u32) -> Shape {
        let head = memory.word(mark);
        let mut shape = Shape { mark, number, base: (head >> 32) as u32, ..Shape::default() };
        shape.trust = Trust::Learning;
        shape.element = if head & HAS_ELEMENTS != 0 { head as u16 } else { 0 };
        if head & HAS_REFERENCES != 0 && shape.read_runs(memory).is_none() {
            shape.trust = Trust::Asked;
        }
        shape
    }

    fn read_runs(&mut self, memory: &impl Memory) -> Option<()> {
        let count = memory.word(mark_less(self.mark, 1)?) as i64;
        self.count = i32::try_from(count).ok().filter(|count| count.unsigned_abs() as usize <= MOST_RUNS)?;
        if count < 0 {
            self.begin = u32::try_from(memory.word(mark_less(self.mark, 2)?)).ok()?;
        }
        for index in 0..self.count.unsigned_abs() {
            let run = if count < 0 {
                // The first one is at the place of a run's length, the others below it.
                let item = memory.word(mark_less(self.mark, 3 + u64::from(index))?);
                Run { first: item as u32, second: i32::try_from(item >> 32).ok()? }
            } else {
                let from = memory.word(mark_less(self.mark, 2 + 2 * u64::from(index))?);
                let length = memory.word(mark_less(self.mark, 3 + 2 * u64::from(index))?) as i64;
                Run { first: u32::try_from(from).ok()?, second: i32::try_from(length).ok()? }
            };
            *self.runs.get_mut(index as usize)? = run;
        }
        Some(())
    }

    /// Whether this is the string class: only strings have characters after a header that is not an array's.
    #[inline]
    pub(crate) fn is_text(&self) -> bool {
        self.element == 2 && u64::from(self.base) == TEXT_BASE && self.count == 0
    }

    /// Free space between objects.
    fn free(mark: u64) -> Shape {
        Shape { mark, trust: Trust::Free, ..Shape::default() }
    }

    /// Whether the runtime must be asked about this object.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.until_asked = self.until_asked.checked_sub(1).unwrap_or(ONE_OF);
        self.until_asked == ONE_OF
    }

    /// The size of an object, bytes. It is at least `SMALLEST`: the empty string has 22 by its class and 24 by the runtime.
    #[inline]
    pub(crate) fn size(&self, memory: &impl Memory, object: u64) -> u64 {
        let elements = match self.element {
            0 => 0,
            element => u64::from(element) * (memory.word(object + ELEMENTS_AT) & u64::from(u32::MAX)),
        };
        (u64::from(self.base) + elements).max(SMALLEST)
    }

    /// The size of an object without elements, bytes.
    #[inline]
    pub(crate) fn base_size(&self) -> u64 {
        u64::from(self.base).max(SMALLEST)
    }

    /// Whether objects differ in size.
    #[inline]
    pub(crate) fn has_elements(&self) -> bool {
        self.element != 0
    }

    /// The offsets of references in an object of a class with a form, in words, in the order in which they are written.
    #[inline]
    pub(crate) fn places(&self) -> &[u16] {
        self.places.get(..usize::from(self.place_count)).unwrap_or_default()
    }

    /// Gives the class a form, if possible: the size of each object, or 0 if they differ, and the number of references in each. An array of
    /// references has one for each element, so it has no form.
    pub(crate) fn settle(&mut self) -> Option<(u64, u64)> {
        if self.has_elements() && self.count != 0 || self.count < 0 {
            return None;
        }
        let size = self.base_size();
        for run in self.runs.iter().take(self.count as usize) {
            let length = size.saturating_add_signed(i64::from(run.second));
            let from = u64::from(run.first).min(size);
            if from % WORD != 0 {
                return None;
            }
            for word in 0..length.min(size - from) / WORD {
                let place = self.places.get_mut(usize::from(self.place_count))?;
                *place = u16::try_from(from / WORD + word).ok()?;
                self.place_count += 1;
            }
        }
        self.form = Form::Sent;
        Some((if self.has_elements() { 0 } else { size }, u64::from(self.place_count)))
    }

    /// Shows the references of an object of that size, without nulls, in the order of the runtime's answers.
    #[inline]
    pub(crate) fn references(&self, memory: &impl Memory, object: u64, size: u64, mut visit: impl FnMut(u64)) {
        if self.count < 0 {
            return self.references_of_values(memory, object, size, visit);
        }
        for run in self.runs.iter().take(self.count as usize) {
            let length = size.saturating_add_signed(i64::from(run.second));
            let from = u64::from(run.first).min(size);
            for word in 0..length.min(size - from) / 8 {
                let target = memory.word(object + from + word * 8);
                if target != 0 {
                    visit(target);
                }
            }
        }
    }

    fn references_of_values(&self, memory: &impl Memory, object: u64, size: u64, mut visit: impl FnMut(u64)) {
        let end = object + size.saturating_sub(HEAD);
        let mut place = object + u64::from(self.begin);
        let before_a_value = |place: u64| place < end;
        while before_a_value(place) {
            let begun = place;
            for run in self.runs.iter().take(self.count.unsigned_abs() as usize) {
                for _ in 0..run.first {
                    if place < end {
                        let target = memory.word(place);
                        if target != 0 {
                            visit(target);
                        }
                    }
                    place += 8;
                }
                place += u64::from(run.second.unsigned_abs());
            }
            if place <= begun {
                break;
            }
        }
    }

    /// The hash of an object's references by the description.
    pub(crate) fn digest(&self, memory: &impl Memory, object: u64, size: u64) -> Digest {
        let mut digest = Digest::default();
        self.references(memory, object, size, |target| digest.add(target));
        digest
    }

    /// Takes the result of a comparison with the runtime. Returns false if a trusted description was wrong.
    pub(crate) fn compared(&mut self, same: bool, references: u64) -> bool {
        let believed = self.trust == Trust::Believed;
        if !same {
            self.trust = Trust::Asked;
            return !believed;
        }
        // Objects without references do not confirm where references are.
        if self.count == 0 || references > 0 {
            self.agreed = self.agreed.saturating_add(1);
        }
        if self.trust == Trust::Learning && self.agreed >= ENOUGH {
            self.trust = Trust::Believed;
        }
        true
    }
}

/// The address this many words before a class.
fn mark_less(mark: u64, words: u64) -> Option<u64> {
    mark.checked_sub(words * 8)
}

/// Shapes by the first word of objects.
pub(crate) struct Shapes<'a> {
    /// A power of two of slots.
    places: &'a mut [Shape],
    used: usize,
    /// The slot of the last search: objects of one class are often adjacent.
    last: usize,
}

impl<'a> Shapes<'a> {
    pub(crate) fn new(places: &'a mut [Shape]) -> Shapes<'a> {
        Shapes { places, used: 0, last: 0 }
    }

    /// The shape of a class, if it is known.
    #[inline]
    pub(crate) fn find(&mut self, mark: u64) -> Option<&mut Shape> {
        if self.places.get(self.last).is_none_or(|shape| shape.mark != mark) {
            self.last = self.place(mark)?;
        }
        self.places.get_mut(self.last).filter(|shape| shape.trust != Trust::None)
    }

    fn place(&self, mark: u64) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = (mark.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            let shape = self.places.get(at)?;
            if shape.trust == Trust::None || shape.mark == mark {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Stores a class. Without room for it, the runtime is asked about its objects.
    pub(crate) fn learn(&mut self, memory: &impl Memory, mark: u64, number: u64) {
        if let Ok(number) = u32::try_from(number) {
            self.put(Shape::read(memory, mark, number));
        }
    }

    /// Stores free space between objects.
    pub(crate) fn learn_free(&mut self, mark: u64) {
        self.put(Shape::free(mark));
    }

    fn put(&mut self, shape: Shape) {
        // At most half full, so that a free slot ends every search.
        if self.used * 2 >= self.places.len() {
            return;
        }
        if let Some(place) = self.place(shape.mark).and_then(|at| self.places.get_mut(at)) {
            *place = shape;
            self.used += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    /// Words by address; missing ones are 0.
    struct Words(BTreeMap<u64, u64>);

    impl Memory for Words {
        fn word(&self, address: u64) -> u64 {
            self.0.get(&address).copied().unwrap_or(0)
        }
    }

    const MARK: u64 = 0x700;

    fn words(words: &[(u64, u64)]) -> Words {
        Words(words.iter().copied().collect())
    }

    fn references(shape: &Shape, memory: &Words, object: u64) -> Vec<u64> {
        let mut seen = vec![];
        let size = shape.size(memory, object);
        shape.references(memory, object, size, |target| seen.push(target));
        seen
    }

    #[test]
    fn fields_are_found_run_by_run_the_highest_in_memory_first() {
        // 40 bytes; two references at 8 and 16, one at 32.
        let less = |bytes: i64| bytes as u64;
        let memory = words(&[
            (MARK, 40 << 32 | HAS_REFERENCES),
            (MARK - 8, 2),
            (MARK - 16, 8),
            (MARK - 24, less(16 - 40)),
            (MARK - 32, 32),
            (MARK - 40, less(8 - 40)),
            (0x1008, 0x11),
            (0x1020, 0x33),
        ]);
        let shape = Shape::read(&memory, MARK, 5);
        assert_eq!((shape.trust, shape.size(&memory, 0x1000)), (Trust::Learning, 40));
        assert_eq!(references(&shape, &memory, 0x1000), [0x11, 0x33]);
    }

    #[test]
    fn an_array_of_references_has_one_run_as_long_as_itself() {
        let memory = words(&[
            (MARK, 24 << 32 | HAS_ELEMENTS | HAS_REFERENCES | 8),
            (MARK - 8, 1),
            (MARK - 16, 16),
            (MARK - 24, -24_i64 as u64),
            // The upper half is padding and may contain anything.
            (0x1008, 0xff << 32 | 3),
            (0x1010, 0x11),
            (0x1020, 0x33),
            (0x1028, 0x44),
        ]);
        let shape = Shape::read(&memory, MARK, 5);
        assert_eq!((shape.size(&memory, 0x1000), references(&shape, &memory, 0x1000)), (48, vec![0x11, 0x33]));
    }

    #[test]
    fn an_array_of_values_repeats_their_references() {
        // Values of 32 bytes: a number, two references, a number.
        let memory = words(&[
            (MARK, 24 << 32 | HAS_ELEMENTS | HAS_REFERENCES | 32),
            (MARK - 8, -1_i64 as u64),
            (MARK - 16, 24),
            (MARK - 24, 16 << 32 | 2),
            (0x1008, 2),
            (0x1018, 0x11),
            (0x1020, 0x12),
            (0x1038, 0x21),
            (0x1058, 0x99),
        ]);
        let shape = Shape::read(&memory, MARK, 5);
        assert_eq!((shape.size(&memory, 0x1000), references(&shape, &memory, 0x1000)), (88, vec![0x11, 0x12, 0x21]));
    }

    #[test]
    fn a_form_has_the_places_of_all_runs_and_arrays_of_references_have_none() {
        let less = |bytes: i64| bytes as u64;
        let memory = words(&[
            (MARK, 40 << 32 | HAS_REFERENCES),
            (MARK - 8, 2),
            (MARK - 16, 8),
            (MARK - 24, less(16 - 40)),
            (MARK - 32, 32),
            (MARK - 40, less(8 - 40)),
        ]);
        let mut shape = Shape::read(&memory, MARK, 5);
        assert_eq!((shape.settle(), shape.places(), shape.form), (Some((40, 3)), &[1, 2, 4][..], Form::Sent));
        let mut text = Shape::read(&words(&[(MARK, 22 << 32 | HAS_ELEMENTS | 2)]), MARK, 5);
        assert_eq!((text.settle(), text.places()), (Some((0, 0)), &[][..]));
        let long = (MOST_PLACES as u64 + 3) * 8;
        let runs = [(MARK - 8, 1), (MARK - 16, 8), (MARK - 24, less(-16))];
        for head in [24 << 32 | HAS_ELEMENTS | HAS_REFERENCES | 8, long << 32 | HAS_REFERENCES] {
            let memory = words(&[&[(MARK, head)][..], &runs].concat());
            let mut shape = Shape::read(&memory, MARK, 5);
            assert_eq!((shape.settle(), shape.form), (None, Form::Undecided), "{head:#x}");
        }
    }

    #[test]
    fn the_empty_string_is_no_smaller_than_an_object_can_be() {
        let memory = words(&[(MARK, 22 << 32 | HAS_ELEMENTS | 2), (0x2008, 5)]);
        let shape = Shape::read(&memory, MARK, 5);
        assert_eq!((shape.size(&memory, 0x1000), shape.size(&memory, 0x2000)), (24, 32));
    }

    #[test]
    fn a_class_is_believed_after_enough_objects_and_never_again_after_one_that_is_otherwise() {
        let mut shape = Shape { count: 1, trust: Trust::Learning, ..Shape::default() };
        // Objects without references prove nothing.
        assert!((0..100).all(|_| shape.compared(true, 0)));
        assert_eq!(shape.trust, Trust::Learning);
        assert!((0..ENOUGH).all(|_| shape.compared(true, 1)));
        assert_eq!(shape.trust, Trust::Believed);
        assert!(!shape.compared(false, 1), "others were told of by then");
        assert_eq!((shape.trust, shape.compared(true, 1), shape.trust), (Trust::Asked, true, Trust::Asked));
        let mut unproven = Shape { trust: Trust::Learning, ..Shape::default() };
        assert!(unproven.compared(false, 1), "none was told of by its description");
        assert_eq!(unproven.trust, Trust::Asked);
    }

    #[test]
    fn one_of_many_objects_of_a_believed_class_is_asked_about() {
        let mut shape = Shape::default();
        let due = (0..10 * (ONE_OF + 1)).filter(|_| shape.is_due()).count();
        assert_eq!(due, 10);
    }

    #[test]
    fn what_no_class_can_say_is_asked_about_and_reads_nothing_beyond() {
        for (count, from, length) in
            [(MOST_RUNS as u64 + 1, 8, 0), (u64::MAX << 8, 8, 0), (1, 1 << 40, 0), (1, 8, 1 << 40), (1 << 40, 8, 0)]
        {
            let memory =
                words(&[(MARK, 24 << 32 | HAS_REFERENCES), (MARK - 8, count), (MARK - 16, from), (MARK - 24, length)]);
            assert_eq!(Shape::read(&memory, MARK, 5).trust, Trust::Asked, "{count} {from} {length}");
        }
        // A run that would leave the object ends with it.
        let memory = words(&[
            (MARK, 24 << 32 | HAS_REFERENCES),
            (MARK - 8, 1),
            (MARK - 16, 8),
            (MARK - 24, 800),
            (0x1008, 0x11),
            (0x1018, 0x99),
        ]);
        assert_eq!(references(&Shape::read(&memory, MARK, 5), &memory, 0x1000), [0x11]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_not_remembered_and_the_others_are_found() {
        let (mut places, memory) = (vec![Shape::default(); 8], words(&[]));
        let mut shapes = Shapes::new(&mut places);
        (1..20).for_each(|mark| shapes.learn(&memory, mark * 8, mark));
        let found: Vec<u64> = (1..20).filter(|mark| shapes.find(mark * 8).is_some()).collect();
        assert_eq!(found, [1, 2, 3, 4]);
        assert!(found.iter().all(|mark| shapes.find(mark * 8).is_some_and(|shape| u64::from(shape.number) == *mark)));
    }
}
