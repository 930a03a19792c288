//! The attach server: from the request to the answer, in the order of seed 001.

use super::client_data::ClientData;
use super::{Entry, Profiler, Runtime, Status, load};
use crate::lab::monitor;
use crate::library::Library;
use crate::mutation;
use crate::schedule::{self, MILLISECOND};
use corprof::{Guid, HResult, sys};
use remora_clr_abi::{InfoObject, ProfilerObject};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// The time-out of requests of tests that name none, milliseconds.
const USUAL_TIME_OUT: u32 = 10_000;

/// The attach thread, where evacuation counters include it.
const ATTACH_THREAD: super::ThreadId = super::ThreadId(1);

/// An attach request.
pub struct AttachRequest {
    /// The profiler's class.
    pub class: Guid,
    /// Its library; `None` if the target cannot open the path.
    pub library: Option<Arc<Library>>,
    /// The data for InitializeForAttach.
    pub client_data: Vec<u8>,
}

/// An attach request from another process, which passes only the library's name (contract ATT-02).
#[derive(Debug, Clone)]
pub struct NamedRequest {
    /// The profiler's class.
    pub class: Guid,
    /// The path of its library, as the target sees it.
    pub path: Option<String>,
    /// The time-out, milliseconds. `time_out_bounds_the_wait` says what it bounds.
    pub milliseconds: u32,
    /// The data for InitializeForAttach.
    pub client_data: Vec<u8>,
}

/// A pending answer.
#[derive(Clone, Default)]
pub struct Answer(Arc<Mutex<Option<HResult>>>);

impl Answer {
    /// The answer, once it has arrived.
    pub fn get(&self) -> Option<HResult> {
        *self.0.lock().expect("no panic while locked")
    }
}

pub(super) struct Pending {
    request: NamedRequest,
    /// The library itself if given; otherwise it is found by its name.
    library: Option<Result<Arc<Library>, HResult>>,
    answer: Answer,
}

impl Runtime {
    /// Sends an attach request and returns at once. The caller needs its own time-out for the answer.
    pub fn ask_for_attach(&self, request: AttachRequest) -> Answer {
        self.ask_for_attach_within(request, USUAL_TIME_OUT)
    }

    /// The same with the request's time-out, milliseconds.
    pub fn ask_for_attach_within(&self, request: AttachRequest, milliseconds: u32) -> Answer {
        let library = request.library.ok_or(HResult::ERROR_MOD_NOT_FOUND);
        let named = NamedRequest { class: request.class, path: None, milliseconds, client_data: request.client_data };
        self.enqueue(named, Some(library))
    }

    /// Sends a request that names the library by its path. The target opens it only when it serves the request.
    pub fn ask_for_attach_by_name(&self, request: NamedRequest) -> Answer {
        self.enqueue(request, None)
    }

    /// Starts or ends a finalizer that does not return. Returns whether that is a change.
    pub fn block_finalizer(&self, blocked: bool) -> bool {
        std::mem::replace(&mut self.lock().finalizer_is_blocked, blocked) != blocked
    }

    /// Waits like the trigger's side of the attach. On the desktop the time-out bounds the wait, whatever happens to the attach. Elsewhere
    /// the trigger needs its own time-out.
    pub fn wait_for(&self, answer: &Answer, milliseconds: u32) -> HResult {
        let bounded =
            self.differences().time_out_bounds_the_wait && !mutation::is("ATT-02/3") || mutation::is("ATT-08/2");
        let bound = bounded.then_some(u64::from(milliseconds) * MILLISECOND);
        schedule::wait_until(bound, || answer.get().is_some() || self.is_exiting());
        let broken = if self.is_exiting() { HResult::CORPROF_E_IPC_FAILED } else { HResult::ERROR_TIMEOUT };
        answer.get().unwrap_or(broken)
    }

    fn enqueue(&self, request: NamedRequest, library: Option<Result<Arc<Library>, HResult>>) -> Answer {
        let answer = Answer::default();
        schedule::note("A trigger asks for an attach", 0);
        self.lock().requests.push(Pending { request, library, answer: answer.clone() });
        answer
    }

    /// Whether an attach request is unanswered.
    pub fn is_attaching(&self) -> bool {
        let state = self.lock();
        state.serves || !state.requests.is_empty()
    }

    /// The call of the profiler that failed and ended the last attach.
    pub fn failed_call(&self) -> Option<&'static str> {
        self.lock().failed_call
    }

    /// The attach server for the process's lifetime: one request at a time.
    pub(super) fn serve_attaches(self: &Arc<Self>) {
        loop {
            schedule::wait_until(None, || self.can_begin_an_attach() || self.is_exiting());
            if self.is_exiting() || schedule::is_stopped() {
                return;
            }
            let pending = {
                let mut state = self.lock();
                state.serves = true;
                state.requests.remove(0)
            };
            let result = self.attach(&pending);
            self.answer(&pending, result);
            self.lock().serves = false;
        }
    }

    fn can_begin_an_attach(&self) -> bool {
        let state = self.lock();
        let finalizer = self.differences().finalizer_begins_attaches && state.finalizer_is_blocked;
        let finalizer = finalizer && !mutation::is("ATT-08");
        let is_halted = self.config.process.is_halted() && !mutation::is("ATT-16");
        !state.requests.is_empty() && !finalizer && !is_halted
    }

    /// Logs the result and answers the trigger, the first time only.
    fn answer(&self, pending: &Pending, result: Result<(), HResult>) {
        if pending.answer.get().is_some() {
            return;
        }
        let code = result.err().unwrap_or(HResult::S_OK);
        if result.is_ok() || !mutation::is("ATT-15") {
            self.write_log(if result.is_ok() { Entry::Attached } else { Entry::Failed(code.0 as u32) });
        }
        schedule::note("The attach is answered {}", u64::from(code.0 as u32));
        *pending.answer.0.lock().expect("no panic while locked") = Some(code);
    }

    fn attach(self: &Arc<Self>, pending: &Pending) -> Result<(), HResult> {
        let differences = self.differences();
        if differences.attach_waits_for_detach && !mutation::is("DET-11") {
            schedule::wait_until(None, || self.detaches_are_over() || self.is_exiting());
            self.wait_while_halted();
        }
        if differences.attach_waits_for_unload && !mutation::is("DET-23/2") {
            schedule::wait_until(None, || !self.lock().unloads || self.is_exiting());
            self.wait_while_halted();
        }
        if self.is_exiting() {
            return Err(HResult::CORPROF_E_RUNTIME_UNINITIALIZED);
        }
        if !differences.refused_attach_leaks && !self.profilers().is_empty() && !mutation::is("ATT-07/2") {
            return Err(HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
        }
        self.begin_detach_thread();
        let request = &pending.request;
        self.lock().failed_call = None;
        self.lock().heap.gc.time_out = u64::from(request.milliseconds) * MILLISECOND;
        let found = pending.library.clone().unwrap_or_else(|| self.locate(&request.class, request.path.as_deref()));
        let class = if mutation::is("ATT-02") { Guid::from_u128(0) } else { request.class };
        let profiler = self.make(found?, &class, true)?;
        if profiler.callback_version < 3 && !mutation::is("ATT-09") {
            if differences.unattachable_leaks {
                profiler.library.hold();
            }
            self.discard(&profiler);
            return Err(HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE);
        }
        let is_taken = self.is_taken(profiler.notification_only);
        if is_taken || mutation::is("SBS-03/2") && profiler.library.references() > 1 {
            // The runtime leaks the object and the library.
            return Err(HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
        }
        self.initialize(&profiler, pending)
    }

    /// Whether the detach thread has nothing to do. A profiler that it left behind holds up nobody.
    fn detaches_are_over(&self) -> bool {
        let state = self.lock();
        let is_over = |one: &Arc<Profiler>| mutation::is("DET-23/2") && one.status() == Status::Gone;
        !state.evacuates && !state.detach_is_signalled
            || !state.detaching.is_empty() && state.detaching.iter().all(is_over)
    }

    /// Whether no slot is free for this kind of profiler.
    fn is_taken(&self, notification_only: bool) -> bool {
        let place = |one: &&Arc<Profiler>| one.notification_only == notification_only && !mutation::is("ATT-07");
        let known = if mutation::is("DET-12") { self.remembered() } else { self.profilers() };
        let alike = known.iter().filter(place).count();
        alike >= if notification_only { self.differences().notification_slots } else { 1 }
    }

    fn initialize(self: &Arc<Self>, profiler: &Arc<Profiler>, pending: &Pending) -> Result<(), HResult> {
        let unknown = self.register(profiler);
        let arrives = if mutation::is("ATT-02/2") { &[][..] } else { &pending.request.client_data };
        let data = profiler.client_data.get_or_init(|| ClientData::copy(arrives));
        let (start, length) = data.lent();
        let counted = self.differences().attach_thread_is_counted.then_some(ATTACH_THREAD);
        if mutation::is("ATT-20") || mutation::is("CAT-02/2") {
            profiler.become_(Status::Active);
        }
        if mutation::is("CAT-01") {
            self.tell_attach_complete(profiler);
        }
        profiler.enter(counted, schedule::current(), "InitializeForAttach");
        let answer = self.call_uncounted(profiler, "InitializeForAttach", |object| {
            // SAFETY: Info outlives the profiler; the data lives until the call returns.
            unsafe { object.initialize_for_attach(unknown, start.cast(), length) }
        });
        if !mutation::is("ATT-11") {
            data.free();
        }
        let result = match answer.flatten().unwrap_or(HResult::E_FAIL) {
            _ if mutation::is("ATT-08/4") && schedule::now() >= 30_000 * MILLISECOND => Err(HResult::E_FAIL),
            code if code.is_success() => {
                self.enable(profiler, pending);
                Ok(())
            }
            HResult::E_NOTIMPL if self.differences().notimpl_is_not_attachable && !mutation::is("ATT-10/2") => {
                Err(HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE)
            }
            code => Err(code),
        };
        profiler.leave(counted, schedule::current());
        let result = self.naming("InitializeForAttach", result);
        let is_kept = mutation::is("ATT-10") || mutation::is("ATT-08/3");
        if is_kept { result } else { result.inspect_err(|_| self.take_back(profiler)) }
    }

    /// Enables callbacks, then calls ProfilerAttachComplete.
    fn enable(&self, profiler: &Arc<Profiler>, pending: &Pending) {
        if mutation::is("GCH-01") {
            schedule::wait_until(None, || self.lock().suspended_by.is_none());
        }
        profiler.become_(Status::Active);
        schedule::note("CLR enables events", 0);
        self.step();
        if !self.differences().answers_after_attach_complete || mutation::is("ATT-20/2") {
            self.answer(pending, Ok(()));
            self.step();
        }
        // The profiler may have asked for its detach by now.
        if profiler.status() == Status::Active && self.is_found(profiler) {
            self.tell_attach_complete(profiler);
        }
    }

    fn tell_attach_complete(&self, profiler: &Profiler) {
        self.call_uncounted(profiler, "ProfilerAttachComplete", |object| {
            // SAFETY: no pointer arguments; `call_uncounted` keeps the object alive.
            unsafe { object.profiler_attach_complete() }
        });
        profiler.lock().attach_completes += 1;
    }

    /// Adds a profiler to the loaded ones. Returns its Info.
    pub(super) fn register(self: &Arc<Self>, profiler: &Arc<Profiler>) -> *mut sys::IUnknown {
        let info = profiler.info.get_or_init(|| InfoObject::create(super::info::Server::new(self, profiler)));
        let mut state = self.lock();
        state.profilers.push(profiler.clone());
        state.remembered.push(profiler.clone());
        if profiler.notification_only {
            state.count_notification_only(1);
        }
        info.as_unknown()
    }

    /// Whether callbacks reach this profiler: the runtime looks for notification-only ones only while its count is positive.
    fn is_found(&self, profiler: &Profiler) -> bool {
        !profiler.notification_only || self.lock().notification_count > 0
    }

    pub(super) fn take_back(&self, profiler: &Arc<Profiler>) {
        self.lock().profilers.retain(|one| mutation::is("SBS-05") || !Arc::ptr_eq(one, profiler));
        self.count_departure(profiler);
        self.discard(profiler);
    }

    /// Counts a profiler that leaves as the runtime does.
    pub(super) fn count_departure(&self, profiler: &Profiler) {
        if profiler.notification_only || self.miscounts_main_departures() {
            self.lock().count_notification_only(-1);
        }
    }

    pub(super) fn discard(&self, profiler: &Profiler) {
        self.release(profiler);
        profiler.become_(Status::Gone);
        self.has_left(profiler);
        profiler.library.release();
    }

    /// Loads a library and makes a profiler of it, which is not initialised yet.
    pub(super) fn make(&self, library: Arc<Library>, class: &Guid, attached: bool) -> Result<Arc<Profiler>, HResult> {
        load(&library);
        let object = self.create(&library, class).inspect_err(|_| library.release())?;
        let can_be_notified = self.differences().notification_profilers;
        let notification_only = can_be_notified && asks_to_be_only_notified(&library, &object);
        Ok(Arc::new(Profiler::new(library, object, notification_only, attached)))
    }

    fn create(&self, library: &Library, class: &Guid) -> Result<ProfilerObject, HResult> {
        let inside = library.enter();
        let mut factory: *mut c_void = std::ptr::null_mut();
        // SAFETY: two identifiers and a place for the answer.
        let answer = unsafe { library.exports().get_class_object(class, &sys::IID_IClassFactory, &raw mut factory) };
        let made = answer.ok().and_then(|()| if factory.is_null() { Err(HResult::E_FAIL) } else { Ok(()) });
        self.naming("DllGetClassObject", made)?;
        self.step();
        let mut object: *mut c_void = std::ptr::null_mut();
        let factory: *mut sys::IClassFactory = factory.cast();
        let oldest =
            if mutation::is("CMP-02") { &sys::IID_ICorProfilerCallback } else { &sys::IID_ICorProfilerCallback2 };
        let made = monitor::callback("CreateInstance", || {
            // SAFETY: the factory was just made; an identifier and a local place for the answer.
            let made =
                unsafe { sys::IClassFactory::CreateInstance(factory, std::ptr::null_mut(), oldest, &raw mut object) };
            // SAFETY: releases the factory's only reference.
            unsafe { sys::IUnknown::Release(factory.cast()) };
            made
        });
        let made = HResult(made).ok().map_err(|code| if mutation::is("SBS-02/3") { HResult::E_FAIL } else { code });
        self.naming("CreateInstance", made)?;
        let object = monitor::callback("QueryInterface", || {
            // SAFETY: a live object whose one reference is given up.
            unsafe { ProfilerObject::from_created_for(object.cast(), self.callback_version()) }
        });
        drop(inside);
        self.naming("QueryInterface", object)
    }

    /// Notes which call of the profiler failed, if it did.
    fn naming<T>(&self, call: &'static str, result: Result<T, HResult>) -> Result<T, HResult> {
        result.inspect_err(|_| self.lock().failed_call = Some(call))
    }
}

fn asks_to_be_only_notified(library: &Library, object: &ProfilerObject) -> bool {
    let _inside = library.enter();
    let mut wish = 0;
    let answer = monitor::callback("LoadAsNotificationOnly", || {
        // SAFETY: a local place for the answer.
        unsafe { object.load_as_notification_only(&raw mut wish) }
    });
    answer.is_some_and(|code| code.is_success()) && wish != 0
}
