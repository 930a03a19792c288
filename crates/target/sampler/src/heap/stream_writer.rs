//! The stream as it is written: numbers into a buffer, and what is told a second time beside it.

use super::{MOST_ARGUMENTS, StreamSink};
use remora_wire::heap::{LONGEST_NUMBER, write_number};

/// Numbers of the longest record: that of a class.
const MOST_NUMBERS: usize = 7 + MOST_ARGUMENTS;

/// A record that is told twice.
pub(crate) struct Record {
    bytes: [u8; MOST_NUMBERS * LONGEST_NUMBER],
    used: usize,
}

impl Record {
    #[inline(never)]
    pub(crate) fn of(numbers: &[u64]) -> Record {
        let mut record = Record { bytes: [0; MOST_NUMBERS * LONGEST_NUMBER], used: 0 };
        record.add(numbers);
        record
    }

    // Made once, for the sake of the library's size; so the other rare ones here and elsewhere.
    #[inline(never)]
    pub(crate) fn add(&mut self, numbers: &[u64]) {
        for number in numbers {
            if let Some(rest) = self.bytes.get_mut(self.used..) {
                self.used += write_number(rest, *number);
            }
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

/// Numbers on their way out.
pub(crate) struct StreamWriter<'a> {
    buffer: &'a mut [u8],
    used: usize,
    /// Where the stream goes.
    pub(crate) sink: &'a mut dyn StreamSink,
    /// Whether anybody takes it.
    pub(crate) wanted: bool,
}

impl<'a> StreamWriter<'a> {
    pub(crate) fn new(buffer: &'a mut [u8], sink: &'a mut dyn StreamSink) -> StreamWriter<'a> {
        StreamWriter { buffer, used: 0, sink, wanted: true }
    }

    #[inline(never)]
    pub(crate) fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.number(*number));
    }

    #[inline]
    pub(crate) fn number(&mut self, number: u64) {
        if self.buffer.len() - self.used < LONGEST_NUMBER {
            self.flush();
        }
        match self.buffer.get_mut(self.used..) {
            // Most are small: sizes, ends of lists, references to what lies near.
            Some([place, ..]) if number < 0x80 => {
                *place = number as u8;
                self.used += 1;
            }
            Some(rest) => self.used += write_number(rest, number),
            None => {}
        }
    }

    /// Places for as many bytes as fit, of which [`StreamWriter::used`] says afterwards how many were used. Fewer than `least` only if the buffer
    /// never has so many.
    #[inline]
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.buffer.len() - self.used < least {
            self.flush();
        }
        self.buffer.get_mut(self.used..).unwrap_or_default()
    }

    /// So many of the places that [`StreamWriter::room`] gave are used.
    #[inline]
    pub(crate) fn used(&mut self, bytes: usize) {
        self.used = (self.used + bytes).min(self.buffer.len());
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        if self.used == self.buffer.len() {
            self.flush();
        }
        if let Some(place) = self.buffer.get_mut(self.used) {
            *place = byte;
            self.used += 1;
        }
    }

    /// These as they are.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        match self.buffer.get_mut(self.used..).and_then(|rest| rest.get_mut(..bytes.len())) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.used += bytes.len();
            }
            None => bytes.iter().for_each(|byte| self.byte(*byte)),
        }
    }

    /// Beside the stream only.
    #[inline(never)]
    pub(crate) fn record_beside(&mut self, record: &Record) {
        self.wanted = self.wanted && self.sink.put_aside(record.bytes());
    }

    /// Into the stream and beside it.
    #[inline(never)]
    pub(crate) fn record_twice(&mut self, record: &Record) {
        record.bytes().iter().for_each(|byte| self.byte(*byte));
        self.wanted = self.wanted && self.sink.put_aside(record.bytes());
    }

    /// The same for the last one: the whole stream is out before it is told beside it.
    pub(crate) fn last(&mut self, record: &Record) {
        record.bytes().iter().for_each(|byte| self.byte(*byte));
        self.flush();
        self.wanted = self.wanted && self.sink.put_aside(record.bytes());
    }

    #[inline(never)]
    pub(crate) fn flush(&mut self) {
        if self.used > 0 && self.wanted {
            self.wanted = self.buffer.get(..self.used).is_some_and(|bytes| self.sink.put(bytes));
        }
        self.used = 0;
    }
}
