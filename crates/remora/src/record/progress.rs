//! The status line of a recording.

use crate::console::{StatusLine, counted, grouped, note};
use remora_terminal::duration::show;
use std::time::{Duration, Instant};

/// Time between two updates of the line.
const PAUSE: Duration = Duration::from_millis(250);
/// Time after which an idle target is called idle.
const IDLE_AFTER: Duration = Duration::from_secs(2);
/// Share of one CPU below which a target is idle, as in the hint of the result.
const IDLE_SHARE: f64 = 0.05;

/// The line's values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Numbers {
    /// Samples so far.
    pub(crate) samples: u64,
    /// Samples lost so far.
    pub(crate) lost: u64,
    /// Samples a second, of all threads, as measured.
    pub(crate) rate: Option<f64>,
    /// Share of one CPU that the target uses.
    pub(crate) processor: Option<f64>,
    /// Whether threads off CPU are sampled, too.
    pub(crate) wall: bool,
}

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    line: StatusLine,
    started: Instant,
    shown: Option<Instant>,
    until: Option<Duration>,
}

impl Progress {
    /// Starts the clock. Shows nothing if not `visible`, or where standard error is not a terminal.
    pub(crate) fn new(until: Option<Duration>, visible: bool) -> Progress {
        let line = if visible { StatusLine::new() } else { StatusLine::hidden() };
        Progress { line, started: Instant::now(), shown: None, until }
    }

    /// Writes a line where the status line was.
    pub(crate) fn note(&mut self, text: &str) {
        self.line.clear();
        note(text);
    }

    /// Shows the numbers, if the update interval has passed.
    pub(crate) fn show(&mut self, numbers: impl FnOnce() -> Numbers) {
        if self.line.visible() && self.shown.is_none_or(|shown| shown.elapsed() >= PAUSE) {
            self.shown = Some(Instant::now());
            let text = render(self.started.elapsed(), self.until, &numbers());
            self.line.show(&text);
        }
    }
}

fn render(passed: Duration, until: Option<Duration>, numbers: &Numbers) -> String {
    let mut parts = vec![match until {
        Some(until) => format!("{} of {}", clock(passed), clock(until)),
        None => clock(passed),
    }];
    parts.push(counted(numbers.samples, "sample"));
    if let Some(rate) = numbers.rate {
        parts.push(format!("{rate:.0}/s"));
    }
    parts.push(format!("{} lost", grouped(numbers.lost)));
    if let Some(share) = numbers.processor {
        parts.push(format!("target uses {:.0}% CPU", share * 100.0));
        if share < IDLE_SHARE && passed >= IDLE_AFTER && !numbers.wall {
            parts.push("idle: try -e wall".to_owned());
        }
    }
    parts.join("  ")
}

/// Tenths of seconds at first, then whole seconds, so that the line does not jump.
fn clock(duration: Duration) -> String {
    match duration.as_secs() {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        _ => show(duration.as_secs() * 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_time_samples_rate_loss_and_the_target() {
        let busy = Numbers { samples: 1234, lost: 5, rate: Some(98.6), processor: Some(1.87), wall: false };
        assert_eq!(
            render(Duration::from_millis(12_345), None, &busy),
            "12.3 s  1,234 samples  99/s  5 lost  target uses 187% CPU"
        );
        let idle = Numbers { processor: Some(0.001), ..Numbers::default() };
        assert_eq!(
            render(Duration::from_secs(3), Some(Duration::from_secs(30)), &idle),
            "3.0 s of 30.0 s  0 samples  0 lost  target uses 0% CPU  idle: try -e wall"
        );
        let waiting = Numbers { wall: true, ..idle };
        assert!(!render(Duration::from_secs(3), None, &waiting).contains("idle"));
    }
}
