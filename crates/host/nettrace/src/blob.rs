//! The events in a block. Their headers have only the differences from the previous event.

use remora_symbols::Reader;

const METADATA: u8 = 1 << 0;
const CAPTURE: u8 = 1 << 1;
const THREAD: u8 = 1 << 2;
const STACK: u8 = 1 << 3;
const ACTIVITY: u8 = 1 << 4;
const RELATED_ACTIVITY: u8 = 1 << 5;
const LENGTH: u8 = 1 << 7;

/// Block flag: event headers are compressed.
const COMPRESSED: u16 = 1;

/// An event's header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) metadata: u32,
    pub(crate) sequence: u32,
    pub(crate) capture_thread: u64,
    pub(crate) thread: u64,
    pub(crate) stack: u32,
    pub(crate) timestamp: u64,
    length: u32,
}

/// The events of an event or metadata block.
pub(crate) struct Blobs<'a> {
    bytes: Reader<'a>,
    header: Header,
}

impl<'a> Blobs<'a> {
    /// Reads the block's own header.
    pub(crate) fn new(block: &'a [u8]) -> Option<Blobs<'a>> {
        let mut bytes = Reader::new(block);
        let header_size = usize::from(bytes.u16()?);
        if bytes.u16()? & COMPRESSED == 0 {
            return None;
        }
        // The times of the first and last event, and fields of later versions.
        bytes.take(header_size.checked_sub(4)?)?;
        Some(Blobs { bytes, header: Header::default() })
    }

    /// The next event; `None` at the end; `Some(None)` if it, and so the rest of the block, is damaged.
    pub(crate) fn next(&mut self) -> Option<Option<(Header, &'a [u8])>> {
        if self.bytes.is_empty() {
            return None;
        }
        Some(self.blob())
    }

    fn blob(&mut self) -> Option<(Header, &'a [u8])> {
        let bytes = &mut self.bytes;
        let header = &mut self.header;
        let flags = bytes.byte()?;
        if flags & METADATA != 0 {
            header.metadata = bytes.leb128_u32()?;
        }
        if flags & CAPTURE != 0 {
            header.sequence = header.sequence.wrapping_add(bytes.leb128_u32()?);
            header.capture_thread = bytes.leb128()?;
            bytes.leb128_u32()?;
        }
        // Metadata events have no sequence numbers.
        if header.metadata != 0 {
            header.sequence = header.sequence.wrapping_add(1);
        }
        if flags & THREAD != 0 {
            header.thread = bytes.leb128()?;
        }
        if flags & STACK != 0 {
            header.stack = bytes.leb128_u32()?;
        }
        header.timestamp = header.timestamp.wrapping_add(bytes.leb128()?);
        for activity in [ACTIVITY, RELATED_ACTIVITY] {
            if flags & activity != 0 {
                bytes.take(16)?;
            }
        }
        if flags & LENGTH != 0 {
            header.length = bytes.leb128_u32()?;
        }
        let header = *header;
        let payload = bytes.take(header.length as usize)?;
        Some((header, payload))
    }
}
