//! Compression of chunks.

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use std::borrow::Cow;
use std::io::{Read, Write};

/// The compression of a format's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// For small files that are not time-critical. Pure Rust, and the exporters need it anyway for `.gz`; zstd needs a C compiler to build.
    Deflate,
    /// For files written as fast as a heap is walked: some hundred megabytes a second, while deflate reaches a tenth of that.
    /// Content that shrinks little is stored uncompressed; its stored length then equals its plain length.
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

    /// The bytes uncompressed, in a form that [`Codec::unpack`] accepts.
    pub(crate) fn as_it_is(self, plain: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Codec::Deflate => deflated(plain, Compression::none()).into(),
            Codec::Lz4 => plain.into(),
        }
    }

    /// The unpacked content, if it has exactly this length. Never unpacks more than that.
    pub(crate) fn unpack(self, stored: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut plain = Vec::new();
        match self {
            Codec::Deflate => {
                // One byte more than expected, to detect excess.
                DeflateDecoder::new(stored).take(length as u64 + 1).read_to_end(&mut plain).ok()?;
            }
            // Equal lengths mean uncompressed.
            Codec::Lz4 if stored.len() == length => plain.extend_from_slice(stored),
            Codec::Lz4 => {
                // One byte expands to at most 255, so larger claims get no memory.
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
    // Writing to memory does not fail; if it did, the chunk would be short, and the reader would report damage.
    let _ = encoder.write_all(plain);
    encoder.finish().unwrap_or_default()
}

/// Sample size for the decision whether to compress.
const SAMPLE: usize = 16 << 10;
/// Maximum ratio of compressed size for compression to be worth its time.
const WORTH: (usize, usize) = (3, 4);

/// From the middle: the beginning of a file is rarely typical.
fn sample(plain: &[u8]) -> &[u8] {
    plain.get(plain.len() / 2..).and_then(|rest| rest.get(..SAMPLE)).unwrap_or(plain)
}

/// Whether compression is worth its time.
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
        // A compressible beginning alone does not lead to compression. A compressible middle does, and the content survives the round trip.
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
