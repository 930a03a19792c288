//! Samples in compact form: a long recording has millions, with few different stacks.

use crate::payload::Mode;
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};

/// Maximum samples: nine hours of one thread at 1,000 a second.
const SAMPLE_LIMIT: usize = 32 << 20;
/// Maximum addresses of all different stacks (256 MiB).
const ADDRESS_LIMIT: usize = 32 << 20;
/// The interval if the stream has none, nanoseconds.
const USUAL_INTERVAL: u64 = 1_000_000;
/// If samples were dropped, an interval this many times the usual one counts as a gap.
const HOLE: u64 = 10;

/// Maximum weight of a sample (4.6 minutes), so that sums of invalid times cannot overflow.
const LONGEST: u64 = 1 << 38;

/// One sample of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawSample {
    pub(crate) time: u64,
    pub(crate) thread: u32,
    pub(crate) stack: u32,
    pub(crate) mode: Mode,
}

/// All samples, and their stacks, each once.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    all: Vec<RawSample>,
    stacks: Vec<Box<[u64]>>,
    stack_ids: HashMap<Box<[u64]>, u32>,
    addresses: usize,
}

impl Samples {
    pub(crate) fn add(&mut self, time: u64, thread: u32, stack: &[u64], mode: Mode) -> Result<()> {
        if self.all.len() >= SAMPLE_LIMIT {
            return Err(Error::TooMany { what: "samples", limit: SAMPLE_LIMIT });
        }
        let stack = match self.stack_ids.get(stack) {
            Some(&known) => known,
            None => self.new_stack(stack)?,
        };
        self.all.push(RawSample { time, thread, stack, mode });
        Ok(())
    }

    fn new_stack(&mut self, stack: &[u64]) -> Result<u32> {
        self.addresses += stack.len();
        if self.addresses > ADDRESS_LIMIT {
            return Err(Error::TooMany { what: "addresses of different stacks", limit: ADDRESS_LIMIT });
        }
        let id = self.stacks.len() as u32;
        self.stacks.push(stack.into());
        self.stack_ids.insert(stack.into(), id);
        Ok(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The addresses of a stack, leaf first.
    pub(crate) fn stack(&self, id: u32) -> &[u64] {
        &self.stacks[id as usize]
    }

    /// All samples in time order, each weighted with the nanoseconds since the sampler's previous round.
    /// The thread's own previous sample does not count: a thread outside managed code has no samples, and did not wait at its next sampled
    /// place.
    pub(crate) fn weighted(&mut self, interval: u64, dropped: bool) -> Vec<(RawSample, u64)> {
        self.all.sort_by_key(|sample| sample.time);
        let interval = if interval == 0 { USUAL_INTERVAL } else { interval };
        let rounds = rounds(&self.all, interval);
        let mut lengths: Vec<u64> =
            rounds.windows(2).map(|pair| self.all[pair[1]].time - self.all[pair[0]].time).collect();
        let mut sorted = lengths.clone();
        sorted.sort_unstable();
        let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(interval);
        if dropped {
            for length in &mut lengths {
                *length = (*length).min(usual.saturating_mul(HOLE));
            }
        }
        // The time before the first round is unknown.
        lengths.insert(0, usual);
        let mut round = 0;
        let weigh = |(index, sample): (usize, &RawSample)| {
            if rounds.get(round + 1).is_some_and(|&next| next <= index) {
                round += 1;
            }
            (*sample, lengths[round].min(LONGEST))
        };
        self.all.iter().enumerate().map(weigh).collect()
    }
}

/// Start of each sampler round. A round visits each thread once, then sleeps for the interval.
fn rounds(samples: &[RawSample], interval: u64) -> Vec<usize> {
    let mut rounds = Vec::new();
    let mut visited = HashSet::new();
    let mut last = 0;
    for (index, sample) in samples.iter().enumerate() {
        let slept = sample.time.saturating_sub(last) > interval / 2;
        if index == 0 || slept || visited.contains(&sample.thread) {
            rounds.push(index);
            visited.clear();
        }
        visited.insert(sample.thread);
        last = sample.time;
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(times: &[(u64, u32)], dropped: bool) -> Vec<u64> {
        let mut samples = Samples::default();
        for &(time, thread) in times {
            samples.add(time, thread, &[1], Mode::Managed).expect("there is room");
        }
        samples.weighted(1000, dropped).into_iter().map(|(_, weight)| weight).collect()
    }

    #[test]
    fn a_sample_stands_for_the_time_since_the_round_before() {
        let times = [(1000, 1), (1010, 2), (2000, 1), (2010, 2), (4000, 1), (5000, 1), (5010, 2)];
        // Thread 2 was absent in the third round, and is not charged for it.
        assert_eq!(weights(&times, false), [1000, 1000, 1000, 1000, 2000, 1000, 1000]);
    }

    #[test]
    fn a_hole_is_not_charged_to_whoever_comes_after_it() {
        let times = [(1000, 1), (2000, 1), (3000, 1), (503_000, 1)];
        assert_eq!(weights(&times, false), [1000, 1000, 1000, 500_000]);
        assert_eq!(weights(&times, true), [1000, 1000, 1000, 10_000]);
    }

    #[test]
    fn out_of_order_and_empty_are_fine() {
        assert_eq!(weights(&[(2000, 1), (1000, 1)], false), [1000, 1000]);
        assert_eq!(weights(&[], true), []);
        assert_eq!(weights(&[(7, 1)], false), [1000]);
    }
}
