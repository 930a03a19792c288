//! What the agent's thread is woken by, from callbacks and from itself.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// What [`Wake`] holds once it is closed; the kernel refuses it, or passes it over.
const CLOSED: RawFd = -1;

/// A descriptor that becomes readable, until it is closed.
pub struct Wake(AtomicI32);

impl Wake {
    /// One.
    ///
    /// # Errors
    /// In words.
    pub fn new() -> Result<Wake, String> {
        // SAFETY: makes a descriptor.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(format!("no event descriptor: {}", std::io::Error::last_os_error()));
        }
        Ok(Wake(AtomicI32::new(descriptor)))
    }

    /// What to wait for; -1, which the kernel passes over, where there is none any more.
    pub fn number(&self) -> RawFd {
        self.0.load(Ordering::SeqCst)
    }

    /// Wakes. Waits for nothing.
    pub fn up(&self) {
        let one = 1_u64;
        // SAFETY: eight live bytes; the descriptor never blocks, and -1 is refused.
        unsafe { libc::write(self.number(), (&raw const one).cast(), 8) };
    }

    /// From now on it wakes anew.
    pub fn is_heard(&self) {
        let mut drained = 0_u64;
        // SAFETY: as above.
        unsafe { libc::read(self.number(), (&raw mut drained).cast(), 8) };
    }

    /// Nobody who looks from now on finds it. Whoever has looked before may still use what is returned.
    pub fn forget(&self) -> Forgotten {
        Forgotten(self.0.swap(CLOSED, Ordering::SeqCst))
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.forget().close();
    }
}

/// A descriptor that nobody finds any more. Not closed unless it is asked for: its number may be somebody else's then.
#[must_use]
pub struct Forgotten(RawFd);

impl Forgotten {
    /// Closes it: whoever had found it has ended.
    pub fn close(self) {
        if self.0 != CLOSED {
            // SAFETY: made by `Wake::new`, and taken out of it by one.
            unsafe { libc::close(self.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own number of what a descriptor leads to: another test may be given the number of one that was closed.
    fn leads_to(descriptor: RawFd) -> Option<String> {
        let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
        told.lines().find(|line| line.starts_with("eventfd-id:")).map(str::to_owned)
    }

    #[test]
    fn det_18_what_wakes_an_agent_that_stays_is_closed_once_and_found_by_nobody_then() {
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
