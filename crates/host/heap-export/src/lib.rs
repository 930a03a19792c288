//! Heap snapshots in the formats of other tools: a [`HeapGraph`] goes in, bytes come out.
//!
//! # Purpose
//! Opens a snapshot in tools that users know: the Memory panel of Chrome's DevTools, PerfView or Visual Studio. Use [`write()`] with a
//! [`Format`].
//!
//! # Design constraints
//! Sees only the graph and its [`About`]: no paths, no clocks, no environment. The same input gives the same bytes.
//! Output is streamed: the graph bounds time and memory, and memory per object is one line of output.
//! Counts, bytes of each type, references and roots equal the graph's. An object too large for a format's numbers is split into pieces
//! (`rest`).
//! [`check`] refuses graphs beyond the limits of a format's readers.
//!
//! # Supported
//! `.heapsnapshot` (V8's), `.gcdump` (that of `dotnet-gcdump`), and [`Table`]s in `.parquet`, a file each.
//!
//! # Rejected
//! Reading these files. Remora's own file format: `heap-file` has it.
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

/// The graph exceeds the limits of a format's readers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("readers of {format} hold {limit} {what} at most, and the snapshot has {count}")]
pub struct TooLarge {
    /// The file extension.
    pub format: &'static str,
    /// The kind of item.
    pub what: &'static str,
    /// Their number.
    pub count: u64,
    /// The limit.
    pub limit: u64,
}

/// Checks that the readers of `format` can hold `graph`.
///
/// # Errors
/// [`TooLarge`].
pub fn check(graph: &HeapGraph, format: Format) -> Result<(), TooLarge> {
    match format {
        Format::HeapSnapshot => heapsnapshot::check(graph),
        Format::GcDump => gcdump::check(graph),
    }
}

/// An item's name, number and limit.
type Counted = (&'static str, u64, u64);

fn refuse_above<const N: usize>(format: Format, counted: [Counted; N]) -> Result<(), TooLarge> {
    let over = counted.into_iter().find(|(_, count, limit)| count > limit);
    over.map_or(Ok(()), |(what, count, limit)| Err(TooLarge { format: format.ending(), what, count, limit }))
}

/// Writes `graph` to `out` in `format`; call [`check`] first.
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
