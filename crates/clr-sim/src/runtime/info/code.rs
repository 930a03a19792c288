//! Where a function's code lies, in each of its versions, and which IL it was made of.
//!
//! Each body of the model is one piece, and all of it comes of the IL's beginning.

use super::{FunctionId, INSUFFICIENT_BUFFER, Server, answer_list, code, has_place, named, tell};
use crate::runtime::code::BODY_SIZE;
use corprof::{HResult, sys};

/// What the program came with.
const FIRST_VERSION: usize = 0;

impl Server {
    /// Where the bodies of one version begin, the oldest first. What is still being compiled has none, nor has a version that there never
    /// was.
    fn bodies_of(&self, function: usize, version: usize, what: &str) -> Result<Vec<u64>, HResult> {
        named(function)?;
        self.about(what, |runtime| {
            let state = runtime.lock();
            let known = state.code.functions.get(&FunctionId(function))?;
            Some(if known.is_compiled { state.bodies_of_version(FunctionId(function), version) } else { Vec::new() })
        })
    }

    /// The same of the oldest one: who asks about a version is told of that (source: proftoeeinterfaceimpl.cpp, GetCodeInfo3).
    fn body_of(&self, function: usize, version: usize, what: &str) -> Result<u64, HResult> {
        let bodies = self.bodies_of(function, version, what)?;
        bodies.first().copied().ok_or(HResult::CORPROF_E_FUNCTION_NOT_COMPILED)
    }

    pub(super) unsafe fn get_code_info(
        &self,
        functionId: sys::FunctionID,
        pStart: *mut sys::LPCBYTE,
        pcSize: *mut sys::ULONG,
    ) -> HResult {
        code(self.body_of(functionId, FIRST_VERSION, "GetCodeInfo").map(|start| {
            tell! { pStart => start as sys::LPCBYTE, pcSize => BODY_SIZE as u32 }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_code_info2(
        &self,
        functionID: sys::FunctionID,
        cCodeInfos: sys::ULONG32,
        pcCodeInfos: *mut sys::ULONG32,
        codeInfos: *mut sys::COR_PRF_CODE_INFO,
    ) -> HResult {
        let room = (cCodeInfos, pcCodeInfos, codeInfos);
        // SAFETY: the profiler's room, passed on.
        unsafe { self.pieces_of(functionID, FIRST_VERSION, "GetCodeInfo2", room) }
    }

    pub(super) unsafe fn get_code_info3(
        &self,
        functionID: sys::FunctionID,
        reJitId: sys::ReJITID,
        cCodeInfos: sys::ULONG32,
        pcCodeInfos: *mut sys::ULONG32,
        codeInfos: *mut sys::COR_PRF_CODE_INFO,
    ) -> HResult {
        // SAFETY: as above.
        unsafe { self.pieces_of(functionID, reJitId, "GetCodeInfo3", (cCodeInfos, pcCodeInfos, codeInfos)) }
    }

    /// Where the code of one version lies.
    ///
    /// # Safety
    /// The list is null or has so much room; the place for its length is null or one.
    unsafe fn pieces_of(
        &self,
        function: usize,
        version: usize,
        what: &str,
        (room, count, pieces): (u32, *mut u32, *mut sys::COR_PRF_CODE_INFO),
    ) -> HResult {
        if function == 0 || !has_place(room, pieces) {
            return HResult::E_INVALIDARG;
        }
        code(self.body_of(function, version, what).map(|start| {
            // SAFETY: the caller's promise.
            unsafe { answer_list(&[piece(start)], room, count, pieces) }
        }))
    }

    /// About an address, which is never stale: where there is no code, there is none (source: proftoeeinterfaceimpl.cpp,
    /// GetCodeInfoFromCodeStart).
    pub(super) unsafe fn get_code_info4(
        &self,
        pNativeCodeStartAddress: sys::UINT_PTR,
        cCodeInfos: sys::ULONG32,
        pcCodeInfos: *mut sys::ULONG32,
        codeInfos: *mut sys::COR_PRF_CODE_INFO,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if !has_place(cCodeInfos, codeInfos) {
            return HResult::E_INVALIDARG;
        }
        if !runtime.is_code(pNativeCodeStartAddress as u64) {
            return HResult::CORPROF_E_FUNCTION_NOT_COMPILED;
        }
        let piece = piece(pNativeCodeStartAddress as u64);
        // SAFETY: as above.
        unsafe { answer_list(&[piece], cCodeInfos, pcCodeInfos, codeInfos) }
    }

    /// All of them or none.
    pub(super) unsafe fn get_native_code_start_addresses(
        &self,
        functionID: sys::FunctionID,
        reJitId: sys::ReJITID,
        cCodeStartAddresses: sys::ULONG32,
        pcCodeStartAddresses: *mut sys::ULONG32,
        codeStartAddresses: *mut sys::UINT_PTR,
    ) -> HResult {
        let starts: Vec<usize> = match self.bodies_of(functionID, reJitId, "GetNativeCodeStartAddresses") {
            Ok(starts) => starts.into_iter().map(|start| start as usize).collect(),
            Err(refused) => return refused,
        };
        if !codeStartAddresses.is_null() && (cCodeStartAddresses as usize) < starts.len() {
            tell! { pcCodeStartAddresses => starts.len() as u32 }
            return INSUFFICIENT_BUFFER;
        }
        // SAFETY: as above.
        unsafe { answer_list(&starts, cCodeStartAddresses, pcCodeStartAddresses, codeStartAddresses) }
    }

    pub(super) unsafe fn get_il_to_native_mapping(
        &self,
        functionId: sys::FunctionID,
        cMap: sys::ULONG32,
        pcMap: *mut sys::ULONG32,
        map: *mut sys::COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        // SAFETY: passed on.
        unsafe { self.get_il_to_native_mapping2(functionId, FIRST_VERSION, cMap, pcMap, map) }
    }

    pub(super) unsafe fn get_il_to_native_mapping2(
        &self,
        functionId: sys::FunctionID,
        reJitId: sys::ReJITID,
        cMap: sys::ULONG32,
        pcMap: *mut sys::ULONG32,
        map: *mut sys::COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        match self.body_of(functionId, reJitId, "GetILToNativeMapping2") {
            // SAFETY: passed on.
            Ok(start) => unsafe { self.get_il_to_native_mapping3(start as usize, cMap, pcMap, map) },
            // It goes on with no address (source: proftoeeinterfaceimpl.cpp, GetILToNativeMapping2).
            Err(HResult::CORPROF_E_FUNCTION_NOT_COMPILED) => HResult::E_INVALIDARG,
            Err(refused) => refused,
        }
    }

    /// A function without metadata has no map, nor has what is no code (source: debugger.cpp, GetILToNativeMapping).
    pub(super) unsafe fn get_il_to_native_mapping3(
        &self,
        pNativeCodeStartAddress: sys::UINT_PTR,
        cMap: sys::ULONG32,
        pcMap: *mut sys::ULONG32,
        map: *mut sys::COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if pNativeCodeStartAddress == 0 || !has_place(cMap, map) || cMap > 0 && pcMap.is_null() {
            return HResult::E_INVALIDARG;
        }
        let has_map = {
            let state = runtime.lock();
            let function = state.code.function_at(pNativeCodeStartAddress as u64);
            function.and_then(|id| state.code.functions.get(&id)).is_some_and(|known| known.module.is_some())
        };
        if !has_map {
            return HResult::E_FAIL;
        }
        let whole =
            sys::COR_DEBUG_IL_TO_NATIVE_MAP { ilOffset: 0, nativeStartOffset: 0, nativeEndOffset: BODY_SIZE as u32 };
        // SAFETY: the profiler's room.
        unsafe { answer_list(&[whole], cMap, pcMap, map) }
    }

    /// The version that the program came with is among them; where room is short, the code says so (source: rejit.cpp, GetReJITIDs). 3.1
    /// does not take a list without room.
    pub(super) unsafe fn get_rejit_ids(
        &self,
        functionId: sys::FunctionID,
        cReJitIds: sys::ULONG,
        pcReJitIds: *mut sys::ULONG,
        reJitIds: *mut sys::ReJITID,
    ) -> HResult {
        if functionId == 0 || pcReJitIds.is_null() || !has_place(cReJitIds, reJitIds) {
            return HResult::E_INVALIDARG;
        }
        if cReJitIds == 0 && self.differences().is_some_and(|known| known.versions_need_room) {
            return HResult::E_INVALIDARG;
        }
        let versions = self.about("GetReJITIDs", |runtime| {
            let state = runtime.lock();
            let function = FunctionId(functionId);
            state.code.functions.contains_key(&function).then(|| state.versions_of(function))
        });
        code(versions.map(|versions| {
            // SAFETY: as above.
            let answered = unsafe { answer_list(&versions, cReJitIds, pcReJitIds, reJitIds) };
            if versions.len() > cReJitIds as usize { HResult::S_FALSE } else { answered }
        }))
    }
}

fn piece(start: u64) -> sys::COR_PRF_CODE_INFO {
    sys::COR_PRF_CODE_INFO { startAddress: start as usize, size: BODY_SIZE as usize }
}
