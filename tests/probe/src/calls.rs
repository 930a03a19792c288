//! Methods of Info that documents keep for profilers from the start, by their names: each with arguments that do no harm where it is served.
//!
//! tidy: catalogue

#![allow(non_upper_case_globals, reason = "nothing here is named by us")]

use corprof::{HResult, sys};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{from_mut, null_mut};

/// What a method is asked about, where it is about something.
#[derive(Debug, Clone, Copy, Default)]
pub struct About {
    /// A module.
    pub module: usize,
    /// A method in it.
    pub token: u32,
    /// A function.
    pub function: usize,
}

/// Calls the method of that name; `None` if it is none of these.
///
/// # Safety
/// Info is alive, and knows the ids.
pub unsafe fn call(raw: *mut sys::ICorProfilerInfo, name: &str, about: About) -> Option<HResult> {
    // SAFETY: the caller's promise, for each.
    let code =
        unsafe { hooks(raw, name).or_else(|| inspection(raw, name, about)).or_else(|| bodies(raw, name, about)) };
    code.map(HResult)
}

/// Functions that are called at every entrance and exit. Without their flag in the mask none of these ever is.
unsafe fn hooks(raw: *mut sys::ICorProfilerInfo, name: &str) -> Option<i32> {
    // SAFETY: alive; functions of this library. The same for each below.
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

/// What is looked at in a hook or in a callback about an exception, and what was for debuggers once.
unsafe fn inspection(raw: *mut sys::ICorProfilerInfo, name: &str, about: About) -> Option<i32> {
    let (mut frame, mut length, mut flag, mut context, mut object) = (0, 0, 0, 0, null_mut());
    let (frame, length) = (from_mut(&mut frame), from_mut(&mut length));
    let function = about.function;
    // SAFETY: alive, and places for the answers. The same for each below.
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

/// What is for who changes methods.
unsafe fn bodies(raw: *mut sys::ICorProfilerInfo, name: &str, about: About) -> Option<i32> {
    let About { module, token, function } = about;
    let (mut body, mut length, mut allocator) = (std::ptr::null(), 0, null_mut());
    let same = sys::COR_IL_MAP { oldOffset: 0, newOffset: 0, fAccurate: 1 };
    // SAFETY: alive, and places for the answers. The same for each below.
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

/// Leaves each function as it is, and has none hooked.
unsafe extern "C" fn mapper(function: usize, is_hooked: *mut i32) -> usize {
    if !is_hooked.is_null() {
        // SAFETY: the runtime's place for the answer.
        unsafe { is_hooked.write(0) };
    }
    function
}

unsafe extern "C" fn mapper2(function: usize, _: *mut c_void, is_hooked: *mut i32) -> usize {
    // SAFETY: the same place.
    unsafe { mapper(function, is_hooked) }
}
