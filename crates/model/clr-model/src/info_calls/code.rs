//! Calls about functions, their code, and the targets of tokens.

use super::{Answered, answered, calls, room};
use crate::scripted::Script;
use corprof::{HResult, sys};

calls! {
    /// GetFunctionInfo: class, module, token.
    first_function_info(function: usize) -> (class: usize, module: usize, token: u32)
        = ICorProfilerInfo::GetFunctionInfo(function, &raw mut class, &raw mut module, &raw mut token);
    /// GetFunctionFromToken.
    function_of_token(module: usize, token: u32) -> (function: usize)
        = ICorProfilerInfo::GetFunctionFromToken(module, token, &raw mut function);
    /// GetClassFromToken.
    class_of_token(module: usize, token: u32) -> (class: usize)
        = ICorProfilerInfo::GetClassFromToken(module, token, &raw mut class);
    /// GetCodeInfo: start and length of the code.
    code_of(function: usize) -> (start: usize, length: u32)
        = ICorProfilerInfo::GetCodeInfo(function, (&raw mut start).cast(), &raw mut length);
    /// GetCodeInfo2: the code and the number of pieces. The list has as many as fit. The same for the calls below.
    pieces_of(function: usize) -> [room, count, places: sys::COR_PRF_CODE_INFO]
        = ICorProfilerInfo2::GetCodeInfo2(function, room, &raw mut count, places);
    /// GetCodeInfo3.
    pieces_of_version(function: usize, version: usize) -> [room, count, places: sys::COR_PRF_CODE_INFO]
        = ICorProfilerInfo4::GetCodeInfo3(function, version, room, &raw mut count, places);
    /// GetCodeInfo4.
    pieces_at(start: usize) -> [room, count, places: sys::COR_PRF_CODE_INFO]
        = ICorProfilerInfo9::GetCodeInfo4(start, room, &raw mut count, places);
    /// GetNativeCodeStartAddresses.
    starts_of(function: usize, version: usize) -> [room, count, places: usize]
        = ICorProfilerInfo9::GetNativeCodeStartAddresses(function, version, room, &raw mut count, places);
    /// GetILToNativeMapping.
    il_of(function: usize) -> [room, count, places: sys::COR_DEBUG_IL_TO_NATIVE_MAP]
        = ICorProfilerInfo::GetILToNativeMapping(function, room, &raw mut count, places);
    /// GetReJITIDs.
    versions_of(function: usize) -> [room, count, places: usize]
        = ICorProfilerInfo4::GetReJITIDs(function, room, &raw mut count, places);
}
