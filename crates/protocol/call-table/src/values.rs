//! Arguments and results of calls.
//!
//! A node has a slot for the arguments of its call: only one is active at a time. When the call ends and is
//! listed, they move to the section of values, with the result.

use crate::layout::{
    SLOT_SECTION, SLOT_WORDS, SLOTS, SLOTS_TAKEN, VALUE_SECTION, VALUE_WORDS, VALUES_BEYOND, VALUES_LEFT, VALUES_LOST,
    VALUES_TAKEN, ValuesPlace, section,
};
use crate::table::{Node, Table};
use core::sync::atomic::{AtomicU64, Ordering};

/// The position of a result.
pub const RESULT: u8 = u8::MAX;

/// UTF-16 units that are kept of a string.
const MOST_UNITS: usize = 256;
/// Words of one call's values: those of a slot, and room for the longest result.
const MOST_WORDS: usize = SLOT_WORDS + MOST_UNITS / 4;

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// 0 or 1.
    Bool = 0,
    /// A UTF-16 unit.
    Char = 1,
    /// A signed integer of 64 bits.
    Signed = 2,
    /// An unsigned integer of 64 bits.
    Unsigned = 3,
    /// The bits of a `double`.
    Float = 4,
    /// UTF-16 units follow.
    Text = 5,
    /// A null string.
    Null = 6,
    /// The 16 bytes of a structure.
    Wide = 7,
}

impl Kind {
    fn of(number: u8) -> Option<Kind> {
        use Kind::{Bool, Char, Float, Null, Signed, Text, Unsigned, Wide};
        [Bool, Char, Signed, Unsigned, Float, Text, Null, Wide].into_iter().find(|kind| *kind as u8 == number)
    }
}

/// The values of one call, as words. Each has a head, in which its length is; then a number, or four UTF-16 units to a word.
#[derive(Debug)]
pub struct Values {
    words: [u64; MOST_WORDS],
    used: usize,
    room: usize,
}

/// As many as a slot holds.
impl Default for Values {
    fn default() -> Values {
        Values { words: [0; MOST_WORDS], used: 0, room: SLOT_WORDS - 1 }
    }
}

impl Values {
    /// Adds a number; without room it is left out.
    pub fn add_number(&mut self, position: u8, kind: Kind, bits: u64) {
        if let Some([head, number, ..]) = self.free() {
            (*head, *number) = (packed(position, kind, 0, 0), bits);
            self.used += 2;
        }
    }

    /// Adds 16 bytes, the low ones first; without room they are left out.
    pub fn add_wide(&mut self, position: u8, bits: u128) {
        if let Some([head, low, high, ..]) = self.free() {
            (*head, *low, *high) = (packed(position, Kind::Wide, 0, 0), bits as u64, (bits >> 64) as u64);
            self.used += 3;
        }
    }

    /// Adds a null string.
    pub fn add_null(&mut self, position: u8) {
        if let Some([head, ..]) = self.free() {
            *head = packed(position, Kind::Null, 0, 0);
            self.used += 1;
        }
    }

    /// Adds a string of `length` units: its beginning, as far as there is room.
    pub fn add_text(&mut self, position: u8, length: u32, units: impl Iterator<Item = u16>) {
        let Some((head, rest)) = self.free().and_then(<[u64]>::split_first_mut) else { return };
        let mut kept = 0;
        for unit in units.take(MOST_UNITS.min(rest.len() * 4)) {
            let Some(word) = rest.get_mut(kept / 4) else { break };
            let shift = kept % 4 * 16;
            *word = if shift == 0 { u64::from(unit) } else { *word | u64::from(unit) << shift };
            kept += 1;
        }
        *head = packed(position, Kind::Text, kept as u16, length);
        self.used += 1 + kept.div_ceil(4);
    }

    fn free(&mut self) -> Option<&mut [u64]> {
        self.words.get_mut(self.used..self.room)
    }

    fn used(&self) -> &[u64] {
        self.words.get(..self.used).unwrap_or_default()
    }
}

fn packed(position: u8, kind: Kind, kept: u16, length: u32) -> u64 {
    u64::from(position) | u64::from(kind as u8) << 8 | u64::from(kept) << 16 | u64::from(length) << 32
}

/// A value that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a> {
    /// Of the argument, from 0; [`RESULT`] for the result.
    pub position: u8,
    /// What it is.
    pub kind: Kind,
    /// The number; of a structure, all bytes.
    pub bits: u128,
    /// UTF-16 units of the whole string.
    pub length: u32,
    units: &'a [u64],
    kept: usize,
}

impl Value<'_> {
    /// The UTF-16 units that are kept.
    pub fn units(&self) -> impl Iterator<Item = u16> + '_ {
        self.units.iter().flat_map(|word| [0, 16, 32, 48].map(|shift| (word >> shift) as u16)).take(self.kept)
    }
}

/// Calls `each` with every value in `words`, up to the first that is none.
pub fn read_values(words: &[u64], mut each: impl FnMut(Value<'_>)) {
    let mut rest = words;
    while let Some((head, after)) = rest.split_first() {
        let Some(kind) = Kind::of((head >> 8) as u8) else { return };
        let kept = usize::from((head >> 16) as u16).min(MOST_UNITS);
        let words = match kind {
            Kind::Text => kept.div_ceil(4),
            Kind::Null => 0,
            Kind::Wide => 2,
            _ => 1,
        };
        let Some((own, after)) = after.split_at_checked(words) else { return };
        let word = |index: usize| own.get(index).copied().map_or(0, u128::from);
        let bits = if kind == Kind::Wide { word(0) | word(1) << 64 } else { word(0) };
        let (position, length) = (*head as u8, (head >> 32) as u32);
        each(Value { position, kind, bits, length, units: own, kept });
        rest = after;
    }
}

impl Table<'_> {
    /// Whether values are still kept: otherwise nobody needs to read any.
    pub fn keeps_values(&self) -> bool {
        self.header(VALUES_LEFT) != 0
    }

    /// Keeps the arguments of the call that begins at `node`.
    pub(crate) fn keep(&self, node: Node<'_>, values: &Values) {
        let used = values.used();
        if used.is_empty() && node.slot() == 0 {
            return;
        }
        let Some((length, places)) = self.slot_of(node) else { return };
        places.iter().zip(used).for_each(|(place, word)| place.store(*word, Ordering::Relaxed));
        length.store(used.len() as u64, Ordering::Relaxed);
    }

    /// Moves the values of a call that ends to the section of values.
    #[cold]
    pub(crate) fn kept(&self, node: Node<'_>, result: impl FnOnce(&mut Values)) -> ValuesPlace {
        if !self.claim_values() {
            self.count(VALUES_BEYOND);
            return ValuesPlace::default();
        }
        let mut values = Values { room: MOST_WORDS, ..Values::default() };
        if let Some((length, places)) = self.slot(node.slot()) {
            let used = (length.load(Ordering::Relaxed) as usize).min(places.len());
            values.words.iter_mut().zip(places).for_each(|(word, place)| *word = place.load(Ordering::Relaxed));
            values.used = used;
        }
        result(&mut values);
        let used = values.used();
        if used.is_empty() {
            return ValuesPlace::default();
        }
        let first = usize::try_from(self.take(VALUES_TAKEN, used.len() as u64)).unwrap_or(usize::MAX);
        let all = section(self.words, VALUE_SECTION, VALUE_WORDS);
        let Some(places) = all.get(first..first.saturating_add(used.len())) else {
            self.count(VALUES_LOST);
            return ValuesPlace::default();
        };
        places.iter().zip(used).for_each(|(place, word)| place.store(*word, Ordering::Relaxed));
        ValuesPlace { word: first as u32, words: used.len() as u32 }
    }

    /// Calls `each` with every value of a call.
    pub fn values(&self, place: ValuesPlace, each: impl FnMut(Value<'_>)) {
        let (first, length) = (place.word as usize, (place.words as usize).min(MOST_WORDS));
        let all = section(self.words, VALUE_SECTION, VALUE_WORDS);
        let mut words = [0; MOST_WORDS];
        let places = all.get(first..first + length).unwrap_or_default();
        words.iter_mut().zip(places).for_each(|(word, place)| *word = place.load(Ordering::Relaxed));
        read_values(words.get(..places.len()).unwrap_or_default(), each);
    }

    fn claim_values(&self) -> bool {
        let Some(left) = self.words.get(VALUES_LEFT) else { return false };
        left.load(Ordering::Relaxed) != 0
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// The slot of a node; at its first call, a new one.
    fn slot_of(&self, node: Node<'_>) -> Option<(&AtomicU64, &[AtomicU64])> {
        if node.slot() == 0 {
            let taken = self.take(SLOTS_TAKEN, 1);
            if taken < SLOTS as u64 {
                node.set_slot(taken as u16 + 1);
            }
        }
        let slot = self.slot(node.slot());
        if slot.is_none() {
            self.count(VALUES_LOST);
        }
        slot
    }

    fn slot(&self, number: u16) -> Option<(&AtomicU64, &[AtomicU64])> {
        let slots = section(self.words, SLOT_SECTION, SLOTS * SLOT_WORDS).as_chunks::<SLOT_WORDS>().0;
        let (length, places) = slots.get(usize::from(number.checked_sub(1)?))?.split_first()?;
        Some((length, places))
    }
}
