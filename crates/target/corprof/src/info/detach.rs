//! The detach request, after which no call is possible.

use super::{Alive, Info, Loading, Sealed};
use crate::{HResult, sys};
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

/// The runtime refused to detach. The profiler is unchanged.
pub struct DetachRefused<L: Loading> {
    /// Still alive.
    pub info: Info<L, Alive>,
    /// The runtime's error.
    pub code: HResult,
}

impl<L: Loading> fmt::Debug for DetachRefused<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DetachRefused({})", self.code)
    }
}

impl<L: Loading> fmt::Display for DetachRefused<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the runtime refused to detach: {}: {}", self.code, self.code.meaning())
    }
}

impl<L: Loading> core::error::Error for DetachRefused<L> {}

impl<L: Loading> Info<L, Alive> {
    /// Requests the detach. `expected` is the longest duration of a running callback.
    ///
    /// Close every other resource first. On success the Info is sealed: no call is possible, and the only callback left is
    /// `profiler_detach_succeeded`, on the runtime's own thread.
    pub fn request_profiler_detach(self, expected: Duration) -> Result<Info<L, Sealed>, DetachRefused<L>> {
        let raw = match self.at::<sys::ICorProfilerInfo3>(3) {
            Ok(raw) => raw,
            Err(code) => return Err(DetachRefused { info: self, code }),
        };
        let milliseconds = u32::try_from(expected.as_millis()).unwrap_or(u32::MAX);
        // SAFETY: this `Info` is `Alive` until this very call succeeds. The method owns it, so nothing borrows from it.
        let code = HResult(unsafe { sys::ICorProfilerInfo3::RequestProfilerDetach(raw, milliseconds) });
        if code.is_success() {
            Ok(Info { raw: core::ptr::null_mut(), version: self.version, state: PhantomData })
        } else {
            Err(DetachRefused { info: self, code })
        }
    }
}
