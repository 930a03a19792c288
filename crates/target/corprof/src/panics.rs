//! Catches panics: none unwinds into the runtime's or the C library's frames.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `call`; `None` if it panicked.
pub(crate) fn quietly<R>(call: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // The payload's own destructor may panic. Its payload is leaked, because dropping it could panic again, without end.
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                core::mem::forget(second);
            }
            None
        }
    }
}
