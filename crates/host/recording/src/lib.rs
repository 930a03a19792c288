//! Remora's own recording file: versioned, appended while recording, readable when truncated.
//!
//! # Purpose
//! A `.remora` file holds all of a [`Profile`]: every other format can be made from it later.
//! [`Writer`] writes it while the recording grows. After every append the file is a valid recording up to there.
//! So neither a kill nor a full disk loses the samples recorded so far.
//!
//! # Layout
//! Header and chunks are those of [`remora_chunks`]; the magic is `REMORA`. The last chunk marks the end: a file without it is a recording
//! that ended early. A chunk of an unknown kind is skipped and counted.
//!
//! # Design constraints
//! The boundary types of a version are in that version's file; the domain's types are never serialized.
//! Input is untrusted: every count, length and depth has a limit ([`limits`]), and each index is checked.
//!
//! # Rejected
//! An index at the end of the file: a recording that ended early would not have one.
#![forbid(unsafe_code)]

mod bytes;
mod error;
pub mod limits;
mod v1;

pub use error::Error;

use error::Fault;
use remora_chunks::{Codec, Format, HEADER, Next, Unpacked};
use remora_profile::{Profile, Watermark};
use std::io::{Read, Write};

/// The format version that [`Writer`] writes, and the newest that [`read`] reads.
pub const VERSION: u16 = 1;

/// The file's container.
pub const FORMAT: Format =
    Format { magic: b"REMORA", version: VERSION, codec: Codec::Deflate, ratio: limits::RATIO, dense: &[] };

/// A recording, as [`read`] returns it.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The recorded profile.
    pub profile: Profile,
    /// Whether the file was finished. If not, the recording ended early, and `profile` has the part written by then.
    pub complete: bool,
    /// Skipped chunks of unknown kinds.
    pub unknown_chunks: u64,
    /// Bytes after the last whole chunk, left by an interrupted write. They are not part of the recording.
    pub torn_bytes: u64,
}

/// Reads a recording of any version up to [`VERSION`].
///
/// A truncated file is no error if its first append is complete: see [`Recording::complete`].
pub fn read(mut input: impl Read) -> Result<Recording, Error> {
    FORMAT.read_header(&mut input)?;
    let mut decoder = v1::Decoder::default();
    let (mut offset, mut unpacked) = (HEADER as u64, Unpacked::default());
    loop {
        let next =
            FORMAT.next(&mut input, &mut unpacked).map_err(|fault| Fault::from(fault).at(offset, decoder.samples()))?;
        match next {
            Next::Chunk(chunk) => {
                let before = decoder.samples();
                decoder.chunk(chunk.kind, &chunk.plain).map_err(|fault| fault.at(offset, before))?;
                offset += chunk.length;
            }
            Next::End => return decoder.finish(0).ok_or(Error::Truncated { length: offset }),
            Next::Torn(bytes) => return decoder.finish(bytes).ok_or(Error::Truncated { length: offset + bytes }),
        }
    }
}

/// Whether `start`, the first bytes of a file, begins a recording of any version.
pub fn is_recording(start: &[u8]) -> bool {
    FORMAT.begins(start)
}

/// Writes a profile while it grows.
///
/// Output is flushed at the end of each call. After an error the writer refuses further calls:
/// the file up to the failed append stays readable.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    encoder: v1::Encoder,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    pub fn create(mut out: W) -> Result<Self, Error> {
        out.write_all(&FORMAT.header()).and_then(|()| out.flush()).map_err(Error::Write)?;
        Ok(Writer { out, encoder: v1::Encoder::default(), failed: false })
    }

    /// Writes the rows of `profile` added since the last call, and its current state (meta and loss).
    ///
    /// It must be the same profile each time.
    pub fn append(&mut self, profile: &Profile) -> Result<(), Error> {
        self.write(|encoder, buffer| encoder.append(profile, buffer))
    }

    /// Writes the remaining rows and the end chunk, and returns the output.
    pub fn finish(mut self, profile: &Profile) -> Result<W, Error> {
        self.write(|encoder, buffer| {
            encoder.append(profile, buffer)?;
            encoder.end(buffer);
            Ok(())
        })?;
        Ok(self.out)
    }

    /// The part of the profile written so far.
    pub fn watermark(&self) -> Watermark {
        self.encoder.watermark()
    }

    /// The output.
    pub fn output(&self) -> &W {
        &self.out
    }

    fn write(&mut self, encode: impl FnOnce(&mut v1::Encoder, &mut Vec<u8>) -> Result<(), Error>) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Write(std::io::Error::other("an earlier write to this recording failed")));
        }
        let mut buffer = Vec::new();
        let encoded = encode(&mut self.encoder, &mut buffer);
        let written = self.out.write_all(&buffer).and_then(|()| self.out.flush()).map_err(Error::Write);
        self.failed = encoded.is_err() || written.is_err();
        encoded.and(written)
    }
}
