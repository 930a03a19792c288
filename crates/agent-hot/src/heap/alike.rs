//! Objects of one class, one behind the other: told of in one go, without what they have in common, and without asking anew of each what
//! can be asked of the first.
//!
//! Only what is believed of a class is used here, and it ends before each object that is to be asked about.

use super::Walk;
use super::shape::{Form, Memory, Trust};
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
        let (mut object, mut at, mut bytes, mut references, mut told) = (first, 0, 0, 0, 0);
        while told < most && object < end && words.word(object) & !(WORD - 1) == mark {
            let mut size = size_of_all;
            let mut next = object + size.next_multiple_of(WORD);
            if SIZED {
                size = shape_now.size(words, object);
                let Some(behind) = super::behind(object, size, end) else { break };
                next = behind;
            }
            if let Some(place) = room.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                *place = head;
            }
            at += head_length;
            if SIZED {
                at += write_at(room, at, size);
            }
            for place in places {
                let target = words.word(object + u64::from(*place) * WORD);
                let number = if target == 0 { 0 } else { distance(object, target) };
                references += u64::from(target != 0);
                at += write_at(room, at, number);
            }
            bytes += size;
            told += 1;
            object = next;
        }
        self.pen.used(at);
        shape.until_asked -= told as u16;
        self.walked.objects += told as u64;
        self.walked.bytes += bytes;
        self.walked.references += references;
        object
    }
}

#[inline]
fn write_at(room: &mut [u8], at: usize, number: u64) -> usize {
    room.get_mut(at..).map_or(0, |rest| write_number(rest, number))
}
