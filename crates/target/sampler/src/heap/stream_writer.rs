//! Writes the stream: numbers into a buffer, and some records a second time beside the stream.

use super::{MOST_ARGUMENTS, StreamSink};
use remora_heap_stream::{LONGEST_NUMBER, write_number};

/// Numbers in the longest record, that of a class.
const MOST_NUMBERS: usize = 7 + MOST_ARGUMENTS;

/// A record that is written twice.
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

    // Not inlined, to keep the library small; the same for other rarely used functions here and elsewhere.
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

/// Writes numbers to a sink, through a buffer.
pub(crate) struct StreamWriter<'a> {
    buffer: &'a mut [u8],
    used: usize,
    /// The destination of the stream.
    pub(crate) sink: &'a mut dyn StreamSink,
    /// Whether the sink still takes bytes.
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
            // Most are small: sizes, ends of lists, references to near objects.
            Some([place, ..]) if number < 0x80 => {
                *place = number as u8;
                self.used += 1;
            }
            Some(rest) => self.used += write_number(rest, number),
            None => {}
        }
    }

    /// Room for as many bytes as fit. [`StreamWriter::used`] then gets the number of used ones. The room is smaller than `least` only if
    /// the whole buffer is.
    #[inline]
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.buffer.len() - self.used < least {
            self.flush();
        }
        self.buffer.get_mut(self.used..).unwrap_or_default()
    }

    /// Marks this many bytes of [`StreamWriter::room`] as used.
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

    /// Writes bytes unchanged.
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

    /// Writes a record only beside the stream.
    #[inline(never)]
    pub(crate) fn record_beside(&mut self, record: &Record) {
        self.wanted = self.wanted && self.sink.put_aside(record.bytes());
    }

    /// Writes a record into the stream and beside it.
    #[inline(never)]
    pub(crate) fn record_twice(&mut self, record: &Record) {
        record.bytes().iter().for_each(|byte| self.byte(*byte));
        self.wanted = self.wanted && self.sink.put_aside(record.bytes());
    }

    /// The same for the last record. The whole stream goes out first.
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
