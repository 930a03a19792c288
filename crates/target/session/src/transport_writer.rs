//! Sends to the collector, with bounded waits (contract DET-16).
//!
//! The recorder may be stopped, or blocked on its disk, and then the transport is full. Waiting for room must not hide a detach command
//! from the agent, and must not delay the target's unloads. So all waiting between two checks of the control channel is granted in advance,
//! as one sum. After the first refusal nothing is tried until the next grant. After a disconnect nothing waits.

use crate::platform::Platform;

/// The sleep before a retry on a full transport, nanoseconds.
const RETRY_AFTER: u64 = 1_000_000;

/// Sends messages, with a limit on the waiting time.
#[derive(Debug, Default)]
pub(crate) struct TransportWriter {
    /// Remaining waiting time, nanoseconds.
    wait_left: u64,
    full: bool,
    disconnected: bool,
}

impl TransportWriter {
    /// Until the next grant, all waiting for room may take at most this long, nanoseconds.
    pub(crate) fn grant_wait(&mut self, nanoseconds: u64) {
        self.wait_left = nanoseconds;
        self.full = false;
    }

    /// The recorder has disconnected and empties the transport no longer.
    pub(crate) fn disconnect(&mut self) {
        self.disconnected = true;
    }

    /// Whether a message was refused since the last grant. Then nothing is tried.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Puts a message into the transport. Returns whether it fitted.
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
