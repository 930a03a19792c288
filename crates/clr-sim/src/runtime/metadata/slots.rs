//! Every question of metadata that the model answers: what there is none of in the model is answered as a live runtime does for an empty table.
//!
//! tidy: catalogue

use super::Scope;
use super::rows::{self, FIELD, METHOD, ONLY, Rows, kind_of, row_of};
use super::tell::{
    BAD_INPUT, MethodPlaces, NO_KEY, NO_ROW, NOT_FOUND, PLATFORMS_OWN, SHA1, VERSION, WRONG_KIND, tell_address,
    tell_version, unfound,
};
use crate::runtime::answers::tell;
use crate::runtime::info::{code, text};
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_sim_abi::{MetadataServer, Slot};
use std::any::Any;

impl MetadataServer for Scope {
    fn enter(&self, slot: Slot) -> Result<(), HResult> {
        let runtime = self.judge(slot)?;
        runtime.begin_call();
        schedule::point();
        Ok(())
    }

    fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {
        if let Some(runtime) = self.runtime.upgrade() {
            let words = payload.downcast_ref::<String>().cloned().unwrap_or_default();
            runtime.court.convict("MODEL", format!("the model panicked in {} of metadata: {words}", slot.name));
        }
    }

    fn unknown(&self, slot: Slot) {
        // Who is gone with all its runtime is beyond judgement.
        let _ = self.judge(slot);
    }

    unsafe fn close_enum(&self, hEnum: sys::HCORENUM) {
        self.close(hEnum);
    }

    unsafe fn count_enum(&self, hEnum: sys::HCORENUM, pulCount: *mut sys::ULONG) -> HResult {
        code(self.count_of(hEnum).map(|many| {
            tell! { pulCount => many }
            HResult::S_OK
        }))
    }

    unsafe fn reset_enum(&self, hEnum: sys::HCORENUM, ulPos: sys::ULONG) -> HResult {
        code(self.go_to(hEnum, ulPos).map(|()| HResult::S_OK))
    }

    unsafe fn enum_type_defs(
        &self,
        phEnum: *mut sys::HCORENUM,
        rTypeDefs: *mut sys::mdTypeDef,
        cMax: sys::ULONG,
        pcTypeDefs: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list, room and places.
        unsafe { self.listed(phEnum, (rTypeDefs, cMax), pcTypeDefs, |rows| Ok(rows.listed_types())) }
    }

    unsafe fn enum_interface_impls(
        &self,
        phEnum: *mut sys::HCORENUM,
        _td: sys::mdTypeDef,
        _rImpls: *mut sys::mdInterfaceImpl,
        _cMax: sys::ULONG,
        pcImpls: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcImpls) }
    }

    unsafe fn enum_type_refs(
        &self,
        phEnum: *mut sys::HCORENUM,
        rTypeRefs: *mut sys::mdTypeRef,
        cMax: sys::ULONG,
        pcTypeRefs: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list, room and places.
        unsafe {
            self.listed(phEnum, (rTypeRefs, cMax), pcTypeRefs, |rows| {
                Ok(rows.framework.iter().map(|_| rows::TYPE_REFERENCE | ONLY).collect())
            })
        }
    }

    unsafe fn find_type_def_by_name(
        &self,
        szTypeDef: *const sys::WCHAR,
        tkEnclosingClass: sys::mdToken,
        ptd: *mut sys::mdTypeDef,
    ) -> HResult {
        // SAFETY: the profiler's text and place.
        unsafe { self.find_type(szTypeDef, tkEnclosingClass, ptd) }
    }

    unsafe fn get_scope_props(
        &self,
        szName: *mut sys::WCHAR,
        cchName: sys::ULONG,
        pchName: *mut sys::ULONG,
        pmvid: *mut sys::GUID,
    ) -> HResult {
        code(self.rows().map(|rows| {
            tell! { pmvid => rows.mvid }
            // SAFETY: the profiler's room.
            unsafe { self.name(&rows.file(), (szName, cchName), pchName) }
        }))
    }

    unsafe fn get_module_from_scope(&self, pmd: *mut sys::mdModule) -> HResult {
        tell! { pmd => rows::MODULE | ONLY }
        HResult::S_OK
    }

    unsafe fn get_type_def_props(
        &self,
        td: sys::mdTypeDef,
        szTypeDef: *mut sys::WCHAR,
        cchTypeDef: sys::ULONG,
        pchTypeDef: *mut sys::ULONG,
        pdwTypeDefFlags: *mut sys::DWORD,
        ptkExtends: *mut sys::mdToken,
    ) -> HResult {
        // SAFETY: the profiler's room and places.
        unsafe { self.tell_type(td, (szTypeDef, cchTypeDef), pchTypeDef, pdwTypeDefFlags, ptkExtends) }
    }

    unsafe fn get_interface_impl_props(
        &self,
        _iiImpl: sys::mdInterfaceImpl,
        _pClass: *mut sys::mdTypeDef,
        _ptkIface: *mut sys::mdToken,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_type_ref_props(
        &self,
        tr: sys::mdTypeRef,
        ptkResolutionScope: *mut sys::mdToken,
        szName: *mut sys::WCHAR,
        cchName: sys::ULONG,
        pchName: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: as above.
        unsafe { self.tell_type_reference(tr, ptkResolutionScope, (szName, cchName), pchName) }
    }

    unsafe fn resolve_type_ref(
        &self,
        tr: sys::mdTypeRef,
        riid: sys::REFIID,
        ppIScope: *mut *mut sys::IUnknown,
        ptd: *mut sys::mdTypeDef,
    ) -> HResult {
        // SAFETY: the profiler's identifier and places.
        unsafe { self.resolve(tr, riid, ppIScope, ptd) }
    }

    unsafe fn enum_members(
        &self,
        phEnum: *mut sys::HCORENUM,
        cl: sys::mdTypeDef,
        rMembers: *mut sys::mdToken,
        cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list, room and places.
        unsafe { self.listed(phEnum, (rMembers, cMax), pcTokens, |rows| rows.methods_of(cl).ok_or(NO_ROW)) }
    }

    unsafe fn enum_members_with_name(
        &self,
        phEnum: *mut sys::HCORENUM,
        cl: sys::mdTypeDef,
        szName: *const sys::WCHAR,
        rMembers: *mut sys::mdToken,
        cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's text, which ends; no text is every name.
        let name = (!szName.is_null()).then(|| unsafe { text(szName) });
        let look = |rows: &Rows| match &name {
            Some(name) => rows.methods_called(cl, name),
            None => rows.methods_of(cl),
        };
        // SAFETY: the profiler's list, room and places.
        unsafe { self.listed(phEnum, (rMembers, cMax), pcTokens, |rows| look(rows).ok_or(NO_ROW)) }
    }

    unsafe fn enum_methods(
        &self,
        phEnum: *mut sys::HCORENUM,
        cl: sys::mdTypeDef,
        rMethods: *mut sys::mdMethodDef,
        cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list, room and places.
        unsafe { self.listed(phEnum, (rMethods, cMax), pcTokens, |rows| rows.methods_of(cl).ok_or(NO_ROW)) }
    }

    unsafe fn enum_methods_with_name(
        &self,
        phEnum: *mut sys::HCORENUM,
        cl: sys::mdTypeDef,
        szName: *const sys::WCHAR,
        rMethods: *mut sys::mdMethodDef,
        cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's text, which ends; no text is every name.
        let name = (!szName.is_null()).then(|| unsafe { text(szName) });
        let look = |rows: &Rows| match &name {
            Some(name) => rows.methods_called(cl, name),
            None => rows.methods_of(cl),
        };
        // SAFETY: the profiler's list, room and places.
        unsafe { self.listed(phEnum, (rMethods, cMax), pcTokens, |rows| look(rows).ok_or(NO_ROW)) }
    }

    unsafe fn enum_fields(
        &self,
        phEnum: *mut sys::HCORENUM,
        cl: sys::mdTypeDef,
        rFields: *mut sys::mdFieldDef,
        cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list, room and places.
        unsafe {
            self.listed(phEnum, (rFields, cMax), pcTokens, |rows| rows.methods_of(cl).map(|_| Vec::new()).ok_or(NO_ROW))
        }
    }

    unsafe fn enum_fields_with_name(
        &self,
        phEnum: *mut sys::HCORENUM,
        cl: sys::mdTypeDef,
        _szName: *const sys::WCHAR,
        rFields: *mut sys::mdFieldDef,
        cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list, room and places.
        unsafe {
            self.listed(phEnum, (rFields, cMax), pcTokens, |rows| rows.methods_of(cl).map(|_| Vec::new()).ok_or(NO_ROW))
        }
    }

    unsafe fn enum_params(
        &self,
        phEnum: *mut sys::HCORENUM,
        mb: sys::mdMethodDef,
        rParams: *mut sys::mdParamDef,
        cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list, room and places.
        unsafe { self.listed(phEnum, (rParams, cMax), pcTokens, |rows| rows.method(mb).map(|_| Vec::new())) }
    }

    unsafe fn enum_member_refs(
        &self,
        phEnum: *mut sys::HCORENUM,
        _tkParent: sys::mdToken,
        _rMemberRefs: *mut sys::mdMemberRef,
        _cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcTokens) }
    }

    unsafe fn enum_method_impls(
        &self,
        phEnum: *mut sys::HCORENUM,
        _td: sys::mdTypeDef,
        _rMethodBody: *mut sys::mdToken,
        _rMethodDecl: *mut sys::mdToken,
        _cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcTokens) }
    }

    unsafe fn enum_permission_sets(
        &self,
        phEnum: *mut sys::HCORENUM,
        _tk: sys::mdToken,
        _dwActions: sys::DWORD,
        _rPermission: *mut sys::mdPermission,
        _cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcTokens) }
    }

    unsafe fn find_member(
        &self,
        td: sys::mdTypeDef,
        szName: *const sys::WCHAR,
        pvSigBlob: sys::PCCOR_SIGNATURE,
        cbSigBlob: sys::ULONG,
        pmb: *mut sys::mdToken,
    ) -> HResult {
        // SAFETY: as above.
        unsafe { self.find_method_of((td, FIELD), szName, (pvSigBlob, cbSigBlob), pmb) }
    }

    unsafe fn find_method(
        &self,
        td: sys::mdTypeDef,
        szName: *const sys::WCHAR,
        pvSigBlob: sys::PCCOR_SIGNATURE,
        cbSigBlob: sys::ULONG,
        pmb: *mut sys::mdMethodDef,
    ) -> HResult {
        // SAFETY: the profiler's text, bytes and place.
        unsafe { self.find_method_of((td, METHOD), szName, (pvSigBlob, cbSigBlob), pmb) }
    }

    unsafe fn find_field(
        &self,
        _td: sys::mdTypeDef,
        szName: *const sys::WCHAR,
        _pvSigBlob: sys::PCCOR_SIGNATURE,
        _cbSigBlob: sys::ULONG,
        pmb: *mut sys::mdFieldDef,
    ) -> HResult {
        unfound(szName, FIELD, pmb)
    }

    unsafe fn find_member_ref(
        &self,
        _td: sys::mdTypeRef,
        szName: *const sys::WCHAR,
        _pvSigBlob: sys::PCCOR_SIGNATURE,
        _cbSigBlob: sys::ULONG,
        pmr: *mut sys::mdMemberRef,
    ) -> HResult {
        unfound(szName, rows::MEMBER_REFERENCE, pmr)
    }

    unsafe fn get_method_props(
        &self,
        mb: sys::mdMethodDef,
        pClass: *mut sys::mdTypeDef,
        szMethod: *mut sys::WCHAR,
        cchMethod: sys::ULONG,
        pchMethod: *mut sys::ULONG,
        pdwAttr: *mut sys::DWORD,
        ppvSigBlob: *mut sys::PCCOR_SIGNATURE,
        pcbSigBlob: *mut sys::ULONG,
        pulCodeRVA: *mut sys::ULONG,
        pdwImplFlags: *mut sys::DWORD,
    ) -> HResult {
        let places = MethodPlaces {
            class: pClass,
            attributes: pdwAttr,
            signature: (ppvSigBlob, pcbSigBlob),
            address: pulCodeRVA,
            implementation: pdwImplFlags,
        };
        // SAFETY: the profiler's room and places.
        unsafe { self.tell_method(mb, (szMethod, cchMethod), pchMethod, places) }
    }

    unsafe fn get_member_ref_props(
        &self,
        _mr: sys::mdMemberRef,
        _ptk: *mut sys::mdToken,
        _szMember: *mut sys::WCHAR,
        _cchMember: sys::ULONG,
        _pchMember: *mut sys::ULONG,
        _ppvSigBlob: *mut sys::PCCOR_SIGNATURE,
        _pbSig: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn enum_properties(
        &self,
        phEnum: *mut sys::HCORENUM,
        _td: sys::mdTypeDef,
        _rProperties: *mut sys::mdProperty,
        _cMax: sys::ULONG,
        pcProperties: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcProperties) }
    }

    unsafe fn enum_events(
        &self,
        phEnum: *mut sys::HCORENUM,
        _td: sys::mdTypeDef,
        _rEvents: *mut sys::mdEvent,
        _cMax: sys::ULONG,
        pcEvents: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcEvents) }
    }

    unsafe fn get_event_props(
        &self,
        _ev: sys::mdEvent,
        _pClass: *mut sys::mdTypeDef,
        _szEvent: *mut sys::WCHAR,
        _cchEvent: sys::ULONG,
        _pchEvent: *mut sys::ULONG,
        _pdwEventFlags: *mut sys::DWORD,
        _ptkEventType: *mut sys::mdToken,
        _pmdAddOn: *mut sys::mdMethodDef,
        _pmdRemoveOn: *mut sys::mdMethodDef,
        _pmdFire: *mut sys::mdMethodDef,
        _rmdOtherMethod: *mut sys::mdMethodDef,
        _cMax: sys::ULONG,
        _pcOtherMethod: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn enum_method_semantics(
        &self,
        phEnum: *mut sys::HCORENUM,
        _mb: sys::mdMethodDef,
        _rEventProp: *mut sys::mdToken,
        _cMax: sys::ULONG,
        pcEventProp: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcEventProp) }
    }

    unsafe fn get_method_semantics(
        &self,
        _mb: sys::mdMethodDef,
        _tkEventProp: sys::mdToken,
        pdwSemanticsFlags: *mut sys::DWORD,
    ) -> HResult {
        tell! { pdwSemanticsFlags => 0 }
        NOT_FOUND
    }

    unsafe fn get_class_layout(
        &self,
        td: sys::mdTypeDef,
        pdwPackSize: *mut sys::DWORD,
        _rFieldOffset: *mut sys::COR_FIELD_OFFSET,
        _cMax: sys::ULONG,
        _pcFieldOffset: *mut sys::ULONG,
        pulClassSize: *mut sys::ULONG,
    ) -> HResult {
        tell! { pdwPackSize => 0, pulClassSize => 0 }
        code(self.rows().map(|rows| if rows.has(rows::TYPE | row_of(td)) { NOT_FOUND } else { NO_ROW }))
    }

    unsafe fn get_field_marshal(
        &self,
        _tk: sys::mdToken,
        _ppvNativeType: *mut sys::PCCOR_SIGNATURE,
        _pcbNativeType: *mut sys::ULONG,
    ) -> HResult {
        NOT_FOUND
    }

    unsafe fn get_rva(&self, tk: sys::mdToken, pulCodeRVA: *mut sys::ULONG, pdwImplFlags: *mut sys::DWORD) -> HResult {
        code(self.rows().map(|rows| tell_address(&rows, tk, pulCodeRVA, pdwImplFlags)))
    }

    unsafe fn get_permission_set_props(
        &self,
        _pm: sys::mdPermission,
        _pdwAction: *mut sys::DWORD,
        _ppvPermission: *mut sys::UVCP_CONSTANT,
        _pcbPermission: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_sig_from_token(
        &self,
        _mdSig: sys::mdSignature,
        _ppvSig: *mut sys::PCCOR_SIGNATURE,
        _pcbSig: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_module_ref_props(
        &self,
        _mur: sys::mdModuleRef,
        _szName: *mut sys::WCHAR,
        _cchName: sys::ULONG,
        _pchName: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn enum_module_refs(
        &self,
        phEnum: *mut sys::HCORENUM,
        _rModuleRefs: *mut sys::mdModuleRef,
        _cMax: sys::ULONG,
        pcModuleRefs: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcModuleRefs) }
    }

    unsafe fn get_type_spec_from_token(
        &self,
        _typespec: sys::mdTypeSpec,
        _ppvSig: *mut sys::PCCOR_SIGNATURE,
        _pcbSig: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_name_from_token(&self, tk: sys::mdToken, pszUtf8NamePtr: *mut sys::MDUTF8CSTR) -> HResult {
        code(self.rows().and_then(|rows| {
            let name = rows.name_of(tk).ok_or(HResult::E_INVALIDARG)?.ok_or(NO_ROW)?;
            tell! { pszUtf8NamePtr => self.kept(tk, name) }
            Ok(HResult::S_OK)
        }))
    }

    unsafe fn enum_unresolved_methods(
        &self,
        phEnum: *mut sys::HCORENUM,
        _rMethods: *mut sys::mdToken,
        _cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcTokens) }
    }

    unsafe fn get_user_string(
        &self,
        _stk: sys::mdString,
        _szString: *mut sys::WCHAR,
        _cchString: sys::ULONG,
        _pchString: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_pinvoke_map(
        &self,
        _tk: sys::mdToken,
        _pdwMappingFlags: *mut sys::DWORD,
        _szImportName: *mut sys::WCHAR,
        _cchImportName: sys::ULONG,
        _pchImportName: *mut sys::ULONG,
        _pmrImportDLL: *mut sys::mdModuleRef,
    ) -> HResult {
        NOT_FOUND
    }

    unsafe fn enum_signatures(
        &self,
        phEnum: *mut sys::HCORENUM,
        _rSignatures: *mut sys::mdSignature,
        _cMax: sys::ULONG,
        pcSignatures: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcSignatures) }
    }

    unsafe fn enum_type_specs(
        &self,
        phEnum: *mut sys::HCORENUM,
        _rTypeSpecs: *mut sys::mdTypeSpec,
        _cMax: sys::ULONG,
        pcTypeSpecs: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcTypeSpecs) }
    }

    unsafe fn enum_user_strings(
        &self,
        phEnum: *mut sys::HCORENUM,
        _rStrings: *mut sys::mdString,
        _cMax: sys::ULONG,
        pcStrings: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcStrings) }
    }

    unsafe fn get_param_for_method_index(
        &self,
        md: sys::mdMethodDef,
        _ulParamSeq: sys::ULONG,
        _ppd: *mut sys::mdParamDef,
    ) -> HResult {
        code(self.rows().and_then(|rows| rows.method(md).map(|_| NOT_FOUND)))
    }

    unsafe fn enum_custom_attributes(
        &self,
        phEnum: *mut sys::HCORENUM,
        _tk: sys::mdToken,
        _tkType: sys::mdToken,
        _rCustomAttributes: *mut sys::mdCustomAttribute,
        _cMax: sys::ULONG,
        pcCustomAttributes: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcCustomAttributes) }
    }

    unsafe fn get_custom_attribute_props(
        &self,
        _cv: sys::mdCustomAttribute,
        _ptkObj: *mut sys::mdToken,
        _ptkType: *mut sys::mdToken,
        _ppBlob: *mut sys::UVCP_CONSTANT,
        _pcbSize: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn find_type_ref(
        &self,
        tkResolutionScope: sys::mdToken,
        szName: *const sys::WCHAR,
        ptr: *mut sys::mdTypeRef,
    ) -> HResult {
        // SAFETY: as above.
        unsafe { self.find_type_reference(tkResolutionScope, szName, ptr) }
    }

    unsafe fn get_member_props(
        &self,
        mb: sys::mdToken,
        pClass: *mut sys::mdTypeDef,
        szMember: *mut sys::WCHAR,
        cchMember: sys::ULONG,
        pchMember: *mut sys::ULONG,
        pdwAttr: *mut sys::DWORD,
        ppvSigBlob: *mut sys::PCCOR_SIGNATURE,
        pcbSigBlob: *mut sys::ULONG,
        pulCodeRVA: *mut sys::ULONG,
        pdwImplFlags: *mut sys::DWORD,
        _pdwCPlusTypeFlag: *mut sys::DWORD,
        _ppValue: *mut sys::UVCP_CONSTANT,
        _pcchValue: *mut sys::ULONG,
    ) -> HResult {
        let places = MethodPlaces {
            class: pClass,
            attributes: pdwAttr,
            signature: (ppvSigBlob, pcbSigBlob),
            address: pulCodeRVA,
            implementation: pdwImplFlags,
        };
        if kind_of(mb) != METHOD {
            return NO_ROW;
        }
        // SAFETY: as above.
        unsafe { self.tell_method(mb, (szMember, cchMember), pchMember, places) }
    }

    unsafe fn get_field_props(
        &self,
        _mb: sys::mdFieldDef,
        _pClass: *mut sys::mdTypeDef,
        _szField: *mut sys::WCHAR,
        _cchField: sys::ULONG,
        _pchField: *mut sys::ULONG,
        _pdwAttr: *mut sys::DWORD,
        _ppvSigBlob: *mut sys::PCCOR_SIGNATURE,
        _pcbSigBlob: *mut sys::ULONG,
        _pdwCPlusTypeFlag: *mut sys::DWORD,
        _ppValue: *mut sys::UVCP_CONSTANT,
        _pcchValue: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_property_props(
        &self,
        _prop: sys::mdProperty,
        _pClass: *mut sys::mdTypeDef,
        _szProperty: *mut sys::WCHAR,
        _cchProperty: sys::ULONG,
        _pchProperty: *mut sys::ULONG,
        _pdwPropFlags: *mut sys::DWORD,
        _ppvSig: *mut sys::PCCOR_SIGNATURE,
        _pbSig: *mut sys::ULONG,
        _pdwCPlusTypeFlag: *mut sys::DWORD,
        _ppDefaultValue: *mut sys::UVCP_CONSTANT,
        _pcchDefaultValue: *mut sys::ULONG,
        _pmdSetter: *mut sys::mdMethodDef,
        _pmdGetter: *mut sys::mdMethodDef,
        _rmdOtherMethod: *mut sys::mdMethodDef,
        _cMax: sys::ULONG,
        _pcOtherMethod: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_param_props(
        &self,
        _tk: sys::mdParamDef,
        _pmd: *mut sys::mdMethodDef,
        _pulSequence: *mut sys::ULONG,
        _szName: *mut sys::WCHAR,
        _cchName: sys::ULONG,
        _pchName: *mut sys::ULONG,
        _pdwAttr: *mut sys::DWORD,
        _pdwCPlusTypeFlag: *mut sys::DWORD,
        _ppValue: *mut sys::UVCP_CONSTANT,
        _pcchValue: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_custom_attribute_by_name(
        &self,
        _tkObj: sys::mdToken,
        _szName: *const sys::WCHAR,
        _ppData: *mut sys::UVCP_CONSTANT,
        _pcbData: *mut sys::ULONG,
    ) -> HResult {
        HResult::S_FALSE
    }

    unsafe fn is_valid_token(&self, tk: sys::mdToken) -> bool {
        self.rows().is_ok_and(|rows| rows.has(tk))
    }

    unsafe fn get_nested_class_props(
        &self,
        tdNestedClass: sys::mdTypeDef,
        _ptdEnclosingClass: *mut sys::mdTypeDef,
    ) -> HResult {
        if kind_of(tdNestedClass) == rows::TYPE { NOT_FOUND } else { WRONG_KIND }
    }

    unsafe fn get_native_call_conv_from_sig(
        &self,
        _pvSig: sys::UVCP_CONSTANT,
        _cbSig: sys::ULONG,
        pCallConv: *mut sys::ULONG,
    ) -> HResult {
        tell! { pCallConv => PLATFORMS_OWN }
        HResult::S_OK
    }

    unsafe fn is_global(&self, pd: sys::mdToken, pbGlobal: *mut sys::int) -> HResult {
        code(self.rows().map(|rows| {
            if !rows.has(pd) {
                return HResult::E_INVALIDARG;
            }
            tell! { pbGlobal => i32::from(pd == rows::NO_TYPE) }
            HResult::S_OK
        }))
    }

    unsafe fn enum_generic_params(
        &self,
        phEnum: *mut sys::HCORENUM,
        _tk: sys::mdToken,
        _rGenericParams: *mut sys::mdGenericParam,
        _cMax: sys::ULONG,
        pcGenericParams: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcGenericParams) }
    }

    unsafe fn get_generic_param_props(
        &self,
        gp: sys::mdGenericParam,
        _pulParamSeq: *mut sys::ULONG,
        _pdwParamFlags: *mut sys::DWORD,
        _ptOwner: *mut sys::mdToken,
        _reserved: *mut sys::DWORD,
        _wzname: *mut sys::WCHAR,
        _cchName: sys::ULONG,
        _pchName: *mut sys::ULONG,
    ) -> HResult {
        if kind_of(gp) == rows::TYPE_PARAMETER && row_of(gp) != 0 { NO_ROW } else { BAD_INPUT }
    }

    unsafe fn get_method_spec_props(
        &self,
        _mi: sys::mdMethodSpec,
        _tkParent: *mut sys::mdToken,
        _ppvSigBlob: *mut sys::PCCOR_SIGNATURE,
        _pcbSigBlob: *mut sys::ULONG,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn enum_generic_param_constraints(
        &self,
        phEnum: *mut sys::HCORENUM,
        tk: sys::mdGenericParam,
        _rGenericParamConstraints: *mut sys::mdGenericParamConstraint,
        _cMax: sys::ULONG,
        pcGenericParamConstraints: *mut sys::ULONG,
    ) -> HResult {
        if kind_of(tk) != rows::TYPE_PARAMETER {
            return BAD_INPUT;
        }
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcGenericParamConstraints) }
    }

    unsafe fn get_generic_param_constraint_props(
        &self,
        gpc: sys::mdGenericParamConstraint,
        _ptGenericParam: *mut sys::mdGenericParam,
        _ptkConstraintType: *mut sys::mdToken,
    ) -> HResult {
        if kind_of(gpc) == rows::CONSTRAINT && row_of(gpc) != 0 { NO_ROW } else { BAD_INPUT }
    }

    unsafe fn get_pe_kind(&self, pdwPEKind: *mut sys::DWORD, pdwMAchine: *mut sys::DWORD) -> HResult {
        tell! { pdwPEKind => 0, pdwMAchine => 0 }
        HResult::S_FALSE
    }

    unsafe fn get_version_string(
        &self,
        pwzBuf: *mut sys::WCHAR,
        ccBufSize: sys::DWORD,
        pccBufSize: *mut sys::DWORD,
    ) -> HResult {
        // SAFETY: the profiler's room.
        unsafe { self.name(VERSION, (pwzBuf, ccBufSize), pccBufSize) }
    }

    unsafe fn enum_method_specs(
        &self,
        phEnum: *mut sys::HCORENUM,
        _tk: sys::mdToken,
        _rMethodSpecs: *mut sys::mdMethodSpec,
        _cMax: sys::ULONG,
        pcMethodSpecs: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcMethodSpecs) }
    }

    unsafe fn get_assembly_props(
        &self,
        mda: sys::mdAssembly,
        ppbPublicKey: *mut sys::UVCP_CONSTANT,
        pcbPublicKey: *mut sys::ULONG,
        pulHashAlgId: *mut sys::ULONG,
        szName: *mut sys::WCHAR,
        cchName: sys::ULONG,
        pchName: *mut sys::ULONG,
        pMetaData: *mut sys::ASSEMBLYMETADATA,
        pdwAssemblyFlags: *mut sys::DWORD,
    ) -> HResult {
        code(self.rows().map(|rows| {
            if row_of(mda) != ONLY {
                return NO_ROW;
            }
            tell! { ppbPublicKey => NO_KEY, pulHashAlgId => SHA1, pdwAssemblyFlags => 0 }
            if !ppbPublicKey.is_null() {
                tell! { pcbPublicKey => 0 }
            }
            // SAFETY: the profiler's places.
            unsafe { tell_version(pMetaData) };
            // SAFETY: the profiler's room.
            unsafe { self.name(&rows.assembly, (szName, cchName), pchName) }
        }))
    }

    unsafe fn get_assembly_ref_props(
        &self,
        mdar: sys::mdAssemblyRef,
        ppbPublicKeyOrToken: *mut sys::UVCP_CONSTANT,
        pcbPublicKeyOrToken: *mut sys::ULONG,
        szName: *mut sys::WCHAR,
        cchName: sys::ULONG,
        pchName: *mut sys::ULONG,
        pMetaData: *mut sys::ASSEMBLYMETADATA,
        ppbHashValue: *mut sys::UVCP_CONSTANT,
        pcbHashValue: *mut sys::ULONG,
        pdwAssemblyRefFlags: *mut sys::DWORD,
    ) -> HResult {
        code(self.rows().map(|rows| {
            let Some(framework) = rows.framework.filter(|_| row_of(mdar) == ONLY) else { return NO_ROW };
            tell! { ppbPublicKeyOrToken => NO_KEY, ppbHashValue => NO_KEY, pdwAssemblyRefFlags => 0 }
            if !ppbPublicKeyOrToken.is_null() {
                tell! { pcbPublicKeyOrToken => 0 }
            }
            if !ppbHashValue.is_null() {
                tell! { pcbHashValue => 0 }
            }
            // SAFETY: the profiler's places.
            unsafe { tell_version(pMetaData) };
            // SAFETY: the profiler's room.
            unsafe { self.name(&framework, (szName, cchName), pchName) }
        }))
    }

    unsafe fn get_file_props(
        &self,
        _mdf: sys::mdFile,
        _szName: *mut sys::WCHAR,
        _cchName: sys::ULONG,
        _pchName: *mut sys::ULONG,
        _ppbHashValue: *mut sys::UVCP_CONSTANT,
        _pcbHashValue: *mut sys::ULONG,
        _pdwFileFlags: *mut sys::DWORD,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_exported_type_props(
        &self,
        _mdct: sys::mdExportedType,
        _szName: *mut sys::WCHAR,
        _cchName: sys::ULONG,
        _pchName: *mut sys::ULONG,
        _ptkImplementation: *mut sys::mdToken,
        _ptkTypeDef: *mut sys::mdTypeDef,
        _pdwExportedTypeFlags: *mut sys::DWORD,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn get_manifest_resource_props(
        &self,
        _mdmr: sys::mdManifestResource,
        _szName: *mut sys::WCHAR,
        _cchName: sys::ULONG,
        _pchName: *mut sys::ULONG,
        _ptkImplementation: *mut sys::mdToken,
        _pdwOffset: *mut sys::DWORD,
        _pdwResourceFlags: *mut sys::DWORD,
    ) -> HResult {
        NO_ROW
    }

    unsafe fn enum_assembly_refs(
        &self,
        phEnum: *mut sys::HCORENUM,
        rAssemblyRefs: *mut sys::mdAssemblyRef,
        cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list, room and places.
        unsafe {
            self.listed(phEnum, (rAssemblyRefs, cMax), pcTokens, |rows| {
                Ok(rows.framework.iter().map(|_| rows::ASSEMBLY_REFERENCE | ONLY).collect())
            })
        }
    }

    unsafe fn enum_files(
        &self,
        phEnum: *mut sys::HCORENUM,
        _rFiles: *mut sys::mdFile,
        _cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcTokens) }
    }

    unsafe fn enum_exported_types(
        &self,
        phEnum: *mut sys::HCORENUM,
        _rExportedTypes: *mut sys::mdExportedType,
        _cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcTokens) }
    }

    unsafe fn enum_manifest_resources(
        &self,
        phEnum: *mut sys::HCORENUM,
        _rManifestResources: *mut sys::mdManifestResource,
        _cMax: sys::ULONG,
        pcTokens: *mut sys::ULONG,
    ) -> HResult {
        // SAFETY: the profiler's list and place.
        unsafe { self.none(phEnum, pcTokens) }
    }

    unsafe fn get_assembly_from_scope(&self, ptkAssembly: *mut sys::mdAssembly) -> HResult {
        tell! { ptkAssembly => rows::ASSEMBLY | ONLY }
        HResult::S_OK
    }

    unsafe fn find_exported_type_by_name(
        &self,
        szName: *const sys::WCHAR,
        _tkEnclosingType: sys::mdToken,
        ptkExportedType: *mut sys::mdExportedType,
    ) -> HResult {
        unfound(szName, 0, ptkExportedType)
    }

    unsafe fn find_manifest_resource_by_name(
        &self,
        szName: *const sys::WCHAR,
        ptkManifestResource: *mut sys::mdManifestResource,
    ) -> HResult {
        unfound(szName, rows::RESOURCE, ptkManifestResource)
    }

    unsafe fn find_assemblies_by_name(
        &self,
        _szAppBase: *const sys::WCHAR,
        _szPrivateBin: *const sys::WCHAR,
        _szAssemblyName: *const sys::WCHAR,
        _ppIUnk: *mut *mut sys::IUnknown,
        _cMax: sys::ULONG,
        _pcAssemblies: *mut sys::ULONG,
    ) -> HResult {
        let runtime = self.runtime.upgrade();
        HResult(
            runtime.map_or(HResult::E_UNEXPECTED.0, |runtime| runtime.differences().assemblies_are_not_found as i32),
        )
    }
}
