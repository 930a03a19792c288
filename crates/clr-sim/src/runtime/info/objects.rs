//! What a profiler asks about one object, and its handles on objects.

use super::{INSUFFICIENT_BUFFER, Server, code, named, tell};
use crate::runtime::ObjectId;
use crate::runtime::heap::Object;
use corprof::{HResult, sys};
use std::ffi::c_void;

/// Bytes of an array before its first element, and of each element: addresses, for the model's arrays are of classes.
const HEAD_OF_ARRAY: usize = 16;
const ELEMENT: usize = 8;

impl Server {
    /// Asks about an object where objects hold still: in a collection, or in a callback that is itself managed code's.
    fn inspected<T>(&self, object: usize, what: &str, look: impl Fn(&Object) -> T) -> Result<T, HResult> {
        named(object)?;
        let (runtime, profiler) = self.both().ok_or(HResult::E_UNEXPECTED)?;
        runtime.may_inspect(&profiler)?;
        self.about_object(object, what, |_, object| look(object))
    }

    pub(super) unsafe fn get_class_from_object(&self, objectId: sys::ObjectID, pClassId: *mut sys::ClassID) -> HResult {
        code(self.inspected(objectId, "GetClassFromObject", |object| object.class.0).map(|class| {
            tell! { pClassId => class }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_object_size(&self, objectId: sys::ObjectID, pcSize: *mut sys::ULONG) -> HResult {
        code(self.inspected(objectId, "GetObjectSize", |object| object.size as u32).map(|size| {
            tell! { pcSize => size }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_object_size2(&self, objectId: sys::ObjectID, pcSize: *mut sys::SIZE_T) -> HResult {
        code(self.inspected(objectId, "GetObjectSize2", |object| object.size).map(|size| {
            tell! { pcSize => size }
            HResult::S_OK
        }))
    }

    /// An array of the model has one dimension, which begins at 0 and ends where its bytes do.
    pub(super) unsafe fn get_array_object_info(
        &self,
        objectId: sys::ObjectID,
        cDimensions: sys::ULONG32,
        pDimensionSizes: *mut sys::ULONG32,
        pDimensionLowerBounds: *mut sys::int,
        ppData: *mut *mut sys::BYTE,
    ) -> HResult {
        if pDimensionSizes.is_null() || pDimensionLowerBounds.is_null() || ppData.is_null() {
            return HResult::E_INVALIDARG;
        }
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let known = self.inspected(objectId, "GetArrayObjectInfo", |object| (object.class, object.size));
        code(known.map(|(class, size)| {
            let is_array = runtime.lock().heap.classes.get(&class).is_some_and(|class| class.element.is_some());
            if !is_array {
                return HResult::E_INVALIDARG;
            }
            if cDimensions < 1 {
                return INSUFFICIENT_BUFFER;
            }
            tell! {
                pDimensionSizes => (size.saturating_sub(HEAD_OF_ARRAY) / ELEMENT) as u32,
                pDimensionLowerBounds => 0,
                ppData => (objectId + HEAD_OF_ARRAY) as *mut u8,
            }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn is_frozen_object(&self, objectId: sys::ObjectID, pbFrozen: *mut sys::BOOL) -> HResult {
        let frozen = |is_frozen: bool| {
            tell! { pbFrozen => sys::BOOL::from(is_frozen) }
            HResult::S_OK
        };
        code(self.about_object(objectId, "IsFrozenObject", |state, object| state.heap.is_frozen(object)).map(frozen))
    }

    /// One that refers to nothing says so by its code. (In the runtime, one whose class has no reference in it.)
    pub(super) unsafe fn enumerate_object_references(
        &self,
        objectId: sys::ObjectID,
        callback: Option<sys::ObjectReferenceCallback>,
        clientData: *mut c_void,
    ) -> HResult {
        let Some(callback) = callback else { return HResult::E_INVALIDARG };
        code(self.references_of(objectId).map(|references| {
            let code = if references.is_empty() { HResult::S_FALSE } else { HResult::S_OK };
            for mut reference in references {
                // SAFETY: the profiler's own callback and data, and a place that lives.
                if unsafe { callback(objectId, &raw mut reference, clientData) } == 0 {
                    break;
                }
            }
            code
        }))
    }

    pub(super) unsafe fn create_handle(
        &self,
        object: sys::ObjectID,
        r#type: sys::COR_PRF_HANDLE_TYPE,
        pHandle: *mut sys::ObjectHandleID,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        if object == 0 || pHandle.is_null() {
            return HResult::E_INVALIDARG;
        }
        code(runtime.create_handle(&profiler, ObjectId(object), r#type).map(|handle| {
            // A handle is a number in disguise.
            tell! { pHandle => handle as sys::ObjectHandleID }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn destroy_handle(&self, handle: sys::ObjectHandleID) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.destroy_handle(&profiler, handle as usize)
    }

    /// Of an object that is collected there is none any more, which is no failure (documented, ICorProfilerInfo13::GetObjectIDFromHandle).
    pub(super) unsafe fn get_object_id_from_handle(
        &self,
        handle: sys::ObjectHandleID,
        pObject: *mut sys::ObjectID,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if handle.is_null() || pObject.is_null() {
            return HResult::E_INVALIDARG;
        }
        let object = {
            let state = runtime.lock();
            let held = state.heap.handles.get(&(handle as usize));
            held.map(|(key, _)| state.heap.id_of(*key).unwrap_or_default())
        };
        code(object.ok_or_else(|| super::stale(&runtime, "GetObjectIDFromHandle")).map(|object| {
            tell! { pObject => object }
            HResult::S_OK
        }))
    }
}
