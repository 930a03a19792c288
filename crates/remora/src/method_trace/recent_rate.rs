//! Calls a second, of the last seconds: an average of the whole trace would hide what happens now.

use std::collections::VecDeque;
use std::time::Duration;

/// How far back the rate reaches.
const REACH: Duration = Duration::from_secs(3);

/// Counters that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    pub(super) calls: u64,
    /// How often a pair of probes ran.
    pub(super) probed: u64,
}

/// The readings of the last seconds.
#[derive(Debug)]
pub(super) struct RecentRate {
    readings: VecDeque<(Duration, Counted)>,
}

impl RecentRate {
    /// At the begin of the trace, without calls.
    pub(super) fn new() -> RecentRate {
        RecentRate { readings: VecDeque::from([(Duration::ZERO, Counted::default())]) }
    }

    /// Takes a reading. Returns calls and probes a second.
    pub(super) fn take(&mut self, now: Duration, counted: Counted) -> (f64, f64) {
        // The last reading that is old enough stays: the rate is of no less than that time.
        while self.readings.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= REACH) {
            self.readings.pop_front();
        }
        self.readings.push_back((now, counted));
        let (since, before) = self.readings[0];
        let seconds = now.saturating_sub(since).as_secs_f64().max(1e-9);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        (rate(counted.calls, before.calls), rate(counted.probed, before.probed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut recent = RecentRate::new();
        let mut take = |second, calls| recent.take(Duration::from_secs(second), Counted { calls, probed: 2 * calls });
        assert_eq!(take(1, 100), (100.0, 200.0));
        assert_eq!(take(2, 200), (100.0, 200.0));
        // A pause.
        for second in 3..=4 {
            take(second, 200);
        }
        assert_eq!(take(5, 200), (0.0, 0.0));
        assert_eq!(take(6, 3200), (1000.0, 2000.0));
    }
}
