//! What a profiler asks about classes.

use super::{Server, answer, code};
use corprof::{HResult, sys};

impl Server {
    pub(super) unsafe fn is_array_class(
        &self,
        classId: sys::ClassID,
        pBaseElemType: *mut sys::CorElementType,
        pBaseClassId: *mut sys::ClassID,
        pcRank: *mut sys::ULONG,
    ) -> HResult {
        code(self.about_class(classId, "IsArrayClass").map(|class| {
            let Some(element) = class.element else { return HResult(1) };
            // SAFETY: as above, three times.
            unsafe { answer(pBaseElemType, sys::ELEMENT_TYPE_CLASS) };
            // SAFETY: as above.
            unsafe { answer(pBaseClassId, element) };
            // SAFETY: as above.
            unsafe { answer(pcRank, 1) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_class_id_info2(
        &self,
        classId: sys::ClassID,
        pModuleId: *mut sys::ModuleID,
        pTypeDefToken: *mut sys::mdTypeDef,
        pParentClassId: *mut sys::ClassID,
        _cNumTypeArgs: sys::ULONG32,
        pcNumTypeArgs: *mut sys::ULONG32,
        _typeArgs: *mut sys::ClassID,
    ) -> HResult {
        code(self.about_class(classId, "GetClassIDInfo2").map(|class| {
            if class.element.is_some() {
                return HResult::CORPROF_E_CLASSID_IS_ARRAY;
            }
            // SAFETY: as above, four times.
            unsafe { answer(pModuleId, class.module) };
            // SAFETY: as above.
            unsafe { answer(pTypeDefToken, class.token) };
            // SAFETY: as above.
            unsafe { answer(pParentClassId, class.parent) };
            // SAFETY: as above.
            unsafe { answer(pcNumTypeArgs, 0) };
            HResult::S_OK
        }))
    }
}
