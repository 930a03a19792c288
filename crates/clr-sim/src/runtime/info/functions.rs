//! Which function it is: by its id, by an address, by a token.

use super::{FunctionId, ModuleId, Server, answer_list, answer_whole_text, code, has_place, named, tell};
use crate::mutation;
use crate::runtime::objects::class_of;
use crate::runtime::{ClassId, Runtime};
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_sim_abi::enumerators::{Functions, enumerator};

/// mdtMethodDef and mdtMemberRef, and the part of a token in which they stand (source: corhdr.h).
const METHOD_DEFINITION: u32 = 0x0600_0000;
const MEMBER_REFERENCE: u32 = 0x0A00_0000;
const KIND_OF_TOKEN: u32 = 0xFF00_0000;
/// Of a method without arguments that returns nothing: calling convention, count, `void` (ECMA-335, II.23.2.1).
pub(in crate::runtime) static NO_ARGUMENTS: [u8; 3] = [0x00, 0x00, 0x01];

fn is_of_method(token: u32) -> bool {
    [METHOD_DEFINITION, MEMBER_REFERENCE].contains(&(token & KIND_OF_TOKEN))
}

impl Runtime {
    /// The function of a token. References to members of other modules are not modelled.
    fn function_of(&self, module: ModuleId, token: u32) -> Option<FunctionId> {
        let state = self.lock();
        let mut functions = state.code.functions.iter();
        functions.find(|(_, one)| one.module == Some(module) && one.token == token).map(|(id, _)| *id)
    }
}

impl Server {
    /// Module and token of a function. One that is dynamic is said to be of a module of the framework's, by a token that is nobody's
    /// (live: questions.rs).
    fn identified(&self, function: usize, what: &str) -> Result<(ModuleId, u32), HResult> {
        named(function)?;
        let facts = self.about(what, |runtime| {
            let state = runtime.lock();
            let function = state.code.functions.get(&FunctionId(function))?;
            let (module, token) = match function.module {
                Some(module) => (Some(module), function.token),
                None => (state.code.framework(), METHOD_DEFINITION),
            };
            Some((if mutation::is("CAT-08/2") { Some(ModuleId(0)) } else { module }, token))
        })?;
        facts.0.map(|module| (module, facts.1)).ok_or(HResult::E_INVALIDARG)
    }

    pub(super) unsafe fn enum_jited_functions(&self, ppEnum: *mut *mut sys::ICorProfilerFunctionEnum) -> HResult {
        // SAFETY: passed on.
        unsafe { self.enum_jited_functions2(ppEnum) }
    }

    pub(super) unsafe fn enum_jited_functions2(&self, ppEnum: *mut *mut sys::ICorProfilerFunctionEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if ppEnum.is_null() {
            return HResult::E_INVALIDARG;
        }
        let entry = |id: FunctionId| sys::COR_PRF_FUNCTION { functionId: id.0, reJitId: 0 };
        let functions = runtime.jitted_functions().into_iter().map(entry).collect();
        schedule::note("Profiler calls EnumJITedFunctions", 0);
        tell! { ppEnum => enumerator::<Functions>(functions, &runtime.enumerators) }
        HResult::S_OK
    }

    pub(super) unsafe fn get_function_from_ip(&self, ip: sys::LPCBYTE, pFunctionId: *mut sys::FunctionID) -> HResult {
        code(self.function_from(ip as u64, false).map(|(function, _)| {
            tell! { pFunctionId => function }
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
            tell! { pFunctionId => function, pReJitId => version }
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
            tell! { functionId => function, pReJitId => version }
            HResult::S_OK
        }))
    }

    /// One that was never called has no id in the model. A token that is no method's is a wrong argument, as is one of no method
    /// (source: proftoeeinterfaceimpl.cpp, GetFunctionFromToken; live: questions.rs).
    pub(super) unsafe fn get_function_from_token(
        &self,
        moduleId: sys::ModuleID,
        token: sys::mdToken,
        pFunctionId: *mut sys::FunctionID,
    ) -> HResult {
        if moduleId == 0 || !is_of_method(token) {
            return HResult::E_INVALIDARG;
        }
        let found = self.about("GetFunctionFromToken", |runtime| {
            let is_loaded = runtime.lock().code.modules.contains_key(&ModuleId(moduleId));
            is_loaded.then(|| runtime.function_of(ModuleId(moduleId), token))
        });
        code(found.and_then(|function| function.ok_or(HResult::E_INVALIDARG)).map(|function| {
            tell! { pFunctionId => function.0 }
            HResult::S_OK
        }))
    }

    /// Nothing in the model is generic: with type arguments there is no such function.
    pub(super) unsafe fn get_function_from_token_and_type_args(
        &self,
        moduleID: sys::ModuleID,
        funcDef: sys::mdMethodDef,
        classId: sys::ClassID,
        cTypeArgs: sys::ULONG32,
        _typeArgs: *const sys::ClassID,
        pFunctionID: *mut sys::FunctionID,
    ) -> HResult {
        if moduleID == 0 || classId == 0 || !is_of_method(funcDef) {
            return HResult::E_INVALIDARG;
        }
        let name = "GetFunctionFromTokenAndTypeArgs";
        let found = self.about(name, |runtime| {
            let is_loaded = runtime.lock().code.modules.contains_key(&ModuleId(moduleID));
            is_loaded.then(|| runtime.function_of(ModuleId(moduleID), funcDef))
        });
        let found = found.and_then(|function| self.about_class(classId, name).map(|_| function));
        code(found.map(|function| match function {
            Some(function) if cTypeArgs == 0 => {
                tell! { pFunctionID => function.0 }
                HResult::S_OK
            }
            _ => HResult::CORPROF_E_DATAINCOMPLETE,
        }))
    }

    pub(super) unsafe fn get_function_info(
        &self,
        functionId: sys::FunctionID,
        pClassId: *mut sys::ClassID,
        pModuleId: *mut sys::ModuleID,
        pToken: *mut sys::mdToken,
    ) -> HResult {
        code(self.identified(functionId, "GetFunctionInfo").map(|(module, token)| {
            let ClassId(class) = class_of(module);
            tell! { pClassId => class, pModuleId => module.0, pToken => token }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_function_info2(
        &self,
        funcId: sys::FunctionID,
        _frameInfo: sys::COR_PRF_FRAME_INFO,
        pClassId: *mut sys::ClassID,
        pModuleId: *mut sys::ModuleID,
        pToken: *mut sys::mdToken,
        cTypeArgs: sys::ULONG32,
        pcTypeArgs: *mut sys::ULONG32,
        typeArgs: *mut sys::ClassID,
    ) -> HResult {
        if !has_place(cTypeArgs, typeArgs) {
            return HResult::E_INVALIDARG;
        }
        code(self.identified(funcId, "GetFunctionInfo2").map(|(module, token)| {
            let ClassId(class) = class_of(module);
            tell! { pClassId => class, pModuleId => module.0, pToken => token }
            // SAFETY: the profiler's room.
            unsafe { answer_list(&[], cTypeArgs, pcTypeArgs, typeArgs) }
        }))
    }

    /// The metadata is that of the function's module.
    pub(super) unsafe fn get_token_and_meta_data_from_function(
        &self,
        functionId: sys::FunctionID,
        riid: sys::REFIID,
        ppImport: *mut *mut sys::IUnknown,
        pToken: *mut sys::mdToken,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(self.identified(functionId, "GetTokenAndMetaDataFromFunction").map(|(module, token)| {
            tell! { pToken => token }
            if ppImport.is_null() {
                return HResult::S_OK;
            }
            // SAFETY: the profiler's identifier and place.
            unsafe { runtime.open_metadata(&profiler, module, riid, ppImport) }
        }))
    }

    pub(super) unsafe fn is_function_dynamic(&self, functionId: sys::FunctionID, isDynamic: *mut sys::BOOL) -> HResult {
        let looked_up = named(functionId).and_then(|()| {
            self.about("IsFunctionDynamic", |runtime| {
                runtime.lock().code.functions.get(&FunctionId(functionId)).map(|function| function.module.is_none())
            })
        });
        code(looked_up.map(|dynamic| {
            tell! { isDynamic => sys::BOOL::from(dynamic) }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_dynamic_function_info(
        &self,
        functionId: sys::FunctionID,
        moduleId: *mut sys::ModuleID,
        ppvSig: *mut sys::PCCOR_SIGNATURE,
        pbSig: *mut sys::ULONG,
        cchName: sys::ULONG,
        pcchName: *mut sys::ULONG,
        wszName: *mut sys::WCHAR,
    ) -> HResult {
        let known = |runtime: &Runtime| {
            let state = runtime.lock();
            let function = state.code.functions.get(&FunctionId(functionId))?;
            Some((function.module, function.token, function.name, state.code.framework()))
        };
        let known = named(functionId).and_then(|()| self.about("GetDynamicFunctionInfo", known));
        code(known.map(|(module, token, name, framework)| {
            // Of one with metadata it tells nothing (source: proftoeeinterfaceimpl.cpp, GetDynamicFunctionInfo; live: cat_08).
            if module.is_some() {
                return HResult::E_INVALIDARG;
            }
            let name = name.map_or_else(|| format!("dynamic{token:#x}"), str::to_owned);
            tell! { moduleId => framework.map_or(0, |module| module.0) }
            if !ppvSig.is_null() && !pbSig.is_null() {
                tell! { ppvSig => NO_ARGUMENTS.as_ptr(), pbSig => NO_ARGUMENTS.len() as u32 }
            }
            // SAFETY: the profiler's room.
            unsafe { answer_whole_text(&name, cchName, pcchName, wszName) }
        }))
    }
}
