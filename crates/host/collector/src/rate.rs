//! Notes on the real sample rate, if it was lower than requested.

use remora_profile::{Event, Profile};
use remora_wire::layout;

/// A note reports a rate below this part of the requested one.
const TELLING_PART: f64 = 0.9;

/// The rate is checked only if at least this many instants were expected.
const TELLING_INSTANTS: f64 = 400.0;

/// A note reports left-out blocked samples if they are more than this part of the delivered ones.
const TELLING_LEFT_OUT: f64 = 0.01;

/// Notes on a low rate. `counter` reads the agent's counters.
pub fn notes(profile: &Profile, counter: impl Fn(usize) -> u64) -> Vec<String> {
    let (instants, asked) = (counter(layout::INSTANTS) as f64, f64::from(profile.meta.frequency));
    let rate = instants * 1e9 / profile.meta.duration.max(1) as f64;
    let mut notes = Vec::new();
    let expected = asked * profile.meta.duration as f64 / 1e9;
    if expected >= TELLING_INSTANTS && rate < asked * TELLING_PART {
        notes.push(format!(
            "the machine let the sampler look {rate:.0} times a second, not {asked}; times stay right, with fewer samples for them"
        ));
    }
    let left_out = counter(layout::OVER_BUDGET);
    if left_out as f64 > profile.loss.delivered as f64 * TELLING_LEFT_OUT {
        let part = left_out as f64 / left_out.saturating_add(profile.loss.delivered) as f64 * 100.0;
        let less_certain = if profile.meta.event == Event::Wall { ", so short waits are less certain" } else { "" };
        notes.push(format!(
            "threads were sampled less often than {asked} times a second, to stay within the signal budget: {part:.0} % of the samples \
             were left out; the others stand for more time{less_certain}; `--signal-budget` raises it"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::Meta;

    fn notes_of(event: Event, instants: u64, left_out: u64) -> Vec<String> {
        let meta = Meta { event, frequency: 100, duration: 10_000_000_000, ..Meta::default() };
        let mut profile = Profile::new(meta);
        profile.loss.delivered = 1000;
        notes(&profile, |which| match which {
            layout::INSTANTS => instants,
            layout::OVER_BUDGET => left_out,
            _ => 0,
        })
    }

    #[test]
    fn a_lower_rate_is_reported_with_the_one_that_was_asked_for() {
        let notes = notes_of(Event::Cpu, 500, 0);
        assert!(notes.len() == 1 && notes[0].contains("50 times a second, not 100"), "{notes:?}");
        assert_eq!(notes_of(Event::Cpu, 950, 0), Vec::<String>::new());
    }

    #[test]
    fn samples_that_the_budget_left_out_are_reported() {
        let notes = notes_of(Event::Wall, 1000, 20);
        assert!(notes.len() == 1 && notes[0].contains("less often than 100 times a second"), "{notes:?}");
        assert_eq!(notes_of(Event::Wall, 1000, 5), Vec::<String>::new());
        assert_eq!(notes_of(Event::Cpu, 1000, 20).len(), 1, "more threads ran than the budget allows");
    }
}
