//! Object contents, in a snapshot with values: streamed from the file when needed, never all in memory.

use crate::{Error, FORMAT, Text, kind};
use remora_chunks::{Fault, HEADER, Next, Unpacked};
use remora_heap_stream::{HeapDecoder, HeapVisitor};
use std::io::Read;

/// The content of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// A string, with its characters.
    Text(Text<'a>),
    /// Another object.
    Values {
        /// The object's address.
        address: u64,
        /// Number of the object's bytes after its class pointer.
        whole: u64,
        /// The first of these: all, except in very large objects.
        bytes: &'a [u8],
    },
}

/// Passes the stored content of each object to `visit`. Reads a truncated file up to its end.
///
/// # Errors
/// See [`crate::read`].
pub fn contents(mut input: impl Read, visit: impl FnMut(Content<'_>)) -> Result<(), Error> {
    FORMAT.read_header(&mut input)?;
    let (mut decoder, mut seen) = (HeapDecoder::default(), Seen { address: 0, bytes: 0, objects: 0, visit });
    let (mut offset, mut unpacked) = (HEADER as u64, Unpacked::default());
    loop {
        let before = seen.objects;
        match FORMAT.next(&mut input, &mut unpacked).map_err(|fault| Error::of_chunk(fault, offset, before))? {
            Next::Chunk(chunk) if chunk.kind == kind::STREAM => {
                let read = decoder.push((&chunk.plain).into(), &mut seen);
                read.map_err(|_| {
                    Error::of_chunk(Fault::Damaged("the stream of objects makes no sense"), offset, before)
                })?;
                offset += chunk.length;
            }
            Next::Chunk(chunk) => offset += chunk.length,
            Next::End | Next::Torn(_) => return Ok(()),
        }
    }
}

/// The last object, and the visitor of its content.
struct Seen<V> {
    address: u64,
    bytes: u64,
    objects: u64,
    visit: V,
}

impl<V: FnMut(Content<'_>)> HeapVisitor for Seen<V> {
    fn object(&mut self, address: u64, _: u32, size: u64) {
        (self.address, self.bytes) = (address, size);
        self.objects += 1;
    }
    fn content(&mut self, whole: u64, bytes: &[u8]) {
        let text = Text { address: self.address, bytes: self.bytes, characters: whole / 2, utf16: bytes };
        (self.visit)(Content::Text(text));
    }
    fn values(&mut self, whole: u64, bytes: &[u8]) {
        (self.visit)(Content::Values { address: self.address, whole, bytes });
    }
}
