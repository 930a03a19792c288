//! The times of samples, for the timeline and for a choice of a range of time: the weight of each sum by slot of the recording.
//!
//! The script reads them only after the first view, so they are in an element at the end of the page.
//! The numbers follow the order of [`sums::of`](crate::sums::of). Each sum has the number of its slots, then for each slot:
//! - the distance to the slot before;
//! - except for the last slot, the number of samples and their weight in microseconds, rounded down.
//!
//! The last slot has the remainder of the sum.

use super::packed::Packed;
use crate::sums::Sum;
use remora_profile::{Profile, Sample, StackIx, State};
use serde::Serialize;
use std::io::{self, Write};

/// Maximum number of slots: a few pixels each, and a byte or two in the page.
const SLOTS_MAX: u64 = 240;
/// Minimum number of samples of a busy thread in a slot: fewer would show chance.
const SAMPLES_MIN: u64 = 4;

/// The equal parts of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Slots {
    count: u64,
    /// Nanoseconds.
    length: u64,
}

impl Slots {
    /// The slots of `profile`.
    pub fn of(profile: &Profile) -> Slots {
        let last = profile.samples().iter().map(|sample| sample.time).max().unwrap_or_default();
        let end = profile.meta.duration.max(last).max(1);
        let between_samples = 1_000_000_000 / u64::from(profile.meta.frequency.max(1));
        let count = (end / (SAMPLES_MIN * between_samples).max(1)).clamp(1, SLOTS_MAX);
        Slots { count, length: end.div_ceil(count) }
    }

    fn at(self, sample: &Sample) -> u64 {
        (sample.time / self.length).min(self.count - 1)
    }
}

/// Writes the times of `sums`, which are those of `profile`.
pub(super) fn write(profile: &Profile, sums: &[Sum], out: &mut dyn Write) -> io::Result<()> {
    let slots = Slots::of(profile);
    let mut samples: Vec<(&Sample, StackIx)> = profile.expanded_samples().collect();
    samples.sort_unstable_by_key(|(sample, expanded)| {
        (sample.thread, sample.stack, *expanded, sample.state == State::Blocked, slots.at(sample))
    });
    let mut rest = &samples[..];
    let mut packed = Packed::default();
    for sum in sums {
        let (mine, others) = rest.split_at(sum.samples as usize);
        rest = others;
        let parts: Vec<&[(&Sample, StackIx)]> =
            mine.chunk_by(|(one, _), (other, _)| slots.at(one) == slots.at(other)).collect();
        packed.number(parts.len() as u64);
        let mut before = 0;
        for (index, part) in parts.iter().enumerate() {
            let slot = slots.at(part[0].0);
            packed.number(slot - before);
            before = slot;
            if index + 1 < parts.len() {
                packed.number(part.len() as u64);
                packed.number(part.iter().map(|(sample, _)| sample.weight).sum::<u64>() / 1_000);
            }
        }
    }
    out.write_all(packed.base64().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums;
    use remora_profile::{Frame, Meta, Thread};

    #[test]
    fn slots_have_some_samples_each_and_are_no_more_than_can_be_seen() {
        let of = |frequency, duration| Slots::of(&Profile::new(Meta { frequency, duration, ..Meta::default() }));
        assert_eq!(of(100, 1_000_000_000), Slots { count: 25, length: 40_000_000 });
        assert_eq!(of(100, 60_000_000_000), Slots { count: 240, length: 250_000_000 });
        assert_eq!(of(0, 0), Slots { count: 1, length: 1 });
        assert_eq!(of(100, 7), Slots { count: 1, length: 7 });
    }

    #[test]
    fn a_sum_has_the_slots_of_its_samples_and_the_last_one_what_remains() {
        let mut profile = Profile::new(Meta { frequency: 40, duration: 1_000_000_000, ..Meta::default() });
        let thread = profile.add_thread(Thread { id: 1, name: String::new() });
        let name = profile.string("a");
        let frame = profile.frame(Frame::unknown(name));
        let stack = profile.stack(None, frame);
        for time in [950_000_000, 210_000_000, 200_000_000] {
            profile.add_sample(Sample { time, thread, stack, weight: 1_500_999, state: State::Running });
        }
        let (mut out, mut expected) = (Vec::new(), Packed::default());
        write(&profile, &sums::of(&profile), &mut out).expect("a vector takes all");
        // Two slots: the third (2) with two samples of 3,001 µs, and the tenth, seven further.
        [2, 2, 2, 3_001, 7].into_iter().for_each(|value| expected.number(value));
        assert_eq!(String::from_utf8_lossy(&out), expected.base64());
    }
}
