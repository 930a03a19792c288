//! A bounded lock-free queue of small records in a slice of atomic words.
//!
//! # Purpose
//! Signal handlers on any thread pass samples to the worker thread through one [`Ring`]. The worker thread passes messages to the recorder
//! through another, in shared memory.
//!
//! # Design constraints
//! `no_std`, no allocation, no lock, no panic: a signal handler may call [`Ring::push`]. Many producers, one consumer. A full ring refuses
//! the record, and the caller counts it. A producer that is stopped half-way delays the consumer but corrupts nothing. Every index is
//! masked, so a peer that overwrites the positions in shared memory costs records, never memory safety.
//!
//! # Supported
//! Records of 1 to [`MAXIMUM_RECORD_WORDS`] words, in the order of reservation.
//!
//! # Rejected
//! Blocking, waking and overwriting the oldest: policy belongs to the users of the ring.
//!
//! A record is one header word (number of payload words plus one; 0 = not yet committed) and the payload. The consumer zeroes what it has
//! read before it releases the space, so that old data never looks like a header.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, loom))]
extern crate std;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering};

/// Words at the start of the slice for the two positions, each on its own cache line.
pub const HEADER_WORDS: usize = 16;

/// The longest record, in payload words (64 KiB).
pub const MAXIMUM_RECORD_WORDS: usize = 8192;

/// How often a producer tries to reserve space against other producers before it gives up.
const RESERVE_TRIES: usize = 64;

const HEAD: usize = 0;
const TAIL: usize = 8;

/// Why a record was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The consumer is too far behind, or the record is longer than the whole ring.
    Full,
    /// Other producers won `RESERVE_TRIES` times in a row.
    Contended,
}

/// A view of a ring. Any number of views may share the words; only one may consume.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    positions: &'a [AtomicU64],
    words: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// A view of the ring in `memory`, which is all zero when the ring is new.
    ///
    /// `None` unless `memory` is [`HEADER_WORDS`] plus a power of two of words.
    pub fn new(memory: &'a [AtomicU64]) -> Option<Ring<'a>> {
        let (positions, words) = memory.split_at_checked(HEADER_WORDS)?;
        words.len().is_power_of_two().then_some(Ring { positions, words })
    }

    /// How many payload words fit at most, not counting a header word per record.
    pub fn capacity(&self) -> usize {
        self.words.len()
    }

    /// Appends one record made of `parts` in order.
    ///
    /// # Errors
    /// [`Refused`], and nothing was written.
    pub fn push(&self, parts: &[&[u64]]) -> Result<(), Refused> {
        let payload = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        if payload == 0 || payload > MAXIMUM_RECORD_WORDS {
            return Err(Refused::Full);
        }
        let start = self.reserve(payload as u64 + 1)?;
        let mut at = start.wrapping_add(1);
        for part in parts {
            for &word in *part {
                self.word(at).store(word, Ordering::Relaxed);
                at = at.wrapping_add(1);
            }
        }
        self.word(start).store(payload as u64 + 1, Ordering::Release);
        Ok(())
    }

    /// Appends one record made of `head` and `bytes`, the last word padded with zeros.
    ///
    /// # Errors
    /// [`Refused`], and nothing was written.
    pub fn push_bytes(&self, head: u64, bytes: &[u8]) -> Result<(), Refused> {
        let payload = bytes.len().div_ceil(8) + 1;
        if payload > MAXIMUM_RECORD_WORDS {
            return Err(Refused::Full);
        }
        let start = self.reserve(payload as u64 + 1)?;
        self.word(start.wrapping_add(1)).store(head, Ordering::Relaxed);
        let (whole, rest) = bytes.as_chunks::<8>();
        let (first, second) = self.stretch(start.wrapping_add(2), payload - 1);
        let (before, behind) = whole.split_at(whole.len().min(first.len()));
        for (words, eights) in [(first, before), (second, behind)] {
            for (word, eight) in words.iter().zip(eights) {
                word.store(u64::from_le_bytes(*eight), Ordering::Relaxed);
            }
        }
        if !rest.is_empty() {
            let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.word(start.wrapping_add(payload as u64)).store(last, Ordering::Relaxed);
        }
        self.word(start).store(payload as u64 + 1, Ordering::Release);
        Ok(())
    }

    /// Takes the oldest record, and passes its payload to `take` word by word. Returns how many words it had.
    ///
    /// `None` if there is none, or if the oldest is still being written.
    pub fn pop(&self, mut take: impl FnMut(u64)) -> Option<usize> {
        let (tail, payload) = self.oldest()?;
        let (first, second) = self.stretch(tail.wrapping_add(1), payload);
        for words in [first, second] {
            for word in words {
                take(word.load(Ordering::Relaxed));
                word.store(0, Ordering::Relaxed);
            }
        }
        self.has_taken(tail, payload);
        Some(payload)
    }

    /// Takes the oldest record in the form of [`Ring::push_bytes`]. Returns its first word and the byte length of the others, and copies
    /// those to `into`. That needs room for the longest record; bytes beyond it are lost.
    pub fn pop_bytes(&self, into: &mut [u8]) -> Option<(u64, usize)> {
        let (tail, payload) = self.oldest()?;
        let head = self.word(tail.wrapping_add(1)).load(Ordering::Relaxed);
        self.word(tail.wrapping_add(1)).store(0, Ordering::Relaxed);
        let (first, second) = self.stretch(tail.wrapping_add(2), payload - 1);
        let places = into.as_chunks_mut::<8>().0;
        let (before, behind) = places.split_at_mut(first.len().min(places.len()));
        for (words, places) in [(first, before), (second, behind)] {
            for (word, place) in words.iter().zip(places) {
                *place = word.load(Ordering::Relaxed).to_le_bytes();
            }
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        self.has_taken(tail, payload);
        Some((head, (payload - 1) * 8))
    }

    /// Position and payload words of the oldest record. `None` if there is none, or if it is still being written.
    fn oldest(&self) -> Option<(u64, usize)> {
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        let length = self.word(tail).load(Ordering::Acquire);
        let is_one = (2..=MAXIMUM_RECORD_WORDS as u64 + 1).contains(&length) && length <= self.words.len() as u64;
        is_one.then(|| (tail, length as usize - 1))
    }

    /// Releases the space of the oldest record.
    fn has_taken(&self, tail: u64, payload: usize) {
        self.word(tail).store(0, Ordering::Relaxed);
        self.position(TAIL).store(tail.wrapping_add(payload as u64 + 1), Ordering::Release);
    }

    /// Consumer, after the last producer has ended: discards all records, and returns how many words they had. A producer that ended
    /// half-way through a record would block those behind it forever.
    pub fn abandon(&self) -> usize {
        let head = self.position(HEAD).load(Ordering::SeqCst);
        let given_up = self.used();
        if given_up > 0 {
            let (first, second) = self.stretch(head.wrapping_sub(given_up as u64), given_up);
            for word in first.iter().chain(second) {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.position(TAIL).store(head, Ordering::SeqCst);
        given_up
    }

    /// Whether everything reserved has been consumed.
    pub fn is_empty(&self) -> bool {
        self.position(HEAD).load(Ordering::SeqCst) == self.position(TAIL).load(Ordering::SeqCst)
    }

    /// Words in use, header words included.
    pub fn used(&self) -> usize {
        let head = self.position(HEAD).load(Ordering::Relaxed);
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        head.wrapping_sub(tail).min(self.words.len() as u64) as usize
    }

    fn reserve(&self, length: u64) -> Result<u64, Refused> {
        let head_position = self.position(HEAD);
        let mut head = head_position.load(Ordering::Relaxed);
        for _ in 0..RESERVE_TRIES {
            // Acquire: the consumer's zeroes must be visible before the space is written again.
            let tail = self.position(TAIL).load(Ordering::Acquire);
            let used = head.wrapping_sub(tail);
            if used > self.words.len() as u64 || length > self.words.len() as u64 - used {
                return Err(Refused::Full);
            }
            let next = head.wrapping_add(length);
            match head_position.compare_exchange_weak(head, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Ok(head),
                Err(now) => head = now,
            }
        }
        Err(Refused::Contended)
    }

    /// `length` words from position `at`, at most the whole memory, in two parts: up to the end of the memory, then from its start.
    fn stretch(&self, at: u64, length: usize) -> (&[AtomicU64], &[AtomicU64]) {
        let at = at as usize & (self.words.len() - 1);
        let first = length.min(self.words.len() - at);
        (&self.words[at..at + first], &self.words[..length - first])
    }

    fn position(&self, which: usize) -> &AtomicU64 {
        &self.positions[which]
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[at as usize & (self.words.len() - 1)]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn memory(words: usize) -> Vec<AtomicU64> {
        (0..HEADER_WORDS + words).map(|_| AtomicU64::new(0)).collect()
    }

    fn pop(ring: &Ring) -> Option<Vec<u64>> {
        let mut record = Vec::new();
        ring.pop(|word| record.push(word)).map(|_| record)
    }

    #[test]
    fn records_come_out_whole_and_in_order_across_the_wrap() {
        let memory = memory(8);
        let ring = Ring::new(&memory).expect("a power of two");
        for round in 0..20 {
            assert_eq!(ring.push(&[&[round, 1], &[2]]), Ok(()));
            assert_eq!(ring.push(&[&[round]]), Ok(()));
            assert_eq!(pop(&ring), Some(std::vec![round, 1, 2]));
            assert_eq!(pop(&ring), Some(std::vec![round]));
            assert!(ring.is_empty());
        }
    }

    #[test]
    fn bytes_come_out_as_the_words_that_they_fill_across_the_wrap() {
        let memory = memory(8);
        let ring = Ring::new(&memory).expect("a power of two");
        for length in (0..40).chain(0..40) {
            let bytes: Vec<u8> = (1..=length).collect();
            assert_eq!(ring.push_bytes(7, &bytes), Ok(()), "{length}");
            let record = pop(&ring).expect("it was pushed");
            let mut expected: Vec<u8> = bytes.clone();
            expected.resize(bytes.len().next_multiple_of(8), 0);
            let reported: Vec<u8> = record[1..].iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!((record[0], &reported), (7, &expected), "{length}");
            // The same, read as bytes.
            assert_eq!(ring.push_bytes(9, &bytes), Ok(()), "{length}");
            let mut into = [0xff; 64];
            assert_eq!(ring.pop_bytes(&mut into), Some((9, expected.len())), "{length}");
            assert_eq!(into[..expected.len()], expected, "{length}");
            assert!(memory[HEADER_WORDS..].iter().all(|word| word.load(Ordering::Relaxed) == 0), "{length}");
        }
        assert_eq!(ring.pop_bytes(&mut [0; 64]), None);
        assert_eq!(ring.push_bytes(7, &[0; 49]), Err(Refused::Full));
        assert_eq!(ring.push_bytes(7, &std::vec![0; MAXIMUM_RECORD_WORDS * 8]), Err(Refused::Full));
        assert!(ring.is_empty());
    }

    #[test]
    fn a_full_ring_refuses_and_keeps_what_it_has() {
        let memory = memory(8);
        let ring = Ring::new(&memory).expect("a power of two");
        assert_eq!(ring.push(&[&[1, 2, 3]]), Ok(()));
        assert_eq!(ring.push(&[&[4, 5, 6]]), Ok(()));
        assert_eq!(ring.push(&[&[7]]), Err(Refused::Full));
        assert_eq!(ring.used(), 8);
        assert_eq!(pop(&ring), Some(std::vec![1, 2, 3]));
        assert_eq!(ring.push(&[&[7]]), Ok(()));
    }

    #[test]
    fn records_that_can_never_fit_and_empty_ones_are_refused() {
        let memory = memory(8);
        let ring = Ring::new(&memory).expect("a power of two");
        assert_eq!(ring.push(&[&[0; 8]]), Err(Refused::Full));
        assert_eq!(ring.push(&[]), Err(Refused::Full));
        assert!(Ring::new(&memory[..HEADER_WORDS + 7]).is_none());
        assert!(Ring::new(&memory[..3]).is_none());
    }

    #[test]
    fn what_a_producer_left_half_way_blocks_the_ring_until_it_is_abandoned() {
        let memory = memory(8);
        let ring = Ring::new(&memory).expect("a power of two");
        for whole_before in 0..8 {
            for value in 0..whole_before {
                assert_eq!(ring.push(&[&[value]]), Ok(()));
                assert_eq!(pop(&ring), Some(std::vec![value]));
            }
            // A producer that ends after some of its words, before it commits the record.
            let start = ring.reserve(6).expect("room");
            (1..4).for_each(|at| ring.word(start + at).store(2, Ordering::Relaxed));
            assert_eq!((pop(&ring), ring.push(&[&[1, 2]])), (None, Err(Refused::Full)));
            assert_eq!(ring.abandon(), 6);
            assert!(ring.is_empty());
            assert_eq!(ring.push(&[&[7, 8, 9, 10, 11, 12, 13]]), Ok(()));
            assert_eq!(pop(&ring), Some(std::vec![7, 8, 9, 10, 11, 12, 13]));
            assert_eq!((ring.abandon(), pop(&ring)), (0, None));
        }
    }

    #[test]
    fn scribbled_positions_cost_records_and_nothing_else() {
        let memory = memory(8);
        let ring = Ring::new(&memory).expect("a power of two");
        for scribble in [u64::MAX, 12345, 1 << 63] {
            memory[TAIL].store(scribble, Ordering::Relaxed);
            let _ = ring.push(&[&[1]]);
            memory[HEADER_WORDS].store(scribble, Ordering::Relaxed);
            let _ = pop(&ring);
            let _ = ring.abandon();
            assert!(ring.is_empty());
        }
    }

    #[test]
    fn many_producers_lose_nothing_that_was_accepted() {
        const EACH: u64 = 20_000;
        let memory = memory(1024);
        let ring = Ring::new(&memory).expect("a power of two");
        let accepted = AtomicU64::new(0);
        let running = AtomicU64::new(4);
        let mut sums = [0_u64; 4];
        let mut received = 0;
        std::thread::scope(|scope| {
            for producer in 0..4_u64 {
                let (ring, accepted, running) = (&ring, &accepted, &running);
                scope.spawn(move || {
                    for value in 0..EACH {
                        if ring.push(&[&[producer], &[value, value ^ producer]]).is_ok() {
                            accepted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    running.fetch_sub(1, Ordering::Release);
                });
            }
            while running.load(Ordering::Acquire) > 0 || !ring.is_empty() {
                if let Some(record) = pop(&ring) {
                    assert_eq!(record[2], record[1] ^ record[0]);
                    assert!(record[1] >= sums[record[0] as usize], "a producer's records stay in order");
                    sums[record[0] as usize] = record[1];
                    received += 1;
                }
            }
        });
        assert_eq!(received, accepted.load(Ordering::Relaxed));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use std::vec::Vec;

    #[test]
    fn two_producers_and_a_consumer_in_every_order() {
        loom::model(|| {
            let memory: Arc<Vec<AtomicU64>> = Arc::new((0..HEADER_WORDS + 4).map(|_| AtomicU64::new(0)).collect());
            let producers: Vec<_> = (1..3_u64)
                .map(|value| {
                    let memory = memory.clone();
                    loom::thread::spawn(move || Ring::new(&memory).expect("sized").push(&[&[value]]).is_ok())
                })
                .collect();
            let ring = Ring::new(&memory).expect("sized");
            let mut received = Vec::new();
            for _ in 0..2 {
                ring.pop(|word| received.push(word));
            }
            let accepted = producers.into_iter().map(|p| p.join().expect("no panic")).filter(|ok| *ok).count();
            while ring.pop(|word| received.push(word)).is_some() {}
            assert_eq!(received.len(), accepted);
            assert!(received.iter().all(|value| *value == 1 || *value == 2));
        });
    }
}
