//! At which rate samples really came: told where it was lower than the one that was asked for.

use remora_profile::{Event, Profile};

/// From so many samples on, their rate is compared with the one that was asked for.
const TELLING_SAMPLES: u64 = 100;

/// A rate is told if it is less than this part of the one that was asked for.
const TELLING_PART: f64 = 0.8;

/// A note for people, if the rate was lower. What samples weigh is the time that they stand for, so it follows from the profile alone.
pub fn slower_than_asked(profile: &Profile) -> Option<String> {
    let (samples, asked) = (profile.loss.delivered, f64::from(profile.meta.frequency));
    let rate = samples as f64 * 1e9 / profile.total_weight() as f64;
    let of = match profile.meta.event {
        Event::Cpu => " of its processor time",
        Event::Wall => "",
    };
    (samples >= TELLING_SAMPLES && rate < asked * TELLING_PART).then(|| {
        format!(
            "each thread was sampled {rate:.1} times a second{of} on average, not {asked}: \
             the number of signals is limited, or processors were short; \
             times stay right, since each sample weighs the time that it stands for"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, Meta, Sample, State, Thread};

    fn told(event: Event, frequency: u32, samples: u64, weight: u64) -> Option<String> {
        let mut profile = Profile::new(Meta { event, frequency, ..Meta::default() });
        let thread = profile.add_thread(Thread { id: 1, name: String::new() });
        let name = profile.string("work");
        let frame = profile.frame(Frame::unknown(name));
        let stack = profile.stack(None, frame);
        for time in 0..samples {
            profile.add_sample(Sample { time, thread, stack, weight, state: State::Running });
        }
        profile.loss.delivered = samples;
        slower_than_asked(&profile)
    }

    #[test]
    fn a_lower_rate_is_told_with_the_one_that_was_asked_for() {
        let text = told(Event::Wall, 99, 200, 100_000_000).expect("10 a second");
        assert!(text.contains("10.0 times a second on average, not 99"), "{text}");
        let text = told(Event::Cpu, 1000, 200, 4_000_000).expect("250 a second");
        assert!(text.contains("250.0 times a second of its processor time on average, not 1000"), "{text}");
    }

    #[test]
    fn a_rate_as_asked_or_a_handful_of_samples_is_not() {
        assert_eq!(told(Event::Cpu, 99, 200, 10_101_010), None);
        assert_eq!(told(Event::Cpu, 99, 200, 1_000_000), None);
        assert_eq!(told(Event::Wall, 99, 99, 100_000_000), None);
        assert_eq!(told(Event::Wall, 99, 0, 0), None);
    }
}
