//! Why a stream cannot be read on.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a stream cannot be read on. What came before stays valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not begin as a nettrace stream does.
    #[error(
        "this is no nettrace stream (it does not begin with `Nettrace`): is it a file of `dotnet-trace` or the answer to CollectTracing?"
    )]
    NotNettrace,
    /// A format version that this reader does not know.
    #[error(
        "nettrace format {version} cannot be read, only 4 (.NET Core 3.0 to .NET 10 write it unless asked for another)"
    )]
    Version {
        /// The version that it says.
        version: u32,
    },
    /// The bytes make no sense.
    #[error("the nettrace stream is damaged at byte {offset} ({what}): what came before it is kept")]
    Damaged {
        /// Where the object begins that cannot be read.
        offset: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A table has grown beyond its limit.
    #[error("the nettrace stream has more than {limit} {what}: it is damaged, or not made by a runtime")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}
