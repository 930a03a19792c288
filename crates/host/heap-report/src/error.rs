//! Errors of reports.

use std::io;
use std::path::PathBuf;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {}: {error}", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Not a regular file; a snapshot is read more than once.
    #[error("{} is {kind}", file.display())]
    NotAFile {
        /// The file.
        file: PathBuf,
        /// `a pipe`, `a socket`, `a device`.
        kind: &'static str,
    },
    /// The snapshot cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Snapshot {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: remora_heap_file::Error,
    },
    /// The snapshot lacks the requested item; the text lists alternatives.
    #[error("{0}")]
    NotThere(String),
}
