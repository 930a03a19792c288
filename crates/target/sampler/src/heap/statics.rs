//! The addresses and values of static fields. The reader asks for them, and the copy answers after the heap walk.

use super::shape::Memory;
use super::stream_writer::Record;
use super::{HeapReader, StreamSink};
use remora_heap_stream::WORD;
use remora_heap_stream::statics::{Asked, FIELDS_AT_ONCE, Owner, asked, head};

/// Marks an answer with an address.
const HERE: u64 = 0;

/// The next question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Its first word.
    at: usize,
    /// Its number.
    question: u64,
}

/// Answers the reader's questions from the cursor on.
pub(crate) fn tell(heap: &dyn HeapReader, words: &impl Memory, sink: &mut dyn StreamSink, cursor: &mut Cursor) {
    while let (Some(first), Some(second)) = (sink.question(cursor.at), sink.question(cursor.at + 1)) {
        let (owner, count) = head([first, second]);
        let (question, from, count) = (cursor.question, cursor.at + 2, count as usize);
        // Before the question is asked: if it ends in a fault, the next call continues after it.
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

/// Answers one question, with `count` words of fields at `from`. Returns false if no reader is left.
fn tell_class(
    heap: &dyn HeapReader,
    words: &impl Memory,
    sink: &mut dyn StreamSink,
    class: u64,
    (question, from, count): (u64, usize, usize),
) -> bool {
    let mut reported = 0;
    while reported < count {
        let mut record = Record::of(&[1, question, reported as u64]);
        let piece = (count - reported).min(FIELDS_AT_ONCE);
        for index in reported..reported + piece {
            let Some(word) = sink.question(from + index) else { return false };
            tell_field(heap, words, class, asked(word), &mut record);
        }
        reported += piece;
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
            // Fields are aligned to their size, so none crosses a word's end.
            let value = words.word(address & !(WORD - 1)) >> (address % WORD * 8);
            record.add(&[HERE, address, 1, value]);
        }
        Ok(address) => record.add(&[HERE, address, 0]),
    }
}
