//! Which function it is: by its id, by an address, by a token.

use super::{FunctionId, Server, answer, answer_text, code};
use crate::mutation;
use crate::runtime::ModuleId;
use crate::runtime::Runtime;
use crate::runtime::objects::class_of;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_sim_abi::enumerators::{Functions, enumerator};

impl Server {
    pub(super) unsafe fn enum_jited_functions(&self, ppEnum: *mut *mut sys::ICorProfilerFunctionEnum) -> HResult {
        // SAFETY: as above.
        unsafe { self.enum_jited_functions2(ppEnum) }
    }

    pub(super) unsafe fn enum_jited_functions2(&self, ppEnum: *mut *mut sys::ICorProfilerFunctionEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let entry = |id: FunctionId| sys::COR_PRF_FUNCTION { functionId: id.0, reJitId: 0 };
        let functions = runtime.jitted_functions().into_iter().map(entry).collect();
        schedule::note("Profiler calls EnumJITedFunctions", 0);
        // SAFETY: as above.
        unsafe { answer(ppEnum, enumerator::<Functions>(functions, &runtime.enumerators)) };
        HResult::S_OK
    }

    pub(super) unsafe fn get_function_from_ip(&self, ip: sys::LPCBYTE, pFunctionId: *mut sys::FunctionID) -> HResult {
        code(self.function_from(ip as u64, false).map(|(function, _)| {
            // SAFETY: as above.
            unsafe { answer(pFunctionId, function) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_function_from_ip2(
        &self,
        ip: sys::LPCBYTE,
        pFunctionId: *mut sys::FunctionID,
        pReJitId: *mut sys::ReJITID,
    ) -> HResult {
        code(self.function_from(ip as u64, false).map(|(function, version)| {
            // SAFETY: as above, twice.
            unsafe { answer(pFunctionId, function) };
            // SAFETY: as above.
            unsafe { answer(pReJitId, version) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_function_from_ip3(
        &self,
        ip: sys::LPCBYTE,
        functionId: *mut sys::FunctionID,
        pReJitId: *mut sys::ReJITID,
    ) -> HResult {
        code(self.function_from(ip as u64, true).map(|(function, version)| {
            // SAFETY: as above, twice.
            unsafe { answer(functionId, function) };
            // SAFETY: as above.
            unsafe { answer(pReJitId, version) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn is_function_dynamic(&self, functionId: sys::FunctionID, isDynamic: *mut sys::BOOL) -> HResult {
        let looked_up = self.about("IsFunctionDynamic", |runtime| {
            runtime.lock().code.functions.get(&FunctionId(functionId)).map(|function| function.module.is_none())
        });
        code(looked_up.map(|dynamic| {
            // SAFETY: as above.
            unsafe { answer(isDynamic, sys::BOOL::from(dynamic)) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_dynamic_function_info(
        &self,
        functionId: sys::FunctionID,
        moduleId: *mut sys::ModuleID,
        _ppvSig: *mut sys::PCCOR_SIGNATURE,
        _pbSig: *mut sys::ULONG,
        cchName: sys::ULONG,
        pcchName: *mut sys::ULONG,
        wszName: *mut sys::WCHAR,
    ) -> HResult {
        let known = |runtime: &Runtime| {
            let state = runtime.lock();
            let function = state.code.functions.get(&FunctionId(functionId))?;
            Some((function.module, function.token, function.name))
        };
        code(self.about("GetDynamicFunctionInfo", known).map(|(module, token, name)| {
            // Of one with metadata it tells nothing (source: proftoeeinterfaceimpl.cpp, GetDynamicFunctionInfo; live: cat_08).
            if module.is_some() {
                return HResult::E_INVALIDARG;
            }
            let name = name.map_or_else(|| format!("dynamic{token:#x}"), str::to_owned);
            // SAFETY: as above.
            unsafe { answer(moduleId, 0) };
            // SAFETY: as above.
            unsafe { answer_text(&name, cchName, pcchName, wszName) }
        }))
    }

    pub(super) unsafe fn get_function_info2(
        &self,
        funcId: sys::FunctionID,
        _frameInfo: sys::COR_PRF_FRAME_INFO,
        pClassId: *mut sys::ClassID,
        pModuleId: *mut sys::ModuleID,
        pToken: *mut sys::mdToken,
        _cTypeArgs: sys::ULONG32,
        pcTypeArgs: *mut sys::ULONG32,
        _typeArgs: *mut sys::ClassID,
    ) -> HResult {
        let facts = |runtime: &Runtime| {
            let state = runtime.lock();
            let function = state.code.functions.get(&FunctionId(funcId))?;
            let module = if mutation::is("CAT-08/2") { Some(ModuleId(0)) } else { function.module };
            Some((module, function.token))
        };
        code(self.about("GetFunctionInfo2", facts).map(|(module, token)| {
            // A dynamic function has neither.
            let Some(module) = module else { return HResult::E_INVALIDARG };
            // SAFETY: as above, four times.
            unsafe { answer(pClassId, class_of(module).0) };
            // SAFETY: as above.
            unsafe { answer(pModuleId, module.0) };
            // SAFETY: as above.
            unsafe { answer(pToken, token) };
            // SAFETY: as above.
            unsafe { answer(pcTypeArgs, 0) };
            HResult::S_OK
        }))
    }
}
