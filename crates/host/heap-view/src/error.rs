//! What can go wrong with an index.

use std::io;

/// Why an index could not be made or read.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Error {
    /// It is none, of another version, of another snapshot, or was changed after it was written. A new one is to be made.
    #[strum(serialize = "index-unusable")]
    #[error("the index cannot be used: {0}")]
    Damaged(&'static str),
    /// It could not be read.
    #[strum(serialize = "index-unreadable")]
    #[error("the index cannot be read: {0}")]
    Read(#[source] io::Error),
    /// It could not be written: disk full, most likely.
    #[strum(serialize = "write-failed")]
    #[error("the index cannot be written: {0}")]
    Write(#[source] io::Error),
    /// Whoever had it made wants it no more.
    #[error("the index was not finished: interrupted")]
    Interrupted,
    /// More than an index has room for; no real heap has as much.
    #[strum(serialize = "index-too-large")]
    #[error("the snapshot has more {what} than an index holds ({most})")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: u64,
    },
}

impl Error {
    /// A name that keeps its meaning, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}
