//! What a profiler asks about modules, assemblies and application domains.

use super::{ModuleId, Server, answer, answer_text, code};
use crate::mutation;
use crate::runtime::Runtime;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_sim_abi::enumerators::{Modules, enumerator};

/// COR_PRF_MODULE_DISK.
const DISK: u32 = 0x1;

impl Server {
    pub(super) unsafe fn enum_modules(&self, ppEnum: *mut *mut sys::ICorProfilerModuleEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
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
        // SAFETY: as above.
        unsafe { answer(ppEnum, enumerator::<Modules>(modules, &runtime.enumerators)) };
        HResult::S_OK
    }

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
        let base = |runtime: &Runtime| {
            let state = runtime.lock();
            let module = state.code.modules.get(&ModuleId(moduleId))?;
            Some(module.image.map_or(0, |image| image.start))
        };
        code(self.about("GetModuleInfo2", base).map(|base| {
            // SAFETY: as above.
            unsafe { answer(ppBaseLoadAddress, base as sys::LPCBYTE) };
            // SAFETY: as above.
            unsafe { answer(pAssemblyId, moduleId + 1) };
            // SAFETY: as above.
            unsafe { answer(pdwModuleFlags, DISK) };
            // SAFETY: as above.
            unsafe { answer_text(&format!("/app/module{moduleId:#x}.dll"), cchName, pcchName, szName) }
        }))
    }

    pub(super) unsafe fn apply_meta_data(&self, moduleId: sys::ModuleID) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.apply_metadata(&profiler, ModuleId(moduleId))
    }
}
