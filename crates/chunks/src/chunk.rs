//! One chunk of a file: kind, lengths, checksum, compressed bytes.
//!
//! A chunk that the file does not hold to its end is *torn*: an interrupted write. One that is whole but wrong is *damaged*.

use crate::{CHUNK, Format};
use std::io::{self, Read, Seek};

/// Bytes before the stored ones.
const HEAD: usize = 16;

/// A whole, checked, decompressed chunk.
#[derive(Debug)]
pub struct Chunk {
    /// What is in it; each version of a format has its own kinds.
    pub kind: u32,
    /// The content.
    pub plain: Vec<u8>,
    /// Bytes that it takes in the file.
    pub length: u64,
}

/// What stands next in a file.
#[derive(Debug)]
pub enum Next {
    /// A chunk.
    Chunk(Chunk),
    /// The file ends here, between two chunks.
    End,
    /// The file ends within a chunk, of which there are so many bytes.
    Torn(u64),
}

/// What is wrong with a chunk.
#[derive(Debug)]
pub enum Fault {
    /// The file was changed after it was written.
    Damaged(&'static str),
    /// The file could not be read.
    Read(io::Error),
}

impl Format {
    /// Appends a chunk to `out`. `plain` is no longer than [`CHUNK`].
    pub fn put(&self, out: &mut Vec<u8>, kind: u32, plain: &[u8]) {
        let start = out.len();
        let stored = self.codec.pack(plain);
        for number in [kind, stored.len() as u32, plain.len() as u32] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&out[start..], &stored);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&stored);
    }

    /// The first bytes of the chunk that stands next, its checksum in them; `input` then stands behind the chunk, of which no more is read.
    /// `None` where there are not even so many.
    ///
    /// # Errors
    /// Those of `input`.
    pub fn skip(&self, input: &mut (impl Read + Seek)) -> io::Result<Option<[u8; HEAD]>> {
        let mut head = Vec::with_capacity(HEAD);
        input.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        let Some(head) = head.first_chunk::<HEAD>() else { return Ok(None) };
        let stored = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        input.seek_relative(stored.into())?;
        Ok(Some(*head))
    }

    /// Reads what stands next.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn next(&self, input: &mut impl Read) -> Result<Next, Fault> {
        let head = up_to(input, HEAD)?;
        let Some(head) = head.first_chunk::<HEAD>() else {
            return Ok(if head.is_empty() { Next::End } else { Next::Torn(head.len() as u64) });
        };
        let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (kind, stored_length, plain_length) = (field(0), field(4) as usize, field(8) as usize);
        if stored_length > CHUNK || plain_length > CHUNK {
            return Err(Fault::Damaged("a chunk is longer than chunks are"));
        }
        let stored = up_to(input, stored_length)?;
        if stored.len() < stored_length {
            return Ok(Next::Torn((HEAD + stored.len()) as u64));
        }
        if checksum(&head[..12], &stored) != field(12) {
            return Err(Fault::Damaged("the checksum of a chunk is wrong"));
        }
        let plain = self.codec.unpack(&stored, plain_length);
        let plain = plain.ok_or(Fault::Damaged("a chunk does not unpack to its length"))?;
        Ok(Next::Chunk(Chunk { kind, plain, length: (HEAD + stored_length) as u64 }))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Codec;

    const FORMATS: [Format; 2] = [
        Format { magic: b"TESTED", version: 3, codec: Codec::Deflate },
        Format { magic: b"TESTED", version: 3, codec: Codec::Lz4 },
    ];

    #[test]
    fn chunks_come_back_and_the_end_is_told_from_a_torn_one() {
        for format in FORMATS {
            let mut file = Vec::new();
            format.put(&mut file, 7, b"seven seven seven seven");
            let first = file.len();
            format.put(&mut file, 8, b"");
            let mut input = &file[..];
            for (kind, plain) in [(7, &b"seven seven seven seven"[..]), (8, b"")] {
                let Ok(Next::Chunk(chunk)) = format.next(&mut input) else { panic!("a chunk") };
                assert_eq!((chunk.kind, &chunk.plain[..]), (kind, plain));
            }
            assert!(matches!(format.next(&mut input), Ok(Next::End)));
            let mut skipped = io::Cursor::new(&file);
            assert!(matches!(format.skip(&mut skipped), Ok(Some(head)) if head == file[..HEAD]));
            assert_eq!(skipped.position(), first as u64);
            assert!(matches!((format.skip(&mut skipped), format.skip(&mut skipped)), (Ok(Some(_)), Ok(None))));
            for cut in 1..first {
                assert!(matches!(format.next(&mut &file[..cut]), Ok(Next::Torn(bytes)) if bytes == cut as u64));
            }
        }
    }

    #[test]
    fn each_changed_bit_is_noticed() {
        for format in FORMATS {
            let mut file = Vec::new();
            format.put(&mut file, 7, b"seven seven seven seven");
            for bit in 0..file.len() * 8 {
                let mut changed = file.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(!matches!(format.next(&mut &changed[..]), Ok(Next::Chunk(_))), "bit {bit}");
            }
        }
    }
}
