//! What all threads of one attach know: whether it is complete, whether it is to end, how long callbacks take.
//!
//! Callbacks set it and return; the profiler's own threads wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// ProfilerAttachComplete has come, or the profiler was loaded with the process.
    pub complete: bool,
    /// Somebody has asked for the end.
    pub detaching: bool,
    /// The process ends.
    pub shutdown: bool,
}

#[derive(Debug, Default)]
pub(super) struct Common {
    state: Mutex<State>,
    changed: Condvar,
    running: AtomicU64,
    /// The thread that has the runtime stop, or zero, and whether it was told so.
    stopping: AtomicU64,
    heard: AtomicBool,
    longest: AtomicU64,
    missed: AtomicU64,
}

impl Common {
    pub fn state(&self) -> State {
        *self.lock()
    }

    /// Changes it and wakes whoever waits.
    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until the condition holds, or for that long. Whether it holds.
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

    /// A callback begins: when, in nanoseconds, never zero.
    pub fn callback_begins(&self) -> u64 {
        self.running.fetch_add(1, Ordering::SeqCst);
        now()
    }

    /// It is over.
    pub fn callback_ends(&self, begun: u64) {
        self.longest.fetch_max(now().saturating_sub(begun), Ordering::Relaxed);
        self.running.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many are running.
    pub fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst)
    }

    /// Has the runtime stop by `stop`, on this thread. What that answers, and whether the runtime told this profiler of it.
    ///
    /// The runtime tells on the thread that stops it. So what is told here began after the request and is of this very stop: another
    /// profiler's stop, a collection's, and callbacks that were under way show nothing, as they may have begun before the runtime lost count.
    /// One thread at a time.
    pub fn listen<R>(&self, stop: impl FnOnce() -> R) -> (R, bool) {
        self.heard.store(false, Ordering::SeqCst);
        self.stopping.store(this_thread(), Ordering::SeqCst);
        let answer = stop();
        self.stopping.store(0, Ordering::SeqCst);
        (answer, self.heard.load(Ordering::SeqCst))
    }

    /// A callback begins that says that the runtime stops because a profiler asked.
    pub fn suspension_begins(&self) {
        if self.stopping.load(Ordering::SeqCst) == this_thread() {
            self.heard.store(true, Ordering::SeqCst);
        }
    }

    /// The longest that one took.
    pub fn longest_callback(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
    }

    /// Callbacks may have been missed: what is known from them is void.
    pub fn miss(&self) {
        self.missed.fetch_add(1, Ordering::SeqCst);
    }

    /// How often that was so.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The calling thread, as no other one is called while it lives.
fn this_thread() -> u64 {
    // SAFETY: takes nothing.
    unsafe { libc::pthread_self() as u64 }
}

/// The monotonic clock in nanoseconds, from one on.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64).max(1)
}
