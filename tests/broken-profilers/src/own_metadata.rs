//! Metadata without Info, from the runtime's library: of a module, and from memory. And a class by its token.

use corprof::{Guid, sys};
use std::ffi::c_void;
use std::ptr::null_mut;

/// CLSID_CorMetaDataDispenser.
const DISPENSER: Guid = Guid::from_u128(0xE5CB_7A31_7512_11D2_89CE_0080_C792_E5D8);
/// The beginning of metadata in memory.
const METADATA: &[u8] = b"BSJB\x01\0\x01\0\0\0\0\0";
/// The longest path of a module.
const LONGEST: usize = 256;

type GetDispenser = unsafe extern "system" fn(*const Guid, *const Guid, *mut *mut c_void) -> i32;

/// Opens and releases it. Ends the process if the module has none.
pub fn open(info: *mut sys::ICorProfilerInfo, module: usize) {
    let (mut path, mut length) = ([0_u16; LONGEST], 0);
    let (place, import) = (path.as_mut_ptr(), &sys::IID_IMetaDataImport);
    let (no, assembly) = (null_mut(), null_mut());
    let (mut dispenser, mut scope, mut other) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the runtime keeps Info valid until it accepts a detach; the export has this signature; texts end with a zero, and all places
    // are local.
    unsafe {
        let room = LONGEST as u32;
        if sys::ICorProfilerInfo::GetModuleInfo(info, module, no, room, &raw mut length, place, assembly) != 0 {
            // The detach has been asked for.
            return;
        }
        let library = libc::dlopen(c"libcoreclr.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let function =
            if library.is_null() { null_mut() } else { libc::dlsym(library, c"MetaDataGetDispenser".as_ptr()) };
        if function.is_null() {
            libc::_exit(8);
        }
        let function: GetDispenser = std::mem::transmute(function);
        function(&DISPENSER, &sys::IID_IMetaDataDispenser, &raw mut dispenser);
        let dispenser = dispenser.cast::<sys::IMetaDataDispenser>();
        if sys::IMetaDataDispenser::OpenScope(dispenser, place, 0, import, &raw mut scope) != 0 {
            libc::_exit(9);
        }
        let (bytes, count) = (METADATA.as_ptr().cast(), METADATA.len() as u32);
        sys::IMetaDataDispenser::OpenScopeOnMemory(dispenser, bytes, count, 0, import, &raw mut other);
        sys::IUnknown::Release(scope);
        sys::IUnknown::Release(dispenser.cast());
        libc::dlclose(library);
    }
}

/// Loads a class that the program has not used.
pub fn load_class(info: *mut sys::ICorProfilerInfo) {
    let name: Vec<u16> = "Shelves".encode_utf16().chain([0]).collect();
    let (mut modules, mut module, mut count) = (null_mut(), 0, 0);
    // SAFETY: the runtime keeps Info valid until it accepts a detach; the name ends with a zero, and all places are local.
    unsafe {
        sys::ICorProfilerInfo3::EnumModules(info.cast(), &raw mut modules);
        while sys::ICorProfilerModuleEnum::Next(modules, 1, &raw mut module, &raw mut count) == 0 {
            let (mut import, mut token, mut class) = (null_mut(), 0, 0);
            let interface = &sys::IID_IMetaDataImport;
            sys::ICorProfilerInfo::GetModuleMetaData(info, module, 0, interface, &raw mut import);
            let code = sys::IMetaDataImport::FindTypeDefByName(import.cast(), name.as_ptr(), 0, &raw mut token);
            if code == 0 {
                sys::ICorProfilerInfo::GetClassFromToken(info, module, token, &raw mut class);
            }
            sys::IUnknown::Release(import);
            if code == 0 {
                // Modules after it may unload meanwhile.
                break;
            }
        }
        sys::IUnknown::Release(modules.cast());
    }
}
