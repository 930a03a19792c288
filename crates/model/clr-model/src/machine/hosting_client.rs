//! A trigger process's calls of the hosting interfaces, through their real vtables (seed 001, "Locating the AttachProfiler Method"). The
//! order is `CLRCreateInstance`, ICLRMetaHost, the runtimes, the attach interface.

use super::AttachOptions;
use super::mscoree::load_library;
use crate::mutation;
use crate::runtime::FREED;
use corprof::HResult;
use corprof::sys::IUnknown;
use remora_clr_abi::Live;
use remora_clr_abi::metahost::sys::{
    ICLRMetaHost, ICLRProfiling, ICLRRuntimeInfo, IEnumUnknown, IID_ICLRMetaHost, IID_ICLRProfiling,
    IID_ICLRRuntimeInfo,
};
use remora_clr_abi::metahost::{CLSID_CLRMetaHost, CLSID_CLRProfiling, MetaHost};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// Room for a version string, as in the documented example.
const VERSION_ROOM: usize = 30;

/// One reference on a COM object.
struct ComReference<I>(*mut I);

impl<I> Drop for ComReference<I> {
    fn drop(&mut self) {
        // SAFETY: releases the reference that it owns.
        unsafe { IUnknown::Release(self.0.cast()) };
    }
}

/// The host, which is the first object.
pub(crate) struct HostingClient(ComReference<ICLRMetaHost>);

/// A runtime loaded in the target.
pub(crate) struct LoadedRuntime(ComReference<ICLRRuntimeInfo>);

/// Attaches profilers to runtimes of one release.
pub(crate) struct ProfilingInterface(ComReference<ICLRProfiling>);

impl HostingClient {
    /// Loads mscoree, and asks its export for the host.
    pub(crate) fn begin(host: Arc<dyn MetaHost>, live: &Live) -> Result<HostingClient, HResult> {
        let library = load_library("mscoree.dll", host, live)?;
        let create_instance = library.export("CLRCreateInstance")?;
        let host = create_instance.call(&CLSID_CLRMetaHost, &IID_ICLRMetaHost)?;
        Ok(HostingClient(ComReference(host.cast())))
    }

    pub(crate) fn runtimes(&self, process: usize) -> Result<Vec<LoadedRuntime>, HResult> {
        let mut list: *mut IEnumUnknown = ptr::null_mut();
        let handle = process as *mut c_void;
        // SAFETY: a live host, and a place for the answer.
        HResult(unsafe { ICLRMetaHost::EnumerateLoadedRuntimes(self.0.0, handle, &raw mut list) }).ok()?;
        let list = ComReference(list);
        let mut runtimes = Vec::new();
        loop {
            let mut unknown = ptr::null_mut();
            // SAFETY: a live enumerator and a place for one object.
            let code = unsafe { IEnumUnknown::Next(list.0, 1, &raw mut unknown, ptr::null_mut()) };
            if HResult(code) != HResult::S_OK {
                return Ok(runtimes);
            }
            let unknown = ComReference(unknown);
            let mut info = ptr::null_mut();
            // SAFETY: a live object, an identifier and a place for the answer.
            HResult(unsafe { IUnknown::QueryInterface(unknown.0, &IID_ICLRRuntimeInfo, &raw mut info) }).ok()?;
            runtimes.push(LoadedRuntime(ComReference(info.cast())));
        }
    }
}

impl LoadedRuntime {
    pub(crate) fn version(&self) -> String {
        let mut text = [0_u16; VERSION_ROOM];
        let mut count = VERSION_ROOM as u32;
        // SAFETY: a live runtime, a buffer and its length.
        let code = unsafe { ICLRRuntimeInfo::GetVersionString(self.0.0, text.as_mut_ptr(), &raw mut count) };
        let length = if HResult(code).is_success() { (count as usize).saturating_sub(1) } else { 0 };
        String::from_utf16_lossy(&text[..length.min(VERSION_ROOM)])
    }

    pub(crate) fn profiling(&self) -> Result<ProfilingInterface, HResult> {
        let mut answer = ptr::null_mut();
        // SAFETY: a live runtime, two identifiers and a place for the answer.
        let code = unsafe {
            ICLRRuntimeInfo::GetInterface(self.0.0, &CLSID_CLRProfiling, &IID_ICLRProfiling, &raw mut answer)
        };
        HResult(code).ok()?;
        Ok(ProfilingInterface(ComReference(answer.cast())))
    }

    /// Why no profiler can be attached to it.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        let older = "attaching came with version 4 of the .NET Framework: profile it from the start instead";
        self.profiling().is_err().then_some(older)
    }
}

impl ProfilingInterface {
    pub(crate) fn attach(&self, process: u32, options: &AttachOptions) -> HResult {
        let path: Option<Vec<u16>> = options.path.as_deref().map(|path| path.encode_utf16().chain([0]).collect());
        let path = path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        let mut data = options.client_data.clone();
        if mutation::is("ATT-11/3") {
            data.fill(FREED);
        }
        let at = if data.is_empty() { ptr::null_mut() } else { data.as_mut_ptr().cast() };
        // SAFETY: a live object, an identifier, null or a text that ends with a zero with a zero, and data of that length.
        let code = HResult(unsafe {
            ICLRProfiling::AttachProfiler(
                self.0.0,
                process,
                options.milliseconds,
                &options.class,
                path,
                at,
                data.len() as u32,
            )
        });
        // A trigger may reuse this memory as soon as the call returns, whatever happens to the attach (seed 004).
        data.fill(FREED);
        code
    }
}
