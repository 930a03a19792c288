//! The proof that the runtime still calls this profiler: it reports the profiler's own suspension.
//!
//! The detach of a main profiler makes the runtime miscount the notification-only ones.
//! The detach of a profiler that the runtime does not find crashes the target (measured on .NET 8.0.4, 9.0.7 and 10.0.12).
//! Only the report of this very suspension proves anything (contract DET-18).

use crate::SuspendReason;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The proof of one attach, renewed before each detach.
#[derive(Debug, Default)]
pub struct CallbackProof {
    /// The thread that suspends the runtime, or zero.
    suspending: AtomicU64,
    /// Whether the runtime reported that suspension.
    is_reported: AtomicBool,
}

impl CallbackProof {
    /// Suspends the runtime by `suspend` on the thread `thread`. Returns its answer, and whether the runtime reported the suspension to
    /// this profiler. One thread at a time.
    ///
    /// The runtime reports a suspension on the thread that requests it.
    /// So a report on this thread began after the request, and belongs to this very suspension.
    /// Other callbacks prove nothing: another profiler's suspension, a GC's, or a callback already under way.
    /// They may have begun before the runtime miscounted its profilers.
    pub fn listen<R>(&self, thread: u64, suspend: impl FnOnce() -> R) -> (R, bool) {
        self.is_reported.store(false, Ordering::SeqCst);
        self.suspending.store(thread, Ordering::SeqCst);
        let answer = suspend();
        self.suspending.store(0, Ordering::SeqCst);
        (answer, self.is_reported.load(Ordering::SeqCst))
    }

    /// In RuntimeSuspendStarted: notes the report. `thread` is the calling thread.
    pub fn suspension_begins(&self, reason: SuspendReason, thread: u64) {
        if reason == SuspendReason::FOR_PROFILER && self.suspending.load(Ordering::SeqCst) == thread {
            self.is_reported.store(true, Ordering::SeqCst);
        }
    }
}

/// The calling thread: a number other than zero, unique while the thread lives. Callbacks may call this.
pub fn this_thread() -> u64 {
    // SAFETY: `pthread_self` has no preconditions.
    unsafe { libc::pthread_self() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;

    #[test]
    fn det_18_only_the_report_of_this_very_suspension_is_a_proof() {
        let proof = CallbackProof::default();
        let reported = |reason, thread| proof.listen(1, || proof.suspension_begins(reason, thread)).1;
        assert!(reported(SuspendReason::FOR_PROFILER, 1));
        holds!(DET_18 rem, !reported(SuspendReason::FOR_PROFILER, 2), "another profiler's");
        assert!(!reported(SuspendReason::FOR_GC, 1), "a GC's");
        proof.suspension_begins(SuspendReason::FOR_PROFILER, 1);
        holds!(DET_18 rem, !proof.listen(1, || ()).1, "one from before");
    }
}
