//! The calls of a trigger process on the .NET Framework, from `CLRCreateInstance` to `AttachProfiler`.

use core::any::Any;
use core::ffi::c_void;
use corprof::sys::IUnknown;
use corprof::{Guid, HResult};
use remora_clr_abi::metahost::sys::*;
use remora_clr_abi::metahost::{
    AttachRequest, CLSID_CLRMetaHost, CLSID_CLRProfiling, Fenced, MetaHost, Profiling, Runtime, clr_create_instance,
};
use remora_clr_abi::{Live, Slot};
use std::sync::{Arc, Mutex};

const PROFILER: Guid = Guid::from_u128(0x1111_2222_3333_4444_5555_6666_7777_8888);
const PROCESS: usize = 0x1234;

/// A machine with one process and two loaded runtimes.
#[derive(Default)]
struct Machine {
    requests: Arc<Mutex<Vec<AttachRequest>>>,
    panics: Arc<Mutex<Vec<&'static str>>>,
}

struct Clr {
    version: &'static str,
    requests: Arc<Mutex<Vec<AttachRequest>>>,
    panics: Arc<Mutex<Vec<&'static str>>>,
}

macro_rules! fenced {
    ($($server:ty),*) => {
        $(impl Fenced for $server {
            fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {
                assert_eq!(payload.downcast_ref::<&str>(), Some(&"the model"));
                self.panics.lock().expect("no panic while locked").push(slot.name);
            }
        })*
    };
}

fenced!(Machine, Clr);

impl MetaHost for Machine {
    fn loaded_runtimes(&self, process: usize) -> Result<Vec<Arc<dyn Runtime>>, HResult> {
        if process != PROCESS {
            return Err(HResult::E_HANDLE);
        }
        let clr = |version| {
            let (requests, panics) = (Arc::clone(&self.requests), Arc::clone(&self.panics));
            Arc::new(Clr { version, requests, panics }) as Arc<dyn Runtime>
        };
        Ok(vec![clr("v2.0.50727"), clr("v4.0.30319")])
    }
}

impl Runtime for Clr {
    fn version(&self) -> String {
        self.version.to_owned()
    }

    fn profiling(&self) -> Result<Arc<dyn Profiling>, HResult> {
        if self.version.starts_with("v2") {
            return Err(HResult::E_NOINTERFACE);
        }
        let (requests, panics) = (Arc::clone(&self.requests), Arc::clone(&self.panics));
        Ok(Arc::new(Clr { version: self.version, requests, panics }))
    }
}

impl Profiling for Clr {
    fn attach_profiler(&self, request: AttachRequest) -> HResult {
        let panics = request.milliseconds == 0;
        self.requests.lock().expect("no panic while locked").push(request);
        if panics {
            std::panic::panic_any("the model");
        }
        HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE
    }
}

fn release<I>(object: *mut I) -> u32 {
    // SAFETY: the test holds the reference that this releases.
    unsafe { IUnknown::Release(object.cast()) }
}

/// Asks for an object of a class, as `CLRCreateInstance` does.
fn create(machine: Machine, live: &Live, class: Guid, iid: Guid) -> Result<*mut ICLRMetaHost, HResult> {
    let mut host = core::ptr::dangling_mut::<c_void>();
    // SAFETY: two identifiers and a place for the answer.
    let code = HResult(unsafe { clr_create_instance(Arc::new(machine), live, &class, &iid, &mut host) });
    assert_eq!(host.is_null(), !code.is_success());
    code.ok().map(|()| host.cast())
}

fn runtimes(host: *mut ICLRMetaHost) -> *mut IEnumUnknown {
    let mut list = core::ptr::null_mut();
    // SAFETY: a live host, and a place for the answer.
    let code = unsafe { ICLRMetaHost::EnumerateLoadedRuntimes(host, PROCESS as *mut c_void, &mut list) };
    assert_eq!(HResult(code), HResult::S_OK);
    list
}

/// The next runtime, as ICLRRuntimeInfo.
fn next(list: *mut IEnumUnknown) -> Option<*mut ICLRRuntimeInfo> {
    let mut unknown = core::ptr::null_mut();
    // SAFETY: a live enumerator and a place for one; null instead of a count, as in the documented example.
    let code = unsafe { IEnumUnknown::Next(list, 1, &mut unknown, core::ptr::null_mut()) };
    if HResult(code) != HResult::S_OK {
        assert_eq!(HResult(code), HResult::S_FALSE);
        return None;
    }
    let mut info = core::ptr::null_mut();
    // SAFETY: a live object, an identifier and a place for the answer.
    assert_eq!(unsafe { IUnknown::QueryInterface(unknown, &IID_ICLRRuntimeInfo, &mut info) }, 0);
    assert_eq!(release(unknown), 2, "the answer and the enumerator hold one each");
    Some(info.cast())
}

fn version(info: *mut ICLRRuntimeInfo) -> String {
    let mut buffer = [0; 30];
    let mut count = 30;
    // SAFETY: a live runtime, a buffer and its length.
    assert_eq!(unsafe { ICLRRuntimeInfo::GetVersionString(info, buffer.as_mut_ptr(), &mut count) }, 0);
    assert_eq!(buffer[count as usize - 1], 0);
    String::from_utf16(&buffer[..count as usize - 1]).expect("UTF-16")
}

fn profiling(info: *mut ICLRRuntimeInfo, class: Guid, iid: Guid) -> Result<*mut ICLRProfiling, HResult> {
    let mut answer = core::ptr::dangling_mut();
    // SAFETY: a live runtime, two identifiers and a place for the answer.
    let code = HResult(unsafe { ICLRRuntimeInfo::GetInterface(info, &class, &iid, &mut answer) });
    assert_eq!(answer.is_null(), !code.is_success());
    code.ok().map(|()| answer.cast())
}

fn attach(profiling: *mut ICLRProfiling, milliseconds: u32, path: &[u16], data: &mut [u8]) -> HResult {
    let (class, count) = (PROFILER, data.len() as u32);
    // SAFETY: a live object, an identifier, a text that ends with a zero with a zero, and data of that length.
    HResult(unsafe {
        ICLRProfiling::AttachProfiler(
            profiling,
            77,
            milliseconds,
            &class,
            path.as_ptr(),
            data.as_mut_ptr().cast(),
            count,
        )
    })
}

#[test]
fn the_documented_walk_ends_in_an_attach_and_leaves_nothing_behind() {
    let (machine, live) = (Machine::default(), Live::default());
    let requests = Arc::clone(&machine.requests);
    let host = create(machine, &live, CLSID_CLRMetaHost, IID_ICLRMetaHost).expect("a host");
    let list = runtimes(host);
    let mut versions = Vec::new();
    while let Some(info) = next(list) {
        versions.push(version(info));
        match profiling(info, CLSID_CLRProfiling, IID_ICLRProfiling) {
            Ok(profiling) => {
                let path = ['x' as u16, 'y' as u16, 0, 'z' as u16];
                let answer = attach(profiling, 5000, &path, &mut [1, 2, 3]);
                assert_eq!(answer, HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
                assert_eq!(release(profiling), 0);
            }
            Err(code) => assert_eq!(code, HResult::E_NOINTERFACE),
        }
        assert_eq!(release(info), 1, "the enumerator holds the other");
    }
    assert_eq!(versions, ["v2.0.50727", "v4.0.30319"]);
    let expected = AttachRequest {
        process: 77,
        milliseconds: 5000,
        profiler: PROFILER,
        path: Some("xy".encode_utf16().collect()),
        client_data: vec![1, 2, 3],
    };
    assert_eq!(*requests.lock().expect("no panic while locked"), [expected]);
    assert_eq!(live.count(), 4, "the host, the enumerator and two runtimes");
    assert_eq!((release(list), release(host), live.count()), (0, 0, 0));
}

#[test]
fn a_version_that_does_not_fit_says_how_long_it_is() {
    let live = Live::default();
    let host = create(Machine::default(), &live, CLSID_CLRMetaHost, IID_ICLRMetaHost).expect("a host");
    let list = runtimes(host);
    let info = next(list).expect("a runtime");
    let mut buffer = [7; 4];
    let mut count = 4;
    // SAFETY: a live runtime, a buffer and its length.
    let code = unsafe { ICLRRuntimeInfo::GetVersionString(info, buffer.as_mut_ptr(), &mut count) };
    assert_eq!((code as u32, count, buffer), (0x8007_007A, 11, [7; 4]));
    count = 0;
    // SAFETY: a live runtime, and a place for the length.
    let code = unsafe { ICLRRuntimeInfo::GetVersionString(info, core::ptr::null_mut(), &mut count) };
    assert_eq!((HResult(code), count), (HResult::S_OK, 11));
    assert_eq!((release(info), release(list), release(host), live.count()), (1, 0, 0, 0));
}

#[test]
fn a_copy_of_the_enumerator_goes_on_where_the_first_one_is() {
    let live = Live::default();
    let host = create(Machine::default(), &live, CLSID_CLRMetaHost, IID_ICLRMetaHost).expect("a host");
    let list = runtimes(host);
    // SAFETY: a live enumerator.
    assert_eq!(unsafe { IEnumUnknown::Skip(list, 1) }, 0);
    let mut copy = core::ptr::null_mut();
    // SAFETY: a live enumerator, and a place for the answer.
    assert_eq!(unsafe { IEnumUnknown::Clone(list, &mut copy) }, 0);
    // SAFETY: a live enumerator.
    assert_eq!(unsafe { IEnumUnknown::Reset(list) }, 0);
    assert_eq!(release(list), 0);
    assert_eq!(live.count(), 4, "the copy keeps both runtimes");
    let info = next(copy).expect("the second one");
    assert_eq!(version(info), "v4.0.30319");
    assert_eq!(next(copy), None);
    assert_eq!((release(copy), release(info), release(host), live.count()), (0, 0, 0, 0));
}

#[test]
fn what_is_not_there_is_refused() {
    let live = Live::default();
    let other = create(Machine::default(), &live, CLSID_CLRProfiling, IID_ICLRMetaHost);
    assert_eq!(other, Err(HResult::CLASS_E_CLASSNOTAVAILABLE));
    let other = create(Machine::default(), &live, CLSID_CLRMetaHost, IID_ICLRProfiling);
    assert_eq!(other, Err(HResult::E_NOINTERFACE));
    let host = create(Machine::default(), &live, CLSID_CLRMetaHost, IID_ICLRMetaHost).expect("a host");
    let mut list = core::ptr::dangling_mut();
    // SAFETY: a live host, an invalid handle, and a place for the answer.
    let code = unsafe { ICLRMetaHost::EnumerateLoadedRuntimes(host, core::ptr::null_mut(), &mut list) };
    assert_eq!((HResult(code), list.is_null()), (HResult::E_HANDLE, true));
    // SAFETY: a live host.
    assert_eq!(HResult(unsafe { ICLRMetaHost::ExitProcess(host, 1) }), HResult::E_NOTIMPL);
    let list = runtimes(host);
    let info = next(list).expect("a runtime");
    assert_eq!(profiling(info, CLSID_CLRMetaHost, IID_ICLRProfiling), Err(HResult::CLASS_E_CLASSNOTAVAILABLE));
    assert_eq!((release(info), release(list), release(host), live.count()), (1, 0, 0, 0));
}

#[test]
fn a_panic_behind_an_attach_crosses_nothing_and_is_handed_over() {
    let (machine, live) = (Machine::default(), Live::default());
    let panics = Arc::clone(&machine.panics);
    let host = create(machine, &live, CLSID_CLRMetaHost, IID_ICLRMetaHost).expect("a host");
    let list = runtimes(host);
    // SAFETY: a live enumerator.
    assert_eq!(unsafe { IEnumUnknown::Skip(list, 1) }, 0);
    let info = next(list).expect("the second one");
    let profiling = profiling(info, CLSID_CLRProfiling, IID_ICLRProfiling).expect("attaches");
    assert_eq!(attach(profiling, 0, &[0], &mut []), HResult::E_UNEXPECTED);
    assert_eq!(*panics.lock().expect("no panic while locked"), ["AttachProfiler"]);
    assert_eq!((release(profiling), release(info), release(list), release(host), live.count()), (0, 1, 0, 0, 0));
}

#[test]
fn the_slots_are_where_the_header_has_them() {
    let slot = |offset: usize| offset / size_of::<usize>();
    assert_eq!(slot(core::mem::offset_of!(ICLRMetaHostVtbl, EnumerateLoadedRuntimes)), 6);
    assert_eq!(slot(size_of::<ICLRMetaHostVtbl>()), 10);
    assert_eq!(slot(core::mem::offset_of!(ICLRRuntimeInfoVtbl, GetVersionString)), 3);
    assert_eq!(slot(core::mem::offset_of!(ICLRRuntimeInfoVtbl, GetInterface)), 9);
    assert_eq!(slot(size_of::<ICLRRuntimeInfoVtbl>()), 15);
    assert_eq!(slot(core::mem::offset_of!(ICLRProfilingVtbl, AttachProfiler)), 3);
    assert_eq!(slot(core::mem::offset_of!(IEnumUnknownVtbl, Next)), 3);
    assert_eq!(slot(size_of::<IEnumUnknownVtbl>()), 7);
}
