//! The addresses of a function's code, in each of its versions, and the IL that it came from.
//!
//! Each body of the model is one piece, mapped to the start of its IL.

use super::{
    Answer, FunctionId, INSUFFICIENT_BUFFER, Server, answer_list, answered, args, has_place, invalid_if, named,
    refuse_if, write_answers,
};
use crate::runtime::code::BODY_SIZE;
use corprof::{HResult, sys};

/// The version of the original IL.
const FIRST_VERSION: usize = 0;

impl Server {
    /// The starts of one version's bodies, oldest first. A function that is still being compiled has none, and neither has a version that
    /// never existed.
    fn bodies_of(&self, function: usize, version: usize, what: &str) -> Result<Vec<u64>, HResult> {
        named(function)?;
        self.about("function", what, |runtime| {
            let state = runtime.lock();
            let known = state.code.functions.get(&FunctionId(function))?;
            Some(if known.is_compiled { state.bodies_of_version(FunctionId(function), version) } else { Vec::new() })
        })
    }

    /// The start of the oldest body, which is the answer for a version (source: proftoeeinterfaceimpl.cpp, GetCodeInfo3).
    fn body_of(&self, function: usize, version: usize, what: &str) -> Result<u64, HResult> {
        let bodies = self.bodies_of(function, version, what)?;
        bodies.first().copied().ok_or(HResult::CORPROF_E_FUNCTION_NOT_COMPILED)
    }

    pub(super) unsafe fn get_code_info(&self, args: args::GetCodeInfo) -> Answer {
        let start = self.body_of(args.functionId, FIRST_VERSION, "GetCodeInfo")?;
        answered! { args.pStart => start as sys::LPCBYTE, args.pcSize => BODY_SIZE as u32 }
    }

    pub(super) unsafe fn get_code_info2(&self, args: args::GetCodeInfo2) -> Answer {
        let args::GetCodeInfo2 { functionID, cCodeInfos, pcCodeInfos, codeInfos } = args;
        let args = args::GetCodeInfo3 { functionID, reJitId: FIRST_VERSION, cCodeInfos, pcCodeInfos, codeInfos };
        // SAFETY: the profiler's own arguments; the API has the same rules for both methods.
        unsafe { self.code_info(args, "GetCodeInfo2") }
    }

    pub(super) unsafe fn get_code_info3(&self, args: args::GetCodeInfo3) -> Answer {
        // SAFETY: the profiler's own arguments.
        unsafe { self.code_info(args, "GetCodeInfo3") }
    }

    /// # Safety
    /// The list is null or has the stated room.
    unsafe fn code_info(&self, args: args::GetCodeInfo3, what: &str) -> Answer {
        invalid_if(!has_place(args.cCodeInfos, args.codeInfos))?;
        let start = self.body_of(args.functionID, args.reJitId, what)?;
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&[piece(start)], args.cCodeInfos, args.pcCodeInfos, args.codeInfos) }
    }

    /// An address is never stale: without code there is no answer (source: proftoeeinterfaceimpl.cpp, GetCodeInfoFromCodeStart).
    pub(super) unsafe fn get_code_info4(&self, args: args::GetCodeInfo4) -> Answer {
        invalid_if(!has_place(args.cCodeInfos, args.codeInfos))?;
        let start = args.pNativeCodeStartAddress as u64;
        refuse_if(!self.runtime()?.is_code(start), HResult::CORPROF_E_FUNCTION_NOT_COMPILED)?;
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&[piece(start)], args.cCodeInfos, args.pcCodeInfos, args.codeInfos) }
    }

    /// All of them or none.
    pub(super) unsafe fn get_native_code_start_addresses(&self, args: args::GetNativeCodeStartAddresses) -> Answer {
        let starts = self.bodies_of(args.functionID, args.reJitId, "GetNativeCodeStartAddresses")?;
        let starts: Vec<usize> = starts.into_iter().map(|start| start as usize).collect();
        let (room, places) = (args.cCodeStartAddresses, args.codeStartAddresses);
        if !places.is_null() && (room as usize) < starts.len() {
            write_answers! { args.pcCodeStartAddresses => starts.len() as u32 }
            return Err(INSUFFICIENT_BUFFER);
        }
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&starts, room, args.pcCodeStartAddresses, places) }
    }

    pub(super) unsafe fn get_il_to_native_mapping(&self, args: args::GetILToNativeMapping) -> Answer {
        let args::GetILToNativeMapping { functionId, cMap, pcMap, map } = args;
        let args = args::GetILToNativeMapping2 { functionId, reJitId: FIRST_VERSION, cMap, pcMap, map };
        // SAFETY: the profiler's own arguments; the API has the same rules for both methods.
        unsafe { self.il_to_native_mapping(args, "GetILToNativeMapping") }
    }

    pub(super) unsafe fn get_il_to_native_mapping2(&self, args: args::GetILToNativeMapping2) -> Answer {
        // SAFETY: the profiler's own arguments.
        unsafe { self.il_to_native_mapping(args, "GetILToNativeMapping2") }
    }

    /// Without code it continues with no address (source: proftoeeinterfaceimpl.cpp, GetILToNativeMapping2).
    ///
    /// # Safety
    /// The list is null or has the stated room.
    unsafe fn il_to_native_mapping(&self, args: args::GetILToNativeMapping2, what: &str) -> Answer {
        let bodies = self.bodies_of(args.functionId, args.reJitId, what)?;
        let pNativeCodeStartAddress = bodies.first().map_or(0, |start| *start as usize);
        let args::GetILToNativeMapping2 { cMap, pcMap, map, .. } = args;
        let args = args::GetILToNativeMapping3 { pNativeCodeStartAddress, cMap, pcMap, map };
        // SAFETY: the profiler's own arguments; the API has the same rules for both methods.
        unsafe { self.get_il_to_native_mapping3(args) }
    }

    /// A function without metadata has no map, and neither has an address without code (source: debugger.cpp, GetILToNativeMapping).
    pub(super) unsafe fn get_il_to_native_mapping3(&self, args: args::GetILToNativeMapping3) -> Answer {
        let runtime = self.runtime()?;
        let is_uncounted = args.cMap > 0 && args.pcMap.is_null();
        invalid_if(args.pNativeCodeStartAddress == 0 || !has_place(args.cMap, args.map) || is_uncounted)?;
        let has_map = {
            let state = runtime.lock();
            let function = state.code.function_at(args.pNativeCodeStartAddress as u64);
            function.and_then(|id| state.code.functions.get(&id)).is_some_and(|known| known.module.is_some())
        };
        refuse_if(!has_map, HResult::E_FAIL)?;
        let whole =
            sys::COR_DEBUG_IL_TO_NATIVE_MAP { ilOffset: 0, nativeStartOffset: 0, nativeEndOffset: BODY_SIZE as u32 };
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&[whole], args.cMap, args.pcMap, args.map) }
    }

    /// The original version is included. The code says if the room is too small (source: rejit.cpp, GetReJITIDs). 3.1 refuses a list
    /// without room.
    pub(super) unsafe fn get_rejit_ids(&self, args: args::GetReJITIDs) -> Answer {
        invalid_if(args.functionId == 0 || args.pcReJitIds.is_null() || !has_place(args.cReJitIds, args.reJitIds))?;
        invalid_if(args.cReJitIds == 0 && self.runtime()?.differences().versions_need_room)?;
        let versions = self.about("function", "GetReJITIDs", |runtime| {
            let state = runtime.lock();
            let function = FunctionId(args.functionId);
            state.code.functions.contains_key(&function).then(|| state.versions_of(function))
        })?;
        // SAFETY: the API requires a list that is null or has the stated room.
        let answered = unsafe { answer_list(&versions, args.cReJitIds, args.pcReJitIds, args.reJitIds) };
        if versions.len() > args.cReJitIds as usize { Ok(HResult::S_FALSE) } else { answered }
    }
}

fn piece(start: u64) -> sys::COR_PRF_CODE_INFO {
    sys::COR_PRF_CODE_INFO { startAddress: start as usize, size: BODY_SIZE as usize }
}
