//! Calls about the heap, its objects, and their layout.

use super::{Answered, answered, calls, room};
use crate::scripted::Script;
use corprof::{HResult, sys};
use std::ffi::c_void;
use std::ptr::null_mut;

calls! {
    /// GetGenerationBounds: the code and the number of ranges. The list has as many as fit.
    generations() -> [room, count, places: sys::COR_PRF_GC_GENERATION_RANGE]
        = ICorProfilerInfo2::GetGenerationBounds(room, &raw mut count, places);
    /// GetArrayObjectInfo with room for this many dimensions: length, lower bound, address of the elements.
    array_info(object: usize, dimensions: u32) -> (length: u32, bound: i32, data: usize)
        = ICorProfilerInfo2::GetArrayObjectInfo(
            object, dimensions, &raw mut length, &raw mut bound, (&raw mut data).cast());
    /// GetStringLayout2: offsets of length and text.
    string_layout() -> (length: u32, text: u32) = ICorProfilerInfo3::GetStringLayout2(&raw mut length, &raw mut text);
    /// GetClassLayout: fields and size.
    class_layout(class: usize) -> (fields: u32, size: u32)
        = ICorProfilerInfo2::GetClassLayout(class, null_mut(), 0, &raw mut fields, &raw mut size);
    /// IsFrozenObject: 0 if it is not.
    frozen(object: usize) -> (is_frozen: i32) = ICorProfilerInfo10::IsFrozenObject(object, &raw mut is_frozen);
    /// GetLOHObjectSizeThreshold.
    large_from() -> (threshold: u32) = ICorProfilerInfo10::GetLOHObjectSizeThreshold(&raw mut threshold);
    /// GetNonGCHeapBounds: the code and the number of ranges in the list.
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
        // SAFETY: the model keeps Info alive during the schedule; the out pointers are locals.
        let code = unsafe { sys::ICorProfilerInfo2::GetObjectGeneration(self.at(), object, &raw mut range) };
        answered(code, range)
    }

    /// EnumerateNonGCObjects, read to its end.
    pub fn frozen_objects(&self) -> Answered<Vec<usize>> {
        let mut list = null_mut();
        // SAFETY: the model keeps Info alive during the schedule; the out pointers are locals.
        answered(unsafe { sys::ICorProfilerInfo14::EnumerateNonGCObjects(self.at(), &raw mut list) }, ())?;
        let (mut objects, mut next, mut fetched) = (Vec::new(), 0, 0);
        // SAFETY: the enumerator is live; the out pointers are locals with room for one item.
        while unsafe { sys::ICorProfilerObjectEnum::Next(list, 1, &raw mut next, &raw mut fetched) } == 0 {
            objects.push(next);
        }
        // SAFETY: releases the only reference.
        unsafe { sys::IUnknown::Release(list.cast()) };
        Ok(objects)
    }

    /// EnumerateGCHeapObjects. `visit` gets each object, and returns whether to continue.
    pub fn walk_heap(&self, mut visit: impl FnMut(usize) -> bool) -> HResult {
        let mut visit: &mut dyn FnMut(usize) -> bool = &mut visit;
        let state = (&raw mut visit).cast::<c_void>();
        // SAFETY: the model keeps Info alive during the schedule; the callback expects the type of `state`.
        HResult(unsafe { sys::ICorProfilerInfo15::EnumerateGCHeapObjects(self.at(), Some(pass_on), state) })
    }
}

unsafe extern "C" fn pass_on(object: usize, state: *mut c_void) -> i32 {
    // SAFETY: `walk_heap` passed this pointer.
    i32::from(unsafe { (*state.cast::<&mut dyn FnMut(usize) -> bool>())(object) })
}
