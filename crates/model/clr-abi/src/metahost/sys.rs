//! The hosting interfaces with every slot, as in metahost.h, and IEnumUnknown, as in objidl.h.
//!
//! The table in `crates/target/corprof/abi` lacks them: only the .NET Framework has them, and only tests serve them.
//! <https://learn.microsoft.com/dotnet/framework/unmanaged-api/hosting/> documents their names. Their order is that of metahost.h in the
//! Windows SDK.
#![allow(missing_docs, reason = "the runtime's documentation describes these names")]
#![allow(non_snake_case, non_upper_case_globals, reason = "names stay as in metahost.h")]
#![allow(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "as for corprof::sys; the runtime's signatures"
)]

use core::ffi::{c_char, c_void};
use corprof::sys::{BOOL, DWORD, HANDLE, HRESULT, IUnknown, IUnknownVtbl, REFIID, UINT, ULONG, WCHAR};
use corprof::{Guid, HResult};

/// The class for `CLRCreateInstance`.
pub const CLSID_CLRMetaHost: Guid = Guid::from_u128(0x9280188D_0E8E_4867_B30C_7FA83884E8DE);
/// The class for `ICLRRuntimeInfo::GetInterface`.
pub const CLSID_CLRProfiling: Guid = Guid::from_u128(0xBD097ED8_733E_43FE_8ED7_A95FF9A8448C);

macro_rules! interfaces {
    ($($interface:ident $vtbl:ident $iid:ident $number:literal { $($slot:ident($($name:ident: $ty:ty),*);)* })*) => {
        $(
            pub const $iid: Guid = Guid::from_u128($number);

            #[repr(C)]
            pub struct $interface {
                pub vtbl: *const $vtbl,
            }

            #[repr(C)]
            pub struct $vtbl {
                pub base: IUnknownVtbl,
                $(pub $slot: unsafe extern "system" fn(this: *mut c_void, $($name: $ty),*) -> HRESULT,)*
            }

            impl $vtbl {
                /// A vtable whose every slot answers `E_NOTIMPL`.
                pub const fn refusing(base: IUnknownVtbl) -> $vtbl {
                    $(
                        unsafe extern "system" fn $slot(_: *mut c_void, $(_: $ty),*) -> HRESULT {
                            HResult::E_NOTIMPL.0
                        }
                    )*
                    $vtbl { base, $($slot),* }
                }
            }

            impl $interface {
                $(
                    pub unsafe fn $slot(this: *mut $interface, $($name: $ty),*) -> HRESULT {
                        // SAFETY: the caller guarantees `this` and every pointer.
                        unsafe { ((*(*this).vtbl).$slot)(this.cast(), $($name),*) }
                    }
                )*
            }
        )*
    };
}

interfaces! {
    ICLRMetaHost ICLRMetaHostVtbl IID_ICLRMetaHost 0xD332DB9E_B9B3_4125_8207_A14884F53216 {
        GetRuntime(version: *const WCHAR, riid: REFIID, runtime: *mut *mut c_void);
        GetVersionFromFile(path: *const WCHAR, buffer: *mut WCHAR, count: *mut DWORD);
        EnumerateInstalledRuntimes(answer: *mut *mut IEnumUnknown);
        EnumerateLoadedRuntimes(process: HANDLE, answer: *mut *mut IEnumUnknown);
        RequestRuntimeLoadedNotification(callback: *mut c_void);
        QueryLegacyV2RuntimeBinding(riid: REFIID, answer: *mut *mut c_void);
        ExitProcess(code: i32);
    }

    ICLRRuntimeInfo ICLRRuntimeInfoVtbl IID_ICLRRuntimeInfo 0xBD39D1D2_BA2F_486A_89B0_B4B0CB466891 {
        GetVersionString(buffer: *mut WCHAR, count: *mut DWORD);
        GetRuntimeDirectory(buffer: *mut WCHAR, count: *mut DWORD);
        IsLoaded(process: HANDLE, answer: *mut BOOL);
        LoadErrorString(resource: UINT, buffer: *mut WCHAR, count: *mut DWORD, locale: i32);
        LoadLibrary(name: *const WCHAR, module: *mut HANDLE);
        GetProcAddress(name: *const c_char, answer: *mut *mut c_void);
        GetInterface(rclsid: *const Guid, riid: REFIID, answer: *mut *mut c_void);
        IsLoadable(answer: *mut BOOL);
        SetDefaultStartupFlags(flags: DWORD, configuration: *const WCHAR);
        GetDefaultStartupFlags(flags: *mut DWORD, configuration: *mut WCHAR, count: *mut DWORD);
        BindAsLegacyV2Runtime();
        IsStarted(answer: *mut BOOL, flags: *mut DWORD);
    }

    ICLRProfiling ICLRProfilingVtbl IID_ICLRProfiling 0xB349ABE3_B56F_4689_BFCD_76BF39D888EA {
        AttachProfiler(process: DWORD, milliseconds: DWORD, class: *const Guid, path: *const WCHAR, data: *mut c_void, count: UINT);
    }

    IEnumUnknown IEnumUnknownVtbl IID_IEnumUnknown 0x00000100_0000_0000_C000_000000000046 {
        Next(count: ULONG, items: *mut *mut IUnknown, fetched: *mut ULONG);
        Skip(count: ULONG);
        Reset();
        Clone(answer: *mut *mut IEnumUnknown);
    }
}
