//! Another vendor's profiler: a main profiler that attaches and detaches at random, often with an EventPipe session.

use crate::faults::Faults;
use crate::library::{Exports, Library};
use crate::runtime::{AttachRequest, Runtime};
use crate::schedule::{self, Random, Task};
use corprof::{
    Alive, AttachMask, Attached, CallbackObject, Guid, HResult, HighAttachMask, Info, ProfilerCallback, ProviderConfig,
    SessionId, dll_get_class_object, sys,
};
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Nanoseconds in a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// All events of the runtime.
const RUNTIME_EVENTS: &str = "Microsoft-Windows-DotNETRuntime";
const VERBOSE: u32 = 5;

type SharedInfo = Arc<Mutex<Option<Info<Attached, Alive>>>>;

struct Other {
    info: SharedInfo,
}

impl ProfilerCallback for Other {
    fn initialize_for_attach(&self, info: Info<Attached, Alive>, _client_data: &[u8]) -> Result<(), HResult> {
        info.set_event_mask2(AttachMask::MODULE_LOADS, HighAttachMask::BASIC_GC)?;
        *self.info.lock().expect("no panic while locked") = Some(info);
        Ok(())
    }
}

struct OtherLibrary;

thread_local! {
    static SHARED_INFO: RefCell<Option<SharedInfo>> = const { RefCell::new(None) };
}

impl Exports for OtherLibrary {
    unsafe fn get_class_object(&self, class: *const Guid, interface: *const Guid, out: *mut *mut c_void) -> HResult {
        // SAFETY: the caller guarantees two identifiers and a place, as COM requires.
        HResult(unsafe { dll_get_class_object(class, interface, out, make) })
    }
}

fn make(_class: &Guid) -> Option<*mut sys::IUnknown> {
    let info = SHARED_INFO.with(|held| held.borrow().clone())?;
    Some(CallbackObject::create(Other { info }))
}

/// Starts a thread that attaches it and, usually, detaches it again.
pub fn start(runtime: &Arc<Runtime>, faults: &Arc<Faults>, random: &mut Random) -> Task {
    let info = SharedInfo::default();
    SHARED_INFO.with(|held| *held.borrow_mut() = Some(info.clone()));
    let library = Library::new(OtherLibrary, faults.clone());
    let (runtime, comes, stays) = (runtime.clone(), random.below(40) as u64, random.below(40) as u64);
    let leaves = random.below(4) > 0;
    let listens = random.once_in(2);
    schedule::spawn("another profiler's trigger", move || {
        schedule::sleep(comes * MILLISECOND);
        let request =
            AttachRequest { class: Guid::from_u128(1), library: Some(library.clone()), client_data: Vec::new() };
        let answer = runtime.ask_for_attach(request);
        schedule::wait_until(Some(5_000 * MILLISECOND), || answer.get().is_some() || runtime.is_exiting());
        let session = listens.then(|| listen(&info)).flatten();
        schedule::sleep(stays * MILLISECOND);
        if !leaves || !answer.get().is_some_and(HResult::is_success) || runtime.is_exiting() {
            return;
        }
        let info = info.lock().expect("no panic while locked").take();
        if let Some(info) = info {
            // Waits for writing threads; without this an event could arrive after the seal.
            if let Some(session) = session {
                let _ = info.event_pipe_stop_session(session);
            }
            schedule::note("Another profiler asks for its detach", 0);
            let _ = info.request_profiler_detach(Duration::from_millis(1));
        }
    })
}

/// Opens a session if the runtime supports it and the attach has succeeded so far. Events then arrive on any thread.
fn listen(info: &SharedInfo) -> Option<SessionId> {
    let info = info.lock().expect("no panic while locked");
    let provider =
        ProviderConfig { name: RUNTIME_EVENTS.to_owned(), keywords: 0, level: VERBOSE, filter: String::new() };
    // SAFETY: the session is stopped before the detach request, and an exiting process keeps the library.
    unsafe { info.as_ref()?.event_pipe_start_session(&[provider]) }.ok()
}
