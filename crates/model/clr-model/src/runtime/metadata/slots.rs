//! Every metadata method of the model. Empty tables get the answers of a live runtime.

use super::Scope;
use super::names::answer_type_name;
use super::properties::{
    ADDRESS, BAD_INPUT, NO_KEY, NO_ROW, NOT_FOUND, PLATFORMS_OWN, PRIVATE_STATIC, SHA1, UNRESOLVED, VERSION,
    WRONG_KIND, unfound, write_address, write_version,
};
use super::rows::{self, FIELD, METHOD, OBJECT, ONLY, Rows, TYPE_REFERENCE, kind_of, row_of};
use super::tables::TABLES;
use crate::runtime::answers::{answered, write_answers};
use crate::runtime::info::{NO_ARGUMENTS, invalid_if, refuse_if, stale, text};
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_abi::metadata::{EMIT_SLOTS, args, slot};
use remora_clr_abi::{Answer, MetadataServer, Slot};
use std::any::Any;

/// Rows that a profiler adds begin after this one, which no module of the model reaches.
const FIRST_EMITTED: u32 = 0x10_0000;

/// Enumerations of a row's items: the arguments, and the lookup.
macro_rules! listed {
    ($($slot:ident: $arguments:ident { $places:ident, $count:ident } => $look:expr;)*) => {
        $(
            unsafe fn $slot(&self, args: args::$arguments) -> Answer {
                let look: fn(&args::$arguments, &Rows) -> Option<Vec<u32>> = $look;
                // SAFETY: the API requires pointers that are null or valid, and a list with the stated room.
                unsafe { self.listed(args.phEnum, (args.$places, args.cMax), args.$count, |rows| look(&args, rows)) }
            }
        )*
    };
}

/// The methods of a class; only those of one name if it is given.
fn methods(rows: &Rows, class: u32, name: *const sys::WCHAR) -> Option<Vec<u32>> {
    if name.is_null() {
        return rows.methods_of(class);
    }
    // SAFETY: the API requires a name that ends with a zero.
    rows.methods_called(class, &unsafe { text(name) })
}

impl MetadataServer for Scope {
    fn enter(&self, slot: Slot) -> Result<(), HResult> {
        let runtime = self.check_caller(slot)?;
        runtime.begin_call();
        schedule::point();
        Ok(())
    }

    fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.faults.model_panicked(slot.name, &*payload);
        }
    }

    fn unknown(&self, slot: Slot) {
        // Without the runtime, there is no report.
        let _ = self.check_caller(slot);
    }

    /// The model has no rows for fields, parameters, properties, events and the like.
    fn refused(&self, question: Slot) -> Answer {
        match question {
            slot::GET_FIELD_MARSHAL | slot::GET_PINVOKE_MAP => Err(NOT_FOUND),
            slot::GET_CUSTOM_ATTRIBUTE_BY_NAME => Ok(HResult::S_FALSE),
            _ if EMIT_SLOTS.contains(&question) => Err(HResult::E_NOTIMPL),
            _ => Err(NO_ROW),
        }
    }

    /// A new token of its kind. The row has no content: nothing finds it.
    unsafe fn made(&self, _: Slot, kind: u32, place: *mut sys::mdToken) -> Answer {
        let runtime = self.runtime()?;
        let serial = {
            let mut state = runtime.lock();
            let module = state.code.modules.get_mut(&self.module).ok_or_else(|| stale(&runtime, "metadata"))?;
            module.emitted += 1;
            module.emitted
        };
        answered! { place => kind | (FIRST_EMITTED + serial) }
    }

    fn changed(&self, _: Slot) -> Answer {
        self.rows().map(|_| HResult::S_OK)
    }

    unsafe fn empty(&self, _: Slot, list: *mut sys::HCORENUM, count: *mut u32) -> Answer {
        // SAFETY: the API requires pointers that are null or valid; there is no room to write into.
        unsafe { self.listed(list, (std::ptr::null_mut(), 0), count, |_| Some(Vec::new())) }
    }

    listed! {
        enum_type_defs: EnumTypeDefs { rTypeDefs, pcTypeDefs } => |_, rows| Some(rows.listed_types());
        enum_type_refs: EnumTypeRefs { rTypeRefs, pcTypeRefs } => |_, rows| Some(rows.reference(rows::TYPE_REFERENCE));
        enum_members: EnumMembers { rMembers, pcTokens } => |args, rows| rows.methods_of(args.cl);
        enum_members_with_name: EnumMembersWithName { rMembers, pcTokens } => |args, rows| methods(rows, args.cl, args.szName);
        enum_methods: EnumMethods { rMethods, pcTokens } => |args, rows| rows.methods_of(args.cl);
        enum_methods_with_name: EnumMethodsWithName { rMethods, pcTokens } => |args, rows| methods(rows, args.cl, args.szName);
        enum_fields: EnumFields { rFields, pcTokens } => |args, rows| rows.methods_of(args.cl).map(|_| Vec::new());
        enum_fields_with_name: EnumFieldsWithName { rFields, pcTokens } => |args, rows| rows.methods_of(args.cl).map(|_| Vec::new());
        enum_params: EnumParams { rParams, pcTokens } => |args, rows| rows.method(args.mb).ok().map(|_| Vec::new());
        enum_assembly_refs: EnumAssemblyRefs { rAssemblyRefs, pcTokens } => |_, rows| Some(rows.reference(rows::ASSEMBLY_REFERENCE));
    }

    unsafe fn close_enum(&self, args: args::CloseEnum) {
        self.close(args.hEnum);
    }

    unsafe fn count_enum(&self, args: args::CountEnum) -> Answer {
        answered! { args.pulCount => self.count_of(args.hEnum)? }
    }

    unsafe fn reset_enum(&self, args: args::ResetEnum) -> Answer {
        self.go_to(args.hEnum, args.ulPos).map(|()| HResult::S_OK)
    }

    /// The model has no nested types.
    unsafe fn find_type_def_by_name(&self, args: args::FindTypeDefByName) -> Answer {
        invalid_if(args.szTypeDef.is_null())?;
        // SAFETY: the API requires a name that ends with a zero.
        let name = unsafe { text(args.szTypeDef) };
        let rows = self.rows()?;
        let found = rows.types.iter().find(|(_, class)| class.name == name).map(|(token, _)| *token);
        let found = found.filter(|_| row_of(args.tkEnclosingClass) == 0);
        write_answers! { args.ptd => found.unwrap_or(rows::TYPE) }
        found.map(|_| HResult::S_OK).ok_or(NOT_FOUND)
    }

    unsafe fn get_scope_props(&self, args: args::GetScopeProps) -> Answer {
        let rows = self.rows()?;
        write_answers! { args.pmvid => rows.mvid }
        // SAFETY: the API requires a name that is null or has the stated room.
        Ok(unsafe { self.name(&rows.file(), (args.szName, args.cchName), args.pchName) })
    }

    unsafe fn get_module_from_scope(&self, args: args::GetModuleFromScope) -> Answer {
        answered! { args.pmd => rows::MODULE | ONLY }
    }

    unsafe fn get_type_def_props(&self, args: args::GetTypeDefProps) -> Answer {
        let room = (args.szTypeDef, args.cchTypeDef);
        if kind_of(args.td) != rows::TYPE {
            return Ok(HResult::S_FALSE);
        }
        if row_of(args.td) == 0 {
            write_answers! { args.pdwTypeDefFlags => 0, args.ptkExtends => TYPE_REFERENCE }
            // SAFETY: the API requires a name that is null or has the stated room. Without a name nothing is truncated.
            unsafe { answer_type_name("", room, args.pchTypeDef) };
            return Ok(HResult::S_OK);
        }
        let rows = self.rows()?;
        let class = rows.types.get(&args.td).ok_or(NO_ROW)?;
        write_answers! { args.pdwTypeDefFlags => class.flags, args.ptkExtends => class.extends }
        // SAFETY: the API requires a name that is null or has the stated room.
        Ok(unsafe { answer_type_name(&class.name, room, args.pchTypeDef) })
    }

    unsafe fn get_type_ref_props(&self, args: args::GetTypeRefProps) -> Answer {
        let room = (args.szName, args.cchName);
        if kind_of(args.tr) != TYPE_REFERENCE {
            return Ok(HResult::S_FALSE);
        }
        if row_of(args.tr) == 0 {
            write_answers! { args.ptkResolutionScope => 0 }
            // SAFETY: the API requires a name that is null or has the stated room.
            unsafe { answer_type_name("", room, args.pchName) };
            return Ok(HResult::S_OK);
        }
        refuse_if(!self.rows()?.has(args.tr), NO_ROW)?;
        write_answers! { args.ptkResolutionScope => rows::ASSEMBLY_REFERENCE | ONLY }
        // SAFETY: the API requires a name that is null or has the stated room.
        Ok(unsafe { answer_type_name(OBJECT, room, args.pchName) })
    }

    /// Resolves a type token: a type of this module is found, a referenced type is not (live: the same test).
    unsafe fn resolve_type_ref(&self, args: args::ResolveTypeRef) -> Answer {
        write_answers! { args.ppIScope => std::ptr::null_mut(), args.ptd => 0 }
        if kind_of(args.tr) == rows::TYPE {
            let both = self.runtime.upgrade().zip(self.profiler.upgrade());
            let (runtime, profiler) = both.filter(|_| !args.ppIScope.is_null()).ok_or(HResult::E_INVALIDARG)?;
            write_answers! { args.ptd => args.tr }
            // SAFETY: the API requires an identifier; the place is not null.
            return Ok(unsafe { runtime.open_metadata(&profiler, self.module, args.riid, args.ppIScope) });
        }
        if row_of(args.tr) == 0 {
            write_answers! { args.ptd => rows::TYPE }
            return Err(HResult::E_INVALIDARG);
        }
        Err(if self.rows()?.has(args.tr) { UNRESOLVED } else { NO_ROW })
    }

    unsafe fn find_member(&self, args: args::FindMember) -> Answer {
        let args::FindMember { td, szName, pvSigBlob, cbSigBlob, pmb } = args;
        let args = args::FindMethod { td, szName, pvSigBlob, cbSigBlob, pmb };
        // SAFETY: the API requires a name that ends with a zero, a signature of the stated length, and a place.
        unsafe { self.find_method_of(args, FIELD) }
    }

    unsafe fn find_method(&self, args: args::FindMethod) -> Answer {
        // SAFETY: the API requires a name that ends with a zero, a signature of the stated length, and a place.
        unsafe { self.find_method_of(args, METHOD) }
    }

    unsafe fn find_field(&self, args: args::FindField) -> Answer {
        unfound(args.szName, FIELD, args.pmb)
    }

    unsafe fn find_member_ref(&self, args: args::FindMemberRef) -> Answer {
        unfound(args.szName, rows::MEMBER_REFERENCE, args.pmr)
    }

    /// The class of a method without a type is an invalid token.
    unsafe fn get_method_props(&self, args: args::GetMethodProps) -> Answer {
        let rows = self.rows()?;
        let method = rows.method(args.mb)?;
        write_answers! {
            args.pClass => if method.class == rows::NO_TYPE { rows::TYPE } else { method.class },
            args.pdwAttr => PRIVATE_STATIC,
            args.ppvSigBlob => NO_ARGUMENTS.as_ptr(),
            args.pcbSigBlob => NO_ARGUMENTS.len() as u32,
            args.pulCodeRVA => ADDRESS,
            args.pdwImplFlags => 0,
        }
        // SAFETY: the API requires a name that is null or has the stated room.
        Ok(unsafe { self.name(&method.name, (args.szMethod, args.cchMethod), args.pchMethod) })
    }

    unsafe fn get_method_semantics(&self, args: args::GetMethodSemantics) -> Answer {
        write_answers! { args.pdwSemanticsFlags => 0 }
        Err(NOT_FOUND)
    }

    unsafe fn get_class_layout(&self, args: args::GetClassLayout) -> Answer {
        write_answers! { args.pdwPackSize => 0, args.pulClassSize => 0 }
        Err(if self.rows()?.has(rows::TYPE | row_of(args.td)) { NOT_FOUND } else { NO_ROW })
    }

    unsafe fn get_rva(&self, args: args::GetRVA) -> Answer {
        write_address(&self.rows()?, args.tk, args.pulCodeRVA, args.pdwImplFlags)
    }

    unsafe fn get_name_from_token(&self, args: args::GetNameFromToken) -> Answer {
        let name = self.rows()?.name_of(args.tk).ok_or(HResult::E_INVALIDARG)?.ok_or(NO_ROW)?;
        answered! { args.pszUtf8NamePtr => self.kept(args.tk, name) }
    }

    unsafe fn get_param_for_method_index(&self, args: args::GetParamForMethodIndex) -> Answer {
        Err(self.rows()?.method(args.md).err().unwrap_or(NOT_FOUND))
    }

    unsafe fn find_type_ref(&self, args: args::FindTypeRef) -> Answer {
        // SAFETY: the API requires a name that ends with a zero.
        let name = unsafe { text(args.szName) };
        let is_framework = args.tkResolutionScope == rows::ASSEMBLY_REFERENCE | ONLY;
        let is_there = self.rows()?.framework.is_some() && is_framework && name == OBJECT;
        write_answers! { args.ptr => if is_there { TYPE_REFERENCE | ONLY } else { TYPE_REFERENCE } }
        refuse_if(!is_there, NOT_FOUND).map(|()| HResult::S_OK)
    }

    unsafe fn get_member_props(&self, args: args::GetMemberProps) -> Answer {
        let args::GetMemberProps { mb, pClass, szMember, cchMember, pchMember, pdwAttr, .. } = args;
        let args::GetMemberProps { ppvSigBlob, pcbSigBlob, pulCodeRVA, pdwImplFlags, .. } = args;
        let (szMethod, cchMethod, pchMethod) = (szMember, cchMember, pchMember);
        let args = args::GetMethodProps {
            mb,
            pClass,
            szMethod,
            cchMethod,
            pchMethod,
            pdwAttr,
            ppvSigBlob,
            pcbSigBlob,
            pulCodeRVA,
            pdwImplFlags,
        };
        refuse_if(kind_of(mb) != METHOD, NO_ROW)?;
        // SAFETY: the profiler's own arguments; the API has the same rules for both methods.
        unsafe { self.get_method_props(args) }
    }

    unsafe fn is_valid_token(&self, args: args::IsValidToken) -> bool {
        self.rows().is_ok_and(|rows| rows.has(args.tk))
    }

    unsafe fn get_nested_class_props(&self, args: args::GetNestedClassProps) -> Answer {
        Err(if kind_of(args.tdNestedClass) == rows::TYPE { NOT_FOUND } else { WRONG_KIND })
    }

    unsafe fn get_native_call_conv_from_sig(&self, args: args::GetNativeCallConvFromSig) -> Answer {
        answered! { args.pCallConv => PLATFORMS_OWN }
    }

    unsafe fn is_global(&self, args: args::IsGlobal) -> Answer {
        invalid_if(!self.rows()?.has(args.pd))?;
        answered! { args.pbGlobal => i32::from(args.pd == rows::NO_TYPE) }
    }

    unsafe fn get_generic_param_props(&self, args: args::GetGenericParamProps) -> Answer {
        Err(if kind_of(args.gp) == rows::TYPE_PARAMETER && row_of(args.gp) != 0 { NO_ROW } else { BAD_INPUT })
    }

    unsafe fn enum_generic_param_constraints(&self, args: args::EnumGenericParamConstraints) -> Answer {
        refuse_if(kind_of(args.tk) != rows::TYPE_PARAMETER, BAD_INPUT)?;
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.empty(slot::ENUM_GENERIC_PARAM_CONSTRAINTS, args.phEnum, args.pcGenericParamConstraints) }
    }

    unsafe fn get_generic_param_constraint_props(&self, args: args::GetGenericParamConstraintProps) -> Answer {
        Err(if kind_of(args.gpc) == rows::CONSTRAINT && row_of(args.gpc) != 0 { NO_ROW } else { BAD_INPUT })
    }

    unsafe fn get_pe_kind(&self, args: args::GetPEKind) -> Answer {
        write_answers! { args.pdwPEKind => 0, args.pdwMAchine => 0 }
        Ok(HResult::S_FALSE)
    }

    unsafe fn get_version_string(&self, args: args::GetVersionString) -> Answer {
        // SAFETY: the API requires a buffer that is null or has the stated room.
        Ok(unsafe { self.name(VERSION, (args.pwzBuf, args.ccBufSize), args.pccBufSize) })
    }

    unsafe fn get_assembly_props(&self, args: args::GetAssemblyProps) -> Answer {
        let rows = self.rows()?;
        refuse_if(row_of(args.mda) != ONLY, NO_ROW)?;
        write_answers! { args.ppbPublicKey => NO_KEY, args.pulHashAlgId => SHA1, args.pdwAssemblyFlags => 0 }
        if !args.ppbPublicKey.is_null() {
            write_answers! { args.pcbPublicKey => 0 }
        }
        // SAFETY: the API requires null or a valid place.
        unsafe { write_version(args.pMetaData) };
        // SAFETY: the API requires a name that is null or has the stated room.
        Ok(unsafe { self.name(&rows.assembly, (args.szName, args.cchName), args.pchName) })
    }

    unsafe fn get_assembly_ref_props(&self, args: args::GetAssemblyRefProps) -> Answer {
        let rows = self.rows()?;
        let framework = rows.framework.filter(|_| row_of(args.mdar) == ONLY).ok_or(NO_ROW)?;
        write_answers! {
            args.ppbPublicKeyOrToken => NO_KEY,
            args.ppbHashValue => NO_KEY,
            args.pdwAssemblyRefFlags => 0,
        }
        if !args.ppbPublicKeyOrToken.is_null() {
            write_answers! { args.pcbPublicKeyOrToken => 0 }
        }
        if !args.ppbHashValue.is_null() {
            write_answers! { args.pcbHashValue => 0 }
        }
        // SAFETY: the API requires null or a valid place.
        unsafe { write_version(args.pMetaData) };
        // SAFETY: the API requires a name that is null or has the stated room.
        Ok(unsafe { self.name(&framework, (args.szName, args.cchName), args.pchName) })
    }

    unsafe fn get_assembly_from_scope(&self, args: args::GetAssemblyFromScope) -> Answer {
        answered! { args.ptkAssembly => rows::ASSEMBLY | ONLY }
    }

    unsafe fn find_exported_type_by_name(&self, args: args::FindExportedTypeByName) -> Answer {
        unfound(args.szName, 0, args.ptkExportedType)
    }

    unsafe fn find_manifest_resource_by_name(&self, args: args::FindManifestResourceByName) -> Answer {
        unfound(args.szName, rows::RESOURCE, args.ptkManifestResource)
    }

    unsafe fn tables_get_num_tables(&self, args: args::TablesGetNumTables) -> Answer {
        answered! { args.pcTables => TABLES.len() as u32 }
    }

    /// Strings have no table.
    unsafe fn tables_get_table_index(&self, args: args::TablesGetTableIndex) -> Answer {
        let index = kind_of(args.token) >> 24;
        answered! { args.pixTbl => if (index as usize) < TABLES.len() { index } else { u32::MAX } }
    }

    unsafe fn tables_get_table_info(&self, args: args::TablesGetTableInfo) -> Answer {
        let rows = self.rows()?;
        let table = TABLES.get(args.ixTbl as usize).ok_or(HResult::E_INVALIDARG)?;
        answered! {
            args.pcbRow => table.size,
            args.pcRows => rows.count(args.ixTbl << 24),
            args.pcCols => table.columns,
            args.piKey => table.key.unwrap_or(u32::MAX),
            args.ppName => table.name.as_ptr(),
        }
    }

    unsafe fn find_assemblies_by_name(&self, _: args::FindAssembliesByName) -> Answer {
        Err(HResult(self.runtime()?.differences().assemblies_are_not_found as i32))
    }
}
