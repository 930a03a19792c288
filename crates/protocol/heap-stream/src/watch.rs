//! The reports of heap tracking: pieces about each GC, each a record in their own ring.
//!
//! Numbers are LEB128, as in the stream of a snapshot. A piece begins with its kind and the number of its GC. Its items follow, up to the end of the
//! piece:
//! ```text
//! BEGINS     time, the oldest generation collected, whether the GC was induced
//! BOUNDS     each collected part of the heap: kind, start, length; for a full GC only those of gen 0
//! MOVED      each surviving range that has moved: old address, length, new address
//! SURVIVED   each surviving range that has not moved: address, length
//! CLASS      (with its own number instead of the GC's) the GC, id, and the rest as after the id in the stream of a heap snapshot
//! ALLOCATED  each class: its number, objects of it allocated since the last GC
//! BORN       each new object since the last GC: its class number plus 1, bytes; 0 and an address to continue there
//! ENDS       time, lost pieces, whether the process was forked at the end, extra duration in nanoseconds
//! ```
//! An address in a list is its distance in words from the end of the previous item; a new address is its distance from the old one. Lengths
//! are bytes.
//!
//! ENDS counts the pieces lost for lack of room. If ENDS itself is lost, the number in the next BEGINS is too high.

mod decoder;
mod piece;

pub use decoder::{BornObject, Bounds, WatchPiece};
pub use piece::{PIECE_BYTES, PieceWriter};

/// Kind of a piece.
pub const BEGINS: u64 = 0;
/// Kind of a piece.
pub const BOUNDS: u64 = 1;
/// Kind of a piece.
pub const MOVED: u64 = 2;
/// Kind of a piece.
pub const SURVIVED: u64 = 3;
/// Kind of a piece.
pub const CLASS: u64 = 4;
/// Kind of a piece.
pub const ALLOCATED: u64 = 5;
/// Kind of a piece.
pub const BORN: u64 = 6;
/// Kind of a piece.
pub const ENDS: u64 = 7;

/// Classes that heap tracking can number, at most.
pub const MOST_CLASSES: usize = 1 << 15;
