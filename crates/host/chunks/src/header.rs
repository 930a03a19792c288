//! The first 28 bytes, the same in every version, so that an old Remora can name the version that reads a newer file.

use crate::Format;
use std::io::{self, Read};

/// Bytes of a header.
pub const HEADER: usize = 28;
/// Bytes for the writing program's version, padded with zeros.
const WRITER: usize = 16;

/// Why reading stopped at the header.
#[derive(Debug)]
pub enum HeaderFault {
    /// Another format, or an empty file.
    Stranger,
    /// The file ends within the header, after this many bytes.
    Truncated(u64),
    /// The header was changed after it was written.
    Damaged(&'static str),
    /// It was written by a newer Remora.
    Newer {
        /// Its version.
        version: u16,
        /// The Remora that can read it: `Remora 1.4.0, which wrote it, or newer`.
        needs: String,
    },
    /// The file could not be read.
    Read(io::Error),
}

impl Format {
    /// The header of the current version.
    pub fn header(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..6].copy_from_slice(self.magic);
        bytes[6..8].copy_from_slice(&self.version.to_le_bytes());
        for (place, byte) in bytes[8..8 + WRITER].iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
            *place = byte;
        }
        let sum = crc32fast::hash(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Whether `start`, the first bytes of a file, begins a file of this kind, of any version.
    pub fn begins(&self, start: &[u8]) -> bool {
        start.starts_with(self.magic)
    }

    /// Reads a header of any version, and refuses newer ones.
    ///
    /// # Errors
    /// See [`HeaderFault`].
    pub fn read_header(&self, input: &mut impl Read) -> Result<(), HeaderFault> {
        let mut bytes = Vec::with_capacity(HEADER);
        input.take(HEADER as u64).read_to_end(&mut bytes).map_err(HeaderFault::Read)?;
        if bytes.is_empty() || !self.magic.starts_with(&bytes[..bytes.len().min(self.magic.len())]) {
            return Err(HeaderFault::Stranger);
        }
        let whole: [u8; HEADER] =
            bytes.as_slice().try_into().map_err(|_| HeaderFault::Truncated(bytes.len() as u64))?;
        let version = u16::from_le_bytes([whole[6], whole[7]]);
        let sum = u32::from_le_bytes([whole[24], whole[25], whole[26], whole[27]]);
        let intact = sum == crc32fast::hash(&whole[..HEADER - 4]);
        if version > self.version {
            return Err(HeaderFault::Newer { version, needs: reader_of(&whole[8..8 + WRITER], intact) });
        }
        if !intact {
            return Err(HeaderFault::Damaged("the checksum of the header is wrong"));
        }
        if version < self.version {
            return Err(HeaderFault::Damaged("its version is older than any that was released"));
        }
        Ok(())
    }
}

/// The Remora that can read the file. Unprintable or damaged text is not quoted.
fn reader_of(writer: &[u8], intact: bool) -> String {
    let text: String = writer.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
    let printable = intact && !text.is_empty() && text.chars().all(|letter| letter.is_ascii_graphic());
    if printable { format!("Remora {text}, which wrote it, or newer") } else { "a newer Remora".to_owned() }
}
