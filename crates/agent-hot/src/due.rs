//! Where in its processor time a thread is to be sampled: at points that are drawn beforehand.
//!
//! A timer on the clock runs on while its thread waits for a processor. Its signal then meets the thread just where the kernel has taken
//! the processor away: at a tick, or on the way out of a system call. A program would be shown as what it does at such moments. So a
//! signal that comes before its point is no sample: the timer is armed again for what is missing.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is missing to the point may be this part of the interval when a signal comes in time: interrupts take some of a thread's time.
const TOLERATED_PART: u64 = 16;

/// What may be missing in any case, nanoseconds: a thread is not met again sooner.
const SHORTEST: u64 = 20_000;

/// A signal that comes so much later than its timer was to fire has waited with its thread, nanoseconds.
const LATE: u64 = 100_000;

/// A thread that used less than this part of what was missing has not moved.
const UNMOVED_PART: u64 = 8;

/// Signals that may come too early for one sample: the next one is a sample wherever it meets the thread.
const MOST_EARLY: u32 = 8;

/// Signals one after another that find a thread unmoved, after which it is taken for one that sleeps.
const PATIENCE: u32 = 3;

/// The point of one thread. Written by the agent's thread before the thread's first signal, and then by the handler on that thread.
#[derive(Debug, Default)]
pub struct Due {
    at: AtomicU64,
    fires: AtomicU64,
    missing: AtomicU64,
    unmoved: AtomicU32,
    early: AtomicU32,
}

/// What a signal that comes too early finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Early {
    /// Whether the thread comes nearer to its point, so that the clock may go on.
    pub(crate) nearer: bool,
    /// What is missing to its point, nanoseconds.
    pub(crate) missing: u64,
}

impl Due {
    /// Sets the point, in nanoseconds of the thread's processor time; 0 for the first signal, whenever it comes.
    pub fn set(&self, at: u64) {
        self.at.store(at, Ordering::Relaxed);
        // Until it is said when the timer fires, no signal is late.
        self.fires.store(u64::MAX, Ordering::Relaxed);
        self.missing.store(0, Ordering::Relaxed);
        self.unmoved.store(0, Ordering::Relaxed);
        self.early.store(0, Ordering::Relaxed);
    }

    /// What is missing to the point at this processor time, nanoseconds.
    pub fn missing(&self, used: u64) -> u64 {
        self.at.load(Ordering::Relaxed).saturating_sub(used)
    }

    /// Told when a timer on the clock was armed that is to fire at this time, nanoseconds of the clock.
    pub(crate) fn fires_at(&self, time: u64) {
        self.fires.store(time, Ordering::Relaxed);
    }

    /// Told of each signal: what it finds if it comes too early. Less is tolerated of one that comes late: it meets the thread where
    /// that lost its processor, and not anywhere. A point that lies beyond the present interval was drawn for another, longer one.
    pub(crate) fn too_early(&self, used: u64, now: u64, interval: u64) -> Option<Early> {
        let missing = self.missing(used);
        let late = now > self.fires.load(Ordering::Relaxed).saturating_add(LATE);
        let tolerated = if late { SHORTEST } else { (interval / TOLERATED_PART).max(SHORTEST) };
        let of_this_interval = missing <= interval + interval / 2;
        if missing <= tolerated || !of_this_interval || self.early.fetch_add(1, Ordering::Relaxed) >= MOST_EARLY {
            return None;
        }
        Some(Early { nearer: self.comes_nearer(missing), missing })
    }

    fn comes_nearer(&self, missing: u64) -> bool {
        let before = self.missing.swap(missing, Ordering::Relaxed);
        let moved = before == 0 || before.saturating_sub(missing) >= before / UNMOVED_PART;
        let unmoved = if moved { 0 } else { self.unmoved.load(Ordering::Relaxed).saturating_add(1) };
        self.unmoved.store(unmoved, Ordering::Relaxed);
        unmoved < PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::jittered;

    const MILLISECOND: u64 = 1_000_000;

    /// Shares of weight by what `doing` says of a processor time, in a thread that runs and waits by turns.
    fn sampled(interval: u64, runs: u64, waits: u64, doing: impl Fn(u64) -> usize) -> [f64; 2] {
        let (due, random) = (Due::default(), AtomicU64::new(42));
        let (mut used, mut clock, mut accounted) = (0, 0, 0);
        let mut weights = [0; 2];
        let mut fires = interval;
        while used < 40_000 * interval {
            // One turn: signals within it come in time, one from before it at its beginning.
            let end = clock + runs;
            fires = fires.max(clock);
            while fires < end {
                used += fires - clock;
                clock = fires;
                let distance = due.too_early(used, clock, interval).map(|early| early.missing).unwrap_or_else(|| {
                    weights[doing(used)] += used - accounted;
                    accounted = used;
                    let distance = jittered(&random, interval);
                    due.set(used + distance);
                    distance
                });
                fires = clock + distance;
                due.fires_at(fires);
            }
            used += end - clock;
            clock = end + waits;
        }
        let all = weights.iter().sum::<u64>() as f64;
        weights.map(|weight| weight as f64 / all)
    }

    #[test]
    fn a_program_that_loses_its_processor_in_step_with_its_period_is_seen_as_it_is() {
        for period in [MILLISECOND / 2, 4 * MILLISECOND] {
            let first_quarter = |used: u64| usize::from(used % period >= period / 4);
            for (runs, waits) in [(4, 4), (4, 36), (8, 4), (12, 8), (2, 2), (3, 5)] {
                for interval in [MILLISECOND, 4 * MILLISECOND, 10 * MILLISECOND] {
                    let [share, _] = sampled(interval, runs * MILLISECOND, waits * MILLISECOND, first_quarter);
                    let right = (share - 0.25).abs() < 0.02;
                    assert!(right, "{share}: {runs} ms, then {waits} without, every {interval} ns, period {period} ns");
                }
            }
        }
    }

    #[test]
    fn one_that_never_waits_is_sampled_by_every_signal() {
        let due = Due::default();
        due.set(4 * MILLISECOND);
        due.fires_at(9 * MILLISECOND);
        let early = |used, now| due.too_early(used, now, 4 * MILLISECOND).map(|early| early.missing);
        assert_eq!(early(4 * MILLISECOND - 200_000, 9 * MILLISECOND), None, "interrupts took the rest");
        assert_eq!(early(4 * MILLISECOND - 200_000, 10 * MILLISECOND), Some(200_000), "it waited for a processor");
        assert_eq!(early(3 * MILLISECOND, 9 * MILLISECOND), Some(MILLISECOND));
        due.set(0);
        assert_eq!(early(1, 10 * MILLISECOND), None, "the first one");
    }

    #[test]
    fn a_point_of_a_longer_interval_is_not_waited_for() {
        let due = Due::default();
        due.set(1_500 * MILLISECOND);
        assert_eq!(due.too_early(MILLISECOND, 0, MILLISECOND), None);
    }

    #[test]
    fn one_that_loses_its_processor_again_and_again_is_sampled_in_the_end() {
        let due = Due::default();
        due.set(4 * MILLISECOND);
        let early = (0..100).take_while(|met| due.too_early(met * 300_000, 0, 4 * MILLISECOND).is_some()).count();
        assert_eq!(early, MOST_EARLY as usize);
    }

    #[test]
    fn one_that_does_not_move_is_given_up_after_some_signals() {
        let due = Due::default();
        due.set(MILLISECOND);
        let seen = [900_000, 890_000, 880_000, 870_000].map(|missing| due.comes_nearer(missing));
        assert_eq!(seen, [true, true, true, false]);
        assert!(due.comes_nearer(500_000), "it works again");
    }
}
