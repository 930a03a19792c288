//! One chunk of a file: kind, lengths, checksum, compressed bytes.
//!
//! A chunk cut by the end of the file is *torn*: an interrupted write. A whole but invalid chunk is *damaged*.

use crate::{CHUNK, Format, Unpacked};
use std::borrow::Cow;
use std::io::{self, Read, Seek, Write};

/// Bytes before the stored content.
const HEAD: usize = 16;

/// A whole, verified, decompressed chunk.
#[derive(Debug)]
pub struct Chunk {
    /// Its kind; each version of a format has its own.
    pub kind: u32,
    /// The content.
    pub plain: Vec<u8>,
    /// Its size in the file.
    pub length: u64,
}

/// The next item of a file.
#[derive(Debug)]
pub enum Next {
    /// A chunk.
    Chunk(Chunk),
    /// The end of the file, between two chunks.
    End,
    /// The end of the file within a chunk, after this many bytes of it.
    Torn(u64),
}

/// An error in a chunk.
#[derive(Debug)]
pub enum Fault {
    /// The file was changed after it was written.
    Damaged(&'static str),
    /// The file could not be read.
    Read(io::Error),
}

impl Format {
    /// Appends a chunk to `out` and counts it in `written`. `plain` is no longer than [`CHUNK`].
    pub fn put(&self, out: &mut Vec<u8>, kind: u32, plain: &[u8], written: &mut Unpacked) {
        let stored = self.stored(kind, plain, written);
        out.extend_from_slice(&head(kind, &stored, plain.len()));
        out.extend_from_slice(&stored);
    }

    /// Writes a chunk to `out`, like [`Format::put`]. Returns whether it was stored uncompressed, because compression was not worth its
    /// time.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write, kind: u32, plain: &[u8], written: &mut Unpacked) -> io::Result<bool> {
        let stored = self.stored(kind, plain, written);
        out.write_all(&head(kind, &stored, plain.len()))?;
        out.write_all(&stored)?;
        Ok(matches!(stored, Cow::Borrowed(_)))
    }

    /// Writes a chunk without trying to compress it, for content like that of an incompressible chunk.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_as_it_is(
        &self,
        out: &mut impl Write,
        kind: u32,
        plain: &[u8],
        written: &mut Unpacked,
    ) -> io::Result<()> {
        let stored = self.codec.as_it_is(plain);
        written.takes(self, kind, HEAD + stored.len(), plain.len());
        out.write_all(&head(kind, &stored, plain.len()))?;
        out.write_all(&stored)
    }

    /// The stored bytes of a chunk: compressed, unless the file would then unpack to more than readers accept.
    fn stored<'a>(&self, kind: u32, plain: &'a [u8], written: &mut Unpacked) -> Cow<'a, [u8]> {
        let (packed, mut with_it) = (self.codec.pack(plain), *written);
        let stored = match with_it.takes(self, kind, HEAD + packed.len(), plain.len()) {
            true => packed,
            false => self.codec.as_it_is(plain),
        };
        written.takes(self, kind, HEAD + stored.len(), plain.len());
        stored
    }

    /// The header of the next chunk, with its checksum; `input` then is after the chunk, whose content is not read.
    /// `None` at the end of the file, or if the bytes are no header, such as the zeros of a hole. Reading them gives the error.
    ///
    /// # Errors
    /// Those of `input`.
    pub fn skip(&self, input: &mut (impl Read + Seek)) -> io::Result<Option<[u8; HEAD]>> {
        let mut head = Vec::with_capacity(HEAD);
        input.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        let Some(head) = head.first_chunk::<HEAD>() else { return Ok(None) };
        let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let stored = field(4);
        // An empty chunk's checksum can be verified here; if zeros passed for chunks, a hole of gigabytes would be scanned.
        if stored as usize > CHUNK || stored == 0 && checksum(&head[..12], &[]) != field(12) {
            return Ok(None);
        }
        input.seek_relative(stored.into())?;
        Ok(Some(*head))
    }

    /// Reads the next item of a file; `unpacked` counts the part read so far.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn next(&self, input: &mut impl Read, unpacked: &mut Unpacked) -> Result<Next, Fault> {
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
        if !unpacked.takes(self, kind, HEAD + stored_length, plain_length) {
            return Err(Fault::Damaged("it unpacks to far more than any that was written"));
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

fn head(kind: u32, stored: &[u8], plain_length: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    for (place, number) in head.chunks_exact_mut(4).zip([kind, stored.len() as u32, plain_length as u32]) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    let sum = checksum(&head[..12], stored);
    head[12..].copy_from_slice(&sum.to_le_bytes());
    head
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
        Format { magic: b"TESTED", version: 3, codec: Codec::Deflate, ratio: 100, dense: &[] },
        Format { magic: b"TESTED", version: 3, codec: Codec::Lz4, ratio: 10, dense: &[9] },
    ];

    #[test]
    fn chunks_come_back_and_the_end_is_distinguished_from_a_torn_one() {
        for format in FORMATS {
            let mut file = Vec::new();
            format.put(&mut file, 7, b"seven seven seven seven", &mut Unpacked::default());
            let first = file.len();
            format.put(&mut file, 8, b"", &mut Unpacked::default());
            let mut input = &file[..];
            for (kind, plain) in [(7, &b"seven seven seven seven"[..]), (8, b"")] {
                let Ok(Next::Chunk(chunk)) = format.next(&mut input, &mut Unpacked::default()) else {
                    panic!("a chunk")
                };
                assert_eq!((chunk.kind, &chunk.plain[..]), (kind, plain));
            }
            assert!(matches!(format.next(&mut input, &mut Unpacked::default()), Ok(Next::End)));
            let mut skipped = io::Cursor::new(&file);
            assert!(matches!(format.skip(&mut skipped), Ok(Some(head)) if head == file[..HEAD]));
            assert_eq!(skipped.position(), first as u64);
            assert!(matches!((format.skip(&mut skipped), format.skip(&mut skipped)), (Ok(Some(_)), Ok(None))));
            for cut in 1..first {
                assert!(
                    matches!(format.next(&mut &file[..cut], &mut Unpacked::default()), Ok(Next::Torn(bytes)) if bytes == cut as u64)
                );
            }
        }
    }

    #[test]
    fn a_file_that_unpacks_to_far_more_than_it_has_is_refused_before_it_is_unpacked() {
        for format in FORMATS {
            let mut file = Vec::new();
            let zeros = vec![0; 1 << 20];
            (0..20).for_each(|_| format.put(&mut file, 7, &zeros, &mut Unpacked::default()));
            let (mut input, mut unpacked, mut chunks) = (&file[..], Unpacked::default(), 0);
            let refused = loop {
                let next = format.next(&mut input, &mut unpacked);
                if !matches!(next, Ok(Next::Chunk(_))) {
                    break next;
                }
                chunks += 1;
            };
            assert!(matches!(refused, Err(Fault::Damaged(_))), "{refused:?}");
            assert!((7..16).contains(&chunks), "{chunks} MiB");
        }
        let format = FORMATS[1];
        let mut file = Vec::new();
        (0..20).for_each(|_| format.put(&mut file, 9, &vec![0; 1 << 20], &mut Unpacked::default()));
        let (mut input, mut unpacked) = (&file[..], Unpacked::default());
        assert!((0..20).all(|_| matches!(format.next(&mut input, &mut unpacked), Ok(Next::Chunk(_)))));
    }

    /// Pseudo-random numbers: xorshift64.
    fn random(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) as usize
    }

    #[test]
    fn regression_whatever_is_written_is_read_however_well_it_packs() {
        for seed in 1..4_u64 {
            for format in FORMATS {
                let (mut file, mut written, mut lengths) = (Vec::new(), Unpacked::default(), Vec::new());
                let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for _ in 0..20 {
                    // Mostly one byte, which compresses to nearly nothing.
                    let mut plain = vec![random(&mut state) as u8; random(&mut state) % (2 << 20)];
                    if random(&mut state).is_multiple_of(32) {
                        plain.iter_mut().for_each(|byte| *byte = random(&mut state) as u8);
                    }
                    let kind = if random(&mut state).is_multiple_of(3) { 9 } else { 7 };
                    match random(&mut state) % 16 {
                        0..8 => format.put(&mut file, kind, &plain, &mut written),
                        8..15 => _ = format.write(&mut file, kind, &plain, &mut written).expect("into memory"),
                        _ => format.write_as_it_is(&mut file, kind, &plain, &mut written).expect("into memory"),
                    }
                    lengths.push(plain.len());
                }
                let (mut input, mut unpacked) = (&file[..], Unpacked::default());
                for (index, length) in lengths.into_iter().enumerate() {
                    let next = format.next(&mut input, &mut unpacked);
                    assert!(
                        matches!(&next, Ok(Next::Chunk(chunk)) if chunk.plain.len() == length),
                        "seed {seed}, {:?}, chunk {index}",
                        format.codec
                    );
                }
            }
        }
    }

    #[test]
    fn a_head_that_no_chunk_has_is_not_skipped() {
        for format in FORMATS {
            let too_long = head(7, &[0; 0], 0).map(|byte| if byte == 0 { 0xff } else { byte });
            for stranger in [[0; HEAD], too_long] {
                let mut input = io::Cursor::new(stranger.repeat(3));
                assert!(matches!(format.skip(&mut input), Ok(None)));
                assert_eq!(input.position(), HEAD as u64, "nothing behind it is looked at");
            }
        }
    }

    #[test]
    fn a_chunk_is_written_as_it_is_put_and_one_as_it_is_comes_back() {
        let noise: Vec<u8> = (0..40_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for format in FORMATS {
            for plain in [&b"seven seven seven seven"[..], &noise, b""] {
                let (mut put, mut written) = (Vec::new(), Vec::new());
                format.put(&mut put, 7, plain, &mut Unpacked::default());
                let is_as_it_is = format.write(&mut written, 7, plain, &mut Unpacked::default()).expect("into memory");
                assert!(put == written);
                assert_eq!(is_as_it_is, format.codec == Codec::Lz4 && put.len() == HEAD + plain.len());
            }
        }
        for format in FORMATS {
            let mut file = Vec::new();
            let mut written = Unpacked::default();
            format.write_as_it_is(&mut file, 7, b"seven seven seven seven", &mut written).expect("into memory");
            assert!(file.len() >= HEAD + 23);
            assert!(
                matches!(format.next(&mut &file[..], &mut Unpacked::default()), Ok(Next::Chunk(chunk)) if chunk.plain == b"seven seven seven seven")
            );
        }
    }

    #[test]
    fn each_changed_bit_is_noticed() {
        for format in FORMATS {
            let mut file = Vec::new();
            format.put(&mut file, 7, b"seven seven seven seven", &mut Unpacked::default());
            for bit in 0..file.len() * 8 {
                let mut changed = file.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    !matches!(format.next(&mut &changed[..], &mut Unpacked::default()), Ok(Next::Chunk(_))),
                    "bit {bit}"
                );
            }
        }
    }
}
