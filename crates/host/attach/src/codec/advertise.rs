//! The first message of a runtime on each connection to a reverse port.
//!
//! Refuses everything that does not start with the advertisement's magic.

use super::text::Cursor;
use super::{CodecError, Guid};

const MAGIC: &[u8; 8] = b"ADVR_V1\0";

/// A runtime that connected to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertisement {
    /// Unique for each start of a runtime.
    pub cookie: Guid,
    /// The process id in the target's own namespace.
    pub pid: u64,
}

impl Advertisement {
    /// Bytes of an advertisement.
    pub const SIZE: usize = 34;

    /// Reads the first [`Advertisement::SIZE`] bytes of a connection.
    pub fn decode(bytes: &[u8]) -> Result<Advertisement, CodecError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(CodecError::BadMagic);
        }
        let advertisement = Advertisement { cookie: Guid(cursor.array()?), pid: cursor.u64()? };
        cursor.u16()?;
        Ok(advertisement)
    }
}
