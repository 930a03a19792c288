//! The three objects, in a trigger process's order.

use super::runtimes::loaded;
use super::sys::*;
use super::{AttachRequest, CLSID_CLRMetaHost, CLSID_CLRProfiling, Fenced, MetaHost, Profiling, Runtime};
use crate::counted::{Counted, Inner};
use crate::panics::caught;
use crate::{Live, Slot};
use core::ffi::c_void;
use corprof::sys::{DWORD, HANDLE, HRESULT, REFIID, UINT, WCHAR};
use corprof::{Guid, HResult};
use std::sync::Arc;

/// HRESULT_FROM_WIN32(ERROR_INSUFFICIENT_BUFFER).
const INSUFFICIENT_BUFFER: HResult = HResult(0x8007_007A_u32 as i32);

/// The longest path that is read: Windows' limit for long paths.
const LONGEST_PATH: usize = 0x7FFF;

/// A server, and the counter of the objects that lead to it.
struct Behind<S: ?Sized> {
    server: Arc<S>,
    live: Live,
}

impl<S: ?Sized + Send + Sync + 'static> Inner for Behind<S> {}

type Host = Counted<&'static ICLRMetaHostVtbl, Behind<dyn MetaHost>>;
type Info = Counted<&'static ICLRRuntimeInfoVtbl, Behind<dyn Runtime>>;
type Attacher = Counted<&'static ICLRProfilingVtbl, Behind<dyn Profiling>>;

const HOST: &ICLRMetaHostVtbl = &ICLRMetaHostVtbl {
    EnumerateLoadedRuntimes: enumerate_loaded_runtimes,
    ..ICLRMetaHostVtbl::refusing(Host::UNKNOWN)
};

const INFO: &ICLRRuntimeInfoVtbl = &ICLRRuntimeInfoVtbl {
    GetVersionString: get_version_string,
    GetInterface: get_interface,
    ..ICLRRuntimeInfoVtbl::refusing(Info::UNKNOWN)
};

const ATTACHER: &ICLRProfilingVtbl = &ICLRProfilingVtbl { base: Attacher::UNKNOWN, AttachProfiler: attach_profiler };

/// The body of `CLRCreateInstance`: the host as a COM object. `live` counts every object reached through it, until its release.
///
/// # Safety
/// The pointers are null or valid: identifiers to read, and a place for the answer.
pub unsafe fn clr_create_instance(
    host: Arc<dyn MetaHost>,
    live: &Live,
    clsid: *const Guid,
    riid: REFIID,
    answer: *mut *mut c_void,
) -> HRESULT {
    let made = || {
        // SAFETY: `HOST` is the vtable for a host.
        unsafe { Host::make(HOST, &[(IID_ICLRMetaHost, 0)], live, Behind { server: host, live: live.clone() }) }
    };
    // SAFETY: the caller guarantees two identifiers and a place.
    unsafe { of_class(CLSID_CLRMetaHost, clsid, riid, answer, || Ok(made())) }
}

unsafe extern "system" fn enumerate_loaded_runtimes(
    this: *mut c_void,
    process: HANDLE,
    answer: *mut *mut IEnumUnknown,
) -> HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let Some(host) = (unsafe { Host::of(this) }) else {
        return HResult::E_POINTER.0;
    };
    if answer.is_null() {
        return HResult::E_POINTER.0;
    }
    let Behind { server, live } = host.inner();
    let runtimes = served(&**server, slot(6, "EnumerateLoadedRuntimes"), || server.loaded_runtimes(process as usize));
    let (made, code) = match runtimes {
        Ok(runtimes) => (loaded(runtimes.into_iter().map(|one| runtime_info(one, live)), live), HResult::S_OK),
        Err(code) => (core::ptr::null_mut(), code),
    };
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { answer.write(made) };
    code.0
}

fn runtime_info(server: Arc<dyn Runtime>, live: &Live) -> *mut corprof::sys::IUnknown {
    // SAFETY: `INFO` is the vtable for a runtime.
    unsafe { Info::make(INFO, &[(IID_ICLRRuntimeInfo, 0)], live, Behind { server, live: live.clone() }) }.cast()
}

/// Counts characters, including the final zero. A null buffer asks for that count.
unsafe extern "system" fn get_version_string(this: *mut c_void, buffer: *mut WCHAR, count: *mut DWORD) -> HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let Some(info) = (unsafe { Info::of(this) }) else {
        return HResult::E_POINTER.0;
    };
    if count.is_null() {
        return HResult::E_POINTER.0;
    }
    let server = &info.inner().server;
    let version = match served(&**server, slot(3, "GetVersionString"), || Ok(server.version())) {
        Ok(version) => version.encode_utf16().chain([0]).collect::<Vec<u16>>(),
        Err(code) => return code.0,
    };
    // SAFETY: not null; the caller passes the room there, and receives the required room.
    let room = unsafe { count.replace(version.len() as u32) };
    if buffer.is_null() {
        return HResult::S_OK.0;
    }
    if (room as usize) < version.len() {
        return INSUFFICIENT_BUFFER.0;
    }
    // SAFETY: the caller gives room for this text.
    unsafe { buffer.copy_from_nonoverlapping(version.as_ptr(), version.len()) };
    HResult::S_OK.0
}

unsafe extern "system" fn get_interface(
    this: *mut c_void,
    rclsid: *const Guid,
    riid: REFIID,
    answer: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let Some(info) = (unsafe { Info::of(this) }) else {
        return HResult::E_POINTER.0;
    };
    let Behind { server, live } = info.inner();
    let made = || {
        let profiling = served(&**server, slot(9, "GetInterface"), || server.profiling())?;
        let behind = Behind { server: profiling, live: live.clone() };
        // SAFETY: `ATTACHER` is the vtable for an attacher.
        Ok(unsafe { Attacher::make(ATTACHER, &[(IID_ICLRProfiling, 0)], live, behind) })
    };
    // SAFETY: the caller's own pointers; COM has the same rules for both.
    unsafe { of_class(CLSID_CLRProfiling, rclsid, riid, answer, made) }
}

unsafe extern "system" fn attach_profiler(
    this: *mut c_void,
    process: DWORD,
    milliseconds: DWORD,
    class: *const Guid,
    path: *const WCHAR,
    data: *mut c_void,
    count: UINT,
) -> HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let Some(attacher) = (unsafe { Attacher::of(this) }) else {
        return HResult::E_POINTER.0;
    };
    if class.is_null() || (data.is_null() && count > 0) {
        return HResult::E_INVALIDARG.0;
    }
    // SAFETY: not null, so the caller gives an identifier to read.
    let profiler = unsafe { class.read_unaligned() };
    // SAFETY: the caller gives null or a text that ends with a zero.
    let path = unsafe { text(path) };
    let client_data = match count {
        0 => Vec::new(),
        // SAFETY: not null, and the caller gives `count` bytes.
        count => unsafe { core::slice::from_raw_parts(data.cast::<u8>(), count as usize) }.to_vec(),
    };
    let request = AttachRequest { process, milliseconds, profiler, path, client_data };
    let server = &attacher.inner().server;
    served(&**server, slot(3, "AttachProfiler"), || Ok(server.attach_profiler(request))).unwrap_or_else(|code| code).0
}

/// Makes an object if the class matches, and answers the requested interface.
///
/// The desktop's answer for an unsupported class is not known. This answer is COM's for a class that a library does not have.
///
/// # Safety
/// The pointers are null or valid: identifiers to read, and a place for the answer. The new object has one reference.
unsafe fn of_class(
    known: Guid,
    class: *const Guid,
    riid: REFIID,
    answer: *mut *mut c_void,
    make: impl FnOnce() -> Result<*mut c_void, HResult>,
) -> HRESULT {
    if class.is_null() || riid.is_null() || answer.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { answer.write(core::ptr::null_mut()) };
    // SAFETY: not null, so the caller gives an identifier to read.
    if unsafe { class.read_unaligned() } != known {
        return HResult::CLASS_E_CLASSNOTAVAILABLE.0;
    }
    let made = match make() {
        Ok(made) => made.cast(),
        Err(code) => return code.0,
    };
    // SAFETY: a live object, and checked pointers.
    let code = unsafe { corprof::sys::IUnknown::QueryInterface(made, riid, answer) };
    // SAFETY: releases the reference of its creation; an answer holds its own.
    unsafe { corprof::sys::IUnknown::Release(made) };
    code
}

/// Calls a server behind the fence.
fn served<S: Fenced + ?Sized, R>(
    server: &S,
    slot: Slot,
    call: impl FnOnce() -> Result<R, HResult>,
) -> Result<R, HResult> {
    caught(call, |payload| server.panicked(slot, payload)).unwrap_or(Err(HResult::E_UNEXPECTED))
}

fn slot(index: usize, name: &'static str) -> Slot {
    Slot { index, name, version: 1 }
}

/// A text up to its final zero, without the zero.
///
/// # Safety
/// `raw` is null or a text that ends with a zero.
unsafe fn text(raw: *const WCHAR) -> Option<Vec<u16>> {
    if raw.is_null() {
        return None;
    }
    let mut text = Vec::new();
    while text.len() < LONGEST_PATH {
        // SAFETY: no zero so far, so the text continues here.
        match unsafe { raw.add(text.len()).read_unaligned() } {
            0 => break,
            unit => text.push(unit),
        }
    }
    Some(text)
}
