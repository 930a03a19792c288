//! The CPU time of a process, from `/proc`: all that the target uses, sampled or not.

use remora_attach::proc::Proc;
use std::time::{Duration, Instant};

/// Measures one process.
#[derive(Debug)]
pub(crate) struct Processor {
    process_id: u32,
    first: Option<Duration>,
    last: Option<Duration>,
    shown: (Instant, Duration),
    share: Option<f64>,
}

/// Shortest interval for a share; below it the kernel's ticks are too coarse.
const SHORTEST: Duration = Duration::from_millis(450);

impl Processor {
    /// Starts measuring.
    pub(crate) fn watch(process_id: u32) -> Processor {
        let first = used(process_id);
        let shown = (Instant::now(), first.unwrap_or_default());
        Processor { process_id, first, last: None, shown, share: None }
    }

    /// Measures again; returns the recent share of one CPU.
    pub(crate) fn share(&mut self) -> Option<f64> {
        if self.shown.0.elapsed() >= SHORTEST {
            let now = used(self.process_id)?;
            let passed = self.shown.0.elapsed();
            self.share = Some(now.saturating_sub(self.shown.1).as_secs_f64() / passed.as_secs_f64());
            self.shown = (Instant::now(), now);
            self.last = Some(now);
        }
        self.share
    }

    /// CPU time since the start, as far as it could be read later.
    pub(crate) fn total(&mut self) -> Option<Duration> {
        self.last = used(self.process_id).or(self.last);
        Some(self.last?.saturating_sub(self.first?))
    }
}

fn used(process_id: u32) -> Option<Duration> {
    let ticks = Proc::default().stat(process_id).ok()?.cpu_time;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_nanos(u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1))).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_a_missing_one_none() {
        let mut mine = Processor::watch(std::process::id());
        assert!(mine.total().is_some());
        assert_eq!(Processor::watch(u32::MAX).total(), None);
        // It was there at first, and has ended: what it used is not known.
        let mut ended = Processor { process_id: u32::MAX, ..Processor::watch(std::process::id()) };
        assert_eq!((ended.first.is_some(), ended.total()), (true, None));
    }
}
