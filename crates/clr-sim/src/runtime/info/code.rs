//! Where a function's code lies, in each of its versions, and which IL it was made of.

use super::{FunctionId, Server, answer_list, code};
use crate::runtime::Runtime;
use crate::runtime::code::BODY_SIZE;
use corprof::{HResult, sys};

impl Server {
    pub(super) unsafe fn get_native_code_start_addresses(
        &self,
        functionID: sys::FunctionID,
        _reJitId: sys::ReJITID,
        cCodeStartAddresses: sys::ULONG32,
        pcCodeStartAddresses: *mut sys::ULONG32,
        codeStartAddresses: *mut sys::UINT_PTR,
    ) -> HResult {
        let start = |runtime: &Runtime| {
            runtime.lock().code.functions.get(&FunctionId(functionID)).map(|function| function.start)
        };
        code(self.about("GetNativeCodeStartAddresses", start).map(|start| {
            // SAFETY: as above.
            unsafe { answer_list(&[start as usize], cCodeStartAddresses, pcCodeStartAddresses, codeStartAddresses) }
        }))
    }

    pub(super) unsafe fn get_code_info4(
        &self,
        pNativeCodeStartAddress: sys::UINT_PTR,
        cCodeInfos: sys::ULONG32,
        pcCodeInfos: *mut sys::ULONG32,
        codeInfos: *mut sys::COR_PRF_CODE_INFO,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if !runtime.is_code(pNativeCodeStartAddress as u64) {
            return HResult::E_INVALIDARG;
        }
        let body = sys::COR_PRF_CODE_INFO { startAddress: pNativeCodeStartAddress, size: BODY_SIZE as usize };
        // SAFETY: as above.
        unsafe { answer_list(&[body], cCodeInfos, pcCodeInfos, codeInfos) }
    }

    pub(super) unsafe fn get_il_to_native_mapping3(
        &self,
        _pNativeCodeStartAddress: sys::UINT_PTR,
        cMap: sys::ULONG32,
        pcMap: *mut sys::ULONG32,
        map: *mut sys::COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        let whole =
            sys::COR_DEBUG_IL_TO_NATIVE_MAP { ilOffset: 0, nativeStartOffset: 0, nativeEndOffset: BODY_SIZE as u32 };
        // SAFETY: as above.
        unsafe { answer_list(&[whole], cMap, pcMap, map) }
    }
}
