//! Every metadata method of the model. Empty tables get the answers of a live runtime.

use super::Scope;
use super::attributes::attributes;
use super::codes::{BAD_INPUT, NO_KEY, NO_ROW, NOT_FOUND, PLATFORMS_OWN, SHA1, UNRESOLVED, VERSION};
use super::heaps::Heaps;
use super::lookups::{all_members, members, method_specs, name_at};
use super::members::associations;
use super::properties::{unfound, write_address, write_version};
use super::rows::{EVENTS, FIELDS, METHODS, ONLY, PARAMETERS, PROPERTIES, Rows};
use super::schema::TABLES;
use crate::runtime::answers::{answered, write_answers};
use crate::runtime::info::{invalid_if, refuse_if, stale};
use crate::runtime::metadata_contents::tokens::{
    ASSEMBLY, ASSEMBLY_REFERENCE, CONSTRAINT, IMPLEMENTED, MEMBER_REFERENCE, METHOD, MODULE, NO_TYPE, RESOURCE,
    SIGNATURE, TEXT, TYPE, TYPE_PARAMETER, TYPE_REFERENCE, TYPE_SPEC, kind_of, row_of,
};
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

/// The name in the arguments of an enumeration, if it has one.
macro_rules! name {
    ($name:expr) => {
        // SAFETY: the API requires a name that is null or ends with a zero.
        unsafe { name_at($name) }
    };
}

/// Methods that pass their arguments on.
macro_rules! passed {
    ($($slot:ident: $arguments:ident => $answer:ident;)*) => {
        $(
            unsafe fn $slot(&self, args: args::$arguments) -> Answer {
                // SAFETY: the profiler's own arguments: the API requires pointers that are null or valid, names that end with a zero,
                // and buffers with the stated room.
                unsafe { self.$answer(args) }
            }
        )*
    };
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

    /// The model has no rows for permissions, marshalling, references to modules and the like.
    fn refused(&self, question: Slot) -> Answer {
        match question {
            slot::GET_FIELD_MARSHAL | slot::GET_PINVOKE_MAP => Err(NOT_FOUND),
            // There is no file whose bytes they could return.
            slot::TABLES_GET_META_DATA_STORAGE | slot::TABLES_GET_META_DATA_STREAM_INFO => Err(HResult::E_NOTIMPL),
            _ if EMIT_SLOTS.contains(&question) => Err(HResult::E_NOTIMPL),
            _ => Err(NO_ROW),
        }
    }

    /// A new token of its kind. The row has no content: nothing finds it.
    unsafe fn made(&self, _: Slot, kind: u32, place: *mut sys::mdToken) -> Answer {
        let runtime = self.runtime()?;
        let serial = {
            let mut state = runtime.lock();
            let module =
                state.code.modules.get_mut(&self.module).ok_or_else(|| stale(&runtime, "module", "metadata"))?;
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
        enum_type_refs: EnumTypeRefs { rTypeRefs, pcTypeRefs } => |_, rows| Some(rows.tokens(TYPE_REFERENCE));
        enum_type_specs: EnumTypeSpecs { rTypeSpecs, pcTypeSpecs } => |_, rows| Some(rows.tokens(TYPE_SPEC));
        enum_signatures: EnumSignatures { rSignatures, pcSignatures } => |_, rows| Some(rows.tokens(SIGNATURE));
        enum_user_strings: EnumUserStrings { rStrings, pcStrings } => |_, rows| Some(rows.texts.keys().map(|at| TEXT | at).collect());
        enum_interface_impls: EnumInterfaceImpls { rImpls, pcImpls } => |args, rows| Some(rows.tokens_with(IMPLEMENTED, 0, args.td));
        enum_members: EnumMembers { rMembers, pcTokens } => |args, rows| all_members(rows, args.cl, None);
        enum_members_with_name: EnumMembersWithName { rMembers, pcTokens } => |args, rows| all_members(rows, args.cl, name!(args.szName).as_deref());
        enum_methods: EnumMethods { rMethods, pcTokens } => |args, rows| rows.members(METHODS, args.cl);
        enum_methods_with_name: EnumMethodsWithName { rMethods, pcTokens } => |args, rows| members(rows, METHODS, args.cl, name!(args.szName).as_deref());
        enum_fields: EnumFields { rFields, pcTokens } => |args, rows| rows.members(FIELDS, args.cl);
        enum_fields_with_name: EnumFieldsWithName { rFields, pcTokens } => |args, rows| members(rows, FIELDS, args.cl, name!(args.szName).as_deref());
        enum_params: EnumParams { rParams, pcTokens } => |args, rows| rows.owned(PARAMETERS, args.mb);
        enum_member_refs: EnumMemberRefs { rMemberRefs, pcTokens } => |args, rows| Some(rows.tokens_with(MEMBER_REFERENCE, 0, args.tkParent));
        enum_properties: EnumProperties { rProperties, pcProperties } => |args, rows| Some(rows.mapped(PROPERTIES, args.td));
        enum_events: EnumEvents { rEvents, pcEvents } => |args, rows| Some(rows.mapped(EVENTS, args.td));
        enum_method_semantics: EnumMethodSemantics { rEventProp, pcEventProp } => |args, rows| Some(associations(rows, args.mb));
        enum_custom_attributes: EnumCustomAttributes { rCustomAttributes, pcCustomAttributes } => |args, rows| Some(attributes(rows, args.tk, args.tkType));
        enum_generic_params: EnumGenericParams { rGenericParams, pcGenericParams } => |args, rows| Some(rows.tokens_with(TYPE_PARAMETER, 2, args.tk));
        enum_method_specs: EnumMethodSpecs { rMethodSpecs, pcMethodSpecs } => |args, rows| Some(method_specs(rows, args.tk));
        enum_assembly_refs: EnumAssemblyRefs { rAssemblyRefs, pcTokens } => |_, rows| Some(rows.tokens(ASSEMBLY_REFERENCE));
    }

    passed! {
        find_type_def_by_name: FindTypeDefByName => find_type;
        find_type_ref: FindTypeRef => find_reference_to_type;
        find_method: FindMethod => find_method_of;
        find_field: FindField => find_field_of;
        find_member: FindMember => find_member_of;
        find_member_ref: FindMemberRef => find_reference_to_member;
        get_type_def_props: GetTypeDefProps => type_props;
        get_type_ref_props: GetTypeRefProps => type_reference_props;
        get_member_ref_props: GetMemberRefProps => member_reference_props;
        get_method_props: GetMethodProps => method_props;
        get_field_props: GetFieldProps => field_props;
        get_param_props: GetParamProps => parameter_props;
        get_param_for_method_index: GetParamForMethodIndex => parameter_at;
        get_property_props: GetPropertyProps => property_props;
        get_event_props: GetEventProps => event_props;
        get_method_semantics: GetMethodSemantics => role_of;
        get_nested_class_props: GetNestedClassProps => outer_type;
        get_interface_impl_props: GetInterfaceImplProps => interface_props;
        get_custom_attribute_props: GetCustomAttributeProps => attribute_props;
        get_custom_attribute_by_name: GetCustomAttributeByName => attribute_by_name;
        get_sig_from_token: GetSigFromToken => signature;
        get_type_spec_from_token: GetTypeSpecFromToken => type_spec;
        get_user_string: GetUserString => user_string;
        get_generic_param_props: GetGenericParamProps => type_parameter_props;
        get_generic_param_constraint_props: GetGenericParamConstraintProps => constraint_props;
        get_method_spec_props: GetMethodSpecProps => method_spec_props;
        tables_get_table_index: TablesGetTableIndex => table_of;
        tables_get_table_info: TablesGetTableInfo => table_info;
        tables_get_column_info: TablesGetColumnInfo => column_info;
        tables_get_coded_token_info: TablesGetCodedTokenInfo => group_info;
        tables_get_row: TablesGetRow => row_bytes;
        tables_get_column: TablesGetColumn => cell;
        tables_get_string: TablesGetString => string_at;
        tables_get_guid: TablesGetGuid => id_at;
    }

    unsafe fn tables_get_blob(&self, args: args::TablesGetBlob) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.blob_at(|heaps| &heaps.blobs, args.ixBlob, (args.pcbData, args.ppData)) }
    }

    unsafe fn tables_get_user_string(&self, args: args::TablesGetUserString) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.blob_at(|heaps| &heaps.texts, args.ixUserString, (args.pcbData, args.ppData)) }
    }

    unsafe fn tables_get_string_heap_size(&self, args: args::TablesGetStringHeapSize) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.heap_size(|heaps| heaps.strings.size, args.pcbStrings) }
    }

    unsafe fn tables_get_blob_heap_size(&self, args: args::TablesGetBlobHeapSize) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.heap_size(|heaps| heaps.blobs.size, args.pcbBlobs) }
    }

    unsafe fn tables_get_guid_heap_size(&self, args: args::TablesGetGuidHeapSize) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.heap_size(Heaps::size_of_ids, args.pcbGuids) }
    }

    unsafe fn tables_get_user_string_heap_size(&self, args: args::TablesGetUserStringHeapSize) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.heap_size(|heaps| heaps.texts.size, args.pcbBlobs) }
    }

    unsafe fn tables_get_next_string(&self, args: args::TablesGetNextString) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.next_in(|heaps| heaps.strings.after(args.ixString), args.pNext) }
    }

    unsafe fn tables_get_next_blob(&self, args: args::TablesGetNextBlob) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.next_in(|heaps| heaps.blobs.after(args.ixBlob), args.pNext) }
    }

    unsafe fn tables_get_next_guid(&self, args: args::TablesGetNextGuid) -> Answer {
        let next = args.ixGuid.saturating_add(1);
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.next_in(|heaps| heaps.id(next).map(|_| next), args.pNext) }
    }

    unsafe fn tables_get_next_user_string(&self, args: args::TablesGetNextUserString) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.next_in(|heaps| heaps.texts.after(args.ixUserString), args.pNext) }
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

    unsafe fn get_scope_props(&self, args: args::GetScopeProps) -> Answer {
        let rows = self.rows()?;
        let module = rows.row(MODULE, ONLY)?;
        write_answers! { args.pmvid => module.id(2) }
        // SAFETY: the API requires a name that is null or has the stated room.
        Ok(unsafe { self.name(module.text(1), (args.szName, args.cchName), args.pchName) })
    }

    unsafe fn get_module_from_scope(&self, args: args::GetModuleFromScope) -> Answer {
        answered! { args.pmd => MODULE | ONLY }
    }

    /// Resolves a type token: a type of this module is found, a referenced type is not (live: the same test).
    unsafe fn resolve_type_ref(&self, args: args::ResolveTypeRef) -> Answer {
        write_answers! { args.ppIScope => std::ptr::null_mut(), args.ptd => 0 }
        if kind_of(args.tr) == TYPE {
            invalid_if(args.ppIScope.is_null())?;
            write_answers! { args.ptd => args.tr }
            // SAFETY: the API requires an identifier; the place is not null.
            return unsafe { self.open_again(args.riid, args.ppIScope) };
        }
        if row_of(args.tr) == 0 {
            write_answers! { args.ptd => TYPE }
            return Err(HResult::E_INVALIDARG);
        }
        Err(if self.rows()?.has(args.tr) { UNRESOLVED } else { NO_ROW })
    }

    unsafe fn get_class_layout(&self, args: args::GetClassLayout) -> Answer {
        write_answers! { args.pdwPackSize => 0, args.pulClassSize => 0 }
        Err(if self.rows()?.has(TYPE | row_of(args.td)) { NOT_FOUND } else { NO_ROW })
    }

    unsafe fn get_rva(&self, args: args::GetRVA) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { write_address(&*self.rows()?, args.tk, args.pulCodeRVA, args.pdwImplFlags) }
    }

    unsafe fn get_name_from_token(&self, args: args::GetNameFromToken) -> Answer {
        let column = Rows::column_of_name(kind_of(args.tk)).ok_or(HResult::E_INVALIDARG)?;
        let rows = self.rows()?;
        let row = rows.row(kind_of(args.tk), args.tk)?;
        answered! { args.pszUtf8NamePtr => self.kept(row.text(column)) }
    }

    unsafe fn get_member_props(&self, args: args::GetMemberProps) -> Answer {
        let args::GetMemberProps { mb, pClass, szMember, cchMember, pchMember, pdwAttr, .. } = args;
        let args::GetMemberProps { ppvSigBlob, pcbSigBlob, pulCodeRVA, pdwImplFlags, .. } = args;
        let args::GetMemberProps { pdwCPlusTypeFlag, ppValue, pcchValue, .. } = args;
        if kind_of(mb) == METHOD {
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
            // SAFETY: the profiler's own arguments; the API has the same rules for both methods.
            return unsafe { self.method_props(args) };
        }
        let (szField, cchField, pchField) = (szMember, cchMember, pchMember);
        let args = args::GetFieldProps {
            mb,
            pClass,
            szField,
            cchField,
            pchField,
            pdwAttr,
            ppvSigBlob,
            pcbSigBlob,
            pdwCPlusTypeFlag,
            ppValue,
            pcchValue,
        };
        // SAFETY: the profiler's own arguments; the API has the same rules for both methods.
        unsafe { self.field_props(args) }
    }

    unsafe fn is_valid_token(&self, args: args::IsValidToken) -> bool {
        self.rows().is_ok_and(|rows| rows.has(args.tk))
    }

    unsafe fn get_native_call_conv_from_sig(&self, args: args::GetNativeCallConvFromSig) -> Answer {
        answered! { args.pCallConv => PLATFORMS_OWN }
    }

    unsafe fn is_global(&self, args: args::IsGlobal) -> Answer {
        invalid_if(!self.rows()?.has(args.pd))?;
        answered! { args.pbGlobal => i32::from(args.pd == NO_TYPE) }
    }

    unsafe fn enum_generic_param_constraints(&self, args: args::EnumGenericParamConstraints) -> Answer {
        refuse_if(kind_of(args.tk) != TYPE_PARAMETER, BAD_INPUT)?;
        let room = (args.rGenericParamConstraints, args.cMax);
        let look = |rows: &Rows| Some(rows.tokens_with(CONSTRAINT, 0, args.tk));
        // SAFETY: the API requires pointers that are null or valid, and a list with the stated room.
        unsafe { self.listed(args.phEnum, room, args.pcGenericParamConstraints, look) }
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
        let assembly = rows.row(ASSEMBLY, args.mda)?;
        write_answers! { args.ppbPublicKey => NO_KEY, args.pulHashAlgId => SHA1, args.pdwAssemblyFlags => 0 }
        if !args.ppbPublicKey.is_null() {
            write_answers! { args.pcbPublicKey => 0 }
        }
        // SAFETY: the API requires null or a valid place.
        unsafe { write_version(args.pMetaData) };
        // SAFETY: the API requires a name that is null or has the stated room.
        Ok(unsafe { self.name(assembly.text(7), (args.szName, args.cchName), args.pchName) })
    }

    unsafe fn get_assembly_ref_props(&self, args: args::GetAssemblyRefProps) -> Answer {
        let rows = self.rows()?;
        let assembly = rows.row(ASSEMBLY_REFERENCE, args.mdar)?;
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
        Ok(unsafe { self.name(assembly.text(6), (args.szName, args.cchName), args.pchName) })
    }

    unsafe fn get_assembly_from_scope(&self, args: args::GetAssemblyFromScope) -> Answer {
        answered! { args.ptkAssembly => ASSEMBLY | ONLY }
    }

    unsafe fn find_exported_type_by_name(&self, args: args::FindExportedTypeByName) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { unfound(args.szName, 0, args.ptkExportedType) }
    }

    unsafe fn find_manifest_resource_by_name(&self, args: args::FindManifestResourceByName) -> Answer {
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { unfound(args.szName, RESOURCE, args.ptkManifestResource) }
    }

    unsafe fn tables_get_num_tables(&self, args: args::TablesGetNumTables) -> Answer {
        answered! { args.pcTables => TABLES.len() as u32 }
    }

    unsafe fn find_assemblies_by_name(&self, _: args::FindAssembliesByName) -> Answer {
        Err(HResult(self.runtime()?.differences().assemblies_are_not_found as i32))
    }
}
