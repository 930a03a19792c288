//! Calls about modules, assemblies, application domains and threads.

use super::{Answered, answered, calls, room};
use crate::scripted::Script;
use corprof::{HResult, sys};
use std::ptr::null_mut;

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
    /// GetModuleInfo2: the code, the length of the name, the base address, the assembly, the flags. The name is in the list.
    module_info(module: usize) -> [room, length, places: u16] (base: usize, assembly: usize, flags: u32)
        = ICorProfilerInfo3::GetModuleInfo2(
            module, (&raw mut base).cast(), room, &raw mut length, places, &raw mut assembly, &raw mut flags);
    /// GetAssemblyInfo: the code, the length of the name, the application domain, the module. The name is in the list.
    assembly_info(assembly: usize) -> [room, length, places: u16] (domain: usize, module: usize)
        = ICorProfilerInfo::GetAssemblyInfo(
            assembly, room, &raw mut length, places, &raw mut domain, &raw mut module);
    /// GetAppDomainInfo: the code, the length of the name, the process. The name is in the list.
    app_domain_info(domain: usize) -> [room, length, places: u16] (process: usize)
        = ICorProfilerInfo::GetAppDomainInfo(domain, room, &raw mut length, places, &raw mut process);
    /// GetModuleMetaData with these open flags, with or without a requested interface.
    metadata_of(module: usize, flags: u32, is_wanted: bool) = ICorProfilerInfo::GetModuleMetaData(
        module, flags, &sys::IID_ICorProfilerInfo, if is_wanted { &mut null_mut() } else { null_mut() });
}
