//! Which snapshot a file is, without reading it: what was made of one is not used for another.

use crate::{Error, FORMAT};
use remora_chunks::HEADER;
use std::io::{BufReader, Read, Seek, SeekFrom};

/// Of FNV-1a, 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
/// Of the same.
const PRIME: u64 = 0x0100_0000_01b3;

/// A file's length, and a digest of the heads of its chunks, up to what is no chunk. Each head has the checksum of its chunk: so all of the
/// content that can be read is in it.
/// No seal: whoever wants two files of one identity can make them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Bytes of the file.
    pub length: u64,
    /// See above.
    pub digest: u64,
}

impl Identity {
    /// Of a snapshot of any version up to [`crate::VERSION`], read from its beginning on.
    ///
    /// # Errors
    /// [`Error`], where the file does not begin as a snapshot does, or cannot be read.
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
