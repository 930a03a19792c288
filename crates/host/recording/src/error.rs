//! Errors of a recording.

use crate::VERSION;
use remora_chunks::HeaderFault;
use std::io;

/// Why a recording could not be read or written.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Error {
    /// The file does not start like a recording: another format, or an empty file.
    #[error("not a Remora recording: it does not begin with REMORA")]
    NotARecording,
    /// The file was written by a newer Remora.
    #[strum(serialize = "newer-format")]
    #[error("a recording of format version {version}; this Remora reads versions up to {reads}")]
    Newer {
        /// Its format version.
        version: u16,
        /// The Remora that can read it: `Remora 1.4.0, which wrote it, or newer`.
        needs: String,
        /// The newest version this Remora reads.
        reads: u16,
    },
    /// The file ends before its first whole append, so nothing is readable. (A file that ends later is a recording, marked incomplete.)
    #[error("truncated: it ends after {length} bytes, before the first sample was complete, and nothing is readable")]
    Truncated {
        /// The file's length in bytes.
        length: u64,
    },
    /// The file was changed after it was written: a bad disk, a text-mode transfer, an editor.
    #[error("damaged at byte {offset}: {what} ({samples} samples before it were readable)")]
    Damaged {
        /// Offset of the damaged chunk.
        offset: u64,
        /// The damage.
        what: &'static str,
        /// Samples in the chunks before it.
        samples: u64,
    },
    /// Beyond the limits of a recording.
    #[error("more {what} than a recording can hold ({limit})")]
    TooLarge {
        /// The kind of item.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The file could not be read.
    #[strum(serialize = "read-failed")]
    #[error("cannot read the recording: {0}")]
    Read(#[source] io::Error),
    /// The file could not be written, most likely for a full disk. The part appended before is readable.
    #[strum(serialize = "write-failed")]
    #[error("cannot write the recording: {0}")]
    Write(#[source] io::Error),
}

/// An error in a chunk; the caller knows its position and what came before.
#[derive(Debug)]
pub(crate) enum Fault {
    Damaged(&'static str),
    TooLarge { what: &'static str, limit: u64 },
    Read(io::Error),
}

impl Fault {
    pub(crate) fn at(self, offset: u64, samples: u64) -> Error {
        match self {
            Fault::Damaged(what) => Error::Damaged { offset, what, samples },
            Fault::TooLarge { what, limit } => Error::TooLarge { what, limit },
            Fault::Read(error) => Error::Read(error),
        }
    }
}

impl From<&'static str> for Fault {
    fn from(what: &'static str) -> Fault {
        Fault::Damaged(what)
    }
}

impl From<remora_chunks::Fault> for Fault {
    fn from(fault: remora_chunks::Fault) -> Fault {
        match fault {
            remora_chunks::Fault::Damaged(what) => Fault::Damaged(what),
            remora_chunks::Fault::Read(error) => Fault::Read(error),
        }
    }
}

impl Error {
    /// A permanent name, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

impl From<HeaderFault> for Error {
    fn from(fault: HeaderFault) -> Error {
        match fault {
            HeaderFault::Stranger => Error::NotARecording,
            HeaderFault::Truncated(length) => Error::Truncated { length },
            HeaderFault::Damaged(what) => Error::Damaged { offset: 0, what, samples: 0 },
            HeaderFault::Newer { version, needs } => Error::Newer { version, needs, reads: VERSION },
            HeaderFault::Read(error) => Error::Read(error),
        }
    }
}
