//! Arguments and results, inside of the hooks with info.

use super::{Alive, Info, Startup};
use crate::ids::FunctionId;
use crate::{HResult, sys};

/// Arguments whose places are found; a method with more shows none.
const MOST_ARGUMENTS: usize = 64;

/// Room for the places of a call's arguments.
#[repr(C)]
#[derive(Debug)]
pub struct ArgumentRoom {
    count: u32,
    bytes: u32,
    // The runtime wants room for one more.
    places: [sys::COR_PRF_FUNCTION_ARGUMENT_RANGE; MOST_ARGUMENTS + 1],
}

impl Default for ArgumentRoom {
    fn default() -> ArgumentRoom {
        let nowhere = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: 0, length: 0 };
        ArgumentRoom { count: 0, bytes: 0, places: [nowhere; MOST_ARGUMENTS + 1] }
    }
}

impl Info<Startup, Alive> {
    /// The places of the arguments of the call that begins, `this` first if there is one. They hold until the hook returns.
    ///
    /// The runtime allocates and frees memory for this (`ProfileArgIterator`), but starts no GC.
    ///
    /// # Safety
    /// In a hook at entry: `function` is the hooked one, and `hook` the argument from the runtime.
    pub unsafe fn get_function_enter3_info<'room>(
        &self,
        function: FunctionId,
        hook: usize,
        room: &'room mut ArgumentRoom,
    ) -> Result<&'room [sys::COR_PRF_FUNCTION_ARGUMENT_RANGE], HResult> {
        let (mut frame, mut bytes) = (0, size_of::<ArgumentRoom>() as u32);
        let raw = self.at(3)?;
        let place = core::ptr::from_mut(room).cast::<sys::COR_PRF_FUNCTION_ARGUMENT_INFO>();
        // SAFETY: this `Info` is `Alive`, so its object is valid; the caller guarantees function and hook. The room begins as the structure
        // does, and `bytes` is its size.
        let answer = unsafe {
            sys::ICorProfilerInfo3::GetFunctionEnter3Info(raw, function.0, hook, &mut frame, &mut bytes, place)
        };
        HResult(answer).ok()?;
        room.places.get(..room.count as usize).ok_or(HResult::E_FAIL)
    }

    /// The place of the result of the call that ends; its address is 0 if there is none. It holds until the hook returns.
    ///
    /// # Safety
    /// In a hook at exit: `function` is the hooked one, and `hook` the argument from the runtime.
    pub unsafe fn get_function_leave3_info(
        &self,
        function: FunctionId,
        hook: usize,
    ) -> Result<sys::COR_PRF_FUNCTION_ARGUMENT_RANGE, HResult> {
        let mut place = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: 0, length: 0 };
        let mut frame = 0;
        let raw = self.at(3)?;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the caller guarantees function and hook; the outputs are live locals.
        let answer =
            unsafe { sys::ICorProfilerInfo3::GetFunctionLeave3Info(raw, function.0, hook, &mut frame, &mut place) };
        HResult(answer).ok()?;
        Ok(place)
    }
}
