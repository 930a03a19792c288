//! DoStackSnapshot, and the function of an address.

use super::info::{Server, stale};
use super::threads::ThreadId;
use super::{FunctionId, Profiler, Runtime};
use crate::mutation;
use crate::schedule;
use corprof::{HResult, sys};
use std::ffi::c_void;

impl Runtime {
    /// DoStackSnapshot of the running thread, or of any thread while managed threads are suspended. Otherwise only if the system can
    /// suspend one thread safely (facts 5).
    ///
    /// # Safety
    /// The callback is the profiler's, and accepts `data`.
    pub(super) unsafe fn walk(
        &self,
        profiler: &Profiler,
        thread: usize,
        callback: Option<sys::StackSnapshotCallback>,
        data: *mut c_void,
    ) -> HResult {
        let Some(callback) = callback else { return HResult::E_INVALIDARG };
        if profiler.mask().0 & sys::COR_PRF_ENABLE_STACK_SNAPSHOT == 0 {
            return HResult::CORPROF_E_INCONSISTENT_WITH_FLAGS;
        }
        let this = self.this_thread();
        let Some(target) = (if thread == 0 { this } else { Some(ThreadId(thread)) }) else {
            return HResult::CORPROF_E_NOT_MANAGED_THREAD;
        };
        let is_suspended = self.lock().suspended_by.is_some();
        let walks_any = self.differences().walks_running_threads || mutation::is("GCH-06/3");
        if this != Some(target) && !is_suspended && !walks_any {
            return HResult::E_NOTIMPL;
        }
        let frames = {
            let state = self.lock();
            let known = state.threads.known.get(&target);
            // A function without metadata appears as native code.
            let named = |function: &FunctionId| {
                state.code.functions.get(function).is_some_and(|function| function.module.is_some())
            };
            let frame = |ip: &u64| (*ip, state.code.function_at(*ip).filter(named));
            known.map(|known| known.stack.iter().rev().map(frame).collect::<Vec<_>>())
        };
        let Some(frames) = frames else { return stale(self, "thread", "DoStackSnapshot") };
        for (ip, function) in frames {
            let function = function.filter(|_| !mutation::is("GCH-06")).map_or(0, |function| function.0);
            // SAFETY: the caller guarantees the callback and its data; no registers were requested.
            let answer = unsafe { callback(function, ip as usize, 0, 0, std::ptr::null_mut(), data) };
            if answer != 0 {
                return HResult::CORPROF_E_STACKSNAPSHOT_ABORTED;
            }
        }
        HResult::S_OK
    }
}

impl Server {
    /// The function at an address and the version of its code. Dynamic functions only if the call supports them.
    pub(super) fn function_from(&self, address: u64, dynamic_too: bool) -> Result<(usize, usize), HResult> {
        let runtime = self.runtime()?;
        let state = runtime.lock();
        let function = state.code.function_at(address).ok_or(HResult::E_FAIL)?;
        let known = state.code.functions.get(&function);
        if mutation::is("CAT-08") && known.is_some_and(|known| !known.jitted) {
            return Err(HResult::E_FAIL);
        }
        let is_dynamic = known.is_none_or(|known| known.module.is_none());
        if is_dynamic && !dynamic_too {
            return Err(HResult::E_FAIL);
        }
        let version = state.rejit.version_at(address);
        drop(state);
        schedule::point();
        Ok((function.0, version))
    }

    /// A thread's system thread ID.
    pub(super) fn os_thread(&self, thread: usize) -> Result<u32, HResult> {
        let runtime = self.runtime()?;
        let known = runtime.lock().threads.known.get(&ThreadId(thread)).map(|known| known.os_thread);
        known.ok_or_else(|| stale(&runtime, "thread", "GetThreadInfo"))
    }
}
