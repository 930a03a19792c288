//! IL as profilers read and replace it: every method has the same, which returns at once.

use super::Runtime;
use super::code::ModuleId;
use corprof::{HResult, sys};
use std::ffi::c_void;

/// A tiny header for one byte of IL, and `ret` (ECMA-335, II.25.4.2).
pub(super) static BODY: [u8; 2] = [0x06, 0x2A];

impl Runtime {
    /// The IL of a method, if there is such a method.
    pub(super) fn il_of(&self, module: ModuleId, token: u32) -> Option<&'static [u8]> {
        let state = self.lock();
        let is_it = |one: &super::code::Function| one.module == Some(module) && one.token == token;
        state.code.functions.values().any(is_it).then_some(&BODY)
    }
}

/// Where profilers get memory for new IL. What it gives lasts as long as the process: nobody frees what may be compiled again.
pub(super) fn allocator() -> *mut sys::IMethodMalloc {
    #[repr(C)]
    struct Allocator(&'static sys::IMethodMallocVtbl);
    static ALLOCATOR: Allocator = Allocator(&sys::IMethodMallocVtbl {
        base: sys::IUnknownVtbl { QueryInterface: query_interface, AddRef: one, Release: one },
        Alloc: allocate,
    });
    std::ptr::from_ref(&ALLOCATOR).cast_mut().cast()
}

unsafe extern "system" fn query_interface(_: *mut c_void, _: sys::REFIID, _: *mut *mut c_void) -> sys::HRESULT {
    HResult::E_NOINTERFACE.0
}

unsafe extern "system" fn one(_: *mut c_void) -> u32 {
    1
}

unsafe extern "system" fn allocate(_: *mut c_void, bytes: sys::ULONG) -> *mut c_void {
    Box::leak(vec![0_u8; bytes as usize].into_boxed_slice()).as_mut_ptr().cast()
}
