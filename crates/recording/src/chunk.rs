//! One chunk of a file: kind, lengths, checksum, compressed bytes.
//!
//! A chunk that the file does not hold to its end is *torn*: an interrupted write. One that is whole but wrong is *damaged*.

use crate::{error::Fault, limits};
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use std::io::{Read, Write};

/// Bytes before the stored ones.
const HEADER: usize = 16;

/// A whole, checked, decompressed chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// What is in it; each version has its own kinds.
    pub(crate) kind: u32,
    /// The content.
    pub(crate) plain: Vec<u8>,
    /// Bytes that it takes in the file.
    pub(crate) length: u64,
}

/// What stands next in a file.
#[derive(Debug)]
pub(crate) enum Next {
    Chunk(Chunk),
    /// The file ends here, between two chunks.
    End,
    /// The file ends within a chunk, of which there are so many bytes.
    Torn(u64),
}

/// Appends a chunk to `out`.
pub(crate) fn put(out: &mut Vec<u8>, kind: u32, plain: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    let mut encoder = DeflateEncoder::new(std::mem::take(out), Compression::default());
    // Writing to memory does not fail; were it to, the chunk would be short, and the reader would call it damaged.
    let _ = encoder.write_all(plain);
    *out = encoder.finish().unwrap_or_default();
    let stored = (out.len() - start - HEADER) as u32;
    for (place, value) in [(start, kind), (start + 4, stored), (start + 8, plain.len() as u32)] {
        out[place..place + 4].copy_from_slice(&value.to_le_bytes());
    }
    let sum = checksum(&out[start..start + 12], &out[start + HEADER..]);
    out[start + 12..start + HEADER].copy_from_slice(&sum.to_le_bytes());
}

/// Reads what stands next.
pub(crate) fn read(input: &mut impl Read) -> Result<Next, Fault> {
    let head = up_to(input, HEADER)?;
    let Some(head) = head.first_chunk::<HEADER>() else {
        return Ok(if head.is_empty() { Next::End } else { Next::Torn(head.len() as u64) });
    };
    let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (kind, stored_length, plain_length) = (field(0), field(4) as usize, field(8) as usize);
    if stored_length > limits::CHUNK_STORED || plain_length > limits::CHUNK_PLAIN {
        return Err(Fault::Damaged("a chunk is longer than chunks are"));
    }
    let stored = up_to(input, stored_length)?;
    if stored.len() < stored_length {
        return Ok(Next::Torn((HEADER + stored.len()) as u64));
    }
    if checksum(&head[..12], &stored) != field(12) {
        return Err(Fault::Damaged("the checksum of a chunk is wrong"));
    }
    let mut plain = Vec::new();
    // One byte more than there should be, so that too much is noticed and no more than that is ever unpacked.
    let unpacked = DeflateDecoder::new(stored.as_slice()).take(plain_length as u64 + 1).read_to_end(&mut plain);
    if unpacked.is_err() || plain.len() != plain_length {
        return Err(Fault::Damaged("a chunk does not unpack to its length"));
    }
    Ok(Next::Chunk(Chunk { kind, plain, length: (HEADER + stored_length) as u64 }))
}

fn up_to(input: &mut impl Read, length: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    input.take(length as u64).read_to_end(&mut bytes).map_err(Fault::Read)?;
    Ok(bytes)
}

fn checksum(head: &[u8], stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(stored);
    hasher.finalize()
}
