//! The fence between a profiler and the server behind its calls. No server panic unwinds into foreign frames, and none is lost.

use crate::object::InfoObject;
use crate::{InfoServer, Slot};
use core::any::Any;
use core::ffi::c_void;
use corprof::{HResult, sys};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One call of a slot of Info: enter, call, leave. If one of them panics, `panicked` gets the payload.
///
/// # Safety
/// `this` is null or a live [`InfoObject`] of this type.
pub(crate) unsafe fn serve<T: InfoServer>(
    this: *mut c_void,
    slot: Slot,
    call: impl FnOnce(&T) -> HResult,
) -> sys::HRESULT {
    if this.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null, so the caller guarantees a live object.
    let server = unsafe { &*this.cast::<InfoObject<T>>() }.server();
    let served = || {
        let answer = match server.enter(slot) {
            Ok(()) => call(server),
            Err(refused) => refused,
        };
        server.leave(slot, answer);
        answer
    };
    caught(served, |payload| server.panicked(slot, payload)).unwrap_or(HResult::E_UNEXPECTED).0
}

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
