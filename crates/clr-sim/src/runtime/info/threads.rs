//! Threads and their stacks.

use super::{Server, code, named, stale, tell};
use crate::runtime::ThreadId;
use corprof::{HResult, sys};
use remora_clr_sim_abi::enumerators::{Threads, enumerator};
use std::ffi::c_void;

impl Server {
    /// A thread that the runtime knows; 0 is the running one.
    fn thread_or_this(&self, thread: usize, what: &str) -> Result<usize, HResult> {
        let (runtime, _) = self.both().ok_or(HResult::E_UNEXPECTED)?;
        if thread == 0 {
            return runtime.this_thread().map(|this| this.0).ok_or(HResult::CORPROF_E_NOT_MANAGED_THREAD);
        }
        let is_known = runtime.lock().threads.known.contains_key(&ThreadId(thread));
        if is_known { Ok(thread) } else { Err(stale(&runtime, what)) }
    }

    pub(super) unsafe fn enum_threads(&self, ppEnum: *mut *mut sys::ICorProfilerThreadEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if ppEnum.is_null() {
            return HResult::E_INVALIDARG;
        }
        let threads = runtime.lock().threads.known.keys().map(|thread| thread.0).collect();
        tell! { ppEnum => enumerator::<Threads>(threads, &runtime.enumerators) }
        HResult::S_OK
    }

    pub(super) unsafe fn do_stack_snapshot(
        &self,
        thread: sys::ThreadID,
        callback: Option<sys::StackSnapshotCallback>,
        _infoFlags: sys::ULONG32,
        clientData: *mut c_void,
        _context: *const sys::BYTE,
        _contextSize: sys::ULONG32,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: the profiler's own callback and data.
        unsafe { runtime.walk(&profiler, thread, callback, clientData) }
    }

    pub(super) unsafe fn get_thread_info(&self, threadId: sys::ThreadID, pdwWin32ThreadId: *mut sys::DWORD) -> HResult {
        code(named(threadId).and_then(|()| self.os_thread(threadId)).map(|thread| {
            tell! { pdwWin32ThreadId => thread }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_current_thread_id(&self, pThreadId: *mut sys::ThreadID) -> HResult {
        code(self.thread_or_this(0, "GetCurrentThreadID").map(|thread| {
            tell! { pThreadId => thread }
            HResult::S_OK
        }))
    }

    /// A number with which nothing can be done but to compare it, as on any system but Windows.
    pub(super) unsafe fn get_handle_from_thread(&self, threadId: sys::ThreadID, phThread: *mut sys::HANDLE) -> HResult {
        let known = named(threadId).and_then(|()| self.thread_or_this(threadId, "GetHandleFromThread"));
        code(known.map(|thread| {
            tell! { phThread => (thread + 8) as sys::HANDLE }
            HResult::S_OK
        }))
    }

    /// A context is the application domain (source: proftoeeinterfaceimpl.cpp, GetThreadContext).
    pub(super) unsafe fn get_thread_context(
        &self,
        threadId: sys::ThreadID,
        pContextId: *mut sys::ContextID,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let known = named(threadId).and_then(|()| self.thread_or_this(threadId, "GetThreadContext"));
        code(known.map(|_| {
            tell! { pContextId => runtime.app_domain() }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_thread_app_domain(
        &self,
        threadId: sys::ThreadID,
        pAppDomainId: *mut sys::AppDomainID,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if pAppDomainId.is_null() {
            return HResult::E_INVALIDARG;
        }
        code(self.thread_or_this(threadId, "GetThreadAppDomain").map(|_| {
            tell! { pAppDomainId => runtime.app_domain() }
            HResult::S_OK
        }))
    }

    /// What it prepares, so that it is not needed while threads stand, the model has none of: the thread stays as unknown as it was.
    pub(super) unsafe fn initialize_current_thread(&self) -> HResult {
        HResult::S_OK
    }
}
