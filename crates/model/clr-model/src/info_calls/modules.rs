//! Calls about modules, assemblies, application domains and threads.

use super::{Answered, answered, calls, room};
use crate::scripted::Script;
use corprof::{HResult, sys};
use std::ptr::null_mut;

/// The answers of GetModuleInfo2, without the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleAnswer {
    /// The code.
    pub code: HResult,
    /// The length of the name, including its zero.
    pub length: u32,
    /// The base address.
    pub base: usize,
    /// Its assembly.
    pub assembly: usize,
    /// COR_PRF_MODULE_FLAGS.
    pub flags: u32,
}

calls! {
    /// GetThreadAppDomain; 0 is the running thread.
    app_domain_of_thread(thread: usize) -> (domain: usize)
        = ICorProfilerInfo2::GetThreadAppDomain(thread, &raw mut domain);
    /// GetThreadContext.
    context_of_thread(thread: usize) -> (context: usize) = ICorProfilerInfo::GetThreadContext(thread, &raw mut context);
    /// GetHandleFromThread.
    handle_of_thread(thread: usize) -> (handle: usize)
        = ICorProfilerInfo::GetHandleFromThread(thread, (&raw mut handle).cast());
    /// GetThreadInfo: the system's thread ID.
    number_of_thread(thread: usize) -> (number: u32) = ICorProfilerInfo::GetThreadInfo(thread, &raw mut number);
}

impl Script {
    /// GetModuleInfo2. The name is in `list`.
    pub fn module_info(&self, module: usize, list: &mut [u16]) -> ModuleAnswer {
        let ((room, places), mut base) = (room(list), std::ptr::null());
        let (mut length, mut assembly, mut flags) = (0, 0, 0);
        // SAFETY: the model keeps Info alive during the schedule; the out pointers are locals.
        let code = unsafe {
            sys::ICorProfilerInfo3::GetModuleInfo2(
                self.at(),
                module,
                &raw mut base,
                room,
                &raw mut length,
                places,
                &raw mut assembly,
                &raw mut flags,
            )
        };
        ModuleAnswer { code: HResult(code), length, base: base as usize, assembly, flags }
    }

    /// GetModuleMetaData with these open flags, with or without a requested interface.
    pub fn metadata_of(&self, module: usize, flags: u32, is_wanted: bool) -> HResult {
        let (mut object, interface) = (null_mut(), sys::IID_ICorProfilerInfo);
        let place = if is_wanted { &raw mut object } else { null_mut() };
        // SAFETY: the model keeps Info alive during the schedule; the identifier outlives the call.
        HResult(unsafe {
            sys::ICorProfilerInfo::GetModuleMetaData(self.raw(), module, flags, &raw const interface, place)
        })
    }

    /// GetAssemblyInfo: the code, the length of the name, the application domain, the module. The name is in `list`.
    pub fn assembly_info(&self, assembly: usize, list: &mut [u16]) -> (HResult, u32, usize, usize) {
        let ((room, places), mut length, mut domain, mut module) = (room(list), 0, 0, 0);
        // SAFETY: the model keeps Info alive during the schedule; the out pointers are locals.
        let code = unsafe {
            sys::ICorProfilerInfo::GetAssemblyInfo(
                self.raw(),
                assembly,
                room,
                &raw mut length,
                places,
                &raw mut domain,
                &raw mut module,
            )
        };
        (HResult(code), length, domain, module)
    }

    /// GetAppDomainInfo: the code, the length of the name, the process. The name is in `list`.
    pub fn app_domain_info(&self, domain: usize, list: &mut [u16]) -> (HResult, u32, usize) {
        let ((room, places), mut length, mut process) = (room(list), 0, 0);
        // SAFETY: the model keeps Info alive during the schedule; the out pointers are locals.
        let code = unsafe {
            sys::ICorProfilerInfo::GetAppDomainInfo(self.raw(), domain, room, &raw mut length, places, &raw mut process)
        };
        (HResult(code), length, process)
    }
}
