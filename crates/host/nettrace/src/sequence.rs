//! Counts what the runtime dropped: every thread numbers its events, dropped ones included.

use crate::{Error, Result};
use std::collections::HashMap;

/// More threads than this in one stream are damage: Linux has at most 4 Mi at a time.
const THREAD_LIMIT: usize = 4 << 20;
/// A gap beyond this is a number that went backwards (32 bits, and it wraps).
const GAP_LIMIT: u32 = 1 << 31;

/// The last number seen of each thread.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    last: HashMap<u64, u32>,
}

impl Sequences {
    /// Notes an event; answers how many of that thread are missing before it.
    pub(crate) fn event(&mut self, thread: u64, number: u32) -> Result<u64> {
        self.advance(thread, number, number.wrapping_sub(1))
    }

    /// Notes a sequence point: `number` is that of the thread's last event; answers how many are missing.
    pub(crate) fn point(&mut self, thread: u64, number: u32) -> Result<u64> {
        self.advance(thread, number, number)
    }

    fn advance(&mut self, thread: u64, number: u32, expected: u32) -> Result<u64> {
        // The numbers begin at 1.
        let last = self.last.insert(thread, number).unwrap_or(0);
        if self.last.len() > THREAD_LIMIT {
            return Err(Error::TooMany { what: "threads", limit: THREAD_LIMIT });
        }
        let missing = expected.wrapping_sub(last);
        Ok(if missing < GAP_LIMIT { missing.into() } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::Sequences;

    #[test]
    fn gaps_are_counted_per_thread_and_at_sequence_points() {
        let mut sequences = Sequences::default();
        assert_eq!(sequences.event(1, 1), Ok(0));
        assert_eq!(sequences.event(1, 4), Ok(2));
        assert_eq!(sequences.event(2, 1), Ok(0));
        assert_eq!(sequences.point(1, 9), Ok(5));
        assert_eq!(sequences.event(1, 10), Ok(0));
        assert_eq!(sequences.point(3, 7), Ok(7));
        assert_eq!(sequences.event(1, 3), Ok(0), "backwards is no gap");
    }
}
