//! Parses the stream: named objects, blocks, and the tables that events refer to.

use crate::blob::Blobs;
use crate::event::{Event, EventType, Sink, StreamEnd, Trace};
use crate::sequence::Sequences;
use crate::{Error, Result};
use remora_symbols::{Foreign, Reader};
use std::collections::HashMap;

/// The runtime's blocks are some 100 KiB; a block larger than this is damage.
const BLOCK_LIMIT: usize = 16 << 20;
/// Maximum event types; the runtime's own providers have some hundreds.
const EVENT_TYPE_LIMIT: usize = 1 << 16;
/// Maximum stack addresses between two sequence points (128 MiB).
const STACK_ADDRESS_LIMIT: usize = 16 << 20;
/// Maximum length of an object's type name.
const NAME_LIMIT: usize = 64;

const MAGIC: &[u8] = b"Nettrace";
const SERIALIZER: &[u8] = b"!FastSerialization.1";
/// Magic, length of the serializer's name, that name.
const HEADER_SIZE: usize = 8 + 4 + 20;
const TRACE_SIZE: usize = 48;

const TAG_NULL: u8 = 1;
const TAG_BEGIN: u8 = 5;
const TAG_END: u8 = 6;

/// Reads a stream that arrives in pieces.
#[derive(Debug, Default)]
pub struct Parser {
    buffer: Vec<u8>,
    /// Bytes of the stream before `buffer`.
    consumed: u64,
    state: State,
    clock: Clock,
    pointer_size: usize,
    event_types: HashMap<u32, EventType>,
    stacks: Stacks,
    sequences: Sequences,
    end: StreamEnd,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum State {
    #[default]
    Header,
    Objects,
    Ended,
    Failed(Error),
}

/// Converts the runtime's clock to nanoseconds since the session's start.
#[derive(Debug, Default, Clone, Copy)]
struct Clock {
    start: u64,
    frequency: u64,
}

impl Clock {
    fn nanoseconds(self, timestamp: u64) -> u64 {
        let ticks = u128::from(timestamp.saturating_sub(self.start));
        let nanoseconds = ticks * 1_000_000_000 / u128::from(self.frequency.max(1));
        nanoseconds.try_into().unwrap_or(u64::MAX)
    }
}

/// Stacks by id, until the next sequence point.
#[derive(Debug, Default)]
struct Stacks {
    addresses: Vec<u64>,
    by_id: HashMap<u32, (usize, usize)>,
}

impl Parser {
    /// A parser at the beginning of a stream.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Reads the next piece of the stream, and passes each completed event to `sink`.
    /// After an error it reads no more, and every further call returns the same error.
    pub fn push(&mut self, bytes: Foreign<&[u8]>, sink: &mut impl Sink) -> Result<()> {
        if let State::Failed(error) = &self.state {
            return Err(error.clone());
        }
        self.buffer.extend_from_slice(bytes.unchecked());
        let buffer = std::mem::take(&mut self.buffer);
        let mut used = 0;
        let outcome = loop {
            match self.step(&buffer[used..], sink) {
                Ok(Some(size)) => {
                    used += size;
                    self.consumed += size as u64;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.buffer = buffer;
        self.buffer.drain(..used);
        if let Err(error) = &outcome {
            self.state = State::Failed(error.clone());
            self.buffer = Vec::new();
        }
        outcome
    }

    /// The end of the stream, with its counts.
    pub fn finish(self) -> StreamEnd {
        StreamEnd { truncated: self.state != State::Ended, ..self.end }
    }

    /// Whether the stream's own end mark has been read.
    pub fn ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Reads one item from the start of `input`; returns its size, or `None` if it is incomplete.
    fn step(&mut self, input: &[u8], sink: &mut impl Sink) -> Result<Option<usize>> {
        match self.state {
            State::Header => self.header(input),
            State::Objects => self.object(input, sink),
            // Bytes after the end mark are ignored.
            State::Ended => Ok(Some(input.len()).filter(|&size| size > 0)),
            State::Failed(_) => Ok(None),
        }
    }

    fn header(&mut self, input: &[u8]) -> Result<Option<usize>> {
        let magic = input.len().min(MAGIC.len());
        if input[..magic] != MAGIC[..magic] {
            return Err(Error::NotNettrace);
        }
        let mut bytes = Reader::new(&input[magic..]);
        let Some(length) = bytes.u32() else { return Ok(None) };
        if length == 0 {
            // From format 6 on, there is a zero here, and the version after it.
            return match bytes.u32() {
                Some(version) => Err(Error::Version { version }),
                None => Ok(None),
            };
        }
        match bytes.take(SERIALIZER.len()) {
            Some(name) if length as usize == SERIALIZER.len() && name == SERIALIZER => {
                self.state = State::Objects;
                Ok(Some(HEADER_SIZE))
            }
            Some(_) => Err(Error::NotNettrace),
            None => Ok(None),
        }
    }

    fn object(&mut self, input: &[u8], sink: &mut impl Sink) -> Result<Option<usize>> {
        match input.first() {
            None => return Ok(None),
            Some(&TAG_NULL) => {
                self.state = State::Ended;
                return Ok(Some(1));
            }
            Some(&TAG_BEGIN) => {}
            Some(_) => return Err(self.damaged("no object begins here")),
        }
        let Some((name, header_size)) = self.object_header(input)? else { return Ok(None) };
        let begin =
            if name == b"Trace" { Some((header_size, TRACE_SIZE)) } else { self.block_bounds(input, header_size)? };
        let Some((begin, size)) = begin else { return Ok(None) };
        let Some(&[ref content @ .., tag]) = input.get(begin..begin + size + 1) else { return Ok(None) };
        if tag != TAG_END {
            return Err(self.damaged("an object does not end where it should"));
        }
        self.content(name, content, sink)?;
        Ok(Some(begin + size + 1))
    }

    /// The type of an object: its name, and the offset of its content.
    fn object_header<'a>(&self, input: &'a [u8]) -> Result<Option<(&'a [u8], usize)>> {
        const FIXED: usize = 3 + 12;
        let Some(fixed) = input.get(..FIXED) else { return Ok(None) };
        if fixed[1] != TAG_BEGIN || fixed[2] != TAG_NULL {
            return Err(self.damaged("an object without a type"));
        }
        let number = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let (oldest_reader, length) = (number(7), number(11) as usize);
        if length > NAME_LIMIT {
            return Err(self.damaged("an object's type has a name that is too long"));
        }
        let Some(&[ref name @ .., tag]) = input.get(FIXED..FIXED + length + 1) else { return Ok(None) };
        if tag != TAG_END {
            return Err(self.damaged("an object's type does not end where it should"));
        }
        if name == b"Trace" && oldest_reader > 4 {
            return Err(Error::Version { version: oldest_reader });
        }
        Ok(Some((name, FIXED + length + 1)))
    }

    /// Offset and length of a block's content: the size precedes it, and it starts at a multiple of four.
    fn block_bounds(&self, input: &[u8], header_size: usize) -> Result<Option<(usize, usize)>> {
        let Some(size) = input.get(header_size..).and_then(|rest| Reader::new(rest).u32()) else { return Ok(None) };
        let size = size as usize;
        if size > BLOCK_LIMIT {
            return Err(self.damaged("a block is longer than any that a runtime writes"));
        }
        let position = self.consumed + header_size as u64 + 4;
        let padding = (position.next_multiple_of(4) - position) as usize;
        Ok(Some((header_size + 4 + padding, size)))
    }

    fn content(&mut self, name: &[u8], content: &[u8], sink: &mut impl Sink) -> Result<()> {
        let known = match name {
            b"Trace" => self.trace(content, sink),
            b"MetadataBlock" => self.metadata_block(content)?,
            b"EventBlock" => self.event_block(content, sink)?,
            b"StackBlock" => self.stack_block(content)?,
            b"SPBlock" => self.sequence_point(content, sink)?,
            // Unknown blocks of a later runtime are skipped.
            _ => Some(()),
        };
        known.ok_or_else(|| self.damaged("a block that contradicts itself"))
    }

    fn trace(&mut self, content: &[u8], sink: &mut impl Sink) -> Option<()> {
        let mut bytes = Reader::new(content);
        let mut date = [0u64; 8];
        for part in &mut date {
            *part = bytes.u16()?.into();
        }
        self.clock = Clock { start: bytes.u64()?, frequency: bytes.u64()? };
        let pointer_size = bytes.u32()?;
        if !matches!(pointer_size, 4 | 8) || self.pointer_size != 0 {
            return None;
        }
        self.pointer_size = pointer_size as usize;
        sink.trace(&Trace {
            started_unix_nanoseconds: unix_nanoseconds(date).unwrap_or(0),
            pointer_size,
            process_id: bytes.u32()?,
            processors: bytes.u32()?,
            sampling_interval: bytes.u32()?,
        });
        Some(())
    }

    fn metadata_block(&mut self, content: &[u8]) -> Result<Option<()>> {
        let Some(mut blobs) = Blobs::new(content) else { return Ok(None) };
        while let Some(blob) = blobs.next() {
            let Some((id, event_type)) = blob.and_then(|(_, payload)| event_type(payload)) else { return Ok(None) };
            self.event_types.insert(id, event_type);
            Error::above(EVENT_TYPE_LIMIT, self.event_types.len(), "kinds of events")?;
        }
        Ok(Some(()))
    }

    fn event_block(&mut self, content: &[u8], sink: &mut impl Sink) -> Result<Option<()>> {
        if self.pointer_size == 0 {
            return Ok(None);
        }
        let Some(mut blobs) = Blobs::new(content) else { return Ok(None) };
        while let Some(blob) = blobs.next() {
            let Some((header, payload)) = blob else { return Ok(None) };
            let missing = self.sequences.event(header.capture_thread, header.sequence)?;
            report(&mut self.end, header.capture_thread, missing, sink);
            let Some(event_type) = self.event_types.get(&header.metadata) else {
                self.end.incomplete += 1;
                continue;
            };
            let stack = self.stacks.get(header.stack);
            if stack.is_none() {
                self.end.incomplete += 1;
            }
            self.end.events += 1;
            sink.event(&Event {
                event_type,
                time: self.clock.nanoseconds(header.timestamp),
                thread: header.thread,
                written_by: header.capture_thread,
                stack: stack.unwrap_or_default(),
                payload,
            });
        }
        Ok(Some(()))
    }

    fn stack_block(&mut self, content: &[u8]) -> Result<Option<()>> {
        let mut bytes = Reader::new(content);
        let (Some(first), Some(count)) = (bytes.u32(), bytes.u32()) else { return Ok(None) };
        for index in 0..count {
            let Some(stack) = bytes.u32().and_then(|size| bytes.take(size as usize)) else { return Ok(None) };
            self.stacks.insert(first.wrapping_add(index), stack, self.pointer_size);
            let count = self.stacks.addresses.len().max(self.stacks.by_id.len());
            Error::above(STACK_ADDRESS_LIMIT, count, "addresses between two sequence points")?;
        }
        Ok(Some(()))
    }

    fn sequence_point(&mut self, content: &[u8], sink: &mut impl Sink) -> Result<Option<()>> {
        let mut bytes = Reader::new(content);
        let (Some(_time), Some(count)) = (bytes.u64(), bytes.u32()) else { return Ok(None) };
        for _ in 0..count {
            let (Some(thread), Some(number)) = (bytes.u64(), bytes.u32()) else { return Ok(None) };
            let missing = self.sequences.point(thread, number)?;
            report(&mut self.end, thread, missing, sink);
        }
        // Ids restart.
        self.stacks = Stacks::default();
        Ok(Some(()))
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { offset: self.consumed, what }
    }
}

impl Stacks {
    /// Id 0 is an empty stack; `None` if the stack is missing.
    fn get(&self, id: u32) -> Option<&[u64]> {
        if id == 0 {
            return Some(&[]);
        }
        let &(start, end) = self.by_id.get(&id)?;
        self.addresses.get(start..end)
    }

    fn insert(&mut self, id: u32, stack: &[u8], pointer_size: usize) {
        let start = self.addresses.len();
        let address = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        self.addresses.extend(stack.chunks_exact(pointer_size.max(1)).map(address));
        self.by_id.insert(id, (start, self.addresses.len()));
    }
}

fn report(end: &mut StreamEnd, thread: u64, missing: u64, sink: &mut impl Sink) {
    if missing > 0 {
        end.dropped = end.dropped.saturating_add(missing);
        sink.dropped(thread, missing);
    }
}

/// The declaration of an event type: its id in this stream, and its names. The fields are not needed.
fn event_type(payload: &[u8]) -> Option<(u32, EventType)> {
    let mut bytes = Reader::new(payload);
    let id = bytes.u32()?;
    let provider = bytes.utf16()?;
    let number = bytes.u32()?;
    let name = bytes.utf16()?;
    let _keywords = bytes.u64()?;
    Some((id, EventType { provider, id: number, name, version: bytes.u32()? }))
}

/// Year, month, day of the week, day, hour, minute, second, millisecond, in UTC.
fn unix_nanoseconds([year, month, _, day, hour, minute, second, millisecond]: [u64; 8]) -> Option<u64> {
    if !(1970..2500).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // With years that begin in March the leap day is the last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let since_1970 = days.checked_sub(719_468)?;
    let milliseconds = (((since_1970 * 24 + hour) * 60 + minute) * 60 + second) * 1000 + millisecond;
    milliseconds.checked_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_unix_time() {
        assert_eq!(unix_nanoseconds([1970, 1, 4, 1, 0, 0, 0, 0]), Some(0));
        assert_eq!(unix_nanoseconds([2024, 2, 4, 29, 12, 0, 0, 5]), Some(1_709_208_000_005_000_000));
        assert_eq!(unix_nanoseconds([0; 8]), None);
        assert_eq!(unix_nanoseconds([2024, 13, 0, 1, 0, 0, 0, 0]), None);
    }

    #[test]
    fn the_clock_is_safe_from_nonsense() {
        assert_eq!(Clock { start: 10, frequency: 0 }.nanoseconds(5), 0);
        assert_eq!(Clock { start: 0, frequency: 1 }.nanoseconds(u64::MAX), u64::MAX);
        assert_eq!(Clock { start: 100, frequency: 10_000_000 }.nanoseconds(110), 1000);
    }
}
