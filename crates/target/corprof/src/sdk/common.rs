//! State shared by all threads of one attach: progress, shutdown, running callbacks and their durations.
//!
//! Callbacks set it and return; the profiler's own threads wait for it.

use crate::detach::{CallbackProof, RunningCallbacks};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// ProfilerAttachComplete has come, or the profiler was loaded at startup.
    pub complete: bool,
    /// The detach was requested.
    pub detaching: bool,
    /// The process ends.
    pub shutdown: bool,
}

#[derive(Debug, Default)]
pub(super) struct Common {
    state: Mutex<State>,
    changed: Condvar,
    pub callbacks: RunningCallbacks,
    pub proof: CallbackProof,
    missed: AtomicU64,
}

impl Common {
    pub fn state(&self) -> State {
        *self.lock()
    }

    /// Changes the state and wakes all waiting threads.
    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until the condition holds, at most that long. Returns whether it holds.
    pub fn wait(&self, at_most: Option<Duration>, holds: impl Fn(State) -> bool) -> bool {
        let end = at_most.and_then(|time| Instant::now().checked_add(time));
        let mut state = self.lock();
        while !holds(*state) {
            state = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return false,
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        true
    }

    /// Marks callbacks as missed: ids known from earlier ones are void.
    pub fn miss(&self) {
        self.missed.fetch_add(1, Ordering::SeqCst);
    }

    /// How often callbacks were marked as missed.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The monotonic clock in nanoseconds, at least one.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64).max(1)
}
