//! Writes a piece on the stack of a callback, without allocating.

use super::{BEGINS, BORN, BOUNDS, MOVED, SURVIVED};
use crate::number::zigzag;
use crate::{LONGEST_NUMBER, write_number};

/// The longest piece, bytes.
pub const PIECE_BYTES: usize = 2048;

/// Numbers of one list item, at most.
const MOST_NUMBERS_OF_AN_ITEM: usize = 4;

/// Writes one piece after another.
pub struct PieceWriter {
    bytes: [u8; PIECE_BYTES],
    used: usize,
    head: usize,
    /// The end of the last range or object.
    cursor: u64,
    kind: u64,
    collection: u64,
}

impl PieceWriter {
    /// A piece of this kind.
    pub fn new(kind: u64, collection: u64) -> PieceWriter {
        let mut piece = PieceWriter { bytes: [0; PIECE_BYTES], used: 0, head: 0, cursor: 0, kind, collection };
        piece.begin();
        piece
    }

    fn begin(&mut self) {
        (self.used, self.cursor) = (0, 0);
        self.number(self.kind);
        self.number(self.collection);
        self.head = self.used;
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    /// Whether it has no item.
    pub fn is_empty(&self) -> bool {
        self.used == self.head
    }

    /// Passes the piece on if another item may not fit, and begins the next of its kind.
    pub fn make_room(&mut self, put: &mut impl FnMut(&[u8])) {
        if PIECE_BYTES - self.used < MOST_NUMBERS_OF_AN_ITEM * LONGEST_NUMBER {
            self.flush(put);
        }
    }

    /// Passes the piece on if it has an item.
    pub fn flush(&mut self, put: &mut impl FnMut(&[u8])) {
        if !self.is_empty() {
            put(self.bytes());
            self.begin();
        }
    }

    /// Writes a number. Without room it is omitted, and the decoder refuses the piece.
    pub fn number(&mut self, value: u64) {
        if let Some(rest) = self.bytes.get_mut(self.used..).filter(|rest| rest.len() >= LONGEST_NUMBER) {
            self.used += write_number(rest, value);
        }
    }

    /// A part of the heap, in a [`BOUNDS`] piece.
    pub fn bounds(&mut self, kind: u32, start: u64, length: u64) {
        debug_assert!(self.kind == BOUNDS || self.kind == BEGINS);
        self.number(u64::from(kind));
        self.place(start, length);
    }

    /// A range in a [`MOVED`] piece, or an unmoved one in a [`SURVIVED`] piece.
    pub fn range(&mut self, old: u64, new: u64, length: u64) {
        debug_assert!(self.kind == MOVED || self.kind == SURVIVED && old == new);
        self.place(old, length);
        if self.kind == MOVED {
            self.number(zigzag(old, new));
        }
    }

    /// In a [`BORN`] piece: the next object is at this address.
    pub fn born_at(&mut self, place: u64) {
        debug_assert!(self.kind == BORN);
        if place != self.cursor || self.is_empty() {
            self.number(0);
            self.number(zigzag(self.cursor, place));
            self.cursor = place;
        }
    }

    /// The next object in a [`BORN`] piece: its class number and size. It takes `taken` bytes of the heap.
    pub fn born(&mut self, class: u32, bytes: u64, taken: u64) {
        self.number(u64::from(class) + 1);
        self.number(bytes);
        self.cursor = self.cursor.wrapping_add(taken);
    }

    fn place(&mut self, start: u64, length: u64) {
        self.number(zigzag(self.cursor, start));
        self.number(length);
        self.cursor = start.wrapping_add(length);
    }
}
