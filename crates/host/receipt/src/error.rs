//! Why no snapshot could be taken at all. Parts that merely could not be read belong to the snapshot, and are no errors.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why no snapshot could be taken.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Error {
    /// There is no such process, or it ended while it was read.
    #[strum(serialize = "process-ended")]
    #[error("process {process_id} has ended: there is nothing left to look at")]
    Gone {
        /// The process.
        process_id: u32,
    },
    /// Not even the process's `stat` can be read: `/proc` is mounted with `hidepid`, or is not mounted.
    #[strum(serialize = "process-unreadable")]
    #[error("process {process_id} cannot be looked at: {source}")]
    Unreadable {
        /// The process.
        process_id: u32,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Error {
    /// A stable name, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}
