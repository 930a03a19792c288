//! Calls only for a profiler loaded at startup: hooks, and any event flag.

use super::{Alive, Attached, Info, Startup};
use crate::mask::{HighStartupMask, StartupMask};
use crate::{HResult, sys};
use core::ffi::c_void;

/// Functions that the runtime calls at every entry, exit and tail call. They must preserve every register.
#[derive(Debug, Clone, Copy)]
pub struct EnterLeave3 {
    /// At entry.
    pub enter: Option<sys::FunctionEnter3>,
    /// At exit.
    pub leave: Option<sys::FunctionLeave3>,
    /// At a tail call.
    pub tailcall: Option<sys::FunctionTailcall3>,
}

/// Like [`EnterLeave3`], with a handle to arguments and return value.
#[derive(Debug, Clone, Copy)]
pub struct EnterLeave3WithInfo {
    /// At entry.
    pub enter: Option<sys::FunctionEnter3WithInfo>,
    /// At exit.
    pub leave: Option<sys::FunctionLeave3WithInfo>,
    /// At a tail call.
    pub tailcall: Option<sys::FunctionTailcall3WithInfo>,
}

impl Info<Startup, Alive> {
    /// Gives up the calls that only a profiler loaded at startup has.
    pub fn into_common(self) -> Info<Attached, Alive> {
        self.common()
    }

    /// Replaces both halves of the event mask.
    pub fn set_event_mask2(&self, low: StartupMask, high: HighStartupMask) -> Result<(), HResult> {
        let raw = self.at(5)?;
        // SAFETY: this `Info` is `Alive`, so its object is valid.
        HResult(unsafe { sys::ICorProfilerInfo5::SetEventMask2(raw, low.bits(), high.bits()) }).ok()
    }

    /// Replaces the low half of the event mask, and leaves the high half as it is.
    pub fn set_event_mask(&self, low: StartupMask) -> Result<(), HResult> {
        // SAFETY: this `Info` is `Alive`, so its object is valid.
        HResult(unsafe { sys::ICorProfilerInfo::SetEventMask(self.raw, low.bits()) }).ok()
    }

    /// Hooks entry and exit of functions. Forbids the detach.
    ///
    /// # Safety
    /// The functions preserve every register and stay callable for the life of the process.
    pub unsafe fn set_enter_leave_function_hooks3(&self, hooks: EnterLeave3) -> Result<(), HResult> {
        let raw = self.at(3)?;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the caller guarantees the functions.
        let answer = unsafe {
            sys::ICorProfilerInfo3::SetEnterLeaveFunctionHooks3(raw, hooks.enter, hooks.leave, hooks.tailcall)
        };
        HResult(answer).ok()
    }

    /// Hooks entry and exit of functions, with arguments. Forbids the detach.
    ///
    /// # Safety
    /// As for [`set_enter_leave_function_hooks3`](Self::set_enter_leave_function_hooks3).
    pub unsafe fn set_enter_leave_function_hooks3_with_info(&self, hooks: EnterLeave3WithInfo) -> Result<(), HResult> {
        let raw = self.at(3)?;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the caller guarantees the functions.
        let answer = unsafe {
            sys::ICorProfilerInfo3::SetEnterLeaveFunctionHooks3WithInfo(raw, hooks.enter, hooks.leave, hooks.tailcall)
        };
        HResult(answer).ok()
    }

    /// Chooses the functions to hook, and the data that their hooks get.
    ///
    /// # Safety
    /// The function stays callable, and `client_data` valid, for the life of the process.
    pub unsafe fn set_function_id_mapper2(
        &self,
        mapper: sys::FunctionIDMapper2,
        client_data: *mut c_void,
    ) -> Result<(), HResult> {
        let raw = self.at(3)?;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the caller guarantees the function and its data.
        HResult(unsafe { sys::ICorProfilerInfo3::SetFunctionIDMapper2(raw, Some(mapper), client_data) }).ok()
    }

    /// Like [`set_function_id_mapper2`](Self::set_function_id_mapper2), without data.
    ///
    /// # Safety
    /// The function stays callable for the life of the process.
    pub unsafe fn set_function_id_mapper(&self, mapper: sys::FunctionIDMapper) -> Result<(), HResult> {
        // SAFETY: this `Info` is `Alive`, so its object is valid; the caller guarantees the function.
        HResult(unsafe { sys::ICorProfilerInfo::SetFunctionIDMapper(self.raw, Some(mapper)) }).ok()
    }
}
