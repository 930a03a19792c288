//! A profile's origin and losses as lines, for formats that have only comments for them.

use remora_profile::{Loss, Profile};

/// One line each: the recording, the account of samples, the notes.
pub(crate) fn lines(profile: &Profile) -> Vec<String> {
    let meta = &profile.meta;
    let mut lines = vec![format!("application: {} (pid {}), {}", meta.application, meta.process_id, meta.runtime)];
    if !meta.command_line.is_empty() {
        lines.push(format!("command line: {}", meta.command_line));
    }
    lines.push(format!("event: {} ({}), {} Hz, by {}", meta.name(), meta.meaning(), meta.frequency, meta.engine));
    lines.push(samples(&profile.loss));
    lines.push(stacks(&profile.loss));
    lines.extend(meta.notes.iter().map(|note| format!("note: {note}")));
    lines
}

/// `12 of 100 samples lost`, or `None` without loss.
pub(crate) fn short_loss(loss: &Loss) -> Option<String> {
    (loss.total_lost() > 0).then(|| format!("{} of {} samples lost", loss.total_lost(), loss.taken))
}

/// Number of taken samples neither delivered nor counted as lost; 0 if the account adds up.
pub(crate) fn unaccounted(loss: &Loss) -> i128 {
    i128::from(loss.taken) - i128::from(loss.delivered) - i128::from(loss.total_lost())
}

fn samples(loss: &Loss) -> String {
    let mut text = format!("samples: {} taken = {} delivered", loss.taken, loss.delivered);
    for (cause, count) in &loss.lost {
        text.push_str(&format!(" + {count} lost ({}: {})", cause.name(), cause.meaning()));
    }
    if !loss.adds_up() {
        text.push_str(&format!(" + {} unaccounted for", unaccounted(loss)));
    }
    text
}

fn stacks(loss: &Loss) -> String {
    format!(
        "stacks: {} truncated, {} broken, {} incomplete, {} repaired, {} repeated; {} stray signals",
        loss.truncated_stacks,
        loss.broken_stacks,
        loss.incomplete_stacks,
        loss.repaired_stacks,
        loss.repeated_stacks,
        loss.stray_signals
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::LossCause;

    #[test]
    fn the_account_names_each_cause_and_what_does_not_add_up() {
        let mut loss = Loss { taken: 10, delivered: 7, ..Loss::default() };
        loss.lose(LossCause::RingFull, 3);
        assert_eq!(
            samples(&loss),
            "samples: 10 taken = 7 delivered + 3 lost (ring-full: the ring in the target was full)"
        );
        assert_eq!(short_loss(&loss).as_deref(), Some("3 of 10 samples lost"));
        loss.delivered = 8;
        assert!(samples(&loss).ends_with(" + -1 unaccounted for"));
    }
}
