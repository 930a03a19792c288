//! What a profiler asks about classes, and how their objects are laid out.
//!
//! The model's classes have no fields, no type arguments, and no value types among them (`lib.rs`, what is rejected).

use super::{ModuleId, Server, answer_list, code, has_place, tell};
use corprof::{HResult, sys};

/// mdTypeDefNil, the token of no class (source: corhdr.h).
const NO_CLASS: u32 = 0x0200_0000;
/// COR_E_BADIMAGEFORMAT: what comes of a token that is not in the metadata (source: clsload.cpp, ThrowBadTokenException).
const BAD_TOKEN: HResult = HResult(0x8007_000B_u32 as i32);
/// Bytes of the smallest object: its header, its class, and room for one address (source: object.h, MIN_OBJECT_SIZE).
const SMALLEST_OBJECT: u32 = 24;
/// From where an object is said to begin: its length, then its text (source: object.h, StringObject, 64 bits).
const LENGTH_OF_STRING: u32 = 8;
const TEXT_OF_STRING: u32 = 12;

impl Server {
    /// Of what is no array, element class and rank are left as they were, as in the runtime.
    pub(super) unsafe fn is_array_class(
        &self,
        classId: sys::ClassID,
        pBaseElemType: *mut sys::CorElementType,
        pBaseClassId: *mut sys::ClassID,
        pcRank: *mut sys::ULONG,
    ) -> HResult {
        code(self.about_class(classId, "IsArrayClass").map(|class| {
            let Some(element) = class.element else {
                tell! { pBaseClassId => 0 }
                return HResult::S_FALSE;
            };
            tell! { pBaseElemType => sys::ELEMENT_TYPE_CLASS, pBaseClassId => element, pcRank => 1 }
            HResult::S_OK
        }))
    }

    /// Of an array it tells nothing, and calls that a success (source: proftoeeinterfaceimpl.cpp, GetClassIDInfo).
    pub(super) unsafe fn get_class_id_info(
        &self,
        classId: sys::ClassID,
        pModuleId: *mut sys::ModuleID,
        pTypeDefToken: *mut sys::mdTypeDef,
    ) -> HResult {
        code(self.about_class(classId, "GetClassIDInfo").map(|class| {
            let (module, token) = if class.element.is_some() { (0, 0) } else { (class.module, class.token) };
            tell! { pModuleId => module, pTypeDefToken => token }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_class_id_info2(
        &self,
        classId: sys::ClassID,
        pModuleId: *mut sys::ModuleID,
        pTypeDefToken: *mut sys::mdTypeDef,
        pParentClassId: *mut sys::ClassID,
        cNumTypeArgs: sys::ULONG32,
        pcNumTypeArgs: *mut sys::ULONG32,
        typeArgs: *mut sys::ClassID,
    ) -> HResult {
        if !has_place(cNumTypeArgs, typeArgs) {
            return HResult::E_INVALIDARG;
        }
        code(self.about_class(classId, "GetClassIDInfo2").map(|class| {
            if class.element.is_some() {
                return HResult::CORPROF_E_CLASSID_IS_ARRAY;
            }
            tell! { pModuleId => class.module, pTypeDefToken => class.token, pParentClassId => class.parent }
            // SAFETY: the profiler's room.
            unsafe { answer_list(&[], cNumTypeArgs, pcNumTypeArgs, typeArgs) }
        }))
    }

    pub(super) unsafe fn get_class_from_token(
        &self,
        moduleId: sys::ModuleID,
        typeDef: sys::mdTypeDef,
        pClassId: *mut sys::ClassID,
    ) -> HResult {
        if moduleId == 0 || typeDef == 0 || typeDef == NO_CLASS {
            return HResult::E_INVALIDARG;
        }
        code(self.class_of_token(moduleId, typeDef, "GetClassFromToken").map(|class| {
            tell! { pClassId => class }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_class_from_token_and_type_args(
        &self,
        moduleID: sys::ModuleID,
        typeDef: sys::mdTypeDef,
        cTypeArgs: sys::ULONG32,
        _typeArgs: *const sys::ClassID,
        pClassID: *mut sys::ClassID,
    ) -> HResult {
        if moduleID == 0 {
            return HResult::CORPROF_E_DATAINCOMPLETE;
        }
        code(self.class_of_token(moduleID, typeDef, "GetClassFromTokenAndTypeArgs").map(|class| {
            // Nothing in the model is generic.
            if cTypeArgs != 0 {
                return BAD_TOKEN;
            }
            tell! { pClassID => class }
            HResult::S_OK
        }))
    }

    fn class_of_token(&self, module: usize, token: u32, what: &str) -> Result<usize, HResult> {
        let found = self.about(what, |runtime| {
            let state = runtime.lock();
            let is_loaded = state.code.modules.contains_key(&ModuleId(module));
            is_loaded.then(|| state.class_of_token(ModuleId(module), token))
        })?;
        found.map(|class| class.0).ok_or(BAD_TOKEN)
    }

    pub(super) unsafe fn get_class_layout(
        &self,
        classID: sys::ClassID,
        rFieldOffset: *mut sys::COR_FIELD_OFFSET,
        cFieldOffset: sys::ULONG,
        pcFieldOffset: *mut sys::ULONG,
        pulClassSize: *mut sys::ULONG,
    ) -> HResult {
        if pcFieldOffset.is_null() || !has_place(cFieldOffset, rFieldOffset) {
            return HResult::E_INVALIDARG;
        }
        code(self.about_class(classID, "GetClassLayout").map(|class| {
            // GetArrayObjectInfo is for those.
            if class.element.is_some() {
                return HResult::E_INVALIDARG;
            }
            tell! { pulClassSize => SMALLEST_OBJECT }
            // SAFETY: the profiler's room.
            unsafe { answer_list(&[], cFieldOffset, pcFieldOffset, rFieldOffset) }
        }))
    }

    /// For value types alone, of which there are none.
    pub(super) unsafe fn get_box_class_layout(
        &self,
        classId: sys::ClassID,
        pBufferOffset: *mut sys::ULONG32,
    ) -> HResult {
        if pBufferOffset.is_null() {
            return HResult::E_INVALIDARG;
        }
        code(self.about_class(classId, "GetBoxClassLayout").map(|_| HResult::E_INVALIDARG))
    }

    /// There is no length of a buffer any more: the string's stands for it (source: proftoeeinterfaceimpl.cpp, GetStringLayoutHelper).
    pub(super) unsafe fn get_string_layout(
        &self,
        pBufferLengthOffset: *mut sys::ULONG,
        pStringLengthOffset: *mut sys::ULONG,
        pBufferOffset: *mut sys::ULONG,
    ) -> HResult {
        tell! {
            pBufferLengthOffset => LENGTH_OF_STRING,
            pStringLengthOffset => LENGTH_OF_STRING,
            pBufferOffset => TEXT_OF_STRING,
        }
        HResult::S_OK
    }

    pub(super) unsafe fn get_string_layout2(
        &self,
        pStringLengthOffset: *mut sys::ULONG,
        pBufferOffset: *mut sys::ULONG,
    ) -> HResult {
        tell! { pStringLengthOffset => LENGTH_OF_STRING, pBufferOffset => TEXT_OF_STRING }
        HResult::S_OK
    }
}
