//! When a method was traced: methods are added and taken out while a trace runs.

use std::time::Duration;

/// When a method was traced, after the begin of the trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TracedTime {
    since: Option<Duration>,
    /// Since when it is traced now.
    open: Option<Duration>,
    /// Earlier times together.
    earlier: Duration,
}

impl TracedTime {
    /// Since when; the first time, if it was taken out and added again. `None` if it never was.
    pub fn since(&self) -> Option<Duration> {
        self.since
    }

    /// How long, for a trace that ended so long after its begin.
    pub fn lasted(&self, end: Duration) -> Duration {
        self.earlier + self.open.map_or(Duration::ZERO, |open| end.saturating_sub(open))
    }

    pub(super) fn begin(&mut self, at: Duration) {
        self.since.get_or_insert(at);
        self.open.get_or_insert(at);
    }

    pub(super) fn end(&mut self, at: Duration) {
        self.earlier = self.lasted(at);
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_was_taken_out_and_added_again_has_both_times_and_its_first_begin() {
        let seconds = Duration::from_secs;
        let mut time = TracedTime::default();
        assert_eq!((time.since(), time.lasted(seconds(9))), (None, Duration::ZERO));
        time.begin(seconds(2));
        time.begin(seconds(3));
        assert_eq!((time.since(), time.lasted(seconds(9))), (Some(seconds(2)), seconds(7)));
        time.end(seconds(5));
        assert_eq!(time.lasted(seconds(9)), seconds(3));
        time.begin(seconds(6));
        assert_eq!((time.since(), time.lasted(seconds(9))), (Some(seconds(2)), seconds(6)));
    }
}
