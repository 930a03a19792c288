//! Counts dropped events: every thread numbers its events, dropped ones included.

use crate::{Error, Result};
use std::collections::HashMap;

/// More threads than this in one stream are damage: Linux has at most 4 Mi at a time.
const THREAD_LIMIT: usize = 4 << 20;
/// A larger gap is a number that went backwards (32 bits, and it wraps).
const GAP_LIMIT: u32 = 1 << 31;

/// The last number of each thread.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    last: HashMap<u64, u32>,
}

impl Sequences {
    /// Records an event; returns the number of missing events of that thread before it.
    pub(crate) fn event(&mut self, thread: u64, number: u32) -> Result<u64> {
        self.advance(thread, number, number.wrapping_sub(1))
    }

    /// Records a sequence point with the number of the thread's last event; returns the number of missing events.
    pub(crate) fn point(&mut self, thread: u64, number: u32) -> Result<u64> {
        self.advance(thread, number, number)
    }

    fn advance(&mut self, thread: u64, number: u32, expected: u32) -> Result<u64> {
        // Numbers start at 1.
        let last = self.last.insert(thread, number).unwrap_or(0);
        Error::above(THREAD_LIMIT, self.last.len(), "threads")?;
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
