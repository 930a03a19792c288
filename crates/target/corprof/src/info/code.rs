//! Where a function's native code lies, and which IL it came from.

use super::{Alive, Info, Loading};
use crate::buffer;
use crate::ids::{FunctionId, RejitId};
use crate::values::{CodeRange, IlMapping};
use crate::{HResult, sys};

impl<L: Loading> Info<L, Alive> {
    /// Where the bodies of a function begin: one for each tier that was compiled.
    pub fn get_native_code_start_addresses(&self, function: FunctionId, rejit: RejitId) -> Result<Vec<usize>, HResult> {
        let raw = self.at(9)?;
        buffer::list(|capacity, needed, list| {
            // SAFETY: alive, and a buffer of that capacity.
            unsafe {
                sys::ICorProfilerInfo9::GetNativeCodeStartAddresses(raw, function.0, rejit.0, capacity, needed, list)
            }
        })
    }

    /// The stretches of one body, hot part first. `start` is from `get_native_code_start_addresses`.
    pub fn get_code_info4(&self, start: usize) -> Result<Vec<CodeRange>, HResult> {
        let raw = self.at(9)?;
        buffer::list(|capacity, needed, list: *mut CodeRange| {
            // SAFETY: alive, and a buffer of that capacity; the types have the same layout.
            unsafe { sys::ICorProfilerInfo9::GetCodeInfo4(raw, start, capacity, needed, list.cast()) }
        })
    }

    /// The stretches of one version of a function, of one of its bodies.
    pub fn get_code_info3(&self, function: FunctionId, rejit: RejitId) -> Result<Vec<CodeRange>, HResult> {
        let raw = self.at(4)?;
        buffer::list(|capacity, needed, list: *mut CodeRange| {
            // SAFETY: alive, and a buffer of that capacity; the types have the same layout.
            unsafe { sys::ICorProfilerInfo4::GetCodeInfo3(raw, function.0, rejit.0, capacity, needed, list.cast()) }
        })
    }

    /// The IL of one body. `start` is from `get_native_code_start_addresses`.
    pub fn get_il_to_native_mapping3(&self, start: usize) -> Result<Vec<IlMapping>, HResult> {
        let raw = self.at(9)?;
        buffer::list(|capacity, needed, list: *mut IlMapping| {
            // SAFETY: alive, and a buffer of that capacity; the types have the same layout.
            unsafe { sys::ICorProfilerInfo9::GetILToNativeMapping3(raw, start, capacity, needed, list.cast()) }
        })
    }
}
