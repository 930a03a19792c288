//! Addresses of static fields. All fields of the model are ordinary: one address per application domain.

use super::{Answer, Server, answered, args, invalid_if, refuse_if};
use corprof::{HResult, sys};

impl Server {
    pub(super) unsafe fn get_static_field_info(&self, args: args::GetStaticFieldInfo) -> Answer {
        invalid_if(args.pFieldInfo.is_null())?;
        self.static_place(args.classId, args.fieldToken, "GetStaticFieldInfo")?;
        answered! { args.pFieldInfo => sys::COR_PRF_FIELD_APP_DOMAIN_STATIC }
    }

    pub(super) unsafe fn get_app_domain_static_address(&self, args: args::GetAppDomainStaticAddress) -> Answer {
        invalid_if(args.appDomainId == 0 || args.ppAddress.is_null())?;
        let place = self.static_place(args.classId, args.fieldToken, "GetAppDomainStaticAddress")?;
        answered! { args.ppAddress => place.cast() }
    }

    /// Only on threads of the runtime; the model has no field of this kind.
    pub(super) unsafe fn get_rva_static_address(&self, args: args::GetRVAStaticAddress) -> Answer {
        invalid_if(args.classId == 0 || args.ppAddress.is_null())?;
        let is_unknown = self.runtime()?.this_thread().is_none();
        refuse_if(is_unknown, HResult::CORPROF_E_NOT_MANAGED_THREAD)?;
        self.about_class(args.classId, "GetRVAStaticAddress")?;
        Err(HResult::E_INVALIDARG)
    }

    /// Only for the running thread; the model has no field of this kind.
    pub(super) unsafe fn get_thread_static_address(&self, args: args::GetThreadStaticAddress) -> Answer {
        let this = self.runtime()?.this_thread().map_or(0, |thread| thread.0);
        invalid_if(this == 0 || args.threadId != 0 && args.threadId != this || args.ppAddress.is_null())?;
        self.about_class(args.classId, "GetThreadStaticAddress")?;
        Err(HResult::E_INVALIDARG)
    }

    /// The model has no field of this kind.
    pub(super) unsafe fn get_thread_static_address2(&self, args: args::GetThreadStaticAddress2) -> Answer {
        let is_unknown = args.threadId == 0 && self.runtime()?.this_thread().is_none();
        refuse_if(is_unknown, HResult::CORPROF_E_NOT_MANAGED_THREAD)?;
        invalid_if(args.ppAddress.is_null() || args.appDomainId == 0)?;
        self.about_class(args.classId, "GetThreadStaticAddress2")?;
        Err(HResult::E_INVALIDARG)
    }
}
