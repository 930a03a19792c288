//! Calls about modules, assemblies and application domains.

use super::{
    Answer, DONE, ModuleId, Server, answer_list, answer_text, answer_whole_text, answered, args, has_place, invalid_if,
    named, refuse_if, stale, wanted, write_answers,
};
use crate::differences::RuntimeVersion;
use crate::mutation;
use crate::runtime::Runtime;
use crate::runtime::code::{Module, assembly_of, module_of};
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_abi::enumerators::{Methods, Modules, Objects, enumerator};
use std::ptr::null_mut;

/// ofWrite and ofNoTransform: the only flags that GetModuleMetaData accepts (source: corhdr.h; proftoeeinterfaceimpl.cpp).
const OPEN_FLAGS: u32 = 0x1 | 0x1000;
/// The first AppDomainID.
const FIRST_APP_DOMAIN: usize = 0x0800_0000;
const APP_DOMAIN_SPACING: usize = 0x1000;

impl Runtime {
    /// The only application domain. Core has only the default one, and the model makes no other on the desktop.
    pub(super) fn app_domain(&self) -> usize {
        FIRST_APP_DOMAIN + usize::from(self.identity().0) * APP_DOMAIN_SPACING
    }

    /// Its name: `clrhost` in `dotnet` and other hosts (live: info_calls.rs), the default name on the desktop.
    fn app_domain_name(&self) -> &'static str {
        if self.runtime_version == RuntimeVersion::Desktop4 { "DefaultDomain" } else { "clrhost" }
    }
}

impl Server {
    fn about_module<T>(&self, module: usize, what: &str, look: impl Fn(&Module) -> T) -> Result<T, HResult> {
        named(module)?;
        self.about("module", what, |runtime| runtime.lock().code.modules.get(&ModuleId(module)).map(&look))
    }

    /// The module of an id, if it is loaded.
    pub(super) fn loaded_module(&self, module: usize, what: &str) -> Result<ModuleId, HResult> {
        self.about_module(module, what, |_| ModuleId(module))
    }

    /// A thread that has suspended the runtime holds the lock that a module list needs.
    fn refuse_if_suspending(runtime: &Runtime) -> Result<(), HResult> {
        let suspends = runtime.lock().suspended_by == Some(schedule::current());
        refuse_if(suspends, HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE)
    }

    pub(super) unsafe fn enum_modules(&self, args: args::EnumModules) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.ppEnum.is_null())?;
        Server::refuse_if_suspending(&runtime)?;
        let modules = runtime.modules().into_iter().map(|module| module.0).collect();
        schedule::note("Profiler calls EnumModules", 0);
        if mutation::is("DET-14/2") {
            enumerator::<Modules>(Vec::new(), &runtime.enumerators);
        }
        answered! { args.ppEnum => enumerator::<Modules>(modules, &runtime.enumerators) }
    }

    pub(super) unsafe fn get_module_info(&self, args: args::GetModuleInfo) -> Answer {
        let args::GetModuleInfo { moduleId, ppBaseLoadAddress, cchName, pcchName, szName, pAssemblyId } = args;
        let pdwModuleFlags = null_mut();
        let args = args::GetModuleInfo2 {
            moduleId,
            ppBaseLoadAddress,
            cchName,
            pcchName,
            szName,
            pAssemblyId,
            pdwModuleFlags,
        };
        // SAFETY: the profiler's own arguments, without a place for the flags; the API has the same rules for both methods.
        unsafe { self.module_info(args, "GetModuleInfo") }
    }

    pub(super) unsafe fn get_module_info2(&self, args: args::GetModuleInfo2) -> Answer {
        // SAFETY: the profiler's own arguments.
        unsafe { self.module_info(args, "GetModuleInfo2") }
    }

    /// Until its load is announced, a module has neither address nor assembly, and the code says so (source: proftoeeinterfaceimpl.cpp,
    /// GetModuleInfo2: `IsProfilerNotified`).
    unsafe fn module_info(&self, args: args::GetModuleInfo2, call: &str) -> Answer {
        let facts = |module: &Module| {
            let path = module.path(ModuleId(args.moduleId));
            let address = module.address();
            ((module.image.is_some(), address), module.collectible, module.is_announced, path)
        };
        let ((is_precompiled, address), collectible, is_announced, path) =
            self.about_module(args.moduleId, call, facts)?;
        let precompiled = if is_precompiled { sys::COR_PRF_MODULE_NGEN } else { 0 };
        let flags =
            sys::COR_PRF_MODULE_DISK | precompiled | if collectible { sys::COR_PRF_MODULE_COLLECTIBLE } else { 0 };
        write_answers! {
            args.ppBaseLoadAddress => (if is_announced { address } else { 0 }) as sys::LPCBYTE,
            args.pAssemblyId => if is_announced { assembly_of(ModuleId(args.moduleId)) } else { sys::PROFILER_PARENT_UNKNOWN as usize },
            args.pdwModuleFlags => flags,
        }
        // SAFETY: the API requires a buffer that is null or has the stated room.
        let whole = unsafe { answer_whole_text(&path, args.cchName, args.pcchName, args.szName) };
        let is_incomplete = !is_announced && (wanted(args.ppBaseLoadAddress) || wanted(args.pAssemblyId));
        refuse_if(is_incomplete, HResult::CORPROF_E_DATAINCOMPLETE)?;
        whole
    }

    /// The open flags are validated and otherwise ignored: the model does not support writing.
    pub(super) unsafe fn get_module_meta_data(&self, args: args::GetModuleMetaData) -> Answer {
        invalid_if(args.moduleId == 0 || args.dwOpenFlags & !OPEN_FLAGS != 0)?;
        let (runtime, profiler) = self.both()?;
        let module = self.loaded_module(args.moduleId, "GetModuleMetaData")?;
        if args.ppOut.is_null() {
            return DONE;
        }
        // SAFETY: the API requires an identifier and a place for the answer, which is not null.
        Ok(unsafe { runtime.open_metadata(&profiler, module, args.riid, args.ppOut) })
    }

    pub(super) unsafe fn apply_meta_data(&self, args: args::ApplyMetaData) -> Answer {
        named(args.moduleId)?;
        self.with_both(|runtime, profiler| runtime.apply_metadata(profiler, ModuleId(args.moduleId)))
    }

    /// The model's modules have no symbols in memory.
    pub(super) unsafe fn get_in_memory_symbols_length(&self, args: args::GetInMemorySymbolsLength) -> Answer {
        invalid_if(args.pCountSymbolBytes.is_null())?;
        write_answers! { args.pCountSymbolBytes => 0 }
        self.loaded_module(args.moduleId, "GetInMemorySymbolsLength")?;
        DONE
    }

    /// Without symbols, there is nothing to read.
    pub(super) unsafe fn read_in_memory_symbols(&self, args: args::ReadInMemorySymbols) -> Answer {
        invalid_if(args.pSymbolBytes.is_null() || args.pCountSymbolBytesRead.is_null())?;
        write_answers! { args.pCountSymbolBytesRead => 0 }
        self.loaded_module(args.moduleId, "ReadInMemorySymbols")?;
        Err(HResult::E_INVALIDARG)
    }

    /// Modules have no frozen objects any more: every list is empty (source: proftoeeinterfaceimpl.cpp, EnumModuleFrozenObjects).
    pub(super) unsafe fn enum_module_frozen_objects(&self, args: args::EnumModuleFrozenObjects) -> Answer {
        invalid_if(args.ppEnum.is_null())?;
        refuse_if(args.moduleID == 0, HResult::CORPROF_E_DATAINCOMPLETE)?;
        self.loaded_module(args.moduleID, "EnumModuleFrozenObjects")?;
        answered! { args.ppEnum => enumerator::<Objects>(Vec::new(), &self.runtime()?.enumerators) }
    }

    /// Precompiled modules know their inlining; the model has none. Other modules do not know it.
    pub(super) unsafe fn enum_ngen_module_methods_inlining_this_method(
        &self,
        args: args::EnumNgenModuleMethodsInliningThisMethod,
    ) -> Answer {
        invalid_if(args.ppEnum.is_null())?;
        write_answers! { args.ppEnum => null_mut() }
        let name = "EnumNgenModuleMethodsInliningThisMethod";
        self.loaded_module(args.inlineeModuleId, name)?;
        let is_precompiled = self.about_module(args.inlinersModuleId, name, |module| module.image.is_some())?;
        refuse_if(!is_precompiled, HResult::CORPROF_E_DATAINCOMPLETE)?;
        answered! {
            args.incompleteData => 0,
            args.ppEnum => enumerator::<Methods>(Vec::new(), &self.runtime()?.enumerators),
        }
    }

    pub(super) unsafe fn get_assembly_info(&self, args: args::GetAssemblyInfo) -> Answer {
        let module = module_of(args.assemblyId).0;
        let named = |known: &Module| known.assembly_name(ModuleId(module));
        let name = self.about_module(module, "GetAssemblyInfo", named)?;
        write_answers! { args.pAppDomainId => self.runtime()?.app_domain(), args.pModuleId => module }
        // SAFETY: the API requires a buffer that is null or has the stated room.
        unsafe { answer_text(&name, args.cchName, args.pcchName, args.szName) }
    }

    pub(super) unsafe fn get_app_domain_info(&self, args: args::GetAppDomainInfo) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.appDomainId == 0)?;
        if args.appDomainId != runtime.app_domain() {
            return Err(stale(&runtime, "app domain", "GetAppDomainInfo"));
        }
        write_answers! { args.pProcessId => std::process::id() as usize }
        // SAFETY: the API requires a buffer that is null or has the stated room.
        unsafe { answer_text(runtime.app_domain_name(), args.cchName, args.pcchName, args.szName) }
    }

    pub(super) unsafe fn get_app_domains_containing_module(&self, args: args::GetAppDomainsContainingModule) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.pcAppDomainIds.is_null() || !has_place(args.cAppDomainIds, args.appDomainIds))?;
        self.loaded_module(args.moduleId, "GetAppDomainsContainingModule")?;
        Server::refuse_if_suspending(&runtime)?;
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&[runtime.app_domain()], args.cAppDomainIds, args.pcAppDomainIds, args.appDomainIds) }
    }
}
