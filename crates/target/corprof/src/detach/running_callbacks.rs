//! Counts running callbacks and measures them: for the wait before a detach, and for the time that the runtime asks for.
//!
//! The runtime waits only for callbacks on its own threads. ProfilerAttachComplete runs on the diagnostics thread, which it does not count
//! (docs/authors/contract-findings.md, DET-07). A detach requested then would finish while that callback still runs.

use crate::CallbackToken;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// The shortest expected time passed to RequestProfilerDetach. The runtime never sleeps less than this between two evacuation checks.
/// It sleeps 5 s once twice the expected time has passed.
/// Measured: with 1 ms expected, a detach thread that wakes 2 ms late sleeps 5 s at once; with 300 ms it never did.
const SHORTEST_SLEEP: Duration = Duration::from_millis(300);

/// The callbacks of one attach.
#[derive(Debug, Default)]
pub struct RunningCallbacks {
    running: AtomicU64,
    /// Nanoseconds.
    longest: AtomicU64,
}

impl RunningCallbacks {
    /// In a callback, first: counts it. `now` reads the monotonic clock, nanoseconds, which is never zero.
    ///
    /// So the token is not the default one, which stands for a callback that nothing counts.
    pub fn begin(&self, now: impl FnOnce() -> u64) -> CallbackToken {
        self.running.fetch_add(1, Ordering::SeqCst);
        CallbackToken(now())
    }

    /// In that callback, last: ends it. Does nothing for the default token.
    pub fn end(&self, begun: CallbackToken, now: impl FnOnce() -> u64) {
        if begun != CallbackToken::default() {
            self.longest.fetch_max(now().saturating_sub(begun.0), Ordering::Relaxed);
            self.running.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// How many callbacks run now.
    pub fn count(&self) -> u64 {
        self.running.load(Ordering::SeqCst)
    }

    /// The longest duration of a callback so far, nanoseconds.
    pub fn longest(&self) -> u64 {
        self.longest.load(Ordering::Relaxed)
    }

    /// The expected time to pass to RequestProfilerDetach (contract DET-15): the longest duration, and no less than the runtime's shortest
    /// sleep.
    pub fn expected_detach_time(&self) -> Duration {
        Duration::from_nanos(self.longest()).max(SHORTEST_SLEEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;

    #[test]
    fn det_15_the_expected_time_is_the_longest_callback_and_no_less_than_the_runtimes_own_sleep() {
        let callbacks = RunningCallbacks::default();
        assert_eq!(callbacks.expected_detach_time(), Duration::from_millis(300));
        for (lasts, expected) in [(299_999_999, 300_000_000), (300_000_001, 300_000_001), (1, 300_000_001)] {
            let begun = callbacks.begin(|| 7);
            assert_eq!(callbacks.count(), 1);
            callbacks.end(begun, || 7 + lasts);
            holds!(DET_15 rem, callbacks.expected_detach_time() == Duration::from_nanos(expected), "{lasts} ns");
        }
        assert_eq!(callbacks.count(), 0);
    }

    #[test]
    fn det_07_a_callback_from_before_the_attach_is_not_counted_out() {
        let callbacks = RunningCallbacks::default();
        callbacks.end(CallbackToken::default(), || 9);
        holds!(DET_07 rem, (callbacks.count(), callbacks.longest()) == (0, 0));
    }
}
