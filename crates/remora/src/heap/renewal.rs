//! Decides when a watch with a stale heap mirror takes another snapshot, and when it gives up.
//!
//! Each snapshot pauses the application for a full GC. A watch that loses events in every GC would cause such a pause every ten seconds,
//! forever, and never have a valid mirror. So the watch gives up after several short-lived mirrors in a row.

use std::time::{Duration, Instant};

/// Minimum time between two snapshots after a loss: each pauses the application for a full GC.
const BETWEEN_SNAPSHOTS: Duration = Duration::from_secs(10);

/// After this many mirrors in a row that became stale within that time, the watch ends.
pub(crate) const MOST_IN_A_ROW: u32 = 3;

/// The reaction to a stale mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing yet.
    Later,
    /// Another snapshot.
    Now,
    /// Another snapshot would not help.
    GiveUp,
}

/// The state of that decision.
#[derive(Debug)]
pub(crate) struct Renewal {
    /// When the last snapshot was requested.
    asked: Instant,
    /// When the current mirror began.
    kept: Instant,
    /// Whether the mirror is stale.
    is_stale: bool,
    in_a_row: u32,
}

impl Renewal {
    /// The first snapshot is requested now.
    pub(crate) fn new(now: Instant) -> Renewal {
        Renewal { asked: now, kept: now, is_stale: false, in_a_row: 0 }
    }

    /// A snapshot ended: its mirror, if valid, begins now.
    pub(crate) fn taken(&mut self, now: Instant) {
        (self.kept, self.is_stale) = (now, false);
    }

    /// Events were lost.
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

    /// Simulates mirrors that each become stale after the given seconds, checked every second.
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
    fn a_mirror_that_is_always_stale_is_abandoned_and_one_that_is_sometimes_stale_is_not() {
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
        // Requested at 10, complete at 15.
        renewal.taken(at(15));
        assert_eq!([18, 20].map(|now| renewal.stale(at(now))), [Due::Later, Due::Now]);
    }
}
