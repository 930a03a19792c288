//! Sums of equal samples: one for each thread, stack, expanded stack and state. Keeps weights exact, but not time order.

use remora_profile::{Profile, Sample, StackIx, State, ThreadIx};

/// All samples of one thread with one stack in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    pub thread: ThreadIx,
    pub stack: StackIx,
    /// The stack with every frame of the runtime.
    pub expanded: StackIx,
    pub state: State,
    /// Sum of the weights, nanoseconds.
    pub weight: u64,
    /// Number of samples.
    pub samples: u64,
}

impl Sum {
    /// A single sample, with its expanded stack.
    pub fn of(sample: &Sample, expanded: StackIx) -> Sum {
        let &Sample { thread, stack, state, weight, .. } = sample;
        Sum { thread, stack, expanded, state, weight, samples: 1 }
    }
}

/// The sums of `profile`, by thread, then by stack, then by expanded stack, running before blocked.
pub(crate) fn of(profile: &Profile) -> Vec<Sum> {
    let mut sums: Vec<Sum> = profile.expanded_samples().map(|(sample, expanded)| Sum::of(sample, expanded)).collect();
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

fn key(sum: &Sum) -> (ThreadIx, StackIx, StackIx, bool) {
    (sum.thread, sum.stack, sum.expanded, sum.state == State::Blocked)
}
