//! Writes the contents of objects, if requested, and the layouts of their classes.

use super::shape::{Memory, TEXT_BASE};
use super::stream_writer::{Record, StreamWriter};
use remora_heap_stream::{CLASS, CONTENT, LAYOUT, LAYOUT_FIELDS, MOST_CONTENT, MOST_VALUES, VALUES, WORD};

/// The offset of a string's characters.
const TEXT_AT: u64 = 12;
/// Bytes of an object's size without content: its class, and the header before the next object.
const NO_CONTENT: u64 = 2 * WORD;

/// Writes the characters of a string. The lower half of its second word is their number, and they begin with the upper half
/// (GetStringLayout2 returns 8 and 12 on every runtime).
#[inline(never)]
pub(crate) fn write_text(writer: &mut StreamWriter<'_>, words: &impl Memory, object: u64, size: u64) {
    let whole = (words.word(object + WORD) & u64::from(u32::MAX)) * 2;
    let reported = whole.min(MOST_CONTENT).min(size.saturating_sub(TEXT_BASE));
    writer.numbers(&[CONTENT, whole, reported]);
    for index in 0..reported {
        let at = object + TEXT_AT + index;
        writer.byte((words.word(at & !(WORD - 1)) >> (8 * (at % WORD))) as u8);
    }
}

/// Writes the content of any other object.
#[inline(never)]
pub(crate) fn write_values(writer: &mut StreamWriter<'_>, words: &impl Memory, object: u64, size: u64) {
    let whole = size.saturating_sub(NO_CONTENT);
    let reported = whole.min(MOST_VALUES);
    writer.numbers(&[VALUES, whole, reported]);
    let mut at = 0;
    while at < reported {
        let word = words.word(object + WORD + at).to_le_bytes();
        writer.bytes(word.get(..(reported - at).min(WORD) as usize).unwrap_or_default());
        at += WORD;
    }
}

/// Writes the layout of a class. It declares `count` fields; `fields` are those that fitted.
pub(crate) fn write_layout(writer: &mut StreamWriter<'_>, class: u64, bytes: u32, count: usize, fields: &[[u32; 2]]) {
    let mut rest = fields;
    loop {
        let (now, later) = rest.split_at(rest.len().min(LAYOUT_FIELDS));
        let mut record = Record::of(&[CLASS, class, LAYOUT, u64::from(bytes), count as u64, now.len() as u64]);
        now.iter().for_each(|[token, offset]| record.add(&[u64::from(*token), u64::from(*offset)]));
        writer.record_beside(&record);
        rest = later;
        if rest.is_empty() {
            return;
        }
    }
}
