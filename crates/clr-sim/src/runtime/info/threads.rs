//! Threads and their stacks.

use super::{Server, answer, code};
use corprof::{HResult, sys};
use remora_clr_sim_abi::enumerators::{Threads, enumerator};
use std::ffi::c_void;

impl Server {
    pub(super) unsafe fn enum_threads(&self, ppEnum: *mut *mut sys::ICorProfilerThreadEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let threads = runtime.lock().threads.known.keys().map(|thread| thread.0).collect();
        // SAFETY: as above.
        unsafe { answer(ppEnum, enumerator::<Threads>(threads, &runtime.enumerators)) };
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
        code(self.os_thread(threadId).map(|thread| {
            // SAFETY: as above.
            unsafe { answer(pdwWin32ThreadId, thread) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_current_thread_id(&self, pThreadId: *mut sys::ThreadID) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let Some(thread) = runtime.this_thread() else { return HResult::CORPROF_E_NOT_MANAGED_THREAD };
        // SAFETY: as above.
        unsafe { answer(pThreadId, thread.0) };
        HResult::S_OK
    }
}
