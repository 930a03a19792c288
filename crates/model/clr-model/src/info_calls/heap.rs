//! Questions about the heap, its objects, and how they are laid out.

use super::{Answered, answered, calls, room};
use crate::scripted::Script;
use corprof::{HResult, sys};
use std::ffi::c_void;
use std::ptr::null_mut;

calls! {
    /// GetGenerationBounds: the code, and how many ranges there are; as many as fit are in the list then.
    generations() -> [room, count, places: sys::COR_PRF_GC_GENERATION_RANGE]
        = ICorProfilerInfo2::GetGenerationBounds(room, &raw mut count, places);
    /// GetArrayObjectInfo, with room for so many dimensions: length, lower bound, and where the elements lie.
    array_info(object: usize, dimensions: u32) -> (length: u32, bound: i32, data: usize)
        = ICorProfilerInfo2::GetArrayObjectInfo(
            object, dimensions, &raw mut length, &raw mut bound, (&raw mut data).cast());
    /// GetStringLayout2: where length and text begin.
    string_layout() -> (length: u32, text: u32) = ICorProfilerInfo3::GetStringLayout2(&raw mut length, &raw mut text);
    /// GetClassLayout: fields and size.
    class_layout(class: usize) -> (fields: u32, size: u32)
        = ICorProfilerInfo2::GetClassLayout(class, null_mut(), 0, &raw mut fields, &raw mut size);
    /// IsFrozenObject: 0 if it is not.
    frozen(object: usize) -> (is_frozen: i32) = ICorProfilerInfo10::IsFrozenObject(object, &raw mut is_frozen);
    /// GetLOHObjectSizeThreshold.
    large_from() -> (threshold: u32) = ICorProfilerInfo10::GetLOHObjectSizeThreshold(&raw mut threshold);
    /// GetNonGCHeapBounds: the code, and how many ranges are in the list then.
    frozen_ranges() -> [room, count, places: sys::COR_PRF_NONGC_HEAP_RANGE]
        = ICorProfilerInfo14::GetNonGCHeapBounds(room, &raw mut count, places);
    /// GetObjectIDFromHandle.
    object_of(handle: usize) -> (object: usize)
        = ICorProfilerInfo13::GetObjectIDFromHandle(handle as sys::ObjectHandleID, &raw mut object);
}

impl Script {
    /// IsFrozenObject.
    pub fn is_frozen(&self, object: usize) -> Answered<bool> {
        self.frozen(object).map(|is_frozen| is_frozen != 0)
    }

    /// GetObjectGeneration.
    pub fn generation_of(&self, object: usize) -> Answered<sys::COR_PRF_GC_GENERATION_RANGE> {
        let mut range =
            sys::COR_PRF_GC_GENERATION_RANGE { generation: 0, rangeStart: 0, rangeLength: 0, rangeLengthReserved: 0 };
        // SAFETY: the runtime's object, which the model keeps as long as the schedule lasts; places of this function.
        let code = unsafe { sys::ICorProfilerInfo2::GetObjectGeneration(self.at(), object, &raw mut range) };
        answered(code, range)
    }

    /// EnumerateNonGCObjects, read to its end.
    pub fn frozen_objects(&self) -> Answered<Vec<usize>> {
        let mut list = null_mut();
        // SAFETY: the runtime's object, which the model keeps as long as the schedule lasts; places of this function.
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

    /// EnumerateGCHeapObjects; each object goes to `visit`, which says whether there is to be another one.
    pub fn walk_heap(&self, mut visit: impl FnMut(usize) -> bool) -> HResult {
        let mut visit: &mut dyn FnMut(usize) -> bool = &mut visit;
        let state = (&raw mut visit).cast::<c_void>();
        // SAFETY: the runtime's object, which the model keeps as long as the schedule lasts; the callback takes what the state is.
        HResult(unsafe { sys::ICorProfilerInfo15::EnumerateGCHeapObjects(self.at(), Some(pass_on), state) })
    }
}

unsafe extern "C" fn pass_on(object: usize, state: *mut c_void) -> i32 {
    // SAFETY: what `walk_heap` gave.
    i32::from(unsafe { (*state.cast::<&mut dyn FnMut(usize) -> bool>())(object) })
}
