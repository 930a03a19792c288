//! Samples in compact form: a long recording has millions, with few different stacks.

use crate::payload::Mode;
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};

/// The runtime cuts stacks at this many frames (`EP_MAX_STACK_DEPTH`). More are not kept.
pub(crate) const DEPTH_LIMIT: usize = 100;
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
    rounds: Rounds,
    stacks: Vec<Box<[u64]>>,
    stack_ids: HashMap<Box<[u64]>, u32>,
    addresses: usize,
}

impl Samples {
    /// Notes that the sampler visited a thread. Each visit counts, also one whose sample is not used: it ends the time of those before it.
    pub(crate) fn visit(&mut self, time: u64, thread: u32, interval: u64) -> Result<()> {
        Error::above(SAMPLE_LIMIT, self.rounds.starts.len() + 1, "rounds of the sampler")?;
        self.rounds.visit(time, thread, or_usual(interval));
        Ok(())
    }

    /// Adds the sample of the last visit.
    pub(crate) fn add(&mut self, time: u64, thread: u32, stack: &[u64], mode: Mode) -> Result<()> {
        Error::above(SAMPLE_LIMIT, self.all.len() + 1, "samples")?;
        let stack = &stack[..stack.len().min(DEPTH_LIMIT)];
        let stack = match self.stack_ids.get(stack) {
            Some(&known) => known,
            None => self.new_stack(stack)?,
        };
        self.all.push(RawSample { time, thread, stack, mode });
        Ok(())
    }

    fn new_stack(&mut self, stack: &[u64]) -> Result<u32> {
        self.addresses += stack.len();
        Error::above(ADDRESS_LIMIT, self.addresses, "addresses of different stacks")?;
        let id = self.stacks.len() as u32;
        self.stacks.push(stack.into());
        self.stack_ids.insert(stack.into(), id);
        Ok(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Rounds of the sampler.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.starts.len() as u64
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
        let starts = &mut self.rounds.starts;
        starts.sort_unstable();
        let mut lengths: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut sorted = lengths.clone();
        sorted.sort_unstable();
        let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(or_usual(interval));
        if dropped {
            for length in &mut lengths {
                *length = (*length).min(usual.saturating_mul(HOLE));
            }
        }
        // The time before the first round is unknown.
        lengths.insert(0, usual);
        let weigh = |sample: &RawSample| {
            let round = starts.partition_point(|start| *start <= sample.time).saturating_sub(1);
            (*sample, lengths[round].min(LONGEST))
        };
        self.all.iter().map(weigh).collect()
    }
}

fn or_usual(interval: u64) -> u64 {
    if interval == 0 { USUAL_INTERVAL } else { interval }
}

/// The rounds of the sampler. A round visits each thread once, then sleeps for the interval.
#[derive(Debug, Default)]
struct Rounds {
    /// When each began.
    starts: Vec<u64>,
    /// The threads of the last one.
    visited: HashSet<u32>,
    /// The last visit.
    last: u64,
}

impl Rounds {
    fn visit(&mut self, time: u64, thread: u32, interval: u64) {
        let slept = time.saturating_sub(self.last) > interval / 2;
        if self.starts.is_empty() || slept || self.visited.contains(&thread) {
            self.starts.push(time);
            self.visited.clear();
        }
        self.visited.insert(thread);
        self.last = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(times: &[(u64, u32)], dropped: bool) -> Vec<u64> {
        let mut samples = Samples::default();
        for &(time, thread) in times {
            samples.visit(time, thread, 1000).expect("there is room");
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
    fn a_hole_is_not_charged_to_the_next_sample() {
        let times = [(1000, 1), (2000, 1), (3000, 1), (503_000, 1)];
        assert_eq!(weights(&times, false), [1000, 1000, 1000, 500_000]);
        assert_eq!(weights(&times, true), [1000, 1000, 1000, 10_000]);
    }

    #[test]
    fn the_time_of_a_thread_that_waits_was_charged_to_its_next_managed_sample() {
        let mut samples = Samples::default();
        for round in 1..=50 {
            samples.visit(round * 1000, 1, 1000).expect("there is room");
            if round % 5 == 0 {
                samples.add(round * 1000, 1, &[1], Mode::Managed).expect("there is room");
            }
        }
        let weights: Vec<u64> = samples.weighted(1000, false).into_iter().map(|(_, weight)| weight).collect();
        assert_eq!((weights, samples.rounds()), (vec![1000; 10], 50));
    }

    #[test]
    fn out_of_order_and_empty_are_fine() {
        assert_eq!(weights(&[(2000, 1), (1000, 1)], false), [1000, 1000]);
        assert_eq!(weights(&[], true), []);
        assert_eq!(weights(&[(7, 1)], false), [1000]);
    }
}
