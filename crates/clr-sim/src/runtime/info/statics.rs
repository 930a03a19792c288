//! Where static fields lie. All of the model's are of the ordinary kind: one place for the application domain.

use super::{Server, code, tell};
use corprof::{HResult, sys};
use std::ffi::c_void;

impl Server {
    pub(super) unsafe fn get_static_field_info(
        &self,
        classId: sys::ClassID,
        fieldToken: sys::mdFieldDef,
        pFieldInfo: *mut sys::COR_PRF_STATIC_TYPE,
    ) -> HResult {
        if pFieldInfo.is_null() {
            return HResult::E_INVALIDARG;
        }
        code(self.static_place(classId, fieldToken).map(|_| {
            tell! { pFieldInfo => sys::COR_PRF_FIELD_APP_DOMAIN_STATIC }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_app_domain_static_address(
        &self,
        classId: sys::ClassID,
        fieldToken: sys::mdFieldDef,
        appDomainId: sys::AppDomainID,
        ppAddress: *mut *mut c_void,
    ) -> HResult {
        if appDomainId == 0 || ppAddress.is_null() {
            return HResult::E_INVALIDARG;
        }
        code(self.static_place(classId, fieldToken).map(|place| {
            tell! { ppAddress => place.cast() }
            HResult::S_OK
        }))
    }

    /// On threads of the runtime alone; no field of the model is of this kind.
    pub(super) unsafe fn get_rva_static_address(
        &self,
        classId: sys::ClassID,
        _fieldToken: sys::mdFieldDef,
        ppAddress: *mut *mut c_void,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if classId == 0 || ppAddress.is_null() {
            return HResult::E_INVALIDARG;
        }
        if runtime.this_thread().is_none() {
            return HResult::CORPROF_E_NOT_MANAGED_THREAD;
        }
        code(self.about_class(classId, "GetRVAStaticAddress").map(|_| HResult::E_INVALIDARG))
    }

    /// Of the running thread alone.
    pub(super) unsafe fn get_thread_static_address(
        &self,
        classId: sys::ClassID,
        fieldToken: sys::mdFieldDef,
        threadId: sys::ThreadID,
        ppAddress: *mut *mut c_void,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let this = runtime.this_thread().map_or(0, |thread| thread.0);
        if this == 0 || threadId != 0 && threadId != this {
            return HResult::E_INVALIDARG;
        }
        // SAFETY: passed on.
        unsafe { self.get_thread_static_address2(classId, fieldToken, runtime.app_domain(), this, ppAddress) }
    }

    /// No field of the model is of this kind.
    pub(super) unsafe fn get_thread_static_address2(
        &self,
        classId: sys::ClassID,
        _fieldToken: sys::mdFieldDef,
        appDomainId: sys::AppDomainID,
        threadId: sys::ThreadID,
        ppAddress: *mut *mut c_void,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if threadId == 0 && runtime.this_thread().is_none() {
            return HResult::CORPROF_E_NOT_MANAGED_THREAD;
        }
        if ppAddress.is_null() || appDomainId == 0 {
            return HResult::E_INVALIDARG;
        }
        code(self.about_class(classId, "GetThreadStaticAddress2").map(|_| HResult::E_INVALIDARG))
    }

    /// Contexts went with remoting: nobody gets an answer (source: proftoeeinterfaceimpl.cpp, GetContextStaticAddress).
    pub(super) unsafe fn get_context_static_address(
        &self,
        _classId: sys::ClassID,
        _fieldToken: sys::mdFieldDef,
        _contextId: sys::ContextID,
        _ppAddress: *mut *mut c_void,
    ) -> HResult {
        HResult::E_NOTIMPL
    }
}
