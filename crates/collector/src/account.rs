//! The end of the account: what the agent has counted, what is missing, and what a reader should be told of it.

use remora_profile::{Event, Loss, LossCause, Profile};
use remora_wire::layout;

/// Processor time that may be in no sample before that is told, nanoseconds: starting and leaving take some.
const MISSING_TIME: u64 = 200_000_000;
/// Part of the target's processor time that may be in no sample before that is told.
const MISSING_PART: f64 = 0.1;

/// Takes over what the agent has counted, and books what is in no account: where the target ended with samples on their way,
/// that is why; anywhere else it is a hole in our own account, and stays visible as one.
pub fn close(loss: &mut Loss, counter: impl Fn(usize) -> u64, target_ended: bool) {
    loss.taken = counter(layout::TAKEN);
    loss.stray_signals = counter(layout::STRAY_SIGNALS);
    loss.lose(LossCause::RingFull, counter(layout::LOST_RING_FULL));
    loss.lose(LossCause::TransportFull, counter(layout::LOST_TRANSPORT_FULL));
    loss.lose(LossCause::ThreadSilent, counter(layout::LOST_THREAD_SILENT));
    let missing = loss.taken.saturating_sub(loss.delivered + loss.total_lost());
    loss.lose(if target_ended { LossCause::TargetEnded } else { LossCause::Unaccounted }, missing);
}

/// What the agent's counters mean for a reader of the names. `impatient_unloads` are callbacks that were let go too early.
pub fn notes(counter: impl Fn(usize) -> u64, impatient_unloads: u64) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |count: u64, meaning: &str| {
        if count > 0 {
            notes.push(format!("{count} {meaning}"));
        }
    };
    note(
        counter(layout::THREADS_NOT_FOLLOWED),
        "threads could not be followed: they block every signal, or no timer or no slot was left",
    );
    note(
        counter(layout::LOST_DESCRIPTIONS),
        "descriptions were lost on the way: some names may be missing, and managed code may be shown as native",
    );
    note(
        counter(layout::FAILED_LOOKUPS),
        "look-ups of an address or a method failed in the runtime: that code is shown as native or as unnamed",
    );
    note(
        counter(layout::UNWIND_REFUSED),
        "unwind tables could not be used: stacks with code of the C library and others without frame pointers may be broken",
    );
    note(
        impatient_unloads,
        "unloads of code did not wait until all samples taken before them were looked up: \
         methods that were unloaded may be shown without their names, or as what took their place",
    );
    notes
}

/// Tells of processor time that the target used and no sample stands for, if it is more than what a sampler always misses.
///
/// A thread that was sampled may have run on for one interval after its last sample, and what was lost had its weight, too.
pub fn unsampled(profile: &Profile) -> Option<String> {
    let meta = &profile.meta;
    let used = meta.target_cpu.filter(|_| meta.event == Event::Cpu)?;
    let sampled = profile.total_weight();
    let missing = used.saturating_sub(sampled);
    let last_intervals = profile.threads().len() as u64 * (1_000_000_000 / u64::from(meta.frequency.max(1)));
    let mean = sampled / (profile.samples().len() as u64).max(1);
    let lost = profile.loss.total_lost().saturating_mul(mean);
    let unexplained = missing.saturating_sub(last_intervals).saturating_sub(lost);
    (unexplained > MISSING_TIME && unexplained as f64 > used as f64 * MISSING_PART).then(|| {
        format!(
            "{} of the target's {} of processor time are in no sample: threads that ended before they could be sampled, \
             or that could not be followed",
            shown(missing),
            shown(used)
        )
    })
}

fn shown(nanoseconds: u64) -> String {
    format!("{:.1} s", nanoseconds as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, Meta, Sample, State, Thread};

    /// Ten samples begun, five delivered, three lost: two are missing.
    fn with_a_hole(target_ended: bool) -> Loss {
        let mut loss = Loss { delivered: 5, ..Loss::default() };
        let counter = |which| match which {
            layout::TAKEN => 10,
            layout::LOST_RING_FULL => 2,
            layout::LOST_THREAD_SILENT => 1,
            layout::STRAY_SIGNALS => 4,
            _ => 0,
        };
        close(&mut loss, counter, target_ended);
        loss
    }

    #[test]
    fn a_hole_in_the_account_is_the_targets_end_only_if_it_ended() {
        let loss = with_a_hole(true);
        assert_eq!(loss.lost.last(), Some(&(LossCause::TargetEnded, 2)));
        assert!(loss.adds_up() && loss.stray_signals == 4);
        let loss = with_a_hole(false);
        assert_eq!(loss.lost.last(), Some(&(LossCause::Unaccounted, 2)));
        assert!(loss.adds_up());
    }

    #[test]
    fn each_counter_that_is_not_zero_is_told_in_words() {
        assert_eq!(notes(|_| 0, 0), Vec::<String>::new());
        let only = |wanted| notes(move |which| if which == wanted { 7 } else { 0 }, 0);
        for (which, word) in [
            (layout::THREADS_NOT_FOLLOWED, "followed"),
            (layout::LOST_DESCRIPTIONS, "descriptions"),
            (layout::FAILED_LOOKUPS, "look-ups"),
            (layout::UNWIND_REFUSED, "unwind"),
        ] {
            let told = only(which);
            assert!(told.len() == 1 && told[0].starts_with("7 ") && told[0].contains(word), "{told:?}");
        }
        let told = notes(|_| 0, 3);
        assert!(told.len() == 1 && told[0].starts_with("3 unloads"), "{told:?}");
    }

    /// A profile of two threads with this much sampled, in milliseconds, of what the target used.
    fn sampled(event: Event, sampled: u64, used: u64) -> Profile {
        let meta = Meta { event, frequency: 100, target_cpu: Some(used * 1_000_000), ..Meta::default() };
        let mut profile = Profile::new(meta);
        let name = profile.string("work");
        let frame = profile.frame(Frame::unknown(name));
        let stack = profile.stack(None, frame);
        for id in 0..2 {
            let thread = profile.add_thread(Thread { id, name: String::new() });
            for time in 0..sampled / 20 {
                profile.add_sample(Sample { time, thread, stack, weight: 10_000_000, state: State::Running });
            }
        }
        profile
    }

    #[test]
    fn processor_time_that_is_in_no_sample_is_told() {
        let text = unsampled(&sampled(Event::Cpu, 600, 1000)).expect("400 ms are missing");
        assert!(text.starts_with("0.4 s of the target's 1.0 s of processor time are in no sample"), "{text}");
        // A tenth of a long recording, or little time, or another measure, or none at all.
        assert_eq!(unsampled(&sampled(Event::Cpu, 9_100, 10_000)), None);
        assert_eq!(unsampled(&sampled(Event::Cpu, 100, 300)), None);
        assert_eq!(unsampled(&sampled(Event::Wall, 600, 1000)), None);
        let mut untold = sampled(Event::Cpu, 600, 1000);
        untold.meta.target_cpu = None;
        assert_eq!(unsampled(&untold), None);
    }

    #[test]
    fn what_was_lost_or_came_after_the_last_sample_is_no_time_that_nobody_saw() {
        let mut lossy = sampled(Event::Cpu, 600, 1000);
        lossy.loss.lose(LossCause::RingFull, 30);
        assert_eq!(unsampled(&lossy), None);
        let mut slow = sampled(Event::Cpu, 600, 2600);
        slow.meta.frequency = 1;
        assert_eq!(unsampled(&slow), None);
    }
}
