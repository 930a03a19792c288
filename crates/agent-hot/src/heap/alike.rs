//! Objects of one class, one behind the other: told of in one go, without what they have in common, and without asking anew of each what
//! can be asked of the first.
//!
//! Only what is believed of a class is used here, and it ends before each object that is to be asked about.

use super::shape::{Form, Memory, Trust};
use super::{AHEAD, Walk};
use remora_wire::Contents;
use remora_wire::heap::{FIRST_CLASS, FORM, LONGEST_NUMBER, WORD, distance, write_number};

impl<M: Memory> Walk<'_, M> {
    /// Tells of as many objects as can be told so, from this one on; where the next one lies.
    #[inline]
    pub(super) fn alike(&mut self, object: u64, end: u64) -> u64 {
        let mark = self.words.word(object) & !(WORD - 1);
        let Some(shape) = self.shapes.find(mark) else { return object };
        if shape.trust != Trust::Believed {
            return object;
        }
        match shape.form {
            Form::None => object,
            Form::Undecided => self.decide(mark, object),
            Form::Told if shape.has_elements() => self.told_alike::<true>(mark, object, end),
            Form::Told => self.told_alike::<false>(mark, object, end),
        }
    }

    /// Whether a class has a form; told, if so.
    #[inline(never)]
    fn decide(&mut self, mark: u64, object: u64) -> u64 {
        let Some(shape) = self.shapes.find(mark) else { return object };
        // What stands in an object follows it, and of that each has its own.
        let follows = match self.contents {
            Contents::None => false,
            Contents::Strings => shape.is_text(),
            Contents::Values => true,
        };
        if !follows && let Some((size, places)) = shape.settle() {
            self.pen.numbers(&[FORM, u64::from(shape.number), size, places]);
        } else {
            shape.form = Form::None;
        }
        object
    }

    fn told_alike<const SIZED: bool>(&mut self, mark: u64, first: u64, end: u64) -> u64 {
        let Some(shape) = self.shapes.find(mark) else { return first };
        let (words, shape_now) = (&self.words, *shape);
        let places = shape_now.places();
        // Class, size, references.
        let most_bytes = LONGEST_NUMBER * (2 + places.len());
        let room = self.pen.room(most_bytes);
        let mut most = (room.len() / most_bytes).min(usize::from(shape_now.until_asked));
        let size_of_all = shape_now.base_size();
        if !SIZED {
            let fit = (end - first) / size_of_all.next_multiple_of(WORD);
            most = most.min(usize::try_from(fit).unwrap_or(usize::MAX));
        }
        let mut head = [0; LONGEST_NUMBER];
        let head_length = write_number(&mut head, FIRST_CLASS + u64::from(shape_now.number));
        let Some(mut stretch) = Stretch::new(room, most, 2 + places.len()) else { return first };
        let (mut object, mut bytes, mut references, mut told) = (first, 0, 0, 0);
        while told < most && object < end && words.word(object) & !(WORD - 1) == mark {
            words.expect(object.wrapping_add(AHEAD));
            let mut size = size_of_all;
            let mut next = object + size.next_multiple_of(WORD);
            if SIZED {
                size = shape_now.size(words, object);
                let Some(behind) = super::behind(object, size, end) else { break };
                next = behind;
            }
            // SAFETY: no more objects than the stretch was made for, and of each these two numbers and one for each place.
            unsafe { stretch.written(head, head_length) };
            if SIZED {
                // SAFETY: as above.
                unsafe { stretch.number(size) };
            }
            for place in places {
                let target = words.word(object + u64::from(*place) * WORD);
                // Which places hold nothing follows no pattern: no branch.
                let is_one = u64::from(target != 0);
                references += is_one;
                // SAFETY: as above.
                unsafe { stretch.number(distance(object, target) & is_one.wrapping_neg()) };
            }
            bytes += size;
            told += 1;
            object = next;
        }
        let at = stretch.used;
        self.pen.used(at);
        shape.until_asked -= told as u16;
        self.walked.objects += told as u64;
        self.walked.bytes += bytes;
        self.walked.references += references;
        object
    }
}

/// Room for so many objects that nothing need be asked of each number.
struct Stretch<'a> {
    room: &'a mut [u8],
    used: usize,
}

impl<'a> Stretch<'a> {
    /// Room for so many objects of so many numbers; `None` where there is less.
    fn new(room: &'a mut [u8], objects: usize, numbers: usize) -> Option<Stretch<'a>> {
        (room.len() >= objects * numbers * LONGEST_NUMBER).then_some(Stretch { room, used: 0 })
    }

    /// The place of the next number.
    ///
    /// # Safety
    /// Fewer have been written than there is room for.
    #[inline]
    unsafe fn place(&mut self) -> &mut [u8; LONGEST_NUMBER] {
        // SAFETY: each number that was written has taken no more than its place, so that this one ends within the room.
        unsafe { &mut *self.room.as_mut_ptr().add(self.used).cast() }
    }

    /// Writes a number.
    ///
    /// # Safety
    /// As [`Stretch::place`].
    #[inline]
    unsafe fn number(&mut self, number: u64) {
        // SAFETY: the caller's promise.
        self.used += write_number(unsafe { self.place() }, number);
    }

    /// Writes one of that length which was made before.
    ///
    /// # Safety
    /// As [`Stretch::place`].
    #[inline]
    unsafe fn written(&mut self, number: [u8; LONGEST_NUMBER], length: usize) {
        // SAFETY: the caller's promise.
        *unsafe { self.place() } = number;
        self.used += length;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::walked;
    use super::super::{FROZEN_RANGE, HeapClass, HeapRange, MOST_ARGUMENTS, Memory, StandingHeap};
    use core::cell::Cell;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    /// Where objects of two references and a number are described, and where arrays of bytes are.
    const PAIR: u64 = 0x700;
    const BYTES: u64 = 0x7c0;
    const BEGIN: u64 = 0x1_0000;
    const MANY: u64 = 2_000;

    /// What stands in the memory of such objects; how often it was asked about one instead; and one that is not as its class says.
    struct Alike {
        words: BTreeMap<u64, u64>,
        length: u64,
        asked: Cell<u64>,
        liar: Option<u64>,
    }

    impl Alike {
        /// A pair and behind it, for each third, an array; their references go here and there, and to nothing.
        fn new() -> Alike {
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
                let to = [0, at, BEGIN, at + 8 * number * number];
                let choose = |index: u64| to[(index % 4) as usize];
                words.extend([(at, PAIR), (at + 8, choose(number)), (at + 16, choose(number / 4)), (at + 24, 99)]);
                at += 40;
                if number % 3 == 0 {
                    words.extend([(at, BYTES | 1), (at + 8, number)]);
                    at += (24 + number).next_multiple_of(8);
                }
            }
            Alike { words, length: at - BEGIN, asked: Cell::new(0), liar: None }
        }

        fn at(&self, address: u64) -> u64 {
            self.words.get(&address).copied().unwrap_or(0)
        }

        /// Every object as it is.
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

    impl Memory for &Alike {
        fn word(&self, address: u64) -> u64 {
            assert!(address < BEGIN + self.length, "{address:#x} is behind the heap");
            self.at(address)
        }
    }

    impl StandingHeap for Alike {
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
    fn objects_of_one_class_are_told_as_they_are_and_few_are_asked_about() {
        let heap = Alike::new();
        let expected = heap.objects();
        for buffer in [64, 100, 4096, 1 << 16] {
            heap.asked.set(0);
            let (told, seen) = walked(&heap, 16, buffer);
            assert!(seen.objects == expected, "a buffer of {buffer}");
            let count = expected.len() as u64;
            let references = expected.iter().map(|object| object.3.len() as u64).sum::<u64>();
            assert_eq!((seen.end, told.objects, told.references), (Some(count), count, references));
            assert_eq!(told.bytes, expected.iter().map(|object| object.2).sum::<u64>());
            // Of each class those by which it is learned, and then one in 252.
            assert!((8..40).contains(&heap.asked.get()), "{} were asked about", heap.asked.get());
        }
    }

    #[test]
    fn a_class_that_had_a_form_and_is_otherwise_is_asked_about_from_then_on_and_counted() {
        let mut heap = Alike::new();
        heap.liar = Some(BEGIN + heap.length / 2);
        let (told, seen) = walked(&heap, 16, 4096);
        assert_eq!((told.contradicted, seen.objects.len()), (1, heap.objects().len()));
        // What is asked about is told at length from there on.
        assert!(seen.objects.last() == heap.objects().last());
    }
}
