//! What the agent's thread is woken by, from callbacks and from itself.

use remora_wire::EventKind;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor that becomes readable. None where there is nothing to do: such an agent stays, and with it whatever it holds.
pub struct Wake(Option<OwnedFd>);

impl Wake {
    /// One for whoever has that to do.
    ///
    /// # Errors
    /// In words.
    pub fn new(event: EventKind) -> Result<Wake, String> {
        if event == EventKind::Nothing {
            return Ok(Wake(None));
        }
        // SAFETY: makes a descriptor.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(format!("no event descriptor: {}", std::io::Error::last_os_error()));
        }
        // SAFETY: made just now, and nobody else's.
        Ok(Wake(Some(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }

    /// What to wait for; -1, which the kernel passes over, where there is none.
    pub fn number(&self) -> RawFd {
        self.0.as_ref().map_or(-1, OwnedFd::as_raw_fd)
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
}
