//! Threads and their stacks.

use super::{Answer, DONE, Server, answered, args, invalid_if, named, stale};
use crate::runtime::ThreadId;
use corprof::{HResult, sys};
use remora_clr_abi::enumerators::{Threads, enumerator};

impl Server {
    /// A thread that the runtime knows; 0 is the running thread.
    fn thread_or_this(&self, thread: usize, what: &str) -> Result<usize, HResult> {
        let runtime = self.runtime()?;
        if thread == 0 {
            return runtime.this_thread().map(|this| this.0).ok_or(HResult::CORPROF_E_NOT_MANAGED_THREAD);
        }
        let is_known = runtime.lock().threads.known.contains_key(&ThreadId(thread));
        if is_known { Ok(thread) } else { Err(stale(&runtime, "thread", what)) }
    }

    pub(super) unsafe fn enum_threads(&self, args: args::EnumThreads) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.ppEnum.is_null())?;
        let threads = runtime.lock().threads.known.keys().map(|thread| thread.0).collect();
        answered! { args.ppEnum => enumerator::<Threads>(threads, &runtime.enumerators) }
    }

    pub(super) unsafe fn do_stack_snapshot(&self, args: args::DoStackSnapshot) -> Answer {
        let (runtime, profiler) = self.both()?;
        // SAFETY: the profiler passed this function to be called with this data.
        Ok(unsafe { runtime.walk(&profiler, args.thread, args.callback, args.clientData) })
    }

    pub(super) unsafe fn get_thread_info(&self, args: args::GetThreadInfo) -> Answer {
        named(args.threadId)?;
        answered! { args.pdwWin32ThreadId => self.os_thread(args.threadId)? }
    }

    pub(super) unsafe fn get_current_thread_id(&self, args: args::GetCurrentThreadID) -> Answer {
        answered! { args.pThreadId => self.thread_or_this(0, "GetCurrentThreadID")? }
    }

    /// A number that can only be compared, as on any system but Windows.
    pub(super) unsafe fn get_handle_from_thread(&self, args: args::GetHandleFromThread) -> Answer {
        named(args.threadId)?;
        let thread = self.thread_or_this(args.threadId, "GetHandleFromThread")?;
        answered! { args.phThread => (thread + 8) as sys::HANDLE }
    }

    /// A context is the application domain (source: proftoeeinterfaceimpl.cpp, GetThreadContext).
    pub(super) unsafe fn get_thread_context(&self, args: args::GetThreadContext) -> Answer {
        named(args.threadId)?;
        self.thread_or_this(args.threadId, "GetThreadContext")?;
        answered! { args.pContextId => self.runtime()?.app_domain() }
    }

    pub(super) unsafe fn get_thread_app_domain(&self, args: args::GetThreadAppDomain) -> Answer {
        invalid_if(args.pAppDomainId.is_null())?;
        self.thread_or_this(args.threadId, "GetThreadAppDomain")?;
        answered! { args.pAppDomainId => self.runtime()?.app_domain() }
    }

    /// Prepares a thread so that a stack walk needs no lock during a suspension; the model has no such lock.
    pub(super) unsafe fn initialize_current_thread(&self, _: args::InitializeCurrentThread) -> Answer {
        DONE
    }
}
