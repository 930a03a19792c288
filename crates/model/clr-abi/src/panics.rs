//! Catches the panics of a server: none unwinds into a profiler's frames, and none is lost.

use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `call`. If it panics, `panicked` gets the payload. A panic of `panicked` is leaked: no handler remains.
pub(crate) fn caught<R>(call: impl FnOnce() -> R, panicked: impl FnOnce(Box<dyn Any + Send>)) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => Some(value),
        Err(payload) => {
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| panicked(payload))) {
                core::mem::forget(second);
            }
            None
        }
    }
}
