//! The functions that are called at every entrance and exit, and what can be asked in them.

use super::{Server, answer, code};
use crate::runtime::hooks::{ARGUMENTS, Mapper, RETURN_VALUE};
use corprof::{HResult, sys};
use std::ffi::c_void;

impl Server {
    pub(super) unsafe fn set_enter_leave_function_hooks3(
        &self,
        pFuncEnter3: Option<sys::FunctionEnter3>,
        pFuncLeave3: Option<sys::FunctionLeave3>,
        pFuncTailcall3: Option<sys::FunctionTailcall3>,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_hooks(&profiler, [pFuncEnter3, pFuncLeave3, pFuncTailcall3])
    }

    pub(super) unsafe fn set_enter_leave_function_hooks3_with_info(
        &self,
        pFuncEnter3WithInfo: Option<sys::FunctionEnter3WithInfo>,
        pFuncLeave3WithInfo: Option<sys::FunctionLeave3WithInfo>,
        pFuncTailcall3WithInfo: Option<sys::FunctionTailcall3WithInfo>,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_hooks_with_info(&profiler, [pFuncEnter3WithInfo, pFuncLeave3WithInfo, pFuncTailcall3WithInfo])
    }

    pub(super) unsafe fn set_function_id_mapper(&self, pFunc: Option<sys::FunctionIDMapper>) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_mapper(&profiler, pFunc.map(Mapper::Plain), std::ptr::null_mut())
    }

    pub(super) unsafe fn set_function_id_mapper2(
        &self,
        pFunc: Option<sys::FunctionIDMapper2>,
        clientData: *mut c_void,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_mapper(&profiler, pFunc.map(Mapper::WithData), clientData)
    }

    pub(super) unsafe fn get_function_enter3_info(
        &self,
        _functionId: sys::FunctionID,
        eltInfo: sys::COR_PRF_ELT_INFO,
        pFrameInfo: *mut sys::COR_PRF_FRAME_INFO,
        pcbArgumentInfo: *mut sys::ULONG,
        pArgumentInfo: *mut sys::COR_PRF_FUNCTION_ARGUMENT_INFO,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(runtime.may_see_frame(&profiler, ARGUMENTS).map(|()| {
            let range = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: eltInfo, length: 8 };
            let known = sys::COR_PRF_FUNCTION_ARGUMENT_INFO { numRanges: 1, totalArgumentSize: 8, ranges: [range] };
            // SAFETY: as above, three times.
            unsafe { answer(pFrameInfo, eltInfo) };
            // SAFETY: as above.
            unsafe { answer(pcbArgumentInfo, size_of_val(&known) as u32) };
            // SAFETY: as above.
            unsafe { answer(pArgumentInfo, known) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_function_leave3_info(
        &self,
        _functionId: sys::FunctionID,
        eltInfo: sys::COR_PRF_ELT_INFO,
        pFrameInfo: *mut sys::COR_PRF_FRAME_INFO,
        pRetvalRange: *mut sys::COR_PRF_FUNCTION_ARGUMENT_RANGE,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(runtime.may_see_frame(&profiler, RETURN_VALUE).map(|()| {
            // SAFETY: as above, twice.
            unsafe { answer(pFrameInfo, eltInfo) };
            let range = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: eltInfo, length: 8 };
            // SAFETY: as above.
            unsafe { answer(pRetvalRange, range) };
            HResult::S_OK
        }))
    }
}
