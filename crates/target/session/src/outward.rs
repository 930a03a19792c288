//! The way out of the target, with bounded patience (contract DET-16).
//!
//! The recording process may be stopped, or blocked on its disk, and the transport full. To wait for room must neither keep the
//! agent from hearing that it is to leave, nor hold up the target's unloads. So all waiting between two looks at the control
//! channel is granted beforehand, as one sum; after the first refusal nothing more is tried until the next grant; and when the
//! other side is gone nothing waits.

use crate::platform::Platform;

/// How long is slept before a full transport is looked at again, nanoseconds.
const LOOK_AGAIN: u64 = 1_000_000;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Outward {
    /// Nanoseconds that may still be waited.
    patience: u64,
    refusing: bool,
    gone: bool,
}

impl Outward {
    /// From now on, and until the next grant, at most this long is waited for room in all, nanoseconds.
    pub(crate) fn grant(&mut self, nanoseconds: u64) {
        self.patience = nanoseconds;
        self.refusing = false;
    }

    /// The other side is gone: nobody makes room.
    pub(crate) fn hang_up(&mut self) {
        self.gone = true;
    }

    /// Whether something has been refused since the last grant: nothing is tried then.
    pub(crate) fn is_refusing(&self) -> bool {
        self.refusing
    }

    /// Puts a message into the transport; whether it fitted.
    pub(crate) fn publish(&mut self, platform: &impl Platform, parts: &[&[u64]]) -> bool {
        while !self.refusing {
            if platform.publish(parts) {
                return true;
            }
            self.refusing = self.gone || self.patience < LOOK_AGAIN;
            if !self.refusing {
                let begun = platform.now();
                platform.pause(LOOK_AGAIN);
                let waited = platform.now().saturating_sub(begun);
                self.patience = self.patience.saturating_sub(waited.max(LOOK_AGAIN));
            }
        }
        false
    }
}
