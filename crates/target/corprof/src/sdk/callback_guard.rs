//! The gate between the runtime's threads and the author's code: who is inside is counted, and shutting it waits until nobody is.
//!
//! It holds what may be reached inside. So a value that was taken out of a shut gate is reached by nobody else: that is what makes
//! "nothing of the runtime is reachable after the detach" a matter of ownership (contract DET-04, DET-20).
//! It neither allocates nor touches a thread-local: callbacks pass it.

use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Set while the gate is shut. The bits below count who is inside.
const SHUT: u64 = 1 << 63;
/// Between two looks whether somebody is still inside.
const LOOK: Duration = Duration::from_micros(100);

pub(super) struct CallbackGuard<T> {
    state: AtomicU64,
    value: UnsafeCell<Option<T>>,
    rejected_callbacks: AtomicU64,
}

// SAFETY: whoever is inside shares the value, whoever shuts the gate takes it; the count keeps the two apart.
unsafe impl<T: Send + Sync> Sync for CallbackGuard<T> {}

/// Inside, until it is dropped.
pub(super) struct Inside<'gate, T> {
    gate: &'gate CallbackGuard<T>,
    value: &'gate T,
}

/// So many did not come out in time; the gate is open again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallbacksInside(pub u64);

impl<T> CallbackGuard<T> {
    /// Shut, with nothing in it.
    pub fn new() -> CallbackGuard<T> {
        CallbackGuard {
            state: AtomicU64::new(SHUT),
            value: UnsafeCell::new(None),
            rejected_callbacks: AtomicU64::new(0),
        }
    }

    /// Enters; `None` while it is shut.
    pub fn enter(&self) -> Option<Inside<'_, T>> {
        // SeqCst here and in `shut`: either this one sees that it is shut, or the one who shuts sees this one.
        if self.state.fetch_add(1, Ordering::SeqCst) & SHUT != 0 {
            self.state.fetch_sub(1, Ordering::SeqCst);
            self.rejected_callbacks.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // SAFETY: the gate is open and this one is counted: nobody writes until it has left.
        let value = unsafe { &*self.value.get() };
        match value {
            Some(value) => Some(Inside { gate: self, value }),
            None => {
                self.state.fetch_sub(1, Ordering::Release);
                None
            }
        }
    }

    /// Opens the gate around this value. Only for who found it empty, or has taken its value out.
    ///
    /// # Safety
    /// It is shut and empty, and nobody else opens or shuts it meanwhile.
    pub unsafe fn open(&self, value: T) {
        // SAFETY: shut, so nobody reads it.
        unsafe { *self.value.get() = Some(value) };
        self.state.fetch_and(!SHUT, Ordering::SeqCst);
    }

    /// Shuts it, waits until nobody is inside, and takes the value out.
    ///
    /// # Errors
    /// Somebody stayed inside for longer than `timeout`. It is open again.
    ///
    /// # Safety
    /// It is open, and nobody else opens or shuts it meanwhile.
    pub unsafe fn shut(&self, timeout: Duration) -> Result<Option<T>, CallbacksInside> {
        self.state.fetch_or(SHUT, Ordering::SeqCst);
        let end = Instant::now() + timeout;
        loop {
            match self.state.load(Ordering::SeqCst) & !SHUT {
                // SAFETY: shut, and nobody is inside. Who tries to enter now is turned away before reading.
                0 => return Ok(unsafe { (*self.value.get()).take() }),
                inside if Instant::now() >= end => {
                    self.state.fetch_and(!SHUT, Ordering::SeqCst);
                    return Err(CallbacksInside(inside));
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }

    /// How many callbacks found it shut.
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
        // Release: what was done inside happened before the value is taken out.
        self.gate.state.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn det_04_a_value_comes_out_only_when_nobody_is_inside() {
        let gate = CallbackGuard::new();
        assert!(gate.enter().is_none(), "it begins shut");
        // SAFETY: new, and on this thread only.
        unsafe { gate.open(7) };
        let inside = gate.enter().unwrap();
        // SAFETY: open, and on this thread only.
        assert_eq!(unsafe { gate.shut(Duration::ZERO) }, Err(CallbacksInside(1)));
        assert_eq!(*gate.enter().expect("it is open again"), 7);
        drop(inside);
        // SAFETY: as above.
        assert_eq!(unsafe { gate.shut(LONG) }, Ok(Some(7)));
        assert!(gate.enter().is_none());
        assert_eq!(gate.rejected_callbacks(), 2);
    }

    #[test]
    fn det_20_nobody_who_entered_finds_the_value_gone() {
        for _ in 0..200 {
            let gate = CallbackGuard::new();
            // SAFETY: new.
            unsafe { gate.open(Box::new(AtomicBool::new(true))) };
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| while gate.enter().is_some_and(|alive| alive.load(Ordering::Relaxed)) {});
                }
                // SAFETY: open, and the only one to shut it.
                let taken = unsafe { gate.shut(LONG) }.expect("nobody stays").expect("it held one");
                taken.store(false, Ordering::Relaxed);
            });
        }
    }
}
