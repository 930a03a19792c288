//! Where static fields are, and what stands in them: asked by the reader, answered when the heap has been told of.

use super::shape::Memory;
use super::stream_writer::Record;
use super::{HeapReader, StreamSink};
use remora_wire::heap::WORD;
use remora_wire::heap::statics::{Asked, FIELDS_AT_ONCE, Owner, asked, head};

/// A number of an answer that is a place.
const HERE: u64 = 0;

/// The question that is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Its first word.
    at: usize,
    /// Its number.
    question: u64,
}

/// Answers the questions that the reader has, from the cursor on.
pub(crate) fn tell(heap: &dyn HeapReader, words: &impl Memory, sink: &mut dyn StreamSink, cursor: &mut Cursor) {
    while let (Some(first), Some(second)) = (sink.question(cursor.at), sink.question(cursor.at + 1)) {
        let (owner, count) = head([first, second]);
        let (question, from, count) = (cursor.question, cursor.at + 2, count as usize);
        // Before it is asked: whoever does not come back from it goes on behind it.
        *cursor = Cursor { at: from + count, question: question + 1 };
        if let Some(class) = class_of(heap, owner)
            && !tell_class(heap, words, sink, class, (question, from, count))
        {
            return;
        }
    }
    sink.answer(Record::of(&[0, cursor.question]).bytes());
}

fn class_of(heap: &dyn HeapReader, owner: Owner) -> Option<u64> {
    match owner {
        Owner::Class(class) => Some(class),
        Owner::OfMethod { module, method } => heap.class_with(module, method),
    }
}

/// Answers one question, whose fields are so many words from a place on. False: nobody wants more.
fn tell_class(
    heap: &dyn HeapReader,
    words: &impl Memory,
    sink: &mut dyn StreamSink,
    class: u64,
    (question, from, count): (u64, usize, usize),
) -> bool {
    let mut told = 0;
    while told < count {
        let mut record = Record::of(&[1, question, told as u64]);
        let piece = (count - told).min(FIELDS_AT_ONCE);
        for index in told..told + piece {
            let Some(word) = sink.question(from + index) else { return false };
            tell_field(heap, words, class, asked(word), &mut record);
        }
        told += piece;
        if !sink.answer(record.bytes()) {
            return false;
        }
    }
    true
}

fn tell_field(heap: &dyn HeapReader, words: &impl Memory, class: u64, field: Asked, record: &mut Record) {
    match heap.static_at(class, field.field) {
        Err(code) => record.add(&[u64::from(code)]),
        Ok(address) if field.reads => {
            // Fields lie at multiples of their size: none crosses from one word into the next.
            let value = words.word(address & !(WORD - 1)) >> (address % WORD * 8);
            record.add(&[HERE, address, 1, value]);
        }
        Ok(address) => record.add(&[HERE, address, 0]),
    }
}
