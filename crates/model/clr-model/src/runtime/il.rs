//! IL as profilers read and replace it. Every method has the same body, which returns at once.

use corprof::{HResult, sys};
use std::ffi::c_void;

/// A tiny header for one byte of IL, and `ret` (ECMA-335, II.25.4.2).
pub(super) static BODY: [u8; 2] = [0x06, 0x2A];

/// IUnknown of a static object: it counts no references and has no other interface.
pub(super) const STATIC_UNKNOWN: sys::IUnknownVtbl =
    sys::IUnknownVtbl { QueryInterface: query_interface, AddRef: one, Release: one };

/// The allocator for new IL. Its memory is never freed, since a method may be compiled again.
pub(super) fn allocator() -> *mut sys::IMethodMalloc {
    #[repr(C)]
    struct Allocator(&'static sys::IMethodMallocVtbl);
    static ALLOCATOR: Allocator = Allocator(&sys::IMethodMallocVtbl { base: STATIC_UNKNOWN, Alloc: allocate });
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
