//! Reading a file that somebody else may have made, no further than the memory goes: a short one may hold very much.

use remora_attach::own_room;
use remora_collector::MemoryLimit;
use std::io::{Error, ErrorKind, Read, Result};

/// See the module's text. It is read in pieces, and what was made of those before is known when the next one is asked for.
pub(crate) struct Bounded<R> {
    input: R,
    limit: MemoryLimit,
}

impl<R: Read> Bounded<R> {
    /// As much may be made of what is read as half of the memory that is free.
    pub(crate) fn new(input: R) -> Bounded<R> {
        Bounded { input, limit: MemoryLimit::half() }
    }

    /// As much as an eighth: what is read is made into something larger at the end.
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

/// What of the memory that is free what was read may be made into, at once.
pub(crate) const PART_FOR_MORE: &str = "three quarters";

/// Whether so many bytes more may be taken, for what is made of something that was read. How much it takes is known before.
pub(crate) fn may_take(bytes: u64) -> bool {
    own_room().is_none_or(|room| bytes <= room.bytes / 4 * 3)
}

/// Whether it was not read on for that.
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
