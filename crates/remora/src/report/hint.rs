//! What to try next, if a recording shows little.

use crate::console::percent;
use remora_profile::{Event, Profile};

/// What to try, if the program hardly ran.
pub(super) fn hint(profile: &Profile) -> Option<String> {
    /// One part in 20 of a CPU; or in 4, if most attempts found a thread that had blocked again.
    const IDLE: u64 = 20;
    const SELDOM: u64 = 4;
    let meta = &profile.meta;
    let used = meta.target_cpu.filter(|_| meta.event == Event::Cpu)?;
    let blocks_again = profile.loss.moved_on > profile.samples().len() as u64;
    let part = if blocks_again { SELDOM } else { IDLE };
    (used.saturating_mul(part) < meta.duration).then(|| {
        format!("the process used {} of a CPU; -e wall shows what its threads wait for", percent(used, meta.duration))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::Meta;

    #[test]
    fn a_program_that_hardly_runs_gets_a_hint_to_measure_its_waits() {
        let hinted =
            |event, used, duration| hint(&Profile::new(Meta { event, target_cpu: used, duration, ..Meta::default() }));
        let text = "the process used 4.0% of a CPU; -e wall shows what its threads wait for";
        assert_eq!(hinted(Event::Cpu, Some(4), 100).as_deref(), Some(text));
        assert_eq!(hinted(Event::Cpu, Some(5), 100), None);
        assert_eq!(hinted(Event::Wall, Some(0), 100), None);
        assert_eq!(hinted(Event::Cpu, None, 100), None, "unknown");
        assert_eq!(hinted(Event::Cpu, Some(0), 0), None, "no time");
        for (used, expected) in [(24, true), (25, false)] {
            let mut profile = Profile::new(Meta { target_cpu: Some(used), duration: 100, ..Meta::default() });
            profile.loss.moved_on = 1;
            assert_eq!(hint(&profile).is_some(), expected, "its threads blocked again, and it used {used}%");
        }
    }
}
