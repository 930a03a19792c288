//! Errors of an index.

use std::io;

/// Why an index could not be made or read.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Error {
    /// No index, another version or snapshot, or changed after it was written. Make a new one.
    #[strum(serialize = "index-unusable")]
    #[error("the index cannot be used: {0}")]
    Damaged(&'static str),
    /// The index could not be read.
    #[strum(serialize = "index-unreadable")]
    #[error("the index cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The index could not be written, most likely for a full disk.
    #[strum(serialize = "write-failed")]
    #[error("the index cannot be written: {0}")]
    Write(#[source] io::Error),
    /// The caller cancelled it.
    #[error("the index was not finished: interrupted")]
    Interrupted,
    /// Beyond the limits of an index; no real heap is.
    #[strum(serialize = "index-too-large")]
    #[error("the snapshot has more {what} than an index holds ({most})")]
    TooLarge {
        /// The kind of item.
        what: &'static str,
        /// The limit.
        most: u64,
    },
}

impl Error {
    /// A permanent name, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}
