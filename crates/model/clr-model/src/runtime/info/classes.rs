//! Calls about classes and the layout of their objects.
//!
//! Here, the model's classes have no fields and no type arguments, whatever their metadata says, and none is a value type (`lib.rs`, "Rejected").

use super::{Answer, Server, answer_list, answered, args, has_place, invalid_if, refuse_if, write_answers};
use corprof::{HResult, sys};

/// mdTypeDefNil, the token of no class (source: corhdr.h).
const NO_CLASS: u32 = 0x0200_0000;
/// Bytes of the smallest object: header, class, and room for one address (source: object.h, MIN_OBJECT_SIZE).
const SMALLEST_OBJECT: u32 = 24;
/// Offsets from the start of a string: its length, then its text (source: object.h, StringObject, 64 bits).
const LENGTH_OF_STRING: u32 = 8;
const TEXT_OF_STRING: u32 = 12;

impl Server {
    /// For a class that is not an array, element class and rank stay unchanged, as in the runtime.
    pub(super) unsafe fn is_array_class(&self, args: args::IsArrayClass) -> Answer {
        let Some(element) = self.about_class(args.classId, "IsArrayClass")?.element else {
            write_answers! { args.pBaseClassId => 0 }
            return Ok(HResult::S_FALSE);
        };
        answered! { args.pBaseElemType => sys::ELEMENT_TYPE_CLASS, args.pBaseClassId => element, args.pcRank => 1 }
    }

    /// For an array it writes nothing and succeeds (source: proftoeeinterfaceimpl.cpp, GetClassIDInfo).
    pub(super) unsafe fn get_class_id_info(&self, args: args::GetClassIDInfo) -> Answer {
        let class = self.about_class(args.classId, "GetClassIDInfo")?;
        let (module, token) = if class.element.is_some() { (0, 0) } else { (class.module, class.token) };
        answered! { args.pModuleId => module, args.pTypeDefToken => token }
    }

    pub(super) unsafe fn get_class_id_info2(&self, args: args::GetClassIDInfo2) -> Answer {
        invalid_if(!has_place(args.cNumTypeArgs, args.typeArgs))?;
        let class = self.about_class(args.classId, "GetClassIDInfo2")?;
        refuse_if(class.element.is_some(), HResult::CORPROF_E_CLASSID_IS_ARRAY)?;
        write_answers! {
            args.pModuleId => class.module,
            args.pTypeDefToken => class.token,
            args.pParentClassId => class.parent,
        }
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&[], args.cNumTypeArgs, args.pcNumTypeArgs, args.typeArgs) }
    }

    pub(super) unsafe fn get_class_from_token(&self, args: args::GetClassFromToken) -> Answer {
        invalid_if(args.moduleId == 0 || args.typeDef == 0 || args.typeDef == NO_CLASS)?;
        answered! { args.pClassId => self.class_from_token(args.moduleId, args.typeDef, None, "GetClassFromToken")? }
    }

    pub(super) unsafe fn get_class_from_token_and_type_args(&self, args: args::GetClassFromTokenAndTypeArgs) -> Answer {
        refuse_if(args.moduleID == 0, HResult::CORPROF_E_DATAINCOMPLETE)?;
        let types = Some(args.cTypeArgs as usize);
        let name = "GetClassFromTokenAndTypeArgs";
        answered! { args.pClassID => self.class_from_token(args.moduleID, args.typeDef, types, name)? }
    }

    fn class_from_token(&self, module: usize, token: u32, types: Option<usize>, what: &str) -> Result<usize, HResult> {
        let module = self.loaded_module(module, what)?;
        let runtime = self.runtime()?;
        runtime.check_loading_thread(module, token, what);
        Ok(runtime.class_from_token(module, token, types)?.0)
    }

    /// Not for arrays: GetArrayObjectInfo is for those.
    pub(super) unsafe fn get_class_layout(&self, args: args::GetClassLayout) -> Answer {
        invalid_if(args.pcFieldOffset.is_null() || !has_place(args.cFieldOffset, args.rFieldOffset))?;
        invalid_if(self.about_class(args.classID, "GetClassLayout")?.element.is_some())?;
        write_answers! { args.pulClassSize => SMALLEST_OBJECT }
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&[], args.cFieldOffset, args.pcFieldOffset, args.rFieldOffset) }
    }

    /// Only for value types, which the model lacks.
    pub(super) unsafe fn get_box_class_layout(&self, args: args::GetBoxClassLayout) -> Answer {
        invalid_if(args.pBufferOffset.is_null())?;
        self.about_class(args.classId, "GetBoxClassLayout")?;
        Err(HResult::E_INVALIDARG)
    }

    /// Strings have no buffer length any more; the string's length is reported instead (source: proftoeeinterfaceimpl.cpp,
    /// GetStringLayoutHelper).
    pub(super) unsafe fn get_string_layout(&self, args: args::GetStringLayout) -> Answer {
        answered! {
            args.pBufferLengthOffset => LENGTH_OF_STRING,
            args.pStringLengthOffset => LENGTH_OF_STRING,
            args.pBufferOffset => TEXT_OF_STRING,
        }
    }

    pub(super) unsafe fn get_string_layout2(&self, args: args::GetStringLayout2) -> Answer {
        answered! { args.pStringLengthOffset => LENGTH_OF_STRING, args.pBufferOffset => TEXT_OF_STRING }
    }
}
