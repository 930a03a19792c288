//! Heap snapshots in the formats of other tools: a [`HeapGraph`] goes in, bytes come out.
//!
//! # Purpose
//! Whoever knows the Memory panel of Chrome's DevTools, PerfView or Visual Studio opens a snapshot there: [`write()`] with a [`Format`].
//!
//! # Design constraints
//! Sees nothing but the graph and what is said [`About`] it: no paths, no clocks, no environment. The same input gives the same bytes.
//! Written while it is made, in time and memory that the graph bounds: nothing is kept for an object but its line.
//! Counts, bytes of each type, references and roots are those of the graph, exactly; an object that is too large for a format's numbers
//! is told in pieces (`rest`). What a format's readers cannot hold is refused beforehand, by [`check`].
//!
//! # Supported
//! `.heapsnapshot` (V8's), `.gcdump` (that of `dotnet-gcdump`), and [`Table`]s in `.parquet`, a file each.
//!
//! # Rejected
//! Reading them back, and Remora's own file, which is another crate's.
#![forbid(unsafe_code)]

mod about;
mod format;
mod gcdump;
mod heapsnapshot;
mod rest;
mod table;

pub use about::About;
pub use format::Format;
pub use table::Table;

use remora_heap::HeapGraph;
use std::io::{self, Write};

/// More than the readers of a format can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("readers of {format} hold {limit} {what} at most, and the snapshot has {count}")]
pub struct TooLarge {
    /// How names of such files end.
    pub format: &'static str,
    /// Of what.
    pub what: &'static str,
    /// How many there would be.
    pub count: u64,
    /// How many there may be.
    pub limit: u64,
}

/// Whether the readers of `format` can hold `graph`.
///
/// # Errors
/// [`TooLarge`].
pub fn check(graph: &HeapGraph, format: Format) -> Result<(), TooLarge> {
    match format {
        Format::HeapSnapshot => heapsnapshot::check(graph),
        Format::GcDump => gcdump::check(graph),
    }
}

/// So many of something, and how many of it there may be.
type Counted = (&'static str, u64, u64);

fn refuse_above<const N: usize>(format: Format, counted: [Counted; N]) -> Result<(), TooLarge> {
    let over = counted.into_iter().find(|(_, count, limit)| count > limit);
    over.map_or(Ok(()), |(what, count, limit)| Err(TooLarge { format: format.ending(), what, count, limit }))
}

/// Writes `graph` to `out` in `format`; to be asked after [`check`].
///
/// # Errors
/// Those of `out`.
pub fn write(graph: &HeapGraph, about: &About, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::HeapSnapshot => heapsnapshot::write(graph, about, out),
        Format::GcDump => gcdump::write(graph, about, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_readers_can_hold_is_refused() {
        assert_eq!(refuse_above(Format::GcDump, [("objects", 7, 7), ("types", 0, 3)]), Ok(()));
        let refused = refuse_above(Format::HeapSnapshot, [("objects", 7, 7), ("references", 8, 7)]);
        assert_eq!(
            refused.expect_err("eight are more than seven").to_string(),
            "readers of .heapsnapshot hold 7 references at most, and the snapshot has 8"
        );
    }
}
