//! What can be wrong with a snapshot's file.

use crate::VERSION;
use remora_chunks::{Fault, HeaderFault};
use std::io;

/// Why a snapshot could not be read or written.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Error {
    /// The file does not begin as a snapshot does: another format, or an empty file.
    #[error("not a heap snapshot: it does not begin with RMHEAP")]
    NotASnapshot,
    /// The file was written by a newer Remora.
    #[strum(serialize = "newer-format")]
    #[error("a heap snapshot of format version {version}; this Remora reads versions up to {reads}")]
    Newer {
        /// Its format version.
        version: u16,
        /// Which Remora reads it: `Remora 1.4.0, which wrote it, or newer`.
        needs: String,
        /// The newest version that this Remora reads.
        reads: u16,
    },
    /// The file ends before anything of the heap.
    #[error("truncated: it ends after {length} bytes, before the first object")]
    Truncated {
        /// Bytes there are.
        length: u64,
    },
    /// The file was changed after it was written: a bad disk, a text-mode transfer, an editor.
    #[error("damaged at byte {offset}: {what} ({objects} objects before it were readable)")]
    Damaged {
        /// Where the damaged chunk begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
        /// Objects in the chunks before it.
        objects: u64,
    },
    /// More than can be held.
    #[strum(serialize = "heap-too-large")]
    #[error(transparent)]
    Graph(#[from] remora_heap::Error),
    /// The file could not be read.
    #[strum(serialize = "read-failed")]
    #[error("cannot read the heap snapshot: {0}")]
    Read(#[source] io::Error),
    /// The file could not be written: disk full, most likely. What was written before is readable.
    #[strum(serialize = "write-failed")]
    #[error("cannot write the heap snapshot: {0}")]
    Write(#[source] io::Error),
}

impl Error {
    /// A name that keeps its meaning, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// Of a chunk at `offset`, behind so many objects.
    pub(crate) fn of_chunk(fault: Fault, offset: u64, objects: u64) -> Error {
        match fault {
            Fault::Damaged(what) => Error::Damaged { offset, what, objects },
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
