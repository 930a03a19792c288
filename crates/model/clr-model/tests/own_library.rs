//! The runtime's own library: what its dispenser opens belongs to no profiler.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::{Guid, HResult, sys};
use remora_clr_abi::dispenser::CLSID_CorMetaDataDispenser;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{Called, map_own_library, write_own_library};
use remora_clr_model::scripted::Script;
use std::ffi::c_void;
use std::ptr::null_mut;
use support::in_one;

type GetDispenser = unsafe extern "system" fn(*const Guid, *const Guid, *mut *mut c_void) -> i32;

/// The metadata of a file, or why there is none.
fn opened(path: &str) -> Result<*mut sys::IMetaDataImport, HResult> {
    let path: Vec<u16> = path.encode_utf16().chain([0]).collect();
    let (mut dispenser, mut scope) = (null_mut(), null_mut());
    // SAFETY: the names end with a zero, the export has this signature, and all places are local.
    unsafe {
        let library = libc::dlopen(c"libcoreclr.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let function = libc::dlsym(library, c"MetaDataGetDispenser".as_ptr());
        assert!(!library.is_null() && !function.is_null());
        let function: GetDispenser = std::mem::transmute(function);
        let code = function(&CLSID_CorMetaDataDispenser, &sys::IID_IMetaDataDispenser, &raw mut dispenser);
        assert_eq!(HResult(code), HResult::S_OK);
        let dispenser = dispenser.cast::<sys::IMetaDataDispenser>();
        let import = &sys::IID_IMetaDataImport;
        let code = sys::IMetaDataDispenser::OpenScope(dispenser, path.as_ptr(), 0, import, &raw mut scope);
        sys::IUnknown::Release(dispenser.cast());
        if code == 0 { Ok(scope.cast()) } else { Err(HResult(code)) }
    }
}

/// The module's id, by which it is recognised.
fn id_of(scope: *mut sys::IMetaDataImport) -> Result<Guid, HResult> {
    let mut id = Guid::from_u128(0);
    // SAFETY: a live object, and a local place.
    let code = unsafe { sys::IMetaDataImport::GetScopeProps(scope, null_mut(), 0, null_mut(), (&raw mut id).cast()) };
    if code == 0 { Ok(id) } else { Err(HResult(code)) }
}

#[test]
fn metadata_of_a_file_may_be_used_after_the_detach_and_after_its_module_has_gone() {
    let folder = std::env::temp_dir().join(format!("own-library-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    map_own_library(&write_own_library(&folder).unwrap()).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let faults = in_one(RuntimeVersion::Core8, 1, |world| {
        const CALLED: Called = Called { module: "shop", class: "Shop.Till" };
        let module = world.runtime.load_module_called(CALLED);
        let goes = world.runtime.load_module(true);
        let (_, script, profiler) = world.attached(Script::new());
        let known = [module, goes].map(|module| script.metadata(module.0).unwrap().scope().unwrap());
        let scopes = known.clone().map(|(name, _)| opened(&format!("/app/{name}")).unwrap());
        assert_eq!(profiler.metadata.count(), 0, "they are not the profiler's");
        let ids = known.clone().map(|(_, id)| Ok(id));
        assert_eq!(scopes.map(id_of), ids);
        assert_eq!(script.request_detach(1), HResult::S_OK);
        world.runtime.unload_module(goes);
        assert_eq!(scopes.map(id_of), ids);
        assert!(opened(&format!("/app/{}", known[1].0)).is_err(), "there is no such file any more");
        // SAFETY: the only references.
        scopes.into_iter().for_each(|scope| _ = unsafe { sys::IUnknown::Release(scope.cast()) });
    });
    assert_eq!(faults, [""; 0]);
}
