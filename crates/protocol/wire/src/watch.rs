//! What an agent that watches a heap tells of each collection: pieces, each a record of a ring of their own.
//!
//! Numbers are LEB128, as in [`crate::heap`]. A piece begins with what it is and the number of its collection; what follows goes on to the
//! end of the piece:
//! ```text
//! BEGINS     time, the oldest generation that is collected, whether it was asked for
//! BOUNDS     each part of the heap that is collected: kind, start, length; of a whole collection those of the youngest alone
//! MOVED      each range of what lives: where it lay, its length, where it lies now
//! SURVIVED   each range of what lives and has not moved: where it lies, its length
//! CLASS      (in place of the collection its own number) the collection, id, and what follows the id in the stream of a heap
//! ALLOCATED  each class: its number, objects of it that were made since the last collection
//! BORN       each object that was not there at the last collection: its class' number plus 1, bytes; 0 and a place goes on at that place
//! ENDS       time, pieces that were lost, whether a copy of the process was made at the end, nanoseconds that it took longer
//! ```
//! A place in a list is told as its distance in words from the end of what the list has told of last; where a range lies now, as that from
//! where it lay. Lengths are bytes.
//!
//! A piece that finds no room is lost, and counted in ENDS; where ENDS itself is lost, the next BEGINS has a number too high.

mod decoder;
mod piece;

pub use decoder::{BornObject, Bounds, WatchPiece};
pub use piece::{PIECE_BYTES, PieceWriter};

/// See the module's text.
pub const BEGINS: u64 = 0;
/// See the module's text.
pub const BOUNDS: u64 = 1;
/// See the module's text.
pub const MOVED: u64 = 2;
/// See the module's text.
pub const SURVIVED: u64 = 3;
/// See the module's text.
pub const CLASS: u64 = 4;
/// See the module's text.
pub const ALLOCATED: u64 = 5;
/// See the module's text.
pub const BORN: u64 = 6;
/// See the module's text.
pub const ENDS: u64 = 7;

/// Classes that a watch can number.
pub const MOST_CLASSES: usize = 1 << 15;

/// A distance in words, whichever way it points.
fn zigzag(from: u64, to: u64) -> u64 {
    let words = (to.wrapping_sub(from) as i64) / crate::heap::WORD as i64;
    ((words << 1) ^ (words >> 63)) as u64
}

/// What [`zigzag`] wrote.
fn unzigzag(from: u64, distance: u64) -> u64 {
    let words = ((distance >> 1) as i64) ^ -((distance & 1) as i64);
    from.wrapping_add((words as u64).wrapping_mul(crate::heap::WORD))
}
