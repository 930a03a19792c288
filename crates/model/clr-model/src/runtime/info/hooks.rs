//! Enter, leave and tail call hooks, and the calls allowed in hooks and exception callbacks.

use super::{Answer, Server, answered, args, invalid_if, refuse_if, write_answers};
use crate::runtime::hooks::{Mapper, WITH_INFO};
use corprof::{HResult, sys};
use std::ptr::null_mut;

impl Server {
    pub(super) unsafe fn set_enter_leave_function_hooks(&self, args: args::SetEnterLeaveFunctionHooks) -> Answer {
        let first = [args.pFuncEnter, args.pFuncLeave, args.pFuncTailcall];
        self.with_both(|runtime, profiler| runtime.set_hooks(profiler, |hooks| hooks.first = first))
    }

    pub(super) unsafe fn set_enter_leave_function_hooks2(&self, args: args::SetEnterLeaveFunctionHooks2) -> Answer {
        let second = (args.pFuncEnter, args.pFuncLeave, args.pFuncTailcall);
        self.with_both(|runtime, profiler| runtime.set_hooks(profiler, |hooks| hooks.second = second))
    }

    pub(super) unsafe fn set_enter_leave_function_hooks3(&self, args: args::SetEnterLeaveFunctionHooks3) -> Answer {
        let fast = [args.pFuncEnter3, args.pFuncLeave3, args.pFuncTailcall3];
        self.with_both(|runtime, profiler| runtime.set_hooks(profiler, |hooks| hooks.fast = fast))
    }

    pub(super) unsafe fn set_enter_leave_function_hooks3_with_info(
        &self,
        args: args::SetEnterLeaveFunctionHooks3WithInfo,
    ) -> Answer {
        let with_info = [args.pFuncEnter3WithInfo, args.pFuncLeave3WithInfo, args.pFuncTailcall3WithInfo];
        self.with_both(|runtime, profiler| runtime.set_hooks(profiler, |hooks| hooks.with_info = with_info))
    }

    pub(super) unsafe fn set_function_id_mapper(&self, args: args::SetFunctionIDMapper) -> Answer {
        self.with_both(|runtime, profiler| runtime.set_mapper(profiler, args.pFunc.map(Mapper::Plain), null_mut()))
    }

    pub(super) unsafe fn set_function_id_mapper2(&self, args: args::SetFunctionIDMapper2) -> Answer {
        self.with_both(|runtime, profiler| {
            runtime.set_mapper(profiler, args.pFunc.map(Mapper::WithData), args.clientData)
        })
    }

    pub(super) unsafe fn get_function_enter3_info(&self, args: args::GetFunctionEnter3Info) -> Answer {
        self.may_see_frame(sys::COR_PRF_ENABLE_FUNCTION_ARGS)?;
        let ranges = [sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: args.eltInfo, length: 8 }];
        let known = sys::COR_PRF_FUNCTION_ARGUMENT_INFO { numRanges: 1, totalArgumentSize: 8, ranges };
        answered! {
            args.pFrameInfo => args.eltInfo,
            args.pcbArgumentInfo => size_of_val(&known) as u32,
            args.pArgumentInfo => known,
        }
    }

    pub(super) unsafe fn get_function_leave3_info(&self, args: args::GetFunctionLeave3Info) -> Answer {
        self.may_see_frame(sys::COR_PRF_ENABLE_FUNCTION_RETVAL)?;
        let range = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: args.eltInfo, length: 8 };
        answered! { args.pFrameInfo => args.eltInfo, args.pRetvalRange => range }
    }

    /// Any of the three flags suffices (source: proftoeeinterfaceimpl.cpp, CORProfilerELT3SlowPathTailcallEnabled).
    pub(super) unsafe fn get_function_tailcall3_info(&self, args: args::GetFunctionTailcall3Info) -> Answer {
        self.may_see_frame(WITH_INFO)?;
        invalid_if(args.functionId == 0 || args.eltInfo == 0 || args.pFrameInfo.is_null())?;
        answered! { args.pFrameInfo => args.eltInfo }
    }

    /// An attached profiler sees no frame. For others the mask decides.
    fn may_see_frame(&self, needed: u32) -> Result<(), HResult> {
        let (_, profiler) = self.both()?;
        refuse_if(profiler.attached, HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER)?;
        refuse_if(profiler.mask().0 & needed == 0, HResult::CORPROF_E_INCONSISTENT_WITH_FLAGS)
    }

    /// Exceptions of the model are reported when they are thrown, while no clause runs. The answer is empty and succeeds.
    pub(super) unsafe fn get_notified_exception_clause_info(
        &self,
        args: args::GetNotifiedExceptionClauseInfo,
    ) -> Answer {
        let runtime = self.runtime()?;
        let none =
            sys::COR_PRF_EX_CLAUSE_INFO { clauseType: 0, programCounter: 0, framePointer: 0, shadowStackPointer: 0 };
        write_answers! { args.pinfo => none }
        runtime.this_thread().map(|_| HResult::S_FALSE).ok_or(HResult::CORPROF_E_NOT_MANAGED_THREAD)
    }
}
