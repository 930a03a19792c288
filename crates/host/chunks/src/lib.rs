//! The container of Remora's own files: a header that every version can read, and verified, compressed chunks.
//!
//! # Purpose
//! A [`Format`] is one kind of file. It writes and reads the header and the chunks; their content is up to the format.
//! After each chunk a file is complete up to there, so neither a kill nor a full disk loses earlier chunks.
//!
//! # Layout
//! ```text
//! header   28 bytes, the same in every version: magic [u8; 6], version u16, writer [u8; 16], crc32 u32
//! chunk    16 bytes: kind u32, stored length u32, plain length u32, crc32 u32; then `stored length` compressed bytes
//! ...
//! ```
//! All numbers are little-endian. The checksum of a chunk covers its first twelve bytes and the stored bytes.
//!
//! # Design constraints
//! Files are untrusted. A chunk claims at most [`CHUNK`] bytes, and unpacks to at most its claim. All chunks of a file together unpack to
//! at most the limit of [`Format::ratio`]. The reader checks this before it unpacks each chunk. The writer respects it, too:
//! a chunk that would exceed the limit is stored uncompressed.
//!
//! # Rejected
//! An index at the end of a file: a file that ended early would not have it.
#![forbid(unsafe_code)]

mod chunk;
mod codec;
mod header;

pub use chunk::{Chunk, Fault, Next};
pub use codec::Codec;
pub use header::{HEADER, HeaderFault};

/// Largest length of one chunk, stored or plain, bytes.
pub const CHUNK: usize = 16 << 20;

/// One kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The first bytes of every such file.
    pub magic: &'static [u8; 6],
    /// The version written, and the newest version read.
    pub version: u16,
    /// The compression of chunks.
    pub codec: Codec,
    /// Maximum ratio of unpacked to stored length, in addition to [`FREE`].
    pub ratio: u64,
    /// Kinds of chunks exempt from the ratio.
    pub dense: &'static [u32],
}

/// Bytes that any file may unpack to, however short.
pub const FREE: u64 = 8 << 20;

/// The part of a file read or written so far: stored bytes, and their unpacked size.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpacked {
    stored: u64,
    plain: u64,
}

impl Unpacked {
    /// Counts the next chunk; false if the file would exceed its unpacked limit.
    fn takes(&mut self, format: &Format, kind: u32, stored: usize, plain: usize) -> bool {
        self.stored = self.stored.saturating_add(stored as u64);
        if !format.dense.contains(&kind) {
            self.plain = self.plain.saturating_add(plain as u64);
        }
        self.plain <= self.stored.saturating_mul(format.ratio).saturating_add(FREE)
    }
}
