//! Errors of the graph builder.

/// Why a graph could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More items than [`crate::Limits`] allow: a heap beyond this crate's bounds, or a damaged file that claims one.
    #[error("more than {limit} {what}: the heap is too large to analyse, or the snapshot is damaged")]
    TooMany {
        /// The kind of item.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}
