//! How chunks are compressed.

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use std::borrow::Cow;
use std::io::{Read, Write};

/// See the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Small files, written at leisure. Pure Rust, and the exporters need it anyway for `.gz`; zstd needs a C compiler to build.
    Deflate,
    /// Files that are written as fast as a heap is walked: some hundred megabytes a second, where deflate takes a tenth of that. What
    /// shrinks by little is stored as it is; its stored length is then its plain one.
    Lz4,
}

impl Codec {
    pub(crate) fn pack(self, plain: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Codec::Deflate => deflated(plain, Compression::default()).into(),
            Codec::Lz4 if shrinks(sample(plain)) => {
                let packed = lz4_flex::compress(plain);
                if packed.len() < plain.len() { packed.into() } else { plain.into() }
            }
            Codec::Lz4 => plain.into(),
        }
    }

    /// The same bytes, hardly longer, as [`Codec::unpack`] takes them.
    pub(crate) fn as_it_is(self, plain: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Codec::Deflate => deflated(plain, Compression::none()).into(),
            Codec::Lz4 => plain.into(),
        }
    }

    /// What was packed, if it is just so long. No more than that is ever unpacked.
    pub(crate) fn unpack(self, stored: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut plain = Vec::new();
        match self {
            Codec::Deflate => {
                // One byte more than there should be, so that too much is noticed.
                DeflateDecoder::new(stored).take(length as u64 + 1).read_to_end(&mut plain).ok()?;
            }
            // What is as long as it was is as it was.
            Codec::Lz4 if stored.len() == length => plain.extend_from_slice(stored),
            Codec::Lz4 => {
                // A byte stands for 255 at most: who claims more than that is not believed, nor given memory.
                plain = vec![0; length.min(stored.len().saturating_mul(255))];
                let unpacked = lz4_flex::decompress_into(stored, &mut plain).ok()?;
                plain.truncate(unpacked);
            }
        }
        (plain.len() == length).then_some(plain)
    }
}

fn deflated(plain: &[u8], how: Compression) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), how);
    // Writing to memory does not fail; were it to, the chunk would be short, and the reader would call it damaged.
    let _ = encoder.write_all(plain);
    encoder.finish().unwrap_or_default()
}

/// Bytes of a chunk by which it is judged.
const SAMPLE: usize = 16 << 10;
/// What is packed takes no more than this part of what it was; else the time is worth more than the bytes.
const WORTH: (usize, usize) = (3, 4);

/// From the middle: what a file begins with is seldom like the rest.
fn sample(plain: &[u8]) -> &[u8] {
    plain.get(plain.len() / 2..).and_then(|rest| rest.get(..SAMPLE)).unwrap_or(plain)
}

/// Whether packing is worth its time.
fn shrinks(plain: &[u8]) -> bool {
    lz4_flex::compress(plain).len() * WORTH.1 <= plain.len() * WORTH.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_packing_hardly_shrinks_is_stored_as_it_is() {
        let next =
            |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        let noise = |count| std::iter::successors(Some(1), next).map(|state| (state >> 56) as u8).take(count);
        let plain: Vec<u8> = noise(100_000).collect();
        assert!(Codec::Lz4.pack(&plain) == plain);
        // A beginning that promises much, and nothing behind it: not believed. A middle that does, and little else: packed, and comes back.
        let same = std::iter::repeat_n(7, SAMPLE);
        let plain: Vec<u8> = same.clone().chain(noise(9 * SAMPLE)).collect();
        assert!(Codec::Lz4.pack(&plain) == plain);
        let plain: Vec<u8> = noise(5 * SAMPLE).chain(same).chain(noise(4 * SAMPLE)).collect();
        let stored = Codec::Lz4.pack(&plain);
        assert!(stored.len() < plain.len());
        assert!(Codec::Lz4.unpack(&stored, plain.len()).as_deref() == Some(&plain[..]));
    }

    #[test]
    fn what_was_packed_comes_back_and_a_wrong_length_is_noticed() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        for codec in [Codec::Deflate, Codec::Lz4] {
            for plain in [&plain[..], b"", b"a"] {
                let stored = codec.pack(plain);
                assert_eq!(codec.unpack(&stored, plain.len()).as_deref(), Some(plain), "{codec:?}");
                assert_eq!(codec.unpack(&stored, plain.len() + 1), None, "{codec:?}");
                assert!(plain.is_empty() || codec.unpack(&stored, plain.len() - 1).is_none(), "{codec:?}");
                let claimed = codec.unpack(&stored, usize::MAX / 2);
                assert_eq!(claimed, None, "{codec:?}: what is claimed is not believed");
            }
        }
    }
}
