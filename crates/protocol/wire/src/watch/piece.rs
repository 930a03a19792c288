//! One piece in the making, on the stack of a callback: nothing is allocated.

use super::{BEGINS, BORN, BOUNDS, MOVED, SURVIVED, zigzag};
use crate::heap::{LONGEST_NUMBER, write_number};

/// The longest piece, bytes.
pub const PIECE_BYTES: usize = 2048;

/// Numbers that one item of a list takes at most.
const MOST_NUMBERS_OF_AN_ITEM: usize = 4;

/// See the module's text.
pub struct PieceWriter {
    bytes: [u8; PIECE_BYTES],
    used: usize,
    head: usize,
    /// Behind what was told of last.
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

    /// What has been written.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    /// Whether it has no item.
    pub fn is_empty(&self) -> bool {
        self.used == self.head
    }

    /// Hands the piece over if another item may not fit, and begins the next of its kind.
    pub fn make_room(&mut self, put: &mut impl FnMut(&[u8])) {
        if PIECE_BYTES - self.used < MOST_NUMBERS_OF_AN_ITEM * LONGEST_NUMBER {
            self.flush(put);
        }
    }

    /// Hands it over, if it has an item.
    pub fn flush(&mut self, put: &mut impl FnMut(&[u8])) {
        if !self.is_empty() {
            put(self.bytes());
            self.begin();
        }
    }

    /// A number; what does not fit is left out, which is refused by who reads it.
    pub fn number(&mut self, value: u64) {
        if let Some(rest) = self.bytes.get_mut(self.used..).filter(|rest| rest.len() >= LONGEST_NUMBER) {
            self.used += write_number(rest, value);
        }
    }

    /// A part of the heap, of a piece of [`BOUNDS`].
    pub fn bounds(&mut self, kind: u32, start: u64, length: u64) {
        debug_assert!(self.kind == BOUNDS || self.kind == BEGINS);
        self.number(u64::from(kind));
        self.place(start, length);
    }

    /// A range of a piece of [`MOVED`] or, if it has stayed, of [`SURVIVED`].
    pub fn range(&mut self, old: u64, new: u64, length: u64) {
        debug_assert!(self.kind == MOVED || self.kind == SURVIVED && old == new);
        self.place(old, length);
        if self.kind == MOVED {
            self.number(zigzag(old, new));
        }
    }

    /// Objects of a piece of [`BORN`] go on at a place.
    pub fn born_at(&mut self, place: u64) {
        debug_assert!(self.kind == BORN);
        if place != self.cursor || self.is_empty() {
            self.number(0);
            self.number(zigzag(self.cursor, place));
            self.cursor = place;
        }
    }

    /// The next object of a piece of [`BORN`]: the class' number, and bytes, of which it takes `taken` in the heap.
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
