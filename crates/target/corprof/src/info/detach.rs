//! The way out: asking for the detach, after which nothing can be asked.

use super::{Alive, Info, Loading, Sealed};
use crate::{HResult, sys};
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

/// The runtime refused to detach, and the profiler stays as it was.
pub struct DetachRefused<L: Loading> {
    /// Still alive.
    pub info: Info<L, Alive>,
    /// Why.
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
    /// Asks the runtime to let the profiler go; `expected` is the longest that a running callback takes.
    ///
    /// Every other way into the library must be closed before. On success the runtime is sealed: no call is taken any more,
    /// and no callback comes but `profiler_detach_succeeded`, on the runtime's own thread.
    pub fn request_profiler_detach(self, expected: Duration) -> Result<Info<L, Sealed>, DetachRefused<L>> {
        let raw = match self.at::<sys::ICorProfilerInfo3>(3) {
            Ok(raw) => raw,
            Err(code) => return Err(DetachRefused { info: self, code }),
        };
        let milliseconds = u32::try_from(expected.as_millis()).unwrap_or(u32::MAX);
        // SAFETY: alive until this very call succeeds, and nothing borrows from it, since it is owned here.
        let code = HResult(unsafe { sys::ICorProfilerInfo3::RequestProfilerDetach(raw, milliseconds) });
        if code.is_success() {
            Ok(Info { raw: core::ptr::null_mut(), version: self.version, state: PhantomData })
        } else {
            Err(DetachRefused { info: self, code })
        }
    }
}
