//! Duplicate strings, and the bytes saved if each text existed once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Maximum number of different texts; later ones are not counted as duplicates.
const MOST_TEXTS: usize = 20_000_000;

/// One duplicated text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// Its first string.
    pub address: u64,
    /// Number of strings with this text.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of all but one.
    pub wasted: u64,
}

/// Collects texts. It compares 128 bits of two keyed hashes and the length, and keeps no text.
#[derive(Debug, Default)]
pub struct Duplicates {
    keys: [RandomState; 2],
    texts: HashMap<(u64, u64, u64), Repeated>,
    /// All strings.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Strings not compared: too long to be stored whole, or beyond the limit of different texts.
    pub passed_over: u64,
}

impl Duplicates {
    /// Adds a string of `bytes` bytes, with its text if all of it is known.
    pub fn add(&mut self, address: u64, bytes: u64, text: Option<&[u8]>) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let Some(text) = text else {
            self.passed_over += 1;
            return;
        };
        let [first, second] = &self.keys;
        let key = (first.hash_one(text), second.hash_one(text), text.len() as u64);
        if self.texts.len() >= MOST_TEXTS && !self.texts.contains_key(&key) {
            self.passed_over += 1;
            return;
        }
        let none = Repeated { address, count: 0, bytes: 0, wasted: 0 };
        let known = self.texts.entry(key).or_insert(none);
        known.wasted = known.wasted.saturating_add(if known.count > 0 { bytes } else { 0 });
        known.count += 1;
        known.bytes = known.bytes.saturating_add(bytes);
    }

    /// Different texts.
    pub fn different(&self) -> u64 {
        self.texts.len() as u64
    }

    /// Texts that occur more than once.
    pub fn repeated(&self) -> u64 {
        self.texts.values().filter(|text| text.count > 1).count() as u64
    }

    /// Bytes saved if each text existed once.
    pub fn wasted(&self) -> u64 {
        self.texts.values().map(|text| text.wasted).sum()
    }

    /// The texts that waste most, largest first.
    pub fn most(&self, top: usize) -> Vec<Repeated> {
        let mut all: Vec<Repeated> = self.texts.values().filter(|text| text.count > 1).copied().collect();
        all.sort_by_key(|text| (Reverse(text.wasted), text.address));
        all.truncate(top);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_there_again_is_wasted_but_for_once() {
        let mut texts = Duplicates::default();
        for (address, bytes, text) in
            [(8, 30, Some(&b"one"[..])), (16, 40, Some(b"two")), (24, 30, Some(b"one")), (32, 30, Some(b"one"))]
        {
            texts.add(address, bytes, text);
        }
        texts.add(40, 9000, None);
        assert_eq!((texts.count, texts.bytes, texts.passed_over), (5, 9130, 1));
        assert_eq!((texts.different(), texts.wasted()), (2, 60));
        assert_eq!(texts.most(5), [Repeated { address: 8, count: 3, bytes: 90, wasted: 60 }]);
    }

    #[test]
    fn those_that_waste_most_come_first() {
        let mut texts = Duplicates::default();
        for (index, (text, bytes)) in [("a", 24), ("b", 800), ("a", 24), ("b", 800), ("a", 24)].into_iter().enumerate()
        {
            texts.add(index as u64 * 8, bytes, Some(text.as_bytes()));
        }
        assert_eq!(texts.most(9).iter().map(|text| text.wasted).collect::<Vec<_>>(), [800, 48]);
        assert_eq!(texts.most(1).len(), 1);
    }
}
