//! Scales running samples so that they add up to the CPU time used.
//!
//! A sample weighs the mean distance of two instants. Chance decides how many samples a thread really gets, and some instants give none:
//! the machine was late, or the thread had moved on. Each thread's own CPU clock gives the true sum.

use remora_profile::{LARGEST_SCALE, Profile, Sample, State, ThreadIx, UNSCALED};
use std::collections::HashMap;

/// A thread with this many samples is scaled to its own clock. With fewer, chance decides whether it has any: such threads are scaled
/// together, including those that ended or have none.
const ENOUGH: u64 = 16;

/// Where no thread is scaled to its own clock, the others are scaled up or down by this factor at most.
const MOST_TOGETHER: f64 = 4.0;

/// Chance explains this many standard deviations of a number of samples. CPU time beyond that belongs to unseen threads: no sample
/// includes it, and a note reports it.
const CHANCE: f64 = 3.0;

/// CPU time by the agent's clocks at their last reading, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// When they were read, in the time of samples.
    pub until: u64,
    /// Whether the recording had ended then.
    pub is_last: bool,
    /// By each thread that was followed.
    pub threads: HashMap<ThreadIx, u64>,
    /// By the process, without the agent's own threads.
    pub process: u64,
    /// By threads that cannot be followed.
    pub unfollowed: u64,
}

/// Scales the running samples. Samples after the reading of the clocks are scaled like those before. Without enough of those, scales nothing,
/// and returns false. If the sum would exceed `most` nanoseconds, the clocks make no sense: scales nothing, and returns false.
pub fn scale(profile: &mut Profile, used: &Used, most: u64) -> bool {
    let (mut sampled, mut all) = (vec![(0_u64, 0_u64); profile.threads().len()], vec![0_u64; profile.threads().len()]);
    for sample in profile.samples().iter().filter(|sample| sample.state == State::Running) {
        all[sample.thread.0 as usize] += sample.weight;
    }
    let before = |sample: &&Sample| sample.state == State::Running && sample.time <= used.until;
    for sample in profile.samples().iter().filter(before) {
        let (count, weight) = &mut sampled[sample.thread.0 as usize];
        *count += 1;
        *weight += sample.weight;
    }
    if !used.is_last && sampled.iter().map(|(count, _)| count).sum::<u64>() < ENOUGH {
        return false;
    }
    let own = |index: usize| {
        let (count, weight) = sampled[index];
        let used = *used.threads.get(&ThreadIx(index as u32))?;
        (count >= ENOUGH).then_some((used, weight))
    };
    let mut others = Sum { used: used.process.saturating_sub(used.unfollowed), ..Sum::default() };
    let mut scaled = Sum::default();
    for (index, (count, weight)) in sampled.iter().enumerate() {
        if let Some((used, _)) = own(index) {
            others.used = others.used.saturating_sub(used);
            (scaled.used, scaled.weight) = (scaled.used.saturating_add(used), scaled.weight + weight);
        } else {
            (others.count, others.weight) = (others.count + count, others.weight + weight);
        }
    }
    let together = together(&others, &scaled);
    let scales = (0..sampled.len()).map(|index| own(index).map_or(together, |(used, weight)| factor(used, weight)));
    let scales: Vec<u64> = scales.collect();
    let all = all.iter().zip(&scales).map(|(weight, factor)| u128::from(*weight) * u128::from(*factor));
    let makes_sense = all.sum::<u128>() / u128::from(UNSCALED) <= u128::from(most);
    if makes_sense {
        profile.scale_running(scales);
    }
    makes_sense
}

/// Samples of several threads, their weight, and the CPU time of these threads, nanoseconds.
#[derive(Debug, Default)]
struct Sum {
    count: u64,
    weight: u64,
    used: u64,
}

/// The factor of the threads not scaled to their own clock. It is about that of the others, which shows how many instants were missed.
fn together(others: &Sum, scaled: &Sum) -> u64 {
    let wanted = others.used as f64 / others.weight.max(1) as f64;
    let (expected, most) = match scaled.weight {
        0 => (1.0, MOST_TOGETHER),
        weight => (scaled.used as f64 / weight as f64, 1.0 + CHANCE / (others.count.max(1) as f64).sqrt()),
    };
    ((wanted.clamp(expected / most, expected * most) * UNSCALED as f64) as u64).min(LARGEST_SCALE)
}

fn factor(used: u64, weight: u64) -> u64 {
    let factor = u128::from(used) * u128::from(UNSCALED) / u128::from(weight.max(1));
    u64::try_from(factor).unwrap_or(LARGEST_SCALE).min(LARGEST_SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, Meta, Thread};

    /// Threads with these numbers of samples, of weight 10 each.
    fn profile(samples: &[u64]) -> Profile {
        let mut profile = Profile::new(Meta::default());
        let name = profile.string("work");
        let frame = profile.frame(Frame::unknown(name));
        let stack = profile.stack(None, frame);
        for (id, count) in samples.iter().enumerate() {
            let thread = profile.add_thread(Thread { id: id as u32, name: String::new() });
            for _ in 0..*count {
                profile.add_sample(Sample { time: 0, thread, stack, weight: 10, state: State::Running });
            }
        }
        profile
    }

    #[test]
    fn clocks_whose_sum_is_more_than_can_be_scale_nothing() {
        let mut profile = profile(&[20]);
        assert!(!scale(&mut profile, &used(&[(0, u64::MAX)], u64::MAX, 0), 1_000));
        assert_eq!((weights(&profile), profile.scales().len()), (vec![200], 0));
        assert!(scale(&mut profile, &used(&[(0, 900)], 900, 0), 1_000));
        assert_eq!(weights(&profile), [900]);
    }

    fn weights(profile: &Profile) -> Vec<u64> {
        let mut sums = vec![0; profile.threads().len()];
        profile.samples().iter().for_each(|sample| sums[sample.thread.0 as usize] += sample.weight);
        sums
    }

    fn used(threads: &[(u32, u64)], process: u64, unfollowed: u64) -> Used {
        let threads = threads.iter().map(|(index, used)| (ThreadIx(*index), *used)).collect();
        Used { until: 1_000, is_last: true, threads, process, unfollowed }
    }

    #[test]
    fn threads_with_enough_samples_get_what_their_clock_says_and_the_others_share_the_rest() {
        let mut profile = profile(&[100, 20, 3, 2]);
        // The last one has ended: only the process's clock includes its time.
        assert!(scale(&mut profile, &used(&[(0, 1_500), (1, 100), (2, 20)], 1_700, 0), u64::MAX));
        assert_eq!(weights(&profile), [1_500, 100, 60, 40]);
        assert_eq!(profile.total_weight(), 1_700);
    }

    #[test]
    fn samples_after_the_last_reading_are_scaled_as_those_before() {
        let mut profile = profile(&[20, 20]);
        let (thread, stack) = (ThreadIx(0), profile.samples()[0].stack);
        for time in [1_001, 1_002] {
            profile.add_sample(Sample { time, thread, stack, weight: 10, state: State::Running });
        }
        let used = Used { is_last: false, ..used(&[(0, 400), (1, 100)], 500, 0) };
        assert!(!scale(&mut profile, &used, 539), "what follows counts, too");
        assert!(scale(&mut profile, &used, 540));
        assert_eq!(weights(&profile), [440, 100]);
    }

    #[test]
    fn few_samples_before_the_last_reading_say_nothing_about_those_after_it() {
        let mut profile = profile(&[4]);
        let used = Used { is_last: false, ..used(&[], 5_000, 0) };
        assert!(!scale(&mut profile, &used, u64::MAX));
        assert_eq!(weights(&profile), [40]);
    }

    #[test]
    fn what_cannot_be_followed_or_was_never_met_is_not_given_to_others() {
        let mut followed = profile(&[100, 4]);
        assert!(scale(&mut followed, &used(&[(0, 1_000), (1, 40)], 5_000, 3_960), u64::MAX));
        assert_eq!(weights(&followed), [1_000, 40]);
        let mut unmet = profile(&[100, 4]);
        assert!(scale(&mut unmet, &used(&[(0, 1_000)], 5_000, 0), u64::MAX));
        assert_eq!(
            weights(&unmet),
            [1_000, 100],
            "two and a half times as much: chance does no more with four samples"
        );
        let mut nobody_is_sure = profile(&[4]);
        assert!(scale(&mut nobody_is_sure, &used(&[], 5_000, 0), u64::MAX));
        assert_eq!(weights(&nobody_is_sure), [160], "four times as much at most");
        assert!(scale(&mut profile(&[]), &used(&[], 0, 0), u64::MAX));
    }
}
