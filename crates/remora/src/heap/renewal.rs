//! When a watch whose picture is stale takes another snapshot, and when it is not worth another one.
//!
//! Each such snapshot is a full collection that the program stands for. One that loses something in every collection would make it stand so
//! every ten seconds, for ever, and would have a true picture never: so it is given up after a few pictures that did not hold, one behind
//! the other.

use std::time::{Duration, Instant};

/// Between two snapshots because something was lost: each of them stops the program for a whole collection.
const BETWEEN_SNAPSHOTS: Duration = Duration::from_secs(10);

/// Pictures in a row that did not hold for as long as that: then the watch ends.
pub(crate) const MOST_IN_A_ROW: u32 = 3;

/// What is to be done about a picture that is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing yet.
    Later,
    /// Another snapshot.
    Now,
    /// Nothing would come of it.
    GiveUp,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Renewal {
    /// When a snapshot was asked for last.
    asked: Instant,
    /// Since when its picture is kept.
    kept: Instant,
    /// Whether it was found to be stale.
    is_stale: bool,
    in_a_row: u32,
}

impl Renewal {
    /// The first snapshot is asked for now.
    pub(crate) fn new(now: Instant) -> Renewal {
        Renewal { asked: now, kept: now, is_stale: false, in_a_row: 0 }
    }

    /// A snapshot has ended: its picture, if it is one, is kept from now on.
    pub(crate) fn taken(&mut self, now: Instant) {
        (self.kept, self.is_stale) = (now, false);
    }

    /// Something was lost.
    pub(crate) fn stale(&mut self, now: Instant) -> Due {
        if !self.is_stale {
            self.is_stale = true;
            let has_held = now.duration_since(self.kept) >= BETWEEN_SNAPSHOTS;
            self.in_a_row = if has_held { 1 } else { self.in_a_row + 1 };
        }
        if self.in_a_row >= MOST_IN_A_ROW {
            return Due::GiveUp;
        }
        if now.duration_since(self.asked) < BETWEEN_SNAPSHOTS {
            return Due::Later;
        }
        self.asked = now;
        Due::Now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of pictures that each are stale so many seconds after they were taken, and are looked at every second.
    fn course(held: &[u64]) -> (usize, Option<Due>) {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let (mut renewal, mut now) = (Renewal::new(begun), 0);
        for (taken, held) in held.iter().enumerate() {
            renewal.taken(at(now));
            now += held;
            let due = loop {
                match renewal.stale(at(now)) {
                    Due::Later => now += 1,
                    due => break due,
                }
            };
            if due == Due::GiveUp {
                return (taken, Some(due));
            }
        }
        (held.len(), None)
    }

    #[test]
    fn a_picture_that_never_holds_is_given_up_and_one_that_is_lost_now_and_then_is_not() {
        for (held, expected) in [
            (&[0, 0, 0, 0][..], (2, Some(Due::GiveUp))),
            (&[9, 1, 5, 0], (2, Some(Due::GiveUp))),
            (&[10, 10, 10, 10, 10], (5, None)),
            (&[0, 0, 60, 0, 60, 0, 60], (7, None)),
            (&[0, 0, 60, 0, 0], (4, Some(Due::GiveUp))),
        ] {
            assert_eq!(course(held), expected, "{held:?}");
        }
    }

    #[test]
    fn no_two_snapshots_are_nearer_than_ten_seconds() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let mut renewal = Renewal::new(begun);
        renewal.taken(at(2));
        assert_eq!([3, 9, 10].map(|now| renewal.stale(at(now))), [Due::Later, Due::Later, Due::Now]);
        assert_eq!(renewal.stale(at(11)), Due::Later);
        // It was asked for at 10, and what it shows is there at 15.
        renewal.taken(at(15));
        assert_eq!([18, 20].map(|now| renewal.stale(at(now))), [Due::Later, Due::Now]);
    }
}
