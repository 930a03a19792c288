//! State shared by all threads of one attach: progress, shutdown, running callbacks and their durations.
//!
//! Callbacks set it and return; the profiler's own threads wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    running: AtomicU64,
    /// The thread that suspends the runtime, or zero; and whether the runtime reported that suspension.
    stopping: AtomicU64,
    heard: AtomicBool,
    longest: AtomicU64,
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

    /// Counts a callback that begins. Returns its start in nanoseconds, never zero.
    pub fn callback_begins(&self) -> u64 {
        self.running.fetch_add(1, Ordering::SeqCst);
        now()
    }

    /// Ends a callback.
    pub fn callback_ends(&self, begun: u64) {
        self.longest.fetch_max(now().saturating_sub(begun), Ordering::Relaxed);
        self.running.fetch_sub(1, Ordering::SeqCst);
    }

    /// The number of running callbacks.
    pub fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst)
    }

    /// Suspends the runtime by `stop` on this thread. Returns its answer, and whether the runtime reported the suspension to this profiler.
    ///
    /// The runtime reports a suspension on the thread that requests it.
    /// So a report on this thread began after the request, and belongs to this very suspension.
    /// Other callbacks prove nothing: another profiler's suspension, a GC's, or a callback already under way.
    /// They may have begun before the runtime miscounted its profilers.
    /// One thread at a time.
    pub fn listen<R>(&self, stop: impl FnOnce() -> R) -> (R, bool) {
        self.heard.store(false, Ordering::SeqCst);
        self.stopping.store(this_thread(), Ordering::SeqCst);
        let answer = stop();
        self.stopping.store(0, Ordering::SeqCst);
        (answer, self.heard.load(Ordering::SeqCst))
    }

    /// Notes the callback of a suspension that a profiler requested.
    pub fn suspension_begins(&self) {
        if self.stopping.load(Ordering::SeqCst) == this_thread() {
            self.heard.store(true, Ordering::SeqCst);
        }
    }

    /// The longest duration of a callback so far.
    pub fn longest_callback(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
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

/// The calling thread's id, unique while the thread lives.
fn this_thread() -> u64 {
    // SAFETY: `pthread_self` has no preconditions.
    unsafe { libc::pthread_self() as u64 }
}

/// The monotonic clock in nanoseconds, at least one.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64).max(1)
}
