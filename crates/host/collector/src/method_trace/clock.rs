//! The target's monotonic clock as wall-clock time.

use crate::attach::monotonic;
use remora_attach::proc::Proc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall-clock time at the zero of the target's monotonic clock. Read once: if somebody sets the clock during the trace, calls keep their
/// distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WallClock {
    /// Nanoseconds since 1970.
    zero: i128,
}

impl WallClock {
    /// `sent`: the target's clock when it sent a message that came just now. In a time namespace of its own, its clock has another zero
    /// than ours, and only the message has both. The error is then the time that the message took.
    pub(super) fn read(process_id: u32, sent: u64) -> WallClock {
        if Proc::default().shares_clock(process_id) { own() } else { WallClock { zero: unix() - i128::from(sent) } }
    }

    /// Nanoseconds since 1970; `None` before that, which only a damaged time is.
    pub(super) fn at(self, monotonic: u64) -> Option<u64> {
        u64::try_from(self.zero + i128::from(monotonic)).ok()
    }
}

/// That of this process. Something else can run between two readings: the closest ones of several count.
fn own() -> WallClock {
    const READINGS: usize = 16;
    let reading = |_| {
        let (before, now, after) = (monotonic(), unix(), monotonic());
        (after - before, WallClock { zero: now - i128::from(before) })
    };
    let closest = (0..READINGS).map(reading).min_by_key(|(apart, _)| *apart);
    closest.map_or(WallClock { zero: 0 }, |(_, clock)| clock)
}

/// Nanoseconds since 1970.
fn unix() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_monotonic_clock_becomes_that_of_the_wall_clock() {
        let earlier = monotonic() - 1_000_000_000;
        let before = unix();
        // What was sent does not matter on the same clock.
        let clock = WallClock::read(std::process::id(), 5);
        let after = unix();
        let at = i128::from(clock.at(earlier + 1_000_000_000).expect("after 1970"));
        // `earlier` is from before the first reading, and nobody knows how long the thread waited between them.
        assert!(at <= after && at + 60_000_000_000 > before, "{before} {at} {after}");
        assert_eq!(clock.at(earlier).map(|time| i128::from(time) + 1_000_000_000), Some(at));
        assert_eq!(WallClock { zero: -5 }.at(4), None);
    }
}
