//! A module's metadata, open during one call or kept at a seat.

use corprof::sys;
use std::ptr::null_mut;

/// The initial value of an output, so that a test sees whether it was written.
pub const UNTOUCHED: u32 = 0x77;

/// A module's open metadata.
pub struct Open {
    /// The newer interface.
    pub import: *mut sys::IMetaDataImport2,
    /// The separate interface for assemblies.
    pub assembly: *mut sys::IMetaDataAssemblyImport,
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: `of` got this reference, and nobody else releases it.
        unsafe { sys::IUnknown::Release(self.assembly.cast()) };
        // SAFETY: `of` got this reference, and nobody else releases it.
        unsafe { sys::IUnknown::Release(self.import.cast()) };
    }
}

impl Open {
    /// Opens it.
    ///
    /// # Safety
    /// Info is valid and knows the module.
    pub unsafe fn of(raw: *mut sys::ICorProfilerInfo, module: usize) -> Result<Open, i32> {
        let (mut import, mut assembly) = (null_mut(), null_mut());
        let interface = &sys::IID_IMetaDataImport2;
        // SAFETY: the caller guarantees that Info is valid and knows the module; `import` is valid for writing.
        let code = unsafe { sys::ICorProfilerInfo::GetModuleMetaData(raw, module, 0, interface, &raw mut import) };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: the runtime has just returned this object; `assembly` is valid for writing.
        let code =
            unsafe { sys::IUnknown::QueryInterface(import, &sys::IID_IMetaDataAssemblyImport, &raw mut assembly) };
        if code != 0 {
            // SAFETY: the only reference, which is not used any more.
            unsafe { sys::IUnknown::Release(import) };
            return Err(code);
        }
        Ok(Open { import: import.cast(), assembly: assembly.cast() })
    }

    /// The first interface.
    pub fn first(&self) -> *mut sys::IMetaDataImport {
        self.import.cast()
    }
}
