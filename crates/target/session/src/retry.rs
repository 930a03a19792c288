//! Trying again while the runtime is busy with something that ends.

use crate::platform::Platform;

/// Between two tries, nanoseconds.
const PAUSE: u64 = 1_000_000;

/// Tries, at most: a minute of them. They are counted, not timed: a process that was stopped meanwhile has had no time to finish.
const TRIES: u64 = 60_000;

/// How a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It is done.
    Done,
    /// Not now: something is under way that ends, such as a collection, which may take many seconds on a large heap.
    Busy,
    /// It will never be done.
    Refused,
}

/// Tries until it is done or refused, for a minute at most. Returns whether it is done.
pub fn retry(platform: &impl Platform, mut attempt: impl FnMut() -> Progress) -> bool {
    for _ in 0..TRIES {
        match attempt() {
            Progress::Done => return true,
            Progress::Refused => return false,
            Progress::Busy => platform.pause(PAUSE),
        }
    }
    false
}
