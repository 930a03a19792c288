//! What can be wrong with a graph that is being built, with the likely cause and what to do.

/// Why a graph could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More of something than [`crate::Limits`] allow: a heap beyond what this crate is made for, or a damaged file that claims it.
    #[error(
        "more than {limit} {what}: the graph is larger than what can be analysed here, or the snapshot is damaged; take a snapshot of a smaller process, or take it again"
    )]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
    },
}
