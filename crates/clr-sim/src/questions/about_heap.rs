//! Questions about the heap, its objects, and how they are laid out.

use super::{Answered, answered, room};
use crate::scripted::Script;
use corprof::{HResult, sys};
use std::ffi::c_void;
use std::ptr::null_mut;

impl Script {
    /// GetGenerationBounds: the code, and how many ranges there are; as many as fit are in `list` then.
    pub fn generations(&self, list: &mut [sys::COR_PRF_GC_GENERATION_RANGE]) -> (HResult, u32) {
        let ((room, places), mut count) = (room(list), 0);
        // SAFETY: the runtime's object, which the model keeps; a list with so much room. The same for every call below.
        let code = unsafe { sys::ICorProfilerInfo2::GetGenerationBounds(self.at(), room, &raw mut count, places) };
        (HResult(code), count)
    }

    /// GetObjectGeneration.
    pub fn generation_of(&self, object: usize) -> Answered<sys::COR_PRF_GC_GENERATION_RANGE> {
        let mut range =
            sys::COR_PRF_GC_GENERATION_RANGE { generation: 0, rangeStart: 0, rangeLength: 0, rangeLengthReserved: 0 };
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo2::GetObjectGeneration(self.at(), object, &raw mut range) };
        answered(code, range)
    }

    /// GetArrayObjectInfo, with room for so many dimensions: length, lower bound, and where the elements lie.
    pub fn array_info(&self, object: usize, dimensions: u32) -> Answered<(u32, i32, usize)> {
        let (mut length, mut bound, mut data) = (0, 0, null_mut());
        // SAFETY: as above; no object of the model has more than one dimension.
        let code = unsafe {
            sys::ICorProfilerInfo2::GetArrayObjectInfo(
                self.at(),
                object,
                dimensions,
                &raw mut length,
                &raw mut bound,
                &raw mut data,
            )
        };
        answered(code, (length, bound, data as usize))
    }

    /// GetStringLayout2: where length and text begin.
    pub fn string_layout(&self) -> Answered<(u32, u32)> {
        let (mut length, mut text) = (0, 0);
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo3::GetStringLayout2(self.at(), &raw mut length, &raw mut text) };
        answered(code, (length, text))
    }

    /// GetClassLayout: fields and size.
    pub fn class_layout(&self, class: usize) -> Answered<(u32, u32)> {
        let (mut fields, mut size) = (0, 0);
        // SAFETY: as above; no room for fields.
        let code = unsafe {
            sys::ICorProfilerInfo2::GetClassLayout(self.at(), class, null_mut(), 0, &raw mut fields, &raw mut size)
        };
        answered(code, (fields, size))
    }

    /// IsFrozenObject.
    pub fn is_frozen(&self, object: usize) -> Answered<bool> {
        let mut is_frozen = 0;
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo10::IsFrozenObject(self.at(), object, &raw mut is_frozen) };
        answered(code, is_frozen != 0)
    }

    /// GetLOHObjectSizeThreshold.
    pub fn large_from(&self) -> Answered<u32> {
        let mut threshold = 0;
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo10::GetLOHObjectSizeThreshold(self.at(), &raw mut threshold) };
        answered(code, threshold)
    }

    /// EnumerateNonGCObjects, read to its end.
    pub fn frozen_objects(&self) -> Answered<Vec<usize>> {
        let mut list = null_mut();
        // SAFETY: as above.
        answered(unsafe { sys::ICorProfilerInfo14::EnumerateNonGCObjects(self.at(), &raw mut list) }, ())?;
        let (mut objects, mut next, mut fetched) = (Vec::new(), 0, 0);
        // SAFETY: a live enumerator, and places for one answer.
        while unsafe { sys::ICorProfilerObjectEnum::Next(list, 1, &raw mut next, &raw mut fetched) } == 0 {
            objects.push(next);
        }
        // SAFETY: gives up the only reference.
        unsafe { sys::IUnknown::Release(list.cast()) };
        Ok(objects)
    }

    /// GetNonGCHeapBounds: the code, and how many ranges are in `list` then.
    pub fn frozen_ranges(&self, list: &mut [sys::COR_PRF_NONGC_HEAP_RANGE]) -> (HResult, u32) {
        let ((room, places), mut count) = (room(list), 0);
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo14::GetNonGCHeapBounds(self.at(), room, &raw mut count, places) };
        (HResult(code), count)
    }

    /// EnumerateGCHeapObjects; each object goes to `visit`, which says whether there is to be another one.
    pub fn walk_heap(&self, mut visit: impl FnMut(usize) -> bool) -> HResult {
        let mut visit: &mut dyn FnMut(usize) -> bool = &mut visit;
        let state = (&raw mut visit).cast::<c_void>();
        // SAFETY: as above; the callback takes what the state is.
        HResult(unsafe { sys::ICorProfilerInfo15::EnumerateGCHeapObjects(self.at(), Some(pass_on), state) })
    }

    /// GetObjectIDFromHandle.
    pub fn object_of(&self, handle: usize) -> Answered<usize> {
        let mut object = 0;
        // SAFETY: as above; a handle is a number in disguise.
        let code = unsafe {
            sys::ICorProfilerInfo13::GetObjectIDFromHandle(self.at(), handle as sys::ObjectHandleID, &raw mut object)
        };
        answered(code, object)
    }
}

unsafe extern "C" fn pass_on(object: usize, state: *mut c_void) -> i32 {
    // SAFETY: what `walk_heap` gave.
    i32::from(unsafe { (*state.cast::<&mut dyn FnMut(usize) -> bool>())(object) })
}
