//! The way out of the target, with bounded wait_left (contract DET-16).
//!
//! The recording process may be stopped, or blocked on its disk, and the transport full. To wait for room must neither keep the
//! agent from hearing that it is to leave, nor hold up the target's unloads. So all waiting between two looks at the control
//! channel is granted beforehand, as one sum; after the first refusal nothing more is tried until the next grant; and when the
//! other side is disconnected nothing waits.

use crate::platform::Platform;

/// How long is slept before a full transport is looked at again, nanoseconds.
const RETRY_AFTER: u64 = 1_000_000;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct TransportWriter {
    /// Nanoseconds that may still be waited.
    wait_left: u64,
    full: bool,
    disconnected: bool,
}

impl TransportWriter {
    /// From now on, and until the next grant, at most this long is waited for room in all, nanoseconds.
    pub(crate) fn grant_wait(&mut self, nanoseconds: u64) {
        self.wait_left = nanoseconds;
        self.full = false;
    }

    /// The other side is disconnected: nobody makes room.
    pub(crate) fn disconnect(&mut self) {
        self.disconnected = true;
    }

    /// Whether something has been refused since the last grant: nothing is tried then.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Puts a message into the transport; whether it fitted.
    pub(crate) fn publish(&mut self, platform: &impl Platform, parts: &[&[u64]]) -> bool {
        while !self.full {
            if platform.publish(parts) {
                return true;
            }
            self.full = self.disconnected || self.wait_left < RETRY_AFTER;
            if !self.full {
                let begun = platform.now();
                platform.pause(RETRY_AFTER);
                let waited = platform.now().saturating_sub(begun);
                self.wait_left = self.wait_left.saturating_sub(waited.max(RETRY_AFTER));
            }
        }
        false
    }
}
