//! What can be wrong with a graph that is being built.

/// Why a graph could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More of something than [`crate::Limits`] allow: a heap beyond what this crate is made for, or a damaged file that claims it.
    #[error("more than {limit} {what}: the heap is larger than what can be analysed, or the snapshot is damaged")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
    },
}
