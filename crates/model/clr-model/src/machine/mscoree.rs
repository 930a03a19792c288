//! mscoree.dll in a trigger process: the library whose one export begins the way to an attach (seed 001, "Locating the AttachProfiler
//! Method").
//!
//! The sample of that document asks for `CLRCreateInterface`. There is no such export, so a copy of the sample fails here, as on Windows.

use crate::mutation;
use corprof::{Guid, HResult};
use remora_clr_abi::Live;
use remora_clr_abi::metahost::{MetaHost, clr_create_instance};
use std::ffi::c_void;
use std::sync::Arc;

/// HRESULT_FROM_WIN32(ERROR_PROC_NOT_FOUND).
const PROCEDURE_NOT_FOUND: HResult = HResult(0x8007_007F_u32 as i32);

/// The loaded library.
pub struct Mscoree {
    host: Arc<dyn MetaHost>,
    live: Live,
}

/// The export `CLRCreateInstance`.
pub struct CreateInstance<'a>(&'a Mscoree);

/// `LoadLibrary`. Windows ignores the case of the name.
///
/// # Errors
/// Any other library: the model has none.
pub fn load_library(name: &str, host: Arc<dyn MetaHost>, live: &Live) -> Result<Mscoree, HResult> {
    if !name.eq_ignore_ascii_case("mscoree.dll") {
        return Err(HResult::ERROR_MOD_NOT_FOUND);
    }
    Ok(Mscoree { host, live: live.clone() })
}

impl Mscoree {
    /// `GetProcAddress`. The case of an export counts.
    ///
    /// # Errors
    /// Any other name.
    pub fn export(&self, name: &str) -> Result<CreateInstance<'_>, HResult> {
        let is_known = name == "CLRCreateInstance" || name == "CLRCreateInterface" && mutation::is("ATT-21/3");
        if is_known { Ok(CreateInstance(self)) } else { Err(PROCEDURE_NOT_FOUND) }
    }
}

impl CreateInstance<'_> {
    /// Calls it. The caller owns the one reference on the object.
    ///
    /// # Errors
    /// The code of the export.
    pub fn call(&self, class: &Guid, interface: &Guid) -> Result<*mut c_void, HResult> {
        let mut object = std::ptr::null_mut();
        // SAFETY: two identifiers and a place for the answer.
        let code = unsafe { clr_create_instance(self.0.host.clone(), &self.0.live, class, interface, &raw mut object) };
        HResult(code).ok()?;
        Ok(object)
    }
}
