//! Methods of Info that the documentation restricts to startup profilers, by name; each with arguments that are harmless where it is
//! served.
//!
//! tidy: catalogue

#![allow(non_upper_case_globals, reason = "nothing here is named by us")]

use corprof::{HResult, sys};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{from_mut, null_mut};

/// The subject of a call, if any.
#[derive(Debug, Clone, Copy, Default)]
pub struct About {
    /// A module.
    pub module: usize,
    /// A method in it.
    pub token: u32,
    /// A function.
    pub function: usize,
}

/// Calls the method of that name; `None` for other names.
///
/// # Safety
/// Info is valid, and knows the ids.
pub unsafe fn call(raw: *mut sys::ICorProfilerInfo, name: &str, about: About) -> Option<HResult> {
    // SAFETY: the caller guarantees that Info is valid and knows the ids, which each of these requires.
    let code =
        unsafe { hooks(raw, name).or_else(|| inspection(raw, name, about)).or_else(|| bodies(raw, name, about)) };
    code.map(HResult)
}

/// Hooks for every function entry and exit. Without their flag in the mask none is ever called.
unsafe fn hooks(raw: *mut sys::ICorProfilerInfo, name: &str) -> Option<i32> {
    // SAFETY: the caller guarantees that Info is valid; the hooks are functions of this library. This holds for each call below.
    Some(unsafe {
        match name {
            "SetEnterLeaveFunctionHooks" => {
                sys::ICorProfilerInfo::SetEnterLeaveFunctionHooks(raw, Some(hook), Some(hook), Some(hook))
            }
            "SetEnterLeaveFunctionHooks2" => sys::ICorProfilerInfo2::SetEnterLeaveFunctionHooks2(
                raw.cast(),
                Some(enter2),
                Some(leave2),
                Some(tailcall2),
            ),
            "SetEnterLeaveFunctionHooks3" => {
                sys::ICorProfilerInfo3::SetEnterLeaveFunctionHooks3(raw.cast(), Some(hook), Some(hook), Some(hook))
            }
            "SetEnterLeaveFunctionHooks3WithInfo" => sys::ICorProfilerInfo3::SetEnterLeaveFunctionHooks3WithInfo(
                raw.cast(),
                Some(with_info),
                Some(with_info),
                Some(with_info),
            ),
            "SetFunctionIDMapper" => sys::ICorProfilerInfo::SetFunctionIDMapper(raw, Some(mapper)),
            "SetFunctionIDMapper2" => {
                sys::ICorProfilerInfo3::SetFunctionIDMapper2(raw.cast(), Some(mapper2), null_mut())
            }
            _ => return None,
        }
    })
}

/// Queries for hooks and exception callbacks, and former debugger methods.
unsafe fn inspection(raw: *mut sys::ICorProfilerInfo, name: &str, about: About) -> Option<i32> {
    let (mut frame, mut length, mut flag, mut context, mut object) = (0, 0, 0, 0, null_mut());
    let (frame, length) = (from_mut(&mut frame), from_mut(&mut length));
    let function = about.function;
    // SAFETY: the caller guarantees that Info is valid; all outputs are local. This holds for each call below.
    Some(unsafe {
        match name {
            "GetFunctionEnter3Info" => {
                sys::ICorProfilerInfo3::GetFunctionEnter3Info(raw.cast(), function, 0, frame, length, null_mut())
            }
            "GetFunctionLeave3Info" => {
                let mut range = MaybeUninit::uninit();
                sys::ICorProfilerInfo3::GetFunctionLeave3Info(raw.cast(), function, 0, frame, range.as_mut_ptr())
            }
            "GetFunctionTailcall3Info" => {
                sys::ICorProfilerInfo3::GetFunctionTailcall3Info(raw.cast(), function, 0, frame)
            }
            "GetNotifiedExceptionClauseInfo" => {
                let mut clause = MaybeUninit::uninit();
                sys::ICorProfilerInfo2::GetNotifiedExceptionClauseInfo(raw.cast(), clause.as_mut_ptr())
            }
            "SetFunctionReJIT" => sys::ICorProfilerInfo::SetFunctionReJIT(raw, function),
            "GetInprocInspectionInterface" => sys::ICorProfilerInfo::GetInprocInspectionInterface(raw, &raw mut object),
            "GetInprocInspectionIThisThread" => {
                sys::ICorProfilerInfo::GetInprocInspectionIThisThread(raw, &raw mut object)
            }
            "BeginInprocDebugging" => sys::ICorProfilerInfo::BeginInprocDebugging(raw, flag, &raw mut context),
            "EndInprocDebugging" => sys::ICorProfilerInfo::EndInprocDebugging(raw, context),
            "EnumNgenModuleMethodsInliningThisMethod" => {
                let (raw, module, mut list) = (raw.cast(), about.module, null_mut());
                let code = sys::ICorProfilerInfo6::EnumNgenModuleMethodsInliningThisMethod(
                    raw,
                    module,
                    module,
                    about.token,
                    &raw mut flag,
                    &raw mut list,
                );
                if !list.is_null() {
                    sys::IUnknown::Release(list.cast());
                }
                code
            }
            _ => return None,
        }
    })
}

/// Methods for profilers that rewrite code.
unsafe fn bodies(raw: *mut sys::ICorProfilerInfo, name: &str, about: About) -> Option<i32> {
    let About { module, token, function } = about;
    let (mut body, mut length, mut allocator) = (std::ptr::null(), 0, null_mut());
    let same = sys::COR_IL_MAP { oldOffset: 0, newOffset: 0, fAccurate: 1 };
    // SAFETY: the caller guarantees that Info is valid; all outputs are local. This holds for each call below.
    Some(unsafe {
        match name {
            "GetILFunctionBody" => {
                sys::ICorProfilerInfo::GetILFunctionBody(raw, module, token, &raw mut body, &raw mut length)
            }
            "GetILFunctionBodyAllocator" => {
                sys::ICorProfilerInfo::GetILFunctionBodyAllocator(raw, module, &raw mut allocator)
            }
            "SetILInstrumentedCodeMap" => {
                sys::ICorProfilerInfo::SetILInstrumentedCodeMap(raw, function, 1, 1, &raw const same)
            }
            _ => return None,
        }
    })
}

unsafe extern "C" fn hook(_: usize) {}

unsafe extern "C" fn with_info(_: usize, _: usize) {}

unsafe extern "C" fn enter2(_: usize, _: usize, _: usize, _: *mut sys::COR_PRF_FUNCTION_ARGUMENT_INFO) {}

unsafe extern "C" fn leave2(_: usize, _: usize, _: usize, _: *mut sys::COR_PRF_FUNCTION_ARGUMENT_RANGE) {}

unsafe extern "C" fn tailcall2(_: usize, _: usize, _: usize) {}

/// Keeps each function's id, and disables its hooks.
unsafe extern "C" fn mapper(function: usize, is_hooked: *mut i32) -> usize {
    if !is_hooked.is_null() {
        // SAFETY: not null, so valid for the answer: the runtime guarantees it for a mapper.
        unsafe { is_hooked.write(0) };
    }
    function
}

unsafe extern "C" fn mapper2(function: usize, _: *mut c_void, is_hooked: *mut i32) -> usize {
    // SAFETY: the runtime guarantees that `is_hooked` is null or valid.
    unsafe { mapper(function, is_hooked) }
}
