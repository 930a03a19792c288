//! Why there is no report.

use std::io;
use std::path::PathBuf;

/// See the module's text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {}: {error}", file.display())]
    Open {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not a regular file, and a snapshot is read more than once.
    #[error("{} is {kind}", file.display())]
    NotAFile {
        /// Which.
        file: PathBuf,
        /// `a pipe`, `a socket`, `a device`.
        kind: &'static str,
    },
    /// It cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Snapshot {
        /// Which.
        file: PathBuf,
        /// Why.
        error: remora_heap_file::Error,
    },
    /// What is asked for is not in the snapshot; the text says what is.
    #[error("{0}")]
    NotThere(String),
}
