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
//! What is read is not trusted: a chunk claims no more than [`CHUNK`], and unpacks to no more than it claims.
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
}
