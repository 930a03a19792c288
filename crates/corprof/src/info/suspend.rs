//! Stopping the managed threads for an instant.

use super::{Alive, Info, Loading};
use crate::{HResult, sys};

/// The first ICorProfilerInfo that can suspend the runtime.
const SUSPENDS: u8 = 10;

impl<L: Loading> Info<L, Alive> {
    /// Stops the managed threads, and lets them go at once. On a native thread, inside no callback.
    ///
    /// # Errors
    /// `E_NOTIMPL` before ICorProfilerInfo10; `CORPROF_E_SUSPENSION_IN_PROGRESS` while somebody else, a collection mostly, has stopped them.
    pub fn suspend_and_resume(&self) -> Result<(), HResult> {
        if self.version() < SUSPENDS {
            return Err(HResult::E_NOTIMPL);
        }
        let raw = self.as_raw().cast::<sys::ICorProfilerInfo10>();
        // SAFETY: the runtime's object, alive, in a version that has the slot.
        HResult(unsafe { sys::ICorProfilerInfo10::SuspendRuntime(raw) }).ok()?;
        // SAFETY: as above; the same thread has just suspended the runtime.
        unsafe { sys::ICorProfilerInfo10::ResumeRuntime(raw) };
        Ok(())
    }
}
