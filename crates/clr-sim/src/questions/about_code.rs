//! Questions about functions, their code, and what a token means.

use super::{Answered, answered, room};
use crate::scripted::Script;
use corprof::{HResult, sys};

impl Script {
    /// GetFunctionInfo: class, module, token.
    pub fn first_function_info(&self, function: usize) -> Answered<(usize, usize, u32)> {
        let (mut class, mut module, mut token) = (0, 0, 0);
        // SAFETY: the runtime's object, which the model keeps; a place for each answer. The same for every call below.
        let code = unsafe {
            sys::ICorProfilerInfo::GetFunctionInfo(
                self.raw(),
                function,
                &raw mut class,
                &raw mut module,
                &raw mut token,
            )
        };
        answered(code, (class, module, token))
    }

    /// GetFunctionFromToken.
    pub fn function_of_token(&self, module: usize, token: u32) -> Answered<usize> {
        let mut function = 0;
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo::GetFunctionFromToken(self.raw(), module, token, &raw mut function) };
        answered(code, function)
    }

    /// GetClassFromToken.
    pub fn class_of_token(&self, module: usize, token: u32) -> Answered<usize> {
        let mut class = 0;
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo::GetClassFromToken(self.raw(), module, token, &raw mut class) };
        answered(code, class)
    }

    /// GetCodeInfo: where the code begins, and its length.
    pub fn code_of(&self, function: usize) -> Answered<(usize, u32)> {
        let (mut start, mut length) = (std::ptr::null(), 0);
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo::GetCodeInfo(self.raw(), function, &raw mut start, &raw mut length) };
        answered(code, (start as usize, length))
    }

    /// GetCodeInfo2: the code, and how many pieces there are; as many as fit are in `list` then.
    pub fn pieces_of(&self, function: usize, list: &mut [sys::COR_PRF_CODE_INFO]) -> (HResult, u32) {
        let ((room, places), mut count) = (room(list), 0);
        // SAFETY: as above, and a list with so much room. The same for each below.
        let code = unsafe { sys::ICorProfilerInfo2::GetCodeInfo2(self.at(), function, room, &raw mut count, places) };
        (HResult(code), count)
    }

    /// GetCodeInfo3.
    pub fn pieces_of_version(
        &self,
        function: usize,
        version: usize,
        list: &mut [sys::COR_PRF_CODE_INFO],
    ) -> (HResult, u32) {
        let ((room, places), mut count) = (room(list), 0);
        // SAFETY: as above.
        let code =
            unsafe { sys::ICorProfilerInfo4::GetCodeInfo3(self.at(), function, version, room, &raw mut count, places) };
        (HResult(code), count)
    }

    /// GetCodeInfo4.
    pub fn pieces_at(&self, start: usize, list: &mut [sys::COR_PRF_CODE_INFO]) -> (HResult, u32) {
        let ((room, places), mut count) = (room(list), 0);
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo9::GetCodeInfo4(self.at(), start, room, &raw mut count, places) };
        (HResult(code), count)
    }

    /// GetNativeCodeStartAddresses.
    pub fn starts_of(&self, function: usize, version: usize, list: &mut [usize]) -> (HResult, u32) {
        let ((room, places), mut count) = (room(list), 0);
        // SAFETY: as above.
        let code = unsafe {
            sys::ICorProfilerInfo9::GetNativeCodeStartAddresses(
                self.at(),
                function,
                version,
                room,
                &raw mut count,
                places,
            )
        };
        (HResult(code), count)
    }

    /// GetILToNativeMapping.
    pub fn il_of(&self, function: usize, list: &mut [sys::COR_DEBUG_IL_TO_NATIVE_MAP]) -> (HResult, u32) {
        let ((room, places), mut count) = (room(list), 0);
        // SAFETY: as above.
        let code =
            unsafe { sys::ICorProfilerInfo::GetILToNativeMapping(self.raw(), function, room, &raw mut count, places) };
        (HResult(code), count)
    }

    /// GetReJITIDs.
    pub fn versions_of(&self, function: usize, list: &mut [usize]) -> (HResult, u32) {
        let ((room, places), mut count) = (room(list), 0);
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo4::GetReJITIDs(self.at(), function, room, &raw mut count, places) };
        (HResult(code), count)
    }
}
