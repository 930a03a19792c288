//! What a profiler asks about modules, assemblies and application domains.

use super::{
    ModuleId, Server, answer_list, answer_text, answer_whole_text, code, has_place, named, stale, tell, wanted,
};
use crate::differences::Personality;
use crate::mutation;
use crate::runtime::Runtime;
use crate::runtime::code::Module;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_sim_abi::enumerators::{Methods, Modules, Objects, enumerator};
use std::ptr::null_mut;

/// COR_PRF_MODULE_DISK, _NGEN and _COLLECTIBLE (source: corprof.idl).
const DISK: u32 = 0x1;
const PRECOMPILED: u32 = 0x2;
const COLLECTIBLE: u32 = 0x8;
/// PROFILER_PARENT_UNKNOWN (source: corprof.idl, COR_PRF_MISC).
const PARENT_UNKNOWN: usize = 0xFFFF_FFFD;
/// ofWrite and ofNoTransform: the only bits that GetModuleMetaData takes (source: corhdr.h; proftoeeinterfaceimpl.cpp).
const OPEN_FLAGS: u32 = 0x1 | 0x1000;
/// Between the id of a module and that of its assembly, of which it is the only one.
const ASSEMBLY_OF_MODULE: usize = 1;
/// Of AppDomainIDs.
const FIRST_APP_DOMAIN: usize = 0x0800_0000;
const APP_DOMAIN_SPACING: usize = 0x1000;

impl Runtime {
    /// The only application domain: there is none but the default one in Core, and the model makes no other on the desktop.
    pub(super) fn app_domain(&self) -> usize {
        FIRST_APP_DOMAIN + usize::from(self.identity().0) * APP_DOMAIN_SPACING
    }

    /// What hosts call it: `dotnet` and its like `clrhost` (live: questions.rs); on the desktop the default name.
    fn app_domain_name(&self) -> &'static str {
        if self.personality == Personality::Desktop4 { "DefaultDomain" } else { "clrhost" }
    }
}

impl Server {
    fn about_module<T>(&self, module: usize, what: &str, look: impl Fn(&Module) -> T) -> Result<T, HResult> {
        named(module)?;
        self.about(what, |runtime| runtime.lock().code.modules.get(&ModuleId(module)).map(&look))
    }

    pub(super) unsafe fn enum_modules(&self, ppEnum: *mut *mut sys::ICorProfilerModuleEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if ppEnum.is_null() {
            return HResult::E_INVALIDARG;
        }
        // It holds the lock that would be needed.
        if runtime.lock().suspended_by == Some(schedule::current()) {
            return HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
        }
        let modules = {
            let state = runtime.lock();
            state.code.modules.iter().filter(|(_, module)| module.enumerable).map(|(id, _)| id.0).collect()
        };
        schedule::note("Profiler calls EnumModules", 0);
        if mutation::is("DET-14/2") {
            enumerator::<Modules>(Vec::new(), &runtime.enumerators);
        }
        tell! { ppEnum => enumerator::<Modules>(modules, &runtime.enumerators) }
        HResult::S_OK
    }

    pub(super) unsafe fn get_module_info(
        &self,
        moduleId: sys::ModuleID,
        ppBaseLoadAddress: *mut sys::LPCBYTE,
        cchName: sys::ULONG,
        pcchName: *mut sys::ULONG,
        szName: *mut sys::WCHAR,
        pAssemblyId: *mut sys::AssemblyID,
    ) -> HResult {
        let (base, name) = (ppBaseLoadAddress, szName);
        // SAFETY: the profiler's places, passed on, and none for the flags.
        unsafe { self.get_module_info2(moduleId, base, cchName, pcchName, name, pAssemblyId, null_mut()) }
    }

    /// Until its load is told of it has neither address nor assembly, and says so (source: proftoeeinterfaceimpl.cpp, GetModuleInfo2:
    /// `IsProfilerNotified`). A module that is no file has no address either, which is no failure (`IsDynamic`).
    pub(super) unsafe fn get_module_info2(
        &self,
        moduleId: sys::ModuleID,
        ppBaseLoadAddress: *mut sys::LPCBYTE,
        cchName: sys::ULONG,
        pcchName: *mut sys::ULONG,
        szName: *mut sys::WCHAR,
        pAssemblyId: *mut sys::AssemblyID,
        pdwModuleFlags: *mut sys::DWORD,
    ) -> HResult {
        let facts = |module: &Module| {
            let path = format!("/app/{}.dll", module.assembly_name(ModuleId(moduleId)));
            (module.image.map(|image| image.start), module.collectible, module.is_told, path)
        };
        code(self.about_module(moduleId, "GetModuleInfo2", facts).map(|(image, collectible, is_told, path)| {
            let flags = DISK | image.map_or(0, |_| PRECOMPILED) | if collectible { COLLECTIBLE } else { 0 };
            tell! {
                ppBaseLoadAddress => image.filter(|_| is_told).unwrap_or(0) as sys::LPCBYTE,
                pAssemblyId => if is_told { moduleId + ASSEMBLY_OF_MODULE } else { PARENT_UNKNOWN },
                pdwModuleFlags => flags,
            }
            // SAFETY: the profiler's room.
            let whole = unsafe { answer_whole_text(&path, cchName, pcchName, szName) };
            let is_incomplete = !is_told && (wanted(ppBaseLoadAddress) || wanted(pAssemblyId));
            if is_incomplete { HResult::CORPROF_E_DATAINCOMPLETE } else { whole }
        }))
    }

    /// What it is opened for is looked at and no more: what would be written into it is not modelled.
    pub(super) unsafe fn get_module_meta_data(
        &self,
        moduleId: sys::ModuleID,
        dwOpenFlags: sys::DWORD,
        riid: sys::REFIID,
        ppOut: *mut *mut sys::IUnknown,
    ) -> HResult {
        if moduleId == 0 || dwOpenFlags & !OPEN_FLAGS != 0 {
            return HResult::E_INVALIDARG;
        }
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(self.about_module(moduleId, "GetModuleMetaData", |_| ()).map(|()| {
            if ppOut.is_null() {
                return HResult::S_OK;
            }
            // SAFETY: the profiler's identifier and place.
            unsafe { runtime.open_metadata(&profiler, ModuleId(moduleId), riid, ppOut) }
        }))
    }

    pub(super) unsafe fn apply_meta_data(&self, moduleId: sys::ModuleID) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(named(moduleId).map(|()| runtime.apply_metadata(&profiler, ModuleId(moduleId))))
    }

    /// No symbols of the model's modules are in memory.
    pub(super) unsafe fn get_in_memory_symbols_length(
        &self,
        moduleId: sys::ModuleID,
        pCountSymbolBytes: *mut sys::DWORD,
    ) -> HResult {
        if pCountSymbolBytes.is_null() {
            return HResult::E_INVALIDARG;
        }
        tell! { pCountSymbolBytes => 0 }
        code(self.about_module(moduleId, "GetInMemorySymbolsLength", |_| HResult::S_OK))
    }

    /// Where there are none, none can be read.
    pub(super) unsafe fn read_in_memory_symbols(
        &self,
        moduleId: sys::ModuleID,
        _symbolsReadOffset: sys::DWORD,
        pSymbolBytes: *mut sys::BYTE,
        _countSymbolBytes: sys::DWORD,
        pCountSymbolBytesRead: *mut sys::DWORD,
    ) -> HResult {
        if pSymbolBytes.is_null() || pCountSymbolBytesRead.is_null() {
            return HResult::E_INVALIDARG;
        }
        tell! { pCountSymbolBytesRead => 0 }
        code(self.about_module(moduleId, "ReadInMemorySymbols", |_| HResult::E_INVALIDARG))
    }

    /// Frozen objects of modules are no more: whoever asks gets a list of none (source: proftoeeinterfaceimpl.cpp, EnumModuleFrozenObjects).
    pub(super) unsafe fn enum_module_frozen_objects(
        &self,
        moduleID: sys::ModuleID,
        ppEnum: *mut *mut sys::ICorProfilerObjectEnum,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if ppEnum.is_null() {
            return HResult::E_INVALIDARG;
        }
        if moduleID == 0 {
            return HResult::CORPROF_E_DATAINCOMPLETE;
        }
        code(self.about_module(moduleID, "EnumModuleFrozenObjects", |_| ()).map(|()| {
            tell! { ppEnum => enumerator::<Objects>(Vec::new(), &runtime.enumerators) }
            HResult::S_OK
        }))
    }

    /// Precompiled modules know who inlines what; in the model nobody inlines anything. Others do not know.
    pub(super) unsafe fn enum_ngen_module_methods_inlining_this_method(
        &self,
        inlinersModuleId: sys::ModuleID,
        inlineeModuleId: sys::ModuleID,
        _inlineeMethodId: sys::mdMethodDef,
        incompleteData: *mut sys::BOOL,
        ppEnum: *mut *mut sys::ICorProfilerMethodEnum,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if ppEnum.is_null() {
            return HResult::E_INVALIDARG;
        }
        tell! { ppEnum => null_mut() }
        let name = "EnumNgenModuleMethodsInliningThisMethod";
        let inlinee = self.about_module(inlineeModuleId, name, |_| ());
        code(inlinee.and_then(|()| self.about_module(inlinersModuleId, name, |module| module.image.is_some())).map(
            |is_precompiled| {
                if !is_precompiled {
                    return HResult::CORPROF_E_DATAINCOMPLETE;
                }
                tell! {
                    incompleteData => 0,
                    ppEnum => enumerator::<Methods>(Vec::new(), &runtime.enumerators),
                }
                HResult::S_OK
            },
        ))
    }

    pub(super) unsafe fn get_assembly_info(
        &self,
        assemblyId: sys::AssemblyID,
        cchName: sys::ULONG,
        pcchName: *mut sys::ULONG,
        szName: *mut sys::WCHAR,
        pAppDomainId: *mut sys::AppDomainID,
        pModuleId: *mut sys::ModuleID,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let module = assemblyId.saturating_sub(ASSEMBLY_OF_MODULE);
        let named = |known: &Module| known.assembly_name(ModuleId(module));
        code(self.about_module(module, "GetAssemblyInfo", named).map(|name| {
            tell! { pAppDomainId => runtime.app_domain(), pModuleId => module }
            // SAFETY: the profiler's room.
            unsafe { answer_text(&name, cchName, pcchName, szName) }
        }))
    }

    pub(super) unsafe fn get_app_domain_info(
        &self,
        appDomainId: sys::AppDomainID,
        cchName: sys::ULONG,
        pcchName: *mut sys::ULONG,
        szName: *mut sys::WCHAR,
        pProcessId: *mut sys::ProcessID,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if appDomainId == 0 {
            return HResult::E_INVALIDARG;
        }
        if appDomainId != runtime.app_domain() {
            return stale(&runtime, "GetAppDomainInfo");
        }
        tell! { pProcessId => std::process::id() as usize }
        // SAFETY: the profiler's room.
        unsafe { answer_text(runtime.app_domain_name(), cchName, pcchName, szName) }
    }

    pub(super) unsafe fn get_app_domains_containing_module(
        &self,
        moduleId: sys::ModuleID,
        cAppDomainIds: sys::ULONG32,
        pcAppDomainIds: *mut sys::ULONG32,
        appDomainIds: *mut sys::AppDomainID,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if moduleId == 0 || pcAppDomainIds.is_null() || !has_place(cAppDomainIds, appDomainIds) {
            return HResult::E_INVALIDARG;
        }
        code(self.about_module(moduleId, "GetAppDomainsContainingModule", |_| ()).map(|()| {
            // As for EnumModules.
            if runtime.lock().suspended_by == Some(schedule::current()) {
                return HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
            }
            // SAFETY: the profiler's room.
            unsafe { answer_list(&[runtime.app_domain()], cAppDomainIds, pcAppDomainIds, appDomainIds) }
        }))
    }
}
