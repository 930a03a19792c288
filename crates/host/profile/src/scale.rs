//! Scales weights so that they add up to the threads' own clocks.

use crate::{Profile, State};

/// One, as a factor of [`Profile::scale_running`].
pub const UNSCALED: u64 = 1_000_000;

/// The largest factor. A larger one would not be a correction.
pub const LARGEST_SCALE: u64 = 1_000 * UNSCALED;

/// The largest weight of a scaled sample, nanoseconds.
const LARGEST_WEIGHT: u64 = 1 << 62;

impl Profile {
    /// Multiplies the weights of running samples by a factor for each thread. Factors are in millionths, in the order of the
    /// threads, and capped at [`LARGEST_SCALE`]. A thread beyond the list keeps its weights.
    ///
    /// Samples written before hold other weights: [`Profile::scales`] gives the missing factors.
    pub fn scale_running(&mut self, scales: Vec<u64>) {
        for sample in self.samples.iter_mut().filter(|sample| sample.state == State::Running) {
            let factor = scales.get(sample.thread.0 as usize).map_or(UNSCALED, |factor| (*factor).min(LARGEST_SCALE));
            let scaled = u128::from(sample.weight) * u128::from(factor) / u128::from(UNSCALED);
            sample.weight = u64::try_from(scaled).unwrap_or(u64::MAX).min(LARGEST_WEIGHT);
        }
        self.scales = scales;
    }

    /// The factors applied to weights; empty if none.
    pub fn scales(&self) -> &[u64] {
        &self.scales
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, Meta, Sample, Thread};

    #[test]
    fn running_samples_of_each_thread_get_its_factor() {
        let mut profile = Profile::new(Meta::default());
        let name = profile.string("work");
        let frame = profile.frame(Frame::unknown(name));
        let stack = profile.stack(None, frame);
        for id in 0..3 {
            let thread = profile.add_thread(Thread { id, name: String::new() });
            for state in [State::Running, State::Blocked] {
                profile.add_sample(Sample { time: 0, thread, stack, weight: 1_000, state });
            }
        }
        profile.scale_running(vec![UNSCALED / 2, 3 * UNSCALED]);
        let weights: Vec<u64> = profile.samples().iter().map(|sample| sample.weight).collect();
        assert_eq!(weights, [500, 1_000, 3_000, 1_000, 1_000, 1_000]);
        profile.scale_running(vec![u64::MAX]);
        assert_eq!(profile.samples()[0].weight, 500_000);
    }
}
