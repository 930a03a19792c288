//! Suspends all managed threads, and walks their stacks.

use super::{Alive, Info, Loading};
use crate::ids::{FunctionId, ThreadId};
use crate::{HResult, sys};
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::ControlFlow;

/// All managed threads are suspended until this is dropped, on the thread that suspended them.
///
/// Native code continues, also on threads that came from managed code. Meanwhile wait for nothing that a suspended thread holds.
#[derive(Debug)]
pub struct SuspendedRuntime<'info, L: Loading> {
    info: &'info Info<L, Alive>,
    raw: *mut sys::ICorProfilerInfo10,
    this_thread_only: PhantomData<*const ()>,
}

impl<L: Loading> Info<L, Alive> {
    /// Suspends all managed threads. Needs .NET Core 3.0.
    ///
    /// CORPROF_E_SUSPENSION_IN_PROGRESS: another suspension is under way; try again.
    pub fn suspend_runtime(&self) -> Result<SuspendedRuntime<'_, L>, HResult> {
        let raw = self.at::<sys::ICorProfilerInfo10>(10)?;
        // SAFETY: this `Info` is `Alive`, so its object is valid.
        HResult(unsafe { sys::ICorProfilerInfo10::SuspendRuntime(raw) }).ok()?;
        Ok(SuspendedRuntime { info: self, raw, this_thread_only: PhantomData })
    }
}

impl<'info, L: Loading> SuspendedRuntime<'info, L> {
    /// The Info, for calls while suspended.
    pub fn info(&self) -> &'info Info<L, Alive> {
        self.info
    }

    /// Walks a thread's stack from the leaf. `frame` gets each frame's function and address; zero for native and dynamic code.
    ///
    /// Needs `AttachMask::STACK_SNAPSHOT`. The walk ends when `frame` breaks; `frame` must not panic.
    pub fn do_stack_snapshot(
        &self,
        thread: ThreadId,
        frame: &mut dyn FnMut(FunctionId, usize) -> ControlFlow<()>,
    ) -> Result<(), HResult> {
        let mut walk = Walk { frame, broken_off: false };
        let data = (&raw mut walk).cast::<c_void>();
        // SAFETY: this `Info` is `Alive`, so its object is valid. `walk` outlives the call, and the runtime calls back only during it.
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
        // SAFETY: `info` is borrowed and `Alive`, so its object is valid. This thread suspended the runtime: the type is not `Send`.
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
    // SAFETY: the runtime passes the `data` that `do_stack_snapshot` gave it, on the same thread, during that call.
    let walk = unsafe { &mut *data.cast::<Walk<'_>>() };
    let next = crate::panics::quietly(|| (walk.frame)(FunctionId(function), address));
    match next {
        Some(ControlFlow::Continue(())) => HResult::S_OK.0,
        _ => {
            walk.broken_off = true;
            HResult::S_FALSE.0
        }
    }
}
