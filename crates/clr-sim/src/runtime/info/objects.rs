//! What a profiler asks about one object, and its handles on objects.

use super::{Server, answer, code};
use crate::runtime::ObjectId;
use corprof::{HResult, sys};
use std::ffi::c_void;

impl Server {
    pub(super) unsafe fn get_class_from_object(&self, objectId: sys::ObjectID, pClassId: *mut sys::ClassID) -> HResult {
        code(self.about_object(objectId, "GetClassFromObject", |_, object| object.class.0).map(|class| {
            // SAFETY: as above.
            unsafe { answer(pClassId, class) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_object_size(&self, objectId: sys::ObjectID, pcSize: *mut sys::ULONG) -> HResult {
        code(self.about_object(objectId, "GetObjectSize", |_, object| object.size as u32).map(|size| {
            // SAFETY: as above.
            unsafe { answer(pcSize, size) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_object_size2(&self, objectId: sys::ObjectID, pcSize: *mut sys::SIZE_T) -> HResult {
        code(self.about_object(objectId, "GetObjectSize2", |_, object| object.size).map(|size| {
            // SAFETY: as above.
            unsafe { answer(pcSize, size) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn enumerate_object_references(
        &self,
        objectId: sys::ObjectID,
        callback: Option<sys::ObjectReferenceCallback>,
        clientData: *mut c_void,
    ) -> HResult {
        let Some(callback) = callback else { return HResult::E_INVALIDARG };
        code(self.references_of(objectId).map(|references| {
            for mut reference in references {
                // SAFETY: the profiler's own callback and data, and a place that lives.
                if unsafe { callback(objectId, &raw mut reference, clientData) } == 0 {
                    break;
                }
            }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn create_handle(
        &self,
        object: sys::ObjectID,
        r#type: sys::COR_PRF_HANDLE_TYPE,
        pHandle: *mut sys::ObjectHandleID,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(runtime.create_handle(&profiler, ObjectId(object), r#type).map(|handle| {
            // SAFETY: as above; a handle is a number in disguise.
            unsafe { answer(pHandle, handle as sys::ObjectHandleID) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn destroy_handle(&self, handle: sys::ObjectHandleID) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.destroy_handle(&profiler, handle as usize)
    }
}
