//! The functions that are called at every entrance and exit, and what can be asked in them and in callbacks about exceptions.

use super::{Server, code, tell};
use crate::runtime::hooks::{ARGUMENTS, Mapper, RETURN_VALUE, WITH_INFO};
use corprof::{HResult, sys};
use std::ffi::c_void;
use std::ptr::null_mut;

impl Server {
    pub(super) unsafe fn set_enter_leave_function_hooks(
        &self,
        pFuncEnter: Option<sys::FunctionEnter>,
        pFuncLeave: Option<sys::FunctionLeave>,
        pFuncTailcall: Option<sys::FunctionTailcall>,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_first_hooks(&profiler, [pFuncEnter, pFuncLeave, pFuncTailcall])
    }

    pub(super) unsafe fn set_enter_leave_function_hooks2(
        &self,
        pFuncEnter: Option<sys::FunctionEnter2>,
        pFuncLeave: Option<sys::FunctionLeave2>,
        pFuncTailcall: Option<sys::FunctionTailcall2>,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_second_hooks(&profiler, (pFuncEnter, pFuncLeave, pFuncTailcall))
    }

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
        runtime.set_mapper(&profiler, pFunc.map(Mapper::Plain), null_mut())
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
            tell! {
                pFrameInfo => eltInfo,
                pcbArgumentInfo => size_of_val(&known) as u32,
                pArgumentInfo => known,
            }
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
            let range = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: eltInfo, length: 8 };
            tell! { pFrameInfo => eltInfo, pRetvalRange => range }
            HResult::S_OK
        }))
    }

    /// Any of the three flags will do (source: proftoeeinterfaceimpl.cpp, CORProfilerELT3SlowPathTailcallEnabled).
    pub(super) unsafe fn get_function_tailcall3_info(
        &self,
        functionId: sys::FunctionID,
        eltInfo: sys::COR_PRF_ELT_INFO,
        pFrameInfo: *mut sys::COR_PRF_FRAME_INFO,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(runtime.may_see_frame(&profiler, WITH_INFO).map(|()| {
            if functionId == 0 || eltInfo == 0 || pFrameInfo.is_null() {
                return HResult::E_INVALIDARG;
            }
            tell! { pFrameInfo => eltInfo }
            HResult::S_OK
        }))
    }

    /// Exceptions of the model are told of when they are thrown, and no clause runs then: nothing, which is no failure.
    pub(super) unsafe fn get_notified_exception_clause_info(&self, pinfo: *mut sys::COR_PRF_EX_CLAUSE_INFO) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let none =
            sys::COR_PRF_EX_CLAUSE_INFO { clauseType: 0, programCounter: 0, framePointer: 0, shadowStackPointer: 0 };
        tell! { pinfo => none }
        if runtime.this_thread().is_some() { HResult::S_FALSE } else { HResult::CORPROF_E_NOT_MANAGED_THREAD }
    }
}
