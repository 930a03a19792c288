//! Identifies a snapshot file without decoding it, so that data derived from one file is not used for another.

use crate::{Error, FORMAT};
use remora_chunks::HEADER;
use std::io::{BufReader, Read, Seek, SeekFrom};

/// FNV-1a, 64 bits: offset basis.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
/// FNV-1a, 64 bits: prime.
const PRIME: u64 = 0x0100_0000_01b3;

/// A file's length and a digest of its chunk headers, up to the first invalid chunk. Each header has its chunk's checksum, so the digest
/// covers all readable content.
/// No protection against forgery: anyone can make two files with the same identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Bytes of the file.
    pub length: u64,
    /// Digest of the chunk headers.
    pub digest: u64,
}

impl Identity {
    /// The identity of a snapshot of any version up to [`crate::VERSION`], read from its start.
    ///
    /// # Errors
    /// [`Error`], if the file does not start like a snapshot, or cannot be read.
    pub fn of(input: impl Read + Seek) -> Result<Identity, Error> {
        let mut input = BufReader::new(input);
        let length = input.seek(SeekFrom::End(0)).map_err(Error::Read)?;
        input.rewind().map_err(Error::Read)?;
        FORMAT.read_header(&mut input)?;
        let mut header = [0; HEADER];
        input.rewind().and_then(|()| input.read_exact(&mut header)).map_err(Error::Read)?;
        let mut digest = digested(OFFSET, &header);
        while let Some(head) = FORMAT.skip(&mut input).map_err(Error::Read)? {
            digest = digested(digest, &head);
        }
        Ok(Identity { length, digest })
    }
}

fn digested(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(PRIME))
}
