//! Stopping all managed threads, and walking their stacks while they stand.

use super::{Alive, Info, Loading};
use crate::ids::{FunctionId, ThreadId};
use crate::{HResult, sys};
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::ControlFlow;

/// All managed threads stand until this is dropped, which the thread that stopped them must do.
///
/// Native code goes on, also that of threads which managed code has called. Meanwhile nothing may be waited for that a stopped thread holds.
#[derive(Debug)]
pub struct SuspendedRuntime<'info, L: Loading> {
    info: &'info Info<L, Alive>,
    raw: *mut sys::ICorProfilerInfo10,
    this_thread_only: PhantomData<*const ()>,
}

impl<L: Loading> Info<L, Alive> {
    /// Stops all managed threads. Needs .NET Core 3.0.
    ///
    /// CORPROF_E_SUSPENSION_IN_PROGRESS says that somebody else is stopping them: ask again.
    pub fn suspend_runtime(&self) -> Result<SuspendedRuntime<'_, L>, HResult> {
        let raw = self.at::<sys::ICorProfilerInfo10>(10)?;
        // SAFETY: alive.
        HResult(unsafe { sys::ICorProfilerInfo10::SuspendRuntime(raw) }).ok()?;
        Ok(SuspendedRuntime { info: self, raw, this_thread_only: PhantomData })
    }
}

impl<'info, L: Loading> SuspendedRuntime<'info, L> {
    /// What is asked meanwhile.
    pub fn info(&self) -> &'info Info<L, Alive> {
        self.info
    }

    /// Walks a thread's stack from the leaf: the function of each frame, zero for native and dynamic code, and the address in it.
    ///
    /// Needs `AttachMask::STACK_SNAPSHOT`. Each frame is shown to `frame`, until it breaks off; it must not panic.
    pub fn do_stack_snapshot(
        &self,
        thread: ThreadId,
        frame: &mut dyn FnMut(FunctionId, usize) -> ControlFlow<()>,
    ) -> Result<(), HResult> {
        let mut walk = Walk { frame, broken_off: false };
        let data = (&raw mut walk).cast::<c_void>();
        // SAFETY: alive; the walk lives until the call is over, and the runtime calls back during the call only.
        let answer = HResult(unsafe {
            sys::ICorProfilerInfo2::DoStackSnapshot(
                self.raw.cast(),
                thread.0,
                Some(next_frame),
                sys::COR_PRF_SNAPSHOT_DEFAULT,
                data,
                core::ptr::null(),
                0,
            )
        });
        if walk.broken_off { Ok(()) } else { answer.ok() }
    }
}

impl<L: Loading> Drop for SuspendedRuntime<'_, L> {
    fn drop(&mut self) {
        // SAFETY: alive, and this thread has suspended it.
        unsafe { sys::ICorProfilerInfo10::ResumeRuntime(self.raw) };
    }
}

struct Walk<'a> {
    frame: &'a mut dyn FnMut(FunctionId, usize) -> ControlFlow<()>,
    broken_off: bool,
}

unsafe extern "C" fn next_frame(
    function: usize,
    address: usize,
    _frame: usize,
    _context_size: u32,
    _context: *mut u8,
    data: *mut c_void,
) -> i32 {
    // SAFETY: the runtime hands back what `do_stack_snapshot` gave it, on the same thread.
    let walk = unsafe { &mut *data.cast::<Walk<'_>>() };
    let next = crate::callback::quietly(|| (walk.frame)(FunctionId(function), address));
    match next {
        Some(ControlFlow::Continue(())) => HResult::S_OK.0,
        _ => {
            walk.broken_off = true;
            HResult::S_FALSE.0
        }
    }
}
