//! Retries while the runtime is busy with an operation that ends.

use crate::platform::Platform;

/// Between two tries, nanoseconds.
const PAUSE: u64 = 1_000_000;

/// Tries, at most: a minute in all. They are counted, not timed: a stopped process has no time to finish.
const TRIES: u64 = 60_000;

/// The result of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Success.
    Done,
    /// An operation is in progress that will end, such as a GC, which may take many seconds on a large heap.
    Busy,
    /// It will never succeed.
    Refused,
}

/// Retries until success or refusal, for a minute at most. Returns whether it succeeded.
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
