//! Callbacks and the worker itself wake the worker through this.

use remora_wire::AgentError;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// The value of a closed [`Wake`]. The kernel refuses it, or ignores it in a poll.
const CLOSED: RawFd = -1;

/// A descriptor that becomes readable, until it is closed.
pub struct Wake(AtomicI32);

impl Wake {
    /// Makes an open one.
    ///
    /// # Errors
    /// A system error.
    pub fn new() -> Result<Wake, AgentError> {
        // SAFETY: takes numbers only.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(Wake(AtomicI32::new(descriptor)))
    }

    /// The descriptor to wait for; -1 once it is closed, which the kernel ignores in a poll.
    pub fn number(&self) -> RawFd {
        self.0.load(Ordering::SeqCst)
    }

    /// Wakes the worker, without a wait.
    pub fn up(&self) {
        let one = 1_u64;
        // SAFETY: eight live bytes. The descriptor never blocks, and the kernel refuses -1.
        unsafe { libc::write(self.number(), (&raw const one).cast(), 8) };
    }

    /// Resets it, so that it can wake again.
    pub fn is_heard(&self) {
        let mut drained = 0_u64;
        // SAFETY: eight live bytes. The descriptor never blocks, and the kernel refuses -1.
        unsafe { libc::read(self.number(), (&raw mut drained).cast(), 8) };
    }

    /// From now on no thread finds the descriptor. A thread that read it before may still use the returned one.
    pub fn forget(&self) -> Forgotten {
        Forgotten(self.0.swap(CLOSED, Ordering::SeqCst))
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.forget().close();
    }
}

/// A descriptor that no thread finds any more. It is not closed on drop: a thread may still use its number.
#[must_use]
pub struct Forgotten(RawFd);

impl Forgotten {
    /// Closes it: no thread uses it any more.
    pub fn close(self) {
        if self.0 != CLOSED {
            // SAFETY: `Wake::new` made it, and `forget` returns it only once.
            unsafe { libc::close(self.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own number of an open eventfd. Descriptor numbers do not identify it: another test may get the number of a closed one.
    fn leads_to(descriptor: RawFd) -> Option<String> {
        let reported = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
        reported.lines().find(|line| line.starts_with("eventfd-id:")).map(str::to_owned)
    }

    #[test]
    fn what_wakes_an_agent_that_stays_is_closed_once_and_found_by_nobody_then() {
        let wake = Wake::new().expect("a descriptor");
        let descriptor = wake.number();
        let led = leads_to(descriptor);
        let forgotten = wake.forget();
        assert!(led.is_some() && leads_to(descriptor) == led && wake.number() == CLOSED);
        wake.up();
        wake.is_heard();
        forgotten.close();
        assert_ne!(leads_to(descriptor), led);
        wake.forget().close();
    }
}
