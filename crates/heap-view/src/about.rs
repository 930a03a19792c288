//! What is known of a snapshot beside its graph. It is kept in the index as JSON: fields are only added within a version.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The program.
    pub application: String,
    /// Its process.
    pub process_id: u32,
    /// `.NET 8.0.4`.
    pub runtime: String,
    /// When it was taken, since 1970.
    pub taken_unix_nanoseconds: u64,
    /// Whether every object is in it.
    pub complete: bool,
    /// Whether it was taken without a collection: garbage is among the objects, and free room was not told.
    pub has_garbage: bool,
    /// Bytes between objects.
    pub free_bytes: u64,
    /// What else is to be said.
    pub notes: Vec<String>,
    /// Roots by their kinds. Filled in when the index is made.
    pub roots: BTreeMap<String, u64>,
}
