//! Object contents, in a snapshot with values: streamed from the file when needed, never all in memory.

use crate::chunks::each_chunk;
use crate::{Error, Text, kind};
use remora_chunks::Fault;
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
pub fn contents(input: impl Read, visit: impl FnMut(Content<'_>)) -> Result<(), Error> {
    let mut reading = (HeapDecoder::default(), Seen { address: 0, bytes: 0, objects: 0, visit });
    each_chunk(
        input,
        &mut reading,
        |(_, seen)| seen.objects,
        |(decoder, seen), chunk| {
            let read = if chunk.kind == kind::STREAM { decoder.push((&chunk.plain).into(), seen) } else { Ok(()) };
            Ok(read.map_err(|_| Fault::Damaged("the stream of objects makes no sense"))?)
        },
    )?;
    Ok(())
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
