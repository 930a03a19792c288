//! The loss account at the end of a recording: the agent's counters, missing samples, and the notes about them.

use crate::scaling::Used;
use remora_profile::{Loss, LossCause, Profile, Sample, State};
use remora_wire::layout;

/// A note needs more unsampled CPU time than this, nanoseconds.
const MISSING_TIME: u64 = 50_000_000;
/// A note also needs more than this part of the target's CPU time: one in 50.
const MISSING_PART: u64 = 50;

/// Adds the agent's counters to the account, and books samples that no counter covers. If something ended with samples on their way, that is
/// the cause. Otherwise it is a gap in our own account, and remains visible.
pub fn close(loss: &mut Loss, counter: impl Fn(usize) -> u64, early_end: Option<LossCause>) {
    loss.taken = counter(layout::TAKEN);
    loss.stray_signals = counter(layout::STRAY_SIGNALS);
    loss.moved_on = counter(layout::MOVED_ON);
    loss.lose(LossCause::RingFull, counter(layout::LOST_RING_FULL));
    loss.lose(LossCause::TransportFull, counter(layout::LOST_TRANSPORT_FULL));
    loss.lose(LossCause::ThreadSilent, counter(layout::LOST_THREAD_SILENT));
    let missing = loss.taken.saturating_sub(loss.delivered.saturating_add(loss.total_lost()));
    loss.lose(early_end.unwrap_or(LossCause::Unaccounted), missing);
}

/// Notes on the agent's counters. `early_unloads`: unload callbacks that the agent released too early.
pub fn notes(counter: impl Fn(usize) -> u64, early_unloads: u64) -> Vec<String> {
    let counted = [
        (
            counter(layout::THREADS_NOT_FOLLOWED),
            "threads could not be followed: they block every signal, or no slot was left",
        ),
        (
            counter(layout::LOST_DESCRIPTIONS),
            "descriptions were lost on the way: some names may be missing, and managed code may be shown as native",
        ),
        (
            counter(layout::FAILED_LOOKUPS),
            "look-ups of an address or a method failed in the runtime: that code is shown as native or as unnamed",
        ),
        (
            counter(layout::UNWIND_REFUSED),
            "unwind tables could not be used: stacks with code of the C library and others without frame pointers may be broken",
        ),
        (
            early_unloads,
            "unloads of code did not wait until all samples taken before them were looked up: \
             methods that were unloaded may be shown without their names, or as what took their place",
        ),
    ];
    let happened = counted.into_iter().filter(|(count, _)| *count > 0);
    happened.map(|(count, meaning)| format!("{count} {meaning}")).collect()
}

/// A note on the target's CPU time without a sample, with its cause.
pub fn unsampled(profile: &Profile, used: &Used) -> Option<String> {
    let is_counted = |sample: &&Sample| sample.state == State::Running && (used.is_last || sample.time <= used.until);
    let running = profile.samples().iter().filter(is_counted);
    let sampled = running.map(|sample| sample.weight).sum::<u64>();
    let missing = used.process.saturating_sub(sampled);
    let elsewhere = missing.saturating_sub(used.unfollowed);
    let is_reported = |time: u64| time > MISSING_TIME && time > used.process / MISSING_PART;
    let causes = [
        (used.unfollowed.min(missing), "in threads that cannot be followed"),
        (elsewhere, "in threads that ended before they could be sampled, or while the sampler had no CPU"),
    ];
    let causes: Vec<String> = causes
        .iter()
        .filter(|(time, _)| is_reported(*time))
        .map(|(time, why)| format!("{} {why}", shown(*time)))
        .collect();
    (is_reported(missing) && !causes.is_empty()).then(|| {
        format!(
            "{} of the target's {} of CPU time are in no sample: {}",
            shown(missing),
            shown(used.process),
            causes.join(", ")
        )
    })
}

/// A note needs more missed runs than this, and more than one in [`MISSED_PART`] of the attempts to sample a running thread.
const MISSED_RUNS: u64 = 20;
/// See [`MISSED_RUNS`]. Shares of `bursts sleep:1:-:8:Alpha*0.1+Beta*1` were off by less than a point with one in four missed.
const MISSED_PART: u64 = 3;

/// A note on threads that ran when the sampler looked, and had blocked before the signal arrived. `missed`: how often.
pub fn missed_runs(profile: &Profile, missed: u64) -> Option<String> {
    let taken = profile.samples().iter().filter(|sample| sample.state == State::Running).count() as u64;
    let attempts = taken.saturating_add(missed);
    (missed > MISSED_RUNS && missed > attempts / MISSED_PART).then(|| {
        format!(
            "{missed} of {attempts} attempts gave no sample: the thread had blocked again. Short runs may be shown too \
             small, long or spinning ones too large; a less busy machine helps"
        )
    })
}

/// The note for a recording whose CPU clocks were last read before its end.
pub fn read_early(profile: &Profile, used: &Used) -> String {
    let last = profile.samples().iter().map(|sample| sample.time).max().unwrap_or(used.until);
    format!(
        "the CPU clocks of the target could not be read at the end: the times of the last {} are scaled like those before",
        shown(last.saturating_sub(used.until))
    )
}

/// The note for a recording without a reading of CPU clocks.
pub const NOT_SCALED: &str = "the CPU clocks of the target could not be read at the end: times are the number of samples by the \
     mean distance of instants, and are too small where instants were missed";

fn shown(nanoseconds: u64) -> String {
    format!("{:.2} s", nanoseconds as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, Meta, Thread};

    /// Ten samples begun, five delivered, three lost: two are missing.
    fn with_a_hole(early_end: Option<LossCause>) -> Loss {
        let mut loss = Loss { delivered: 5, ..Loss::default() };
        let counter = |which| match which {
            layout::TAKEN => 10,
            layout::LOST_RING_FULL => 2,
            layout::LOST_THREAD_SILENT => 1,
            layout::STRAY_SIGNALS => 4,
            _ => 0,
        };
        close(&mut loss, counter, early_end);
        loss
    }

    #[test]
    fn a_hole_in_the_account_is_an_early_end_only_if_there_was_one() {
        for early_end in [Some(LossCause::TargetEnded), Some(LossCause::CutShort), None] {
            let loss = with_a_hole(early_end);
            assert_eq!(loss.lost.last(), Some(&(early_end.unwrap_or(LossCause::Unaccounted), 2)));
            assert!(loss.adds_up() && loss.stray_signals == 4);
        }
    }

    #[test]
    fn each_counter_that_is_not_zero_is_reported_in_words() {
        assert_eq!(notes(|_| 0, 0), Vec::<String>::new());
        let only = |wanted| notes(move |which| if which == wanted { 7 } else { 0 }, 0);
        for (which, word) in [
            (layout::THREADS_NOT_FOLLOWED, "followed"),
            (layout::LOST_DESCRIPTIONS, "descriptions"),
            (layout::FAILED_LOOKUPS, "look-ups"),
            (layout::UNWIND_REFUSED, "unwind"),
        ] {
            let lines = only(which);
            assert!(lines.len() == 1 && lines[0].starts_with("7 ") && lines[0].contains(word), "{lines:?}");
        }
        let lines = notes(|_| 0, 3);
        assert!(lines.len() == 1 && lines[0].starts_with("3 unloads"), "{lines:?}");
    }

    #[test]
    fn runs_that_ended_before_the_signal_are_reported_when_they_are_many() {
        let text = missed_runs(&sampled(100), 60).expect("60 of 160");
        assert!(text.starts_with("60 of 160 attempts gave no sample"), "{text}");
        assert_eq!(missed_runs(&sampled(100), 49), None, "less than a third");
        assert_eq!(missed_runs(&sampled(10), 15), None, "few");
    }

    /// A profile with this much sampled, in milliseconds.
    fn sampled(milliseconds: u64) -> Profile {
        let mut profile = Profile::new(Meta::default());
        let name = profile.string("work");
        let frame = profile.frame(Frame::unknown(name));
        let stack = profile.stack(None, frame);
        let thread = profile.add_thread(Thread { id: 1, name: String::new() });
        for time in 0..milliseconds {
            profile.add_sample(Sample { time, thread, stack, weight: 1_000_000, state: State::Running });
            profile.add_sample(Sample { time, thread, stack, weight: 9_000_000, state: State::Blocked });
        }
        profile
    }

    fn note(milliseconds: u64, process: u64, unfollowed: u64) -> Option<String> {
        let used =
            Used { process: process * 1_000_000, unfollowed: unfollowed * 1_000_000, is_last: true, ..Used::default() };
        unsampled(&sampled(milliseconds), &used)
    }

    #[test]
    fn cpu_time_that_is_in_no_sample_is_reported_with_its_cause() {
        let text = note(600, 1000, 0).expect("400 ms are missing");
        assert!(
            text.starts_with(
                "0.40 s of the target's 1.00 s of CPU time are in no sample: 0.40 s in threads that ended"
            ),
            "{text}"
        );
        let text = note(600, 1000, 390).expect("400 ms are missing");
        assert!(text.ends_with("in no sample: 0.39 s in threads that cannot be followed"), "{text}");
        assert_eq!(note(990, 1000, 0), None, "one of a hundred");
        assert_eq!(note(60, 100, 0), None, "little time");
        assert_eq!(note(1000, 900, 0), None);
    }
}
