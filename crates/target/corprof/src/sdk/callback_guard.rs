//! The callback guard between the runtime's threads and the author's code.
//!
//! It counts the threads inside, and closing it waits until it is empty.
//! It owns the author's value, and lends it to each callback inside. Nobody else reaches a value taken out of a closed guard.
//! So ownership proves that nothing calls the runtime after the detach (contract DET-04, DET-20).
//! Callbacks pass it, so it neither allocates nor touches a thread-local.

use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Set while the guard is closed. The lower bits count the threads inside.
const SHUT: u64 = 1 << 63;
/// The polling interval while threads are inside.
const INTERVAL: Duration = Duration::from_micros(100);

pub(super) struct CallbackGuard<T> {
    state: AtomicU64,
    value: UnsafeCell<Option<T>>,
    rejected_callbacks: AtomicU64,
}

// SAFETY: threads inside share the value, and `shut` takes it only when the count is zero.
unsafe impl<T: Send + Sync> Sync for CallbackGuard<T> {}

/// A stay inside the guard, until it is dropped.
pub(super) struct Inside<'gate, T> {
    gate: &'gate CallbackGuard<T>,
    value: &'gate T,
}

/// The number of threads that did not come out in time. The guard is open again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallbacksInside(pub u64);

impl<T> CallbackGuard<T> {
    /// A closed and empty guard.
    pub fn new() -> CallbackGuard<T> {
        CallbackGuard {
            state: AtomicU64::new(SHUT),
            value: UnsafeCell::new(None),
            rejected_callbacks: AtomicU64::new(0),
        }
    }

    /// Enters the guard; `None` while it is closed.
    pub fn enter(&self) -> Option<Inside<'_, T>> {
        // SeqCst here and in `shut`: either this thread sees SHUT, or `shut` sees this thread's count.
        if self.state.fetch_add(1, Ordering::SeqCst) & SHUT != 0 {
            self.state.fetch_sub(1, Ordering::SeqCst);
            self.rejected_callbacks.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // SAFETY: the guard is open and counts this thread, so no thread writes the value until it leaves.
        let value = unsafe { &*self.value.get() };
        match value {
            Some(value) => Some(Inside { gate: self, value }),
            None => {
                self.state.fetch_sub(1, Ordering::Release);
                None
            }
        }
    }

    /// Opens the guard with this value. Only for a guard that is new or was emptied by [`shut`](Self::shut).
    ///
    /// # Safety
    /// The guard is closed and empty, and no other thread opens or shuts it.
    pub unsafe fn open(&self, value: T) {
        // SAFETY: the guard is closed, so no thread reads the value.
        unsafe { *self.value.get() = Some(value) };
        self.state.fetch_and(!SHUT, Ordering::SeqCst);
    }

    /// Closes the guard, waits until it is empty, and takes the value out.
    ///
    /// # Errors
    /// A thread stayed inside for longer than `timeout`. The guard is open again.
    ///
    /// # Safety
    /// The guard is open, and no other thread opens or shuts it.
    pub unsafe fn shut(&self, timeout: Duration) -> Result<Option<T>, CallbacksInside> {
        self.state.fetch_or(SHUT, Ordering::SeqCst);
        let end = Instant::now() + timeout;
        loop {
            match self.state.load(Ordering::SeqCst) & !SHUT {
                // SAFETY: the guard is closed and empty. A thread that tries to enter now is rejected before it reads.
                0 => return Ok(unsafe { (*self.value.get()).take() }),
                inside if Instant::now() >= end => {
                    self.state.fetch_and(!SHUT, Ordering::SeqCst);
                    return Err(CallbacksInside(inside));
                }
                _ => std::thread::sleep(INTERVAL),
            }
        }
    }

    /// The number of callbacks that found the guard closed.
    pub fn rejected_callbacks(&self) -> u64 {
        self.rejected_callbacks.load(Ordering::Relaxed)
    }
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Drop for Inside<'_, T> {
    fn drop(&mut self) {
        // Release: all work inside happens before the value is taken out.
        self.gate.state.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn det_04_a_value_comes_out_only_when_nobody_is_inside() {
        let gate = CallbackGuard::new();
        assert!(gate.enter().is_none(), "it begins shut");
        // SAFETY: the guard is new, and only this thread uses it.
        unsafe { gate.open(7) };
        let inside = gate.enter().unwrap();
        // SAFETY: the guard is open, and only this thread uses it.
        holds!(DET_04 rem, (unsafe { gate.shut(Duration::ZERO) }) == Err(CallbacksInside(1)));
        assert_eq!(*gate.enter().expect("it is open again"), 7);
        drop(inside);
        // SAFETY: the failed `shut` left the guard open, and only this thread uses it.
        holds!(DET_04 rem, (unsafe { gate.shut(LONG) }) == Ok(Some(7)));
        assert!(gate.enter().is_none());
        assert_eq!(gate.rejected_callbacks(), 2);
    }

    #[test]
    fn det_20_nobody_who_entered_finds_the_value_gone() {
        for _ in 0..200 {
            let (gate, has_value, all_inside) = (CallbackGuard::new(), AtomicBool::new(true), Barrier::new(4));
            // SAFETY: the guard is new, and no other thread has it yet.
            unsafe { gate.open(&has_value) };
            let calls_runtime = || {
                let inside = gate.enter()?;
                std::thread::yield_now();
                Some(inside.load(Ordering::SeqCst))
            };
            std::thread::scope(|scope| {
                let callbacks = [(); 3].map(|()| {
                    scope.spawn(|| {
                        let first = calls_runtime();
                        all_inside.wait();
                        first == Some(true) && core::iter::from_fn(calls_runtime).all(|has_value| has_value)
                    })
                });
                all_inside.wait();
                // SAFETY: the guard is open, and no other thread shuts it.
                let taken = unsafe { gate.shut(LONG) }.expect("nobody stays").expect("it held one");
                taken.store(false, Ordering::SeqCst);
                let all_had_it = callbacks.map(|callback| callback.join().unwrap_or(false));
                holds!(DET_20 rem, all_had_it == [true; 3]);
            });
        }
    }
}
