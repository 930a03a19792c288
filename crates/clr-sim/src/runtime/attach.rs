//! The attach server: from the request to the answer, in the order of seed 001.

use super::{Entry, Profiler, Runtime, Status, load};
use crate::lab::witness;
use crate::library::Library;
use crate::schedule;
use corprof::{Guid, HResult, sys};
use remora_clr_sim_abi::{InfoObject, ProfilerObject};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// What client data is overwritten with when it is freed: who reads it afterwards reads this.
pub const FREED: u8 = 0xDD;

/// What a trigger asks for.
pub struct AttachRequest {
    /// The profiler's class.
    pub class: Guid,
    /// Its library; `None` if the target cannot open the path.
    pub library: Option<Arc<Library>>,
    /// Handed to InitializeForAttach.
    pub client_data: Vec<u8>,
}

/// Where the answer will be.
#[derive(Clone, Default)]
pub struct Answer(Arc<Mutex<Option<HResult>>>);

impl Answer {
    /// The answer, once it is there.
    pub fn get(&self) -> Option<HResult> {
        *self.0.lock().expect("no panic while locked")
    }
}

pub(super) struct Pending {
    request: AttachRequest,
    answer: Answer,
}

impl Runtime {
    /// Sends an attach request: returns at once. Whoever waits for the answer has a time-out of its own.
    pub fn ask_for_attach(&self, request: AttachRequest) -> Answer {
        let answer = Answer::default();
        schedule::note("A trigger asks for an attach", 0);
        self.lock().requests.push(Pending { request, answer: answer.clone() });
        answer
    }

    /// Whether an attach has been asked for and not answered.
    pub fn is_attaching(&self) -> bool {
        let state = self.lock();
        state.serves || !state.requests.is_empty()
    }

    /// The attach server, for as long as the process lives: one request at a time.
    pub(super) fn serve_attaches(self: &Arc<Self>) {
        loop {
            schedule::wait_until(None, || !self.lock().requests.is_empty() || self.is_exiting());
            if self.is_exiting() || schedule::is_stopped() {
                return;
            }
            let pending = {
                let mut state = self.lock();
                state.serves = true;
                state.requests.remove(0)
            };
            let code = match self.attach(&pending.request) {
                Ok(()) => {
                    self.write_log(Entry::Attached);
                    HResult::S_OK
                }
                Err(code) => {
                    self.write_log(Entry::Failed(code.0 as u32));
                    code
                }
            };
            schedule::note("The attach is answered {}", u64::from(code.0 as u32));
            *pending.answer.0.lock().expect("no panic while locked") = Some(code);
            self.lock().serves = false;
        }
    }

    fn attach(self: &Arc<Self>, request: &AttachRequest) -> Result<(), HResult> {
        let differences = self.differences();
        if differences.attach_waits_for_detach {
            schedule::wait_until(None, || self.lock().detaching.is_empty() || self.is_exiting());
        }
        if self.is_exiting() {
            return Err(HResult::CORPROF_E_RUNTIME_UNINITIALIZED);
        }
        if !differences.refused_attach_leaks && !self.profilers().is_empty() {
            return Err(HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
        }
        let library = request.library.as_ref().ok_or(MODULE_NOT_FOUND)?;
        load(library);
        let object = self.create(library, &request.class).inspect_err(|_| library.release())?;
        if object.version() < 3 {
            let profiler = Profiler::new(library.clone(), object, false, true);
            self.discard(&profiler);
            return Err(HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE);
        }
        let notification_only = differences.notification_profilers && asks_to_be_only_notified(library, &object);
        let is_taken = !notification_only && self.profilers().iter().any(|profiler| !profiler.notification_only);
        let profiler = Arc::new(Profiler::new(library.clone(), object, notification_only, true));
        if is_taken {
            // Neither the object nor the library is given back.
            return Err(HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
        }
        self.initialize(&profiler, &request.client_data)
    }

    fn initialize(self: &Arc<Self>, profiler: &Arc<Profiler>, client_data: &[u8]) -> Result<(), HResult> {
        let info = InfoObject::create(super::info::Server::new(self, profiler));
        let unknown = info.as_unknown();
        // The first and only value.
        let _ = profiler.info.set(info);
        {
            let mut state = self.lock();
            state.profilers.push(profiler.clone());
            state.remembered.push(profiler.clone());
            if profiler.notification_only {
                state.count_notification_only(1);
            }
        }
        let mut copy = client_data.to_vec();
        let answer = self.call_uncounted(profiler, "InitializeForAttach", |object| {
            // SAFETY: Info outlives the profiler; the data lives until the call returns.
            unsafe { object.initialize_for_attach(unknown, copy.as_ptr().cast(), copy.len() as u32) }
        });
        copy.fill(FREED);
        profiler.freed.lock().expect("no panic while locked").push(copy);
        let code = answer.flatten().unwrap_or(HResult::E_FAIL);
        if !code.is_success() {
            self.take_back(profiler);
            let attachable = code != HResult::E_NOTIMPL;
            return Err(if attachable { code } else { HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE });
        }
        profiler.become_(Status::Active);
        schedule::note("CLR enables events", 0);
        schedule::point();
        // The profiler may have asked for its detach by now.
        if profiler.status() == Status::Active && self.is_found(profiler) {
            self.call_uncounted(profiler, "ProfilerAttachComplete", |object| {
                // SAFETY: takes nothing; the object is held.
                unsafe { object.profiler_attach_complete() }
            });
            Self::count(&profiler.attach_completes);
        }
        Ok(())
    }

    /// Whether callbacks find this profiler: a notification-only one is looked for only while one is believed to be there.
    fn is_found(&self, profiler: &Profiler) -> bool {
        !profiler.notification_only || self.lock().notification_count > 0
    }

    fn take_back(&self, profiler: &Arc<Profiler>) {
        {
            let mut state = self.lock();
            state.profilers.retain(|one| !Arc::ptr_eq(one, profiler));
            if profiler.notification_only || self.differences().main_departure_is_miscounted {
                state.count_notification_only(-1);
            }
        }
        self.discard(profiler);
    }

    pub(super) fn discard(&self, profiler: &Profiler) {
        self.release(profiler);
        profiler.become_(Status::Gone);
        self.has_left(profiler);
        profiler.library.release();
    }

    pub(super) fn create(&self, library: &Library, class: &Guid) -> Result<ProfilerObject, HResult> {
        let inside = library.enter();
        let mut factory: *mut c_void = std::ptr::null_mut();
        // SAFETY: two identifiers and a place for the answer.
        unsafe { library.exports().get_class_object(class, &sys::IID_IClassFactory, &raw mut factory) }.ok()?;
        if factory.is_null() {
            return Err(HResult::E_FAIL);
        }
        schedule::point();
        let seat = witness::callback("CreateInstance");
        let mut object: *mut c_void = std::ptr::null_mut();
        let factory: *mut sys::IClassFactory = factory.cast();
        // SAFETY: the factory was made a moment ago; an identifier and a place for the answer.
        let made = unsafe {
            sys::IClassFactory::CreateInstance(
                factory,
                std::ptr::null_mut(),
                &sys::IID_ICorProfilerCallback2,
                &raw mut object,
            )
        };
        // SAFETY: gives up the reference that came with it.
        unsafe { sys::IUnknown::Release(factory.cast()) };
        drop(seat);
        HResult(made).ok()?;
        drop(inside);
        // SAFETY: a live object with one reference, which is given up.
        unsafe { ProfilerObject::from_created(object.cast()) }
    }
}

fn asks_to_be_only_notified(library: &Library, object: &ProfilerObject) -> bool {
    let _inside = library.enter();
    let mut wish = 0;
    // SAFETY: a place for the answer.
    let answer = unsafe { object.load_as_notification_only(&raw mut wish) };
    answer.is_some_and(|code| code.is_success()) && wish != 0
}

/// HRESULT_FROM_WIN32(ERROR_MOD_NOT_FOUND).
const MODULE_NOT_FOUND: HResult = HResult(0x8007_007E_u32 as i32);
