//! The first 28 bytes, which are the same in every version, so that an old Remora can say which one reads a newer file.

use crate::{Error, VERSION};
use std::io::Read;

/// The first bytes of every recording.
pub(crate) const MAGIC: &[u8; 6] = b"REMORA";
/// Bytes of a header.
pub(crate) const LENGTH: usize = 28;
/// Bytes for the version of the program that wrote it, padded with zeros.
const WRITER: usize = 16;

/// Which format, and who wrote it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Version of the format.
    pub(crate) version: u16,
    /// Version of the program.
    writer: [u8; WRITER],
    /// Whether the checksum was right.
    intact: bool,
}

impl Header {
    /// What this program writes.
    pub(crate) fn of_this_program() -> Header {
        let mut writer = [0; WRITER];
        for (place, byte) in writer.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
            *place = byte;
        }
        Header { version: VERSION, writer, intact: true }
    }

    /// The bytes of a file.
    pub(crate) fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..6].copy_from_slice(MAGIC);
        bytes[6..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.writer);
        let sum = crc32fast::hash(&bytes[..24]);
        bytes[24..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header of any version.
    pub(crate) fn read(input: &mut impl Read) -> Result<Header, Error> {
        let mut bytes = Vec::with_capacity(LENGTH);
        input.take(LENGTH as u64).read_to_end(&mut bytes).map_err(Error::Read)?;
        if bytes.is_empty() || !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
            return Err(Error::NotARecording);
        }
        let whole: [u8; LENGTH] =
            bytes.as_slice().try_into().map_err(|_| Error::Truncated { length: bytes.len() as u64 })?;
        let mut writer = [0; WRITER];
        writer.copy_from_slice(&whole[8..24]);
        let sum = u32::from_le_bytes([whole[24], whole[25], whole[26], whole[27]]);
        let header = Header {
            version: u16::from_le_bytes([whole[6], whole[7]]),
            writer,
            intact: sum == crc32fast::hash(&whole[..24]),
        };
        if header.version == VERSION && !header.intact {
            return Err(header.damaged());
        }
        Ok(header)
    }

    /// Why a file of another version is not read.
    pub(crate) fn refusal(&self) -> Error {
        if self.version < VERSION {
            return self.damaged();
        }
        let needs = match self.writer() {
            Some(writer) => format!("Remora {writer}, which wrote it, or newer"),
            None => "a newer Remora".to_owned(),
        };
        Error::Newer { version: self.version, reads: VERSION, needs }
    }

    fn damaged(&self) -> Error {
        Error::Damaged { offset: 0, what: "the checksum of the header is wrong", samples: 0 }
    }

    /// The writing program's version as text; what is not printable, or not intact, is not quoted.
    fn writer(&self) -> Option<String> {
        let text: String = self.writer.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
        let printable = self.intact && !text.is_empty() && text.chars().all(|letter| letter.is_ascii_graphic());
        printable.then_some(text)
    }
}
