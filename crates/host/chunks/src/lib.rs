//! What Remora's own files are made of: a header that every version can read, and checked, compressed chunks.
//!
//! # Purpose
//! A [`Format`] is one kind of file. It writes and reads the header and the chunks; what is in a chunk is its own affair.
//! After each chunk a file is whole up to there, so that neither a kill nor a full disk takes away what came before.
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
//! Files are not trusted. A chunk claims at most [`CHUNK`] bytes, and unpacks to at most what it claims. All chunks of a file together unpack
//! to at most what [`Format::ratio`] allows. This is checked before each chunk is unpacked. Who writes holds it, too: a chunk with which a
//! file would unpack to more is stored as it is.
//!
//! # Rejected
//! An index at the end of a file: one that ended early would not have it.
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
    /// The version that is written, and the newest that is read.
    pub version: u16,
    /// How chunks are compressed.
    pub codec: Codec,
    /// How many times its stored length a file may unpack to, in addition to [`FREE`].
    pub ratio: u64,
    /// Kinds of chunks that do not count for this.
    pub dense: &'static [u32],
}

/// Bytes that a file may unpack to, however short it is.
pub const FREE: u64 = 8 << 20;

/// What has been read or written of a file: bytes that are stored, and those that they unpack to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpacked {
    stored: u64,
    plain: u64,
}

impl Unpacked {
    /// Takes the next chunk into account; false if the file then unpacks to more than it may.
    fn takes(&mut self, format: &Format, kind: u32, stored: usize, plain: usize) -> bool {
        self.stored = self.stored.saturating_add(stored as u64);
        if !format.dense.contains(&kind) {
            self.plain = self.plain.saturating_add(plain as u64);
        }
        self.plain <= self.stored.saturating_mul(format.ratio).saturating_add(FREE)
    }
}
