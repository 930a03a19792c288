//! Every metadata method of the model. Empty tables get the answers of a live runtime.

use super::Scope;
use super::properties::{
    BAD_INPUT, NO_KEY, NO_ROW, NOT_FOUND, PLATFORMS_OWN, SHA1, VERSION, WRONG_KIND, unfound, write_address,
    write_version,
};
use super::rows::{self, FIELD, METHOD, ONLY, Rows, kind_of, row_of};
use crate::runtime::answers::write_answers;
use crate::runtime::info::{code, invalid_if, refuse_if, text};
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_abi::metadata::args;
use remora_clr_abi::{MetadataServer, Slot};
use std::any::Any;

/// Enumerations of tables that are empty in the model, each with the place for its count.
macro_rules! empty {
    ($($slot:ident: $arguments:ident.$count:ident;)*) => {
        $(
            unsafe fn $slot(&self, args: args::$arguments) -> HResult {
                // SAFETY: the API requires pointers that are null or valid.
                unsafe { self.none(args.phEnum, args.$count) }
            }
        )*
    };
}

/// Methods that always answer the same code and nothing else.
macro_rules! refused {
    ($($slot:ident: $arguments:ident => $code:expr;)*) => {
        $(
            unsafe fn $slot(&self, _: args::$arguments) -> HResult {
                $code
            }
        )*
    };
}

/// Enumerations of a row's items: the arguments, and the lookup.
macro_rules! listed {
    ($($slot:ident: $arguments:ident { $places:ident, $count:ident } => $look:expr;)*) => {
        $(
            unsafe fn $slot(&self, args: args::$arguments) -> HResult {
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
            let words = payload.downcast_ref::<String>().cloned().unwrap_or_default();
            runtime.faults.report("MODEL", format!("the model panicked in {} of metadata: {words}", slot.name));
        }
    }

    fn unknown(&self, slot: Slot) {
        // Without the runtime, there is no report.
        let _ = self.check_caller(slot);
    }

    empty! {
        enum_interface_impls: EnumInterfaceImpls.pcImpls;
        enum_member_refs: EnumMemberRefs.pcTokens;
        enum_method_impls: EnumMethodImpls.pcTokens;
        enum_permission_sets: EnumPermissionSets.pcTokens;
        enum_properties: EnumProperties.pcProperties;
        enum_events: EnumEvents.pcEvents;
        enum_method_semantics: EnumMethodSemantics.pcEventProp;
        enum_module_refs: EnumModuleRefs.pcModuleRefs;
        enum_unresolved_methods: EnumUnresolvedMethods.pcTokens;
        enum_signatures: EnumSignatures.pcSignatures;
        enum_type_specs: EnumTypeSpecs.pcTypeSpecs;
        enum_user_strings: EnumUserStrings.pcStrings;
        enum_custom_attributes: EnumCustomAttributes.pcCustomAttributes;
        enum_generic_params: EnumGenericParams.pcGenericParams;
        enum_method_specs: EnumMethodSpecs.pcMethodSpecs;
        enum_files: EnumFiles.pcTokens;
        enum_exported_types: EnumExportedTypes.pcTokens;
        enum_manifest_resources: EnumManifestResources.pcTokens;
    }

    refused! {
        get_interface_impl_props: GetInterfaceImplProps => NO_ROW;
        get_member_ref_props: GetMemberRefProps => NO_ROW;
        get_event_props: GetEventProps => NO_ROW;
        get_field_marshal: GetFieldMarshal => NOT_FOUND;
        get_permission_set_props: GetPermissionSetProps => NO_ROW;
        get_sig_from_token: GetSigFromToken => NO_ROW;
        get_module_ref_props: GetModuleRefProps => NO_ROW;
        get_type_spec_from_token: GetTypeSpecFromToken => NO_ROW;
        get_user_string: GetUserString => NO_ROW;
        get_pinvoke_map: GetPinvokeMap => NOT_FOUND;
        get_custom_attribute_props: GetCustomAttributeProps => NO_ROW;
        get_field_props: GetFieldProps => NO_ROW;
        get_property_props: GetPropertyProps => NO_ROW;
        get_param_props: GetParamProps => NO_ROW;
        get_custom_attribute_by_name: GetCustomAttributeByName => HResult::S_FALSE;
        get_method_spec_props: GetMethodSpecProps => NO_ROW;
        get_file_props: GetFileProps => NO_ROW;
        get_exported_type_props: GetExportedTypeProps => NO_ROW;
        get_manifest_resource_props: GetManifestResourceProps => NO_ROW;
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

    unsafe fn count_enum(&self, args: args::CountEnum) -> HResult {
        code(self.count_of(args.hEnum).map(|many| {
            write_answers! { args.pulCount => many }
            HResult::S_OK
        }))
    }

    unsafe fn reset_enum(&self, args: args::ResetEnum) -> HResult {
        code(self.go_to(args.hEnum, args.ulPos).map(|()| HResult::S_OK))
    }

    unsafe fn find_type_def_by_name(&self, args: args::FindTypeDefByName) -> HResult {
        // SAFETY: the API requires a name that ends with a zero, and a place.
        code(unsafe { self.find_type(args) })
    }

    unsafe fn get_scope_props(&self, args: args::GetScopeProps) -> HResult {
        code(self.rows().map(|rows| {
            write_answers! { args.pmvid => rows.mvid }
            // SAFETY: the API requires a name that is null or has the stated room.
            unsafe { self.name(&rows.file(), (args.szName, args.cchName), args.pchName) }
        }))
    }

    unsafe fn get_module_from_scope(&self, args: args::GetModuleFromScope) -> HResult {
        write_answers! { args.pmd => rows::MODULE | ONLY }
        HResult::S_OK
    }

    unsafe fn get_type_def_props(&self, args: args::GetTypeDefProps) -> HResult {
        // SAFETY: the API requires a name that is null or has the stated room.
        code(unsafe { self.write_type(args) })
    }

    unsafe fn get_type_ref_props(&self, args: args::GetTypeRefProps) -> HResult {
        // SAFETY: the API requires a name that is null or has the stated room.
        code(unsafe { self.write_type_reference(args) })
    }

    unsafe fn resolve_type_ref(&self, args: args::ResolveTypeRef) -> HResult {
        // SAFETY: the API requires an identifier, and null or a place for the answer.
        code(unsafe { self.resolve(args) })
    }

    unsafe fn find_member(&self, args: args::FindMember) -> HResult {
        let args::FindMember { td, szName, pvSigBlob, cbSigBlob, pmb } = args;
        let args = args::FindMethod { td, szName, pvSigBlob, cbSigBlob, pmb };
        // SAFETY: the API requires a name that ends with a zero, a signature of the stated length, and a place.
        code(unsafe { self.find_method_of(args, FIELD) })
    }

    unsafe fn find_method(&self, args: args::FindMethod) -> HResult {
        // SAFETY: the API requires a name that ends with a zero, a signature of the stated length, and a place.
        code(unsafe { self.find_method_of(args, METHOD) })
    }

    unsafe fn find_field(&self, args: args::FindField) -> HResult {
        unfound(args.szName, FIELD, args.pmb)
    }

    unsafe fn find_member_ref(&self, args: args::FindMemberRef) -> HResult {
        unfound(args.szName, rows::MEMBER_REFERENCE, args.pmr)
    }

    unsafe fn get_method_props(&self, args: args::GetMethodProps) -> HResult {
        // SAFETY: the API requires a name that is null or has the stated room.
        code(unsafe { self.write_method(args) })
    }

    unsafe fn get_method_semantics(&self, args: args::GetMethodSemantics) -> HResult {
        write_answers! { args.pdwSemanticsFlags => 0 }
        NOT_FOUND
    }

    unsafe fn get_class_layout(&self, args: args::GetClassLayout) -> HResult {
        write_answers! { args.pdwPackSize => 0, args.pulClassSize => 0 }
        code(self.rows().map(|rows| if rows.has(rows::TYPE | row_of(args.td)) { NOT_FOUND } else { NO_ROW }))
    }

    unsafe fn get_rva(&self, args: args::GetRVA) -> HResult {
        code(self.rows().map(|rows| write_address(&rows, args.tk, args.pulCodeRVA, args.pdwImplFlags)))
    }

    unsafe fn get_name_from_token(&self, args: args::GetNameFromToken) -> HResult {
        code(self.rows().and_then(|rows| {
            let name = rows.name_of(args.tk).ok_or(HResult::E_INVALIDARG)?.ok_or(NO_ROW)?;
            write_answers! { args.pszUtf8NamePtr => self.kept(args.tk, name) }
            Ok(HResult::S_OK)
        }))
    }

    unsafe fn get_param_for_method_index(&self, args: args::GetParamForMethodIndex) -> HResult {
        code(self.rows().and_then(|rows| rows.method(args.md).map(|_| NOT_FOUND)))
    }

    unsafe fn find_type_ref(&self, args: args::FindTypeRef) -> HResult {
        // SAFETY: the API requires a name that ends with a zero, and a place.
        code(unsafe { self.find_type_reference(args) })
    }

    unsafe fn get_member_props(&self, args: args::GetMemberProps) -> HResult {
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
        // SAFETY: the API requires a name that is null or has the stated room.
        code(refuse_if(kind_of(mb) != METHOD, NO_ROW).and_then(|()| unsafe { self.write_method(args) }))
    }

    unsafe fn is_valid_token(&self, args: args::IsValidToken) -> bool {
        self.rows().is_ok_and(|rows| rows.has(args.tk))
    }

    unsafe fn get_nested_class_props(&self, args: args::GetNestedClassProps) -> HResult {
        if kind_of(args.tdNestedClass) == rows::TYPE { NOT_FOUND } else { WRONG_KIND }
    }

    unsafe fn get_native_call_conv_from_sig(&self, args: args::GetNativeCallConvFromSig) -> HResult {
        write_answers! { args.pCallConv => PLATFORMS_OWN }
        HResult::S_OK
    }

    unsafe fn is_global(&self, args: args::IsGlobal) -> HResult {
        code(self.rows().and_then(|rows| {
            invalid_if(!rows.has(args.pd))?;
            write_answers! { args.pbGlobal => i32::from(args.pd == rows::NO_TYPE) }
            Ok(HResult::S_OK)
        }))
    }

    unsafe fn get_generic_param_props(&self, args: args::GetGenericParamProps) -> HResult {
        if kind_of(args.gp) == rows::TYPE_PARAMETER && row_of(args.gp) != 0 { NO_ROW } else { BAD_INPUT }
    }

    unsafe fn enum_generic_param_constraints(&self, args: args::EnumGenericParamConstraints) -> HResult {
        if kind_of(args.tk) != rows::TYPE_PARAMETER {
            return BAD_INPUT;
        }
        // SAFETY: the API requires pointers that are null or valid.
        unsafe { self.none(args.phEnum, args.pcGenericParamConstraints) }
    }

    unsafe fn get_generic_param_constraint_props(&self, args: args::GetGenericParamConstraintProps) -> HResult {
        if kind_of(args.gpc) == rows::CONSTRAINT && row_of(args.gpc) != 0 { NO_ROW } else { BAD_INPUT }
    }

    unsafe fn get_pe_kind(&self, args: args::GetPEKind) -> HResult {
        write_answers! { args.pdwPEKind => 0, args.pdwMAchine => 0 }
        HResult::S_FALSE
    }

    unsafe fn get_version_string(&self, args: args::GetVersionString) -> HResult {
        // SAFETY: the API requires a buffer that is null or has the stated room.
        unsafe { self.name(VERSION, (args.pwzBuf, args.ccBufSize), args.pccBufSize) }
    }

    unsafe fn get_assembly_props(&self, args: args::GetAssemblyProps) -> HResult {
        code(self.rows().and_then(|rows| {
            refuse_if(row_of(args.mda) != ONLY, NO_ROW)?;
            write_answers! { args.ppbPublicKey => NO_KEY, args.pulHashAlgId => SHA1, args.pdwAssemblyFlags => 0 }
            if !args.ppbPublicKey.is_null() {
                write_answers! { args.pcbPublicKey => 0 }
            }
            // SAFETY: the API requires null or a valid place.
            unsafe { write_version(args.pMetaData) };
            // SAFETY: the API requires a name that is null or has the stated room.
            Ok(unsafe { self.name(&rows.assembly, (args.szName, args.cchName), args.pchName) })
        }))
    }

    unsafe fn get_assembly_ref_props(&self, args: args::GetAssemblyRefProps) -> HResult {
        code(self.rows().and_then(|rows| {
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
        }))
    }

    unsafe fn get_assembly_from_scope(&self, args: args::GetAssemblyFromScope) -> HResult {
        write_answers! { args.ptkAssembly => rows::ASSEMBLY | ONLY }
        HResult::S_OK
    }

    unsafe fn find_exported_type_by_name(&self, args: args::FindExportedTypeByName) -> HResult {
        unfound(args.szName, 0, args.ptkExportedType)
    }

    unsafe fn find_manifest_resource_by_name(&self, args: args::FindManifestResourceByName) -> HResult {
        unfound(args.szName, rows::RESOURCE, args.ptkManifestResource)
    }

    unsafe fn find_assemblies_by_name(&self, _: args::FindAssembliesByName) -> HResult {
        let answer = |runtime: &crate::runtime::Runtime| runtime.differences().assemblies_are_not_found as i32;
        self.runtime.upgrade().map_or(HResult::E_UNEXPECTED, |runtime| HResult(answer(&runtime)))
    }
}
