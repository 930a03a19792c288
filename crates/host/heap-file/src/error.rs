//! Errors of a snapshot file.

use crate::VERSION;
use remora_chunks::{Fault, HeaderFault};
use std::io;

/// Why a snapshot could not be read or written.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Error {
    /// The file does not start like a snapshot: another format, or an empty file.
    #[error("not a heap snapshot: it does not begin with RMHEAP")]
    NotASnapshot,
    /// The file was written by a newer Remora.
    #[strum(serialize = "newer-format")]
    #[error("a heap snapshot of format version {version}; this Remora reads versions up to {reads}")]
    Newer {
        /// Its format version.
        version: u16,
        /// The Remora that can read it: `Remora 1.4.0, which wrote it, or newer`.
        needs: String,
        /// The newest version this Remora reads.
        reads: u16,
    },
    /// The file ends before its first object.
    #[error("truncated: it ends after {length} bytes, before the first object")]
    Truncated {
        /// The file's length in bytes.
        length: u64,
    },
    /// The file was changed after it was written: a bad disk, a text-mode transfer, an editor.
    #[error("damaged at byte {offset}: {what} ({objects} objects before it were readable)")]
    Damaged {
        /// Offset of the damaged chunk.
        offset: u64,
        /// The damage.
        what: &'static str,
        /// Objects in the chunks before it.
        objects: u64,
    },
    /// More than the graph's limits.
    #[strum(serialize = "heap-too-large")]
    #[error(transparent)]
    Graph(#[from] remora_heap::Error),
    /// The file could not be read.
    #[strum(serialize = "read-failed")]
    #[error("cannot read the heap snapshot: {0}")]
    Read(#[source] io::Error),
    /// The file could not be written, most likely for a full disk. The part written before is readable.
    #[strum(serialize = "write-failed")]
    #[error("cannot write the heap snapshot: {0}")]
    Write(#[source] io::Error),
}

impl Error {
    /// A permanent name, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// The same, in a chunk at `offset`, after `objects` objects.
    pub(crate) fn at(self, offset: u64, objects: u64) -> Error {
        match self {
            Error::Damaged { what, .. } => Error::Damaged { offset, what, objects },
            other => other,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Damaged(what) => Error::Damaged { offset: 0, what, objects: 0 },
            Fault::Read(error) => Error::Read(error),
        }
    }
}

impl From<HeaderFault> for Error {
    fn from(fault: HeaderFault) -> Error {
        match fault {
            HeaderFault::Stranger => Error::NotASnapshot,
            HeaderFault::Truncated(length) => Error::Truncated { length },
            HeaderFault::Damaged(what) => Error::Damaged { offset: 0, what, objects: 0 },
            HeaderFault::Newer { version, needs } => Error::Newer { version, needs, reads: VERSION },
            HeaderFault::Read(error) => Error::Read(error),
        }
    }
}
