//! Sums of equal samples: one for each thread, stack and state. Keeps weights exact, but not time order.

use remora_profile::{Profile, Sample, StackIx, State, ThreadIx};

/// All samples of one thread with one stack in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    pub thread: ThreadIx,
    pub stack: StackIx,
    pub state: State,
    /// Sum of the weights, nanoseconds.
    pub weight: u64,
    /// Number of samples.
    pub samples: u64,
}

impl Sum {
    /// A single sample.
    pub fn of(sample: &Sample) -> Sum {
        Sum { thread: sample.thread, stack: sample.stack, state: sample.state, weight: sample.weight, samples: 1 }
    }
}

/// The sums of `profile`, by thread, then by stack, running before blocked.
pub(crate) fn of(profile: &Profile) -> Vec<Sum> {
    let mut sums: Vec<Sum> = profile.samples().iter().map(Sum::of).collect();
    sums.sort_unstable_by_key(key);
    sums.dedup_by(|next, kept| {
        let same = key(next) == key(kept);
        if same {
            kept.weight += next.weight;
            kept.samples += next.samples;
        }
        same
    });
    sums
}

fn key(sum: &Sum) -> (ThreadIx, StackIx, bool) {
    (sum.thread, sum.stack, sum.state == State::Blocked)
}
