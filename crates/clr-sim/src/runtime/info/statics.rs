//! Where static fields lie.

use super::{Server, answer, code};
use corprof::{HResult, sys};
use std::ffi::c_void;

impl Server {
    pub(super) unsafe fn get_static_field_info(
        &self,
        classId: sys::ClassID,
        fieldToken: sys::mdFieldDef,
        pFieldInfo: *mut sys::COR_PRF_STATIC_TYPE,
    ) -> HResult {
        code(self.static_place(classId, fieldToken).map(|_| {
            // SAFETY: as above.
            unsafe { answer(pFieldInfo, sys::COR_PRF_FIELD_APP_DOMAIN_STATIC) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_app_domain_static_address(
        &self,
        classId: sys::ClassID,
        fieldToken: sys::mdFieldDef,
        _appDomainId: sys::AppDomainID,
        ppAddress: *mut *mut c_void,
    ) -> HResult {
        code(self.static_place(classId, fieldToken).map(|place| {
            // SAFETY: as above.
            unsafe { answer(ppAddress, place.cast()) };
            HResult::S_OK
        }))
    }
}
