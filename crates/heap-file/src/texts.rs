//! The characters of strings, in a snapshot that has them: read from its stream when they are wanted, and never all at once.

use crate::{Error, FORMAT, kind};
use remora_chunks::{Fault, HEADER, Next};
use remora_wire::heap::{ClassFacts, HeapDecoder, HeapVisitor};
use std::io::Read;

/// The characters of one string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// The string's address.
    pub address: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// How many characters it has (UTF-16 code units).
    pub characters: u64,
    /// The first of them, two bytes each, the lower first: all, unless it is very long.
    pub utf16: &'a [u8],
}

impl Text<'_> {
    /// Whether these are all of its characters.
    pub fn is_whole(&self) -> bool {
        self.utf16.len() as u64 == self.characters * 2
    }

    /// The characters that were told, as text; what is none is replaced.
    pub fn text(&self) -> String {
        let units = self.utf16.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
        char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

/// Shows every string of a snapshot. A file that ends early is read as far as it goes.
///
/// # Errors
/// As [`crate::read`].
pub fn texts(mut input: impl Read, visit: impl FnMut(Text<'_>)) -> Result<(), Error> {
    FORMAT.read_header(&mut input)?;
    let (mut decoder, mut seen) = (HeapDecoder::default(), Seen { address: 0, bytes: 0, objects: 0, visit });
    let mut offset = HEADER as u64;
    loop {
        let before = seen.objects;
        match FORMAT.next(&mut input).map_err(|fault| Error::of_chunk(fault, offset, before))? {
            Next::Chunk(chunk) if chunk.kind == kind::STREAM => {
                let read = decoder.push(&chunk.plain, &mut seen);
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

/// The last object, and who is shown what is in it.
struct Seen<V> {
    address: u64,
    bytes: u64,
    objects: u64,
    visit: V,
}

impl<V: FnMut(Text<'_>)> HeapVisitor for Seen<V> {
    fn range(&mut self, _: u64, _: u64, _: u64) {}
    fn class(&mut self, _: u64, _: ClassFacts) {}
    fn object(&mut self, address: u64, _: u32, size: u64) {
        (self.address, self.bytes) = (address, size);
        self.objects += 1;
    }
    fn reference(&mut self, _: u64) {}
    fn gap(&mut self, _: u64, _: u64) {}
    fn broken(&mut self, _: u64) {}
    fn content(&mut self, whole: u64, bytes: &[u8]) {
        (self.visit)(Text { address: self.address, bytes: self.bytes, characters: whole / 2, utf16: bytes });
    }
    fn end(&mut self, _: u64) {}
}
