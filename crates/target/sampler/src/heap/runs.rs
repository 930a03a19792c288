//! Writes runs of adjacent objects of one class, without their common parts, and without checks that the first object has answered for all.
//!
//! Only trusted classes are written so. A run ends before each object about which the runtime must be asked.

use super::shape::{Form, Memory, Trust};
use super::{AHEAD, Walk};
use remora_heap_stream::{BEYOND_SHORT, FIRST_CLASS, FORM, LONGEST_NUMBER, WORD, distance, short_number, write_number};
use remora_wire::Contents;

impl<M: Memory> Walk<'_, M> {
    /// Writes as many objects as possible, from this one on. Returns the address of the next one.
    #[inline]
    pub(super) fn run(&mut self, object: u64, end: u64) -> u64 {
        let mark = self.words.word(object) & !(WORD - 1);
        let Some(shape) = self.shapes.find(mark) else { return object };
        if shape.trust != Trust::Believed {
            return object;
        }
        match shape.form {
            Form::None => object,
            Form::Undecided => self.decide(mark, object),
            Form::Sent if shape.has_elements() => self.write_sized(mark, object, end),
            Form::Sent => self.write_run(mark, object, end),
        }
    }

    /// Decides whether a class has a form, and writes the form if so.
    #[inline(never)]
    fn decide(&mut self, mark: u64, object: u64) -> u64 {
        let Some(shape) = self.shapes.find(mark) else { return object };
        // The content of an object follows it, and differs from object to object.
        let follows = match self.contents {
            Contents::None => false,
            Contents::Strings => shape.is_text(),
            Contents::Values => true,
        };
        if !follows && let Some((size, places)) = shape.settle() {
            self.writer.numbers(&[FORM, u64::from(shape.number), size, places]);
        } else {
            shape.form = Form::None;
        }
        object
    }

    /// Writes objects of one size, each with its references.
    #[inline(never)]
    fn write_run(&mut self, mark: u64, first: u64, end: u64) -> u64 {
        let Some(shape) = self.shapes.find(mark) else { return first };
        let (words, shape_now) = (&self.words, *shape);
        let places = shape_now.places();
        let Some(head) = Head::of(shape_now.number) else { return first };
        let most_bytes = LONGEST_NUMBER * (1 + places.len());
        let room = self.writer.room(most_bytes);
        let (size, step) = (shape_now.base_size(), shape_now.base_size().next_multiple_of(WORD));
        let fit = ((end - first) / step).min(u64::from(shape_now.until_asked));
        let most = fit.min((room.len() / most_bytes) as u64);
        // The loop's time is its instructions alone. So few values are live in it, and all fit into registers.
        let (mut object, stop, mut references) = (first, first + most * step, 0);
        let mut cursor = Cursor { at: room.as_mut_ptr() };
        while object < stop && words.word(object) & !(WORD - 1) == mark {
            words.expect(object.wrapping_add(AHEAD));
            // SAFETY: `room` fits `most` objects, each with a head and one number for each place, all of the longest form.
            cursor = unsafe { cursor.head(head) };
            for place in places {
                let target = words.word(object + u64::from(*place) * WORD);
                // No branch: null references follow no pattern.
                let is_one = u64::from(target != 0);
                references += is_one;
                let number = distance(object, target) & is_one.wrapping_neg();
                // SAFETY: `room` fits one number of the longest form for each place of each object.
                cursor = unsafe { cursor.number(number) };
            }
            object += step;
        }
        let (used, reported) = (cursor.at as usize - room.as_ptr() as usize, (object - first) / step);
        self.writer.used(used);
        shape.until_asked -= reported as u16;
        self.walked.objects += reported;
        self.walked.bytes += reported * size;
        self.walked.references += references;
        object
    }

    /// Writes objects that differ only in size: they have elements without references.
    #[inline(never)]
    fn write_sized(&mut self, mark: u64, first: u64, end: u64) -> u64 {
        let Some(shape) = self.shapes.find(mark) else { return first };
        let (words, shape_now) = (&self.words, *shape);
        let Some(head) = Head::of(shape_now.number) else { return first };
        let most_bytes = LONGEST_NUMBER * 2;
        let room = self.writer.room(most_bytes);
        let most = (room.len() / most_bytes).min(usize::from(shape_now.until_asked));
        let (mut object, mut bytes, mut reported) = (first, 0, 0);
        let mut cursor = Cursor { at: room.as_mut_ptr() };
        while reported < most && object < end && words.word(object) & !(WORD - 1) == mark {
            words.expect(object.wrapping_add(AHEAD));
            let size = shape_now.size(words, object);
            let Some(next) = super::behind(object, size, end) else { break };
            // SAFETY: `room` fits `most` objects, each with two numbers of the longest form.
            cursor = unsafe { cursor.head(head).number(size) };
            bytes += size;
            reported += 1;
            object = next;
        }
        let used = cursor.at as usize - room.as_ptr() as usize;
        self.writer.used(used);
        shape.until_asked -= reported as u16;
        self.walked.objects += reported as u64;
        self.walked.bytes += bytes;
        object
    }
}

/// The written bytes at the beginning of each object of a class.
#[derive(Clone, Copy)]
struct Head {
    form: [u8; 4],
    length: usize,
}

impl Head {
    /// The head of a class; `None` if its number does not have a short form.
    fn of(class: u32) -> Option<Head> {
        let number = FIRST_CLASS + u64::from(class);
        let (form, length) = (number < BEYOND_SHORT).then(|| short_number(number as u32))?;
        Some(Head { form, length })
    }
}

/// The place of the next number, in room that was measured before, so no write checks it. It is passed by value and stays in a register: in
/// memory, each number would wait for it.
#[derive(Clone, Copy)]
struct Cursor {
    at: *mut u8,
}

impl Cursor {
    /// # Safety
    /// From the cursor on, there is room for a number of the longest form.
    #[inline]
    unsafe fn head(self, head: Head) -> Cursor {
        // SAFETY: the caller gives room for the longest number, which has more than these four bytes. `length` is at most four.
        unsafe {
            self.at.cast::<[u8; 4]>().write(head.form);
            Cursor { at: self.at.add(head.length) }
        }
    }

    /// # Safety
    /// See [`Cursor::head`].
    #[inline]
    unsafe fn number(self, number: u64) -> Cursor {
        if number < BEYOND_SHORT {
            let (form, length) = short_number(number as u32);
            // SAFETY: the caller gives room for the longest number.
            unsafe { self.head(Head { form, length }) }
        } else {
            // SAFETY: the caller gives room for the longest number.
            unsafe { self.long(number) }
        }
    }

    /// # Safety
    /// See [`Cursor::head`].
    #[cold]
    #[inline(never)]
    unsafe fn long(self, number: u64) -> Cursor {
        let mut form = [0; LONGEST_NUMBER];
        let length = write_number(&mut form, number);
        // SAFETY: the caller gives room for the longest number, and `length` is at most that.
        unsafe {
            self.at.cast::<[u8; LONGEST_NUMBER]>().write(form);
            Cursor { at: self.at.add(length) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::walked;
    use super::super::{FROZEN_RANGE, HeapClass, HeapRange, HeapReader, MOST_ARGUMENTS, Memory};
    use core::cell::Cell;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    /// The descriptions of objects with two references and a number, and of byte arrays.
    const PAIR: u64 = 0x700;
    const BYTES: u64 = 0x7c0;
    const BEGIN: u64 = 0x1_0000;
    const MANY: u64 = 2_000;
    /// So far away that its distance has the longest form of a number.
    const FAR: u64 = 1 << 62;

    /// The memory of such objects, the number of questions about single ones, and the first that contradicts its class.
    struct Run {
        words: BTreeMap<u64, u64>,
        length: u64,
        asked: Cell<u64>,
        liar: Option<u64>,
    }

    impl Run {
        /// Pairs, and an array after each third one. Their references lead to several places, or are null.
        fn new() -> Run {
            let less = |bytes: i64| bytes as u64;
            let described = [
                (PAIR, 40 << 32 | 0x0100_0000),
                (PAIR - 8, 1),
                (PAIR - 16, 8),
                (PAIR - 24, less(16 - 40)),
                (BYTES, 24 << 32 | 0x8000_0001),
            ];
            let mut words = BTreeMap::from(described);
            let mut at = BEGIN;
            for number in 0..MANY {
                let to = [0, at, BEGIN, at + 8 * number * number, FAR - 8 * number];
                let choose = |index: u64| to[(index % 5) as usize];
                words.extend([(at, PAIR), (at + 8, choose(number)), (at + 16, choose(number / 4)), (at + 24, 99)]);
                at += 40;
                if number % 3 == 0 {
                    words.extend([(at, BYTES | 1), (at + 8, number)]);
                    at += (24 + number).next_multiple_of(8);
                }
            }
            Run { words, length: at - BEGIN, asked: Cell::new(0), liar: None }
        }

        fn at(&self, address: u64) -> u64 {
            self.words.get(&address).copied().unwrap_or(0)
        }

        /// Every object by the runtime's answers.
        fn objects(&self) -> Vec<(u64, u64, u64, Vec<u64>)> {
            let (mut at, mut objects) = (BEGIN, Vec::new());
            while at < BEGIN + self.length {
                let (class, size) = (self.class_of(at).unwrap(), self.size_of(at).unwrap());
                let mut references = Vec::new();
                self.references(at, &mut |target| references.push(target));
                objects.push((at, class, size, references));
                at += size.next_multiple_of(8);
            }
            objects
        }
    }

    impl Memory for &Run {
        fn word(&self, address: u64) -> u64 {
            assert!(address < BEGIN + self.length, "{address:#x} is behind the heap");
            self.at(address)
        }
    }

    impl HeapReader for Run {
        fn ranges(&self, into: &mut [HeapRange]) -> usize {
            into[0] = HeapRange { kind: FROZEN_RANGE, start: BEGIN, length: self.length, reserved: self.length };
            1
        }
        fn class_of(&self, object: u64) -> Option<u64> {
            Some(self.at(object) & !7)
        }
        fn size_of(&self, object: u64) -> Option<u64> {
            let is_pair = self.at(object) == PAIR;
            Some(if is_pair { 40 } else { 24 + self.at(object + 8) })
        }
        fn references(&self, object: u64, visit: &mut dyn FnMut(u64)) {
            self.asked.set(self.asked.get() + 1);
            if self.at(object) == PAIR {
                let targets = [8, 16].map(|place| self.at(object + place)).into_iter().filter(|target| *target != 0);
                let hidden = usize::from(self.liar.is_some_and(|liar| object >= liar));
                targets.skip(hidden).for_each(visit);
            }
        }
        fn class(&self, class: u64, _: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
            HeapClass::Plain { module: 5, token: class as u32, parent: 0, arguments: 0 }
        }
    }

    #[test]
    fn objects_of_one_class_are_reported_as_they_are_and_few_are_asked_about() {
        let heap = Run::new();
        let expected = heap.objects();
        for buffer in [64, 100, 4096, 1 << 16] {
            heap.asked.set(0);
            let (reported, seen) = walked(&heap, 16, buffer);
            assert!(seen.objects == expected, "a buffer of {buffer}");
            let count = expected.len() as u64;
            let references = expected.iter().map(|object| object.3.len() as u64).sum::<u64>();
            assert_eq!((seen.end, reported.objects, reported.references), (Some(count), count, references));
            assert_eq!(reported.bytes, expected.iter().map(|object| object.2).sum::<u64>());
            // The first objects of each class, and then one in 252.
            assert!((8..40).contains(&heap.asked.get()), "{} were asked about", heap.asked.get());
        }
    }

    #[test]
    fn a_class_that_had_a_form_and_is_otherwise_is_asked_about_from_then_on_and_counted() {
        let mut heap = Run::new();
        heap.liar = Some(BEGIN + heap.length / 2);
        let (reported, seen) = walked(&heap, 16, 4096);
        assert_eq!((reported.contradicted, seen.objects.len()), (1, heap.objects().len()));
        // From there on, these objects are written in the long form.
        assert!(seen.objects.last() == heap.objects().last());
    }
}
