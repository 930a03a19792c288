//! A function's native code and its IL.

use super::{Alive, Info, Loading};
use crate::buffer;
use crate::ids::{FunctionId, RejitId};
use crate::values::{CodeRange, IlMapping};
use crate::{HResult, sys};

impl<L: Loading> Info<L, Alive> {
    /// The start addresses of a function's bodies: one for each compiled tier.
    pub fn get_native_code_start_addresses(&self, function: FunctionId, rejit: RejitId) -> Result<Vec<usize>, HResult> {
        let raw = self.at(9)?;
        buffer::list(|capacity, needed, list| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the buffer has room for `capacity`.
            unsafe {
                sys::ICorProfilerInfo9::GetNativeCodeStartAddresses(raw, function.0, rejit.0, capacity, needed, list)
            }
        })
    }

    /// The code ranges of one body, hot part first. `start` is from `get_native_code_start_addresses`.
    pub fn get_code_info4(&self, start: usize) -> Result<Vec<CodeRange>, HResult> {
        let raw = self.at(9)?;
        buffer::list(|capacity, needed, list: *mut CodeRange| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the buffer has room for `capacity`, in the runtime's layout.
            unsafe { sys::ICorProfilerInfo9::GetCodeInfo4(raw, start, capacity, needed, list.cast()) }
        })
    }

    /// The code ranges of one body of one version of a function.
    pub fn get_code_info3(&self, function: FunctionId, rejit: RejitId) -> Result<Vec<CodeRange>, HResult> {
        let raw = self.at(4)?;
        buffer::list(|capacity, needed, list: *mut CodeRange| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the buffer has room for `capacity`, in the runtime's layout.
            unsafe { sys::ICorProfilerInfo4::GetCodeInfo3(raw, function.0, rejit.0, capacity, needed, list.cast()) }
        })
    }

    /// The IL offsets of one body. `start` is from `get_native_code_start_addresses`.
    pub fn get_il_to_native_mapping3(&self, start: usize) -> Result<Vec<IlMapping>, HResult> {
        let raw = self.at(9)?;
        buffer::list(|capacity, needed, list: *mut IlMapping| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the buffer has room for `capacity`, in the runtime's layout.
            unsafe { sys::ICorProfilerInfo9::GetILToNativeMapping3(raw, start, capacity, needed, list.cast()) }
        })
    }
}
