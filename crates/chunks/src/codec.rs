//! How chunks are compressed.

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use std::io::{Read, Write};

/// See the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Small files, written at leisure. Pure Rust, and the exporters need it anyway for `.gz`; zstd needs a C compiler to build.
    Deflate,
    /// Files that are written as fast as a heap is walked: some hundred megabytes a second, where deflate takes a tenth of that.
    Lz4,
}

impl Codec {
    pub(crate) fn pack(self, plain: &[u8]) -> Vec<u8> {
        match self {
            Codec::Deflate => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                // Writing to memory does not fail; were it to, the chunk would be short, and the reader would call it damaged.
                let _ = encoder.write_all(plain);
                encoder.finish().unwrap_or_default()
            }
            Codec::Lz4 => lz4_flex::compress(plain),
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

#[cfg(test)]
mod tests {
    use super::*;

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
