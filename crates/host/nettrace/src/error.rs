//! Errors of a stream.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why reading stopped. Earlier events remain valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not start like a nettrace stream.
    #[error(
        "this is no nettrace stream (it does not begin with `Nettrace`): is it a file of `dotnet-trace` or the answer to CollectTracing?"
    )]
    NotNettrace,
    /// An unsupported format version.
    #[error(
        "nettrace format {version} cannot be read, only 4 (.NET Core 3.0 to .NET 10 write it unless asked for another)"
    )]
    Version {
        /// The stream's version.
        version: u32,
    },
    /// Invalid bytes.
    #[error("the nettrace stream is damaged at byte {offset} ({what}): what came before it is kept")]
    Damaged {
        /// Offset of the invalid object.
        offset: u64,
        /// The damage.
        what: &'static str,
    },
    /// A table exceeded its limit.
    #[error("the nettrace stream has more than {limit} {what}: it is damaged, or not made by a runtime")]
    TooMany {
        /// The kind of item.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl Error {
    /// Fails if a table has more than `limit` entries.
    pub(crate) fn above(limit: usize, count: usize, what: &'static str) -> Result<()> {
        if count > limit { Err(Error::TooMany { what, limit }) } else { Ok(()) }
    }
}
