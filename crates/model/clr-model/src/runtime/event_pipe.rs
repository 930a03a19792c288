//! EventPipe sessions of profilers. A thread that writes an event delivers it, whatever the profiler's status.
//!
//! A delivery checks no status and raises no counter. A session does not belong to the profiler: it outlives the detach (facts 2.5;
//! <https://github.com/dotnet/runtime/issues/134240>).

use super::calls::{call_all, high};
use super::{Profiler, Runtime, Status};
use crate::mutation;
use crate::schedule::{self, Task};
use corprof::{HResult, sys};
use remora_clr_abi::callbacks::slot;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The name of a session in the library's resource list.
const SESSION: &str = "an EventPipe session that is open";
/// Maximum of sessions in a process, including dotnet-trace's (source: ep-config.h, EP_MAX_NUMBER_OF_SESSIONS).
const MAXIMUM: usize = 64;
/// The runtime's own provider; those of profilers follow.
const FIRST_PROVIDER: usize = 0x5000_0000;
const OF_RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
const FIRST_EVENT: usize = 0x5800_0000;

#[derive(Default)]
pub(super) struct Sessions {
    open: Vec<Arc<Session>>,
    made: u64,
    /// Providers of profilers.
    providers: BTreeMap<usize, Provider>,
    /// Events that profilers have defined.
    events: BTreeMap<usize, Defined>,
}

/// A provider of a profiler.
#[derive(Clone)]
struct Provider {
    name: String,
    /// Called when a session begins or stops listening to it.
    callback: Option<sys::EventPipeProviderCallback>,
}

/// An event that a profiler has defined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Defined {
    pub(super) provider: usize,
    pub(super) id: u32,
    pub(super) version: u32,
}

struct Session {
    id: u64,
    profiler: Arc<Profiler>,
    /// The providers that it listens to.
    providers: Mutex<Vec<String>>,
    writers: Mutex<Vec<Task>>,
}

impl Runtime {
    /// EventPipeStartSession, with the names of providers. Since 8 the runtime then knows the calling thread. Until that thread forces a
    /// GC, it may not make calls reserved for callbacks.
    pub(super) fn start_session(&self, profiler: &Arc<Profiler>, providers: Vec<String>) -> Result<u64, HResult> {
        if self.differences().session_adopts_thread {
            self.adopt_thread();
        }
        let mut state = self.lock();
        if state.sessions.open.len() >= MAXIMUM {
            return Err(HResult::E_FAIL);
        }
        state.sessions.made += 1;
        let id = state.sessions.made;
        let session = Session {
            id,
            profiler: profiler.clone(),
            providers: Mutex::new(providers.clone()),
            writers: Mutex::default(),
        };
        state.sessions.open.push(Arc::new(session));
        drop(state);
        profiler.library.open(SESSION);
        self.tell_providers(&providers);
        schedule::note("An EventPipe session is started ({})", id);
        Ok(id)
    }

    /// EventPipeStopSession: returns when every writing thread is done.
    pub(super) fn stop_session(&self, id: u64) -> HResult {
        let session = {
            let mut state = self.lock();
            let at = state.sessions.open.iter().position(|session| session.id == id);
            at.map(|at| state.sessions.open.remove(at))
        };
        // A session that does not exist is already stopped (source: ep.c, ep_disable).
        let Some(session) = session else { return HResult::S_OK };
        let is_inside = session.writers.lock().expect("no panic while locked").contains(&schedule::current());
        if is_inside {
            self.faults
                .report("DET-04", "EventPipeStopSession in EventPipeEventDelivered: it waits for itself for ever");
        } else {
            let is_done =
                || session.writers.lock().expect("no panic while locked").is_empty() || mutation::is("DET-04/5");
            schedule::wait_until(None, is_done);
        }
        session.profiler.library.close(SESSION);
        self.tell_providers(&session.providers.lock().expect("no panic while locked").clone());
        schedule::note("An EventPipe session is stopped ({})", id);
        HResult::S_OK
    }

    /// EventPipeAddProviderToSession.
    pub(super) fn listen_to(&self, session: u64, provider: String) -> HResult {
        let found = self.lock().sessions.open.iter().find(|open| open.id == session).cloned();
        let Some(session) = found else { return HResult::E_INVALIDARG };
        session.providers.lock().expect("no panic while locked").push(provider.clone());
        self.tell_providers(&[provider]);
        HResult::S_OK
    }

    /// EventPipeCreateProvider; a provider is never removed.
    pub(super) fn create_provider(
        &self,
        profiler: &Profiler,
        name: String,
        callback: Option<sys::EventPipeProviderCallback>,
    ) -> usize {
        let provider = {
            let mut state = self.lock();
            let provider = FIRST_PROVIDER + (state.sessions.providers.len() + 1) * 0x10;
            state.sessions.providers.insert(provider, Provider { name: name.clone(), callback });
            provider
        };
        self.add_leftover(profiler, provider, "a provider of events");
        call_all!(self, high(sys::COR_PRF_HIGH_MONITOR_EVENT_PIPE), event_pipe_provider_created(provider));
        if self.is_listened_to(&name) {
            self.tell_providers(&[name]);
        }
        provider
    }

    /// EventPipeGetProviderInfo.
    pub(super) fn provider_name(&self, provider: usize) -> Option<String> {
        if provider == FIRST_PROVIDER {
            return Some(OF_RUNTIME.to_owned());
        }
        self.lock().sessions.providers.get(&provider).map(|provider| provider.name.clone())
    }

    /// EventPipeDefineEvent for an existing provider.
    pub(super) fn define_event(&self, defined: Defined) -> Option<usize> {
        self.provider_name(defined.provider)?;
        let mut state = self.lock();
        let event = FIRST_EVENT + (state.sessions.events.len() + 1) * 0x10;
        state.sessions.events.insert(event, defined);
        Some(event)
    }

    /// The event of EventPipeWriteEvent.
    pub(super) fn defined_event(&self, event: usize) -> Option<Defined> {
        self.lock().sessions.events.get(&event).copied()
    }

    /// The running thread writes a profiler's event. Sessions that listen to its provider get it at once.
    pub(super) fn deliver_to_listeners(&self, event: &Defined, data: &[u8]) {
        let Some(name) = self.provider_name(event.provider) else { return };
        let sessions = self.lock().sessions.open.clone();
        self.deliver_to(sessions.into_iter().filter(|session| session.listens_to(&name)), event, data);
    }

    /// The running thread writes an event of the runtime. Every session gets it at once.
    pub fn write_event(&self, event: u32, data: &[u8]) {
        let sessions = self.lock().sessions.open.clone();
        self.deliver_to(sessions.into_iter(), &Defined { provider: FIRST_PROVIDER, id: event, version: 0 }, data);
    }

    fn deliver_to(&self, sessions: impl Iterator<Item = Arc<Session>>, event: &Defined, data: &[u8]) {
        let thread = self.this_thread().map_or(0, |thread| thread.0);
        for session in sessions {
            session.begin();
            schedule::point();
            if session.profiler.status() == Status::Active || !mutation::is("DET-06/3") {
                self.deliver(&session.profiler, event, data, thread);
            }
            session.end();
        }
    }

    fn deliver(&self, profiler: &Profiler, event: &Defined, data: &[u8], thread: usize) {
        let Defined { provider, id, version } = *event;
        let (length, bytes, none) = (data.len() as u32, data.as_ptr(), std::ptr::null());
        let (no_id, no_frames) = (std::ptr::null(), std::ptr::null());
        self.call_uncounted(profiler, slot::EVENT_PIPE_EVENT_DELIVERED.name, |object| {
            // SAFETY: the data outlives the call, pointers are null where the API allows it, and `call_uncounted` keeps the object alive.
            unsafe {
                object.event_pipe_event_delivered(
                    provider, id, version, 0, none, length, bytes, no_id, no_id, thread, 0, no_frames,
                )
            }
        });
    }

    fn is_listened_to(&self, provider: &str) -> bool {
        self.lock().sessions.open.iter().any(|session| session.listens_to(provider))
    }

    /// Calls a provider's callback whenever a session begins or stops listening to it (EventPipeCreateProvider2).
    fn tell_providers(&self, names: &[String]) {
        let providers: Vec<Provider> = self.lock().sessions.providers.values().cloned().collect();
        for provider in providers.iter().filter(|provider| names.contains(&provider.name)) {
            let is_enabled = u32::from(self.is_listened_to(&provider.name));
            if let Some(callback) = provider.callback {
                let (none, no_data) = (std::ptr::null_mut(), std::ptr::null_mut());
                // SAFETY: the profiler must keep its callback callable for good; all pointers are null.
                unsafe { callback(std::ptr::null(), is_enabled, 0, 0, 0, none, no_data) };
            }
        }
    }
}

impl Session {
    fn listens_to(&self, provider: &str) -> bool {
        self.providers.lock().expect("no panic while locked").iter().any(|name| name == provider)
    }

    fn begin(&self) {
        self.writers.lock().expect("no panic while locked").push(schedule::current());
    }

    fn end(&self) {
        let mut writers = self.writers.lock().expect("no panic while locked");
        if let Some(at) = writers.iter().position(|writer| *writer == schedule::current()) {
            writers.swap_remove(at);
        }
    }
}
