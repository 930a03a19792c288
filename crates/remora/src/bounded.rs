//! Reads an untrusted file within a memory limit: a short file may decode into a large structure.

use remora_attach::own_room;
use remora_collector::MemoryLimit;
use std::io::{Error, ErrorKind, Read, Result};

/// A reader that fails once decoding needs more than its memory limit. It reads in pieces, and each piece is decoded before the next is
/// read.
pub(crate) struct Bounded<R> {
    input: R,
    limit: MemoryLimit,
}

impl<R: Read> Bounded<R> {
    /// Allows decoding to use half of the free memory.
    pub(crate) fn new(input: R) -> Bounded<R> {
        Bounded { input, limit: MemoryLimit::half() }
    }

    /// Allows a quarter: for a recording.
    pub(crate) fn of_a_quarter(input: R) -> Bounded<R> {
        Bounded { input, limit: MemoryLimit::quarter() }
    }

    /// Allows an eighth: the caller builds something larger from the result.
    pub(crate) fn of_an_eighth(input: R) -> Bounded<R> {
        Bounded { input, limit: MemoryLimit::eighth() }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match self.limit.is_exceeded() {
            true => Err(ErrorKind::OutOfMemory.into()),
            false => self.input.read(into),
        }
    }
}

/// The share of the free memory that one later allocation may use.
pub(crate) const PART_FOR_MORE: &str = "three quarters";

/// Whether `bytes` more may be allocated for a structure built from a decoded file. Its size is known before.
pub(crate) fn may_take(bytes: u64) -> bool {
    own_room().is_none_or(|room| bytes <= room / 4 * 3)
}

/// Whether reading stopped at the memory limit.
pub(crate) fn takes_too_much(error: &Error) -> bool {
    error.kind() == ErrorKind::OutOfMemory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_may_be_made_into_something_smaller_than_what_is_free() {
        assert!(may_take(1 << 20) && !may_take(1 << 50));
    }

    #[test]
    fn no_more_is_read_once_what_was_made_of_it_takes_too_much() {
        let mut bounded = Bounded { input: &b"short"[..], limit: MemoryLimit::of(64 << 20, "half") };
        let mut byte = [0];
        bounded.read_exact(&mut byte).expect("there is memory");
        let made = vec![1_u8; 128 << 20];
        assert!(takes_too_much(&bounded.read(&mut byte).expect_err("there is none left")));
        drop(made);
    }
}
