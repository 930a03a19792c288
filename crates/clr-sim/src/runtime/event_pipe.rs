//! EventPipe sessions of profilers: an event is delivered on the thread that writes it, whatever state the profiler is in.
//!
//! A delivery looks neither at the profiler's status nor does it raise a counter, and a session is not the profiler's own: it outlives
//! the detach (facts 2.5; <https://github.com/dotnet/runtime/issues/134240>).

use super::{Profiler, Runtime, Status};
use crate::mutation;
use crate::schedule::{self, Task};
use corprof::HResult;
use remora_clr_sim_abi::callbacks::slot;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// What the library's account calls a session.
const SESSION: &str = "an EventPipe session that is open";
/// Sessions of one process, dotnet-trace's included (source: ep-config.h, EP_MAX_NUMBER_OF_SESSIONS).
const MAXIMUM: usize = 64;
const FIRST_PROVIDER: usize = 0x5000_0000;
/// COR_PRF_HIGH_MONITOR_EVENT_PIPE.
const MONITOR_EVENT_PIPE: u32 = 0x80;

#[derive(Default)]
pub(super) struct Sessions {
    open: Vec<Arc<Session>>,
    made: u64,
    providers: usize,
}

struct Session {
    id: u64,
    profiler: Arc<Profiler>,
    writing: AtomicU32,
    writers: Mutex<Vec<Task>>,
}

impl Runtime {
    /// EventPipeStartSession.
    pub(super) fn start_session(&self, profiler: &Arc<Profiler>) -> Result<u64, HResult> {
        let mut state = self.lock();
        if state.sessions.open.len() >= MAXIMUM {
            return Err(HResult::E_FAIL);
        }
        state.sessions.made += 1;
        let id = state.sessions.made;
        let session = Session { id, profiler: profiler.clone(), writing: AtomicU32::new(0), writers: Mutex::default() };
        state.sessions.open.push(Arc::new(session));
        drop(state);
        profiler.library.open(SESSION);
        schedule::note("An EventPipe session is started ({})", id);
        Ok(id)
    }

    /// EventPipeStopSession: returns when every thread that writes into it is done.
    pub(super) fn stop_session(&self, id: u64) -> HResult {
        let session = {
            let mut state = self.lock();
            let at = state.sessions.open.iter().position(|session| session.id == id);
            at.map(|at| state.sessions.open.remove(at))
        };
        let Some(session) = session else { return HResult::E_INVALIDARG };
        let is_inside = session.writers.lock().expect("no panic while locked").contains(&schedule::current());
        if is_inside {
            self.court
                .convict("DET-04", "EventPipeStopSession in EventPipeEventDelivered: it waits for itself for ever");
        } else {
            let is_done = || session.writing.load(Ordering::SeqCst) == 0 || mutation::is("DET-04/5");
            schedule::wait_until(None, is_done);
        }
        session.profiler.library.close(SESSION);
        schedule::note("An EventPipe session is stopped ({})", id);
        HResult::S_OK
    }

    /// EventPipeCreateProvider: nothing takes a provider back.
    pub(super) fn create_provider(&self, profiler: &Profiler) -> usize {
        let provider = {
            let mut state = self.lock();
            state.sessions.providers += 1;
            FIRST_PROVIDER + state.sessions.providers * 0x10
        };
        self.leave_behind(profiler, provider, "a provider of events");
        let wanted = |mask: (u32, u32)| mask.1 & MONITOR_EVENT_PIPE != 0;
        // SAFETY: an id that lives; the object is held while it is called.
        self.call_all(slot::EVENT_PIPE_PROVIDER_CREATED.name, wanted, |object| unsafe {
            object.event_pipe_provider_created(provider);
        });
        provider
    }

    /// The running thread writes an event: every session gets it here and now.
    pub fn write_event(&self, event: u32, data: &[u8]) {
        let sessions = self.lock().sessions.open.clone();
        let thread = self.this_thread().map_or(0, |thread| thread.0);
        for session in sessions {
            session.begin();
            schedule::point();
            deliver(&session.profiler, event, data, thread);
            session.end();
        }
    }
}

impl Session {
    fn begin(&self) {
        self.writing.fetch_add(1, Ordering::SeqCst);
        self.writers.lock().expect("no panic while locked").push(schedule::current());
    }

    fn end(&self) {
        let this = schedule::current();
        let mut writers = self.writers.lock().expect("no panic while locked");
        if let Some(at) = writers.iter().position(|writer| *writer == this) {
            writers.swap_remove(at);
        }
        drop(writers);
        self.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

fn deliver(profiler: &Profiler, event: u32, data: &[u8], thread: usize) {
    let object = profiler.object.lock().expect("no panic while locked").clone();
    let Some(object) = object else { return };
    if mutation::is("DET-06/3") && profiler.status() != Status::Active {
        return;
    }
    let name = slot::EVENT_PIPE_EVENT_DELIVERED.name;
    let task = schedule::current();
    schedule::note(name, u64::from(event));
    profiler.enter(None, task, name);
    let inside = profiler.library.enter();
    schedule::point();
    let (length, bytes, none) = (data.len() as u32, data.as_ptr(), std::ptr::null());
    // SAFETY: data that lives, and nothing where the API allows nothing; the object is held.
    unsafe {
        object.event_pipe_event_delivered(
            FIRST_PROVIDER,
            event,
            0,
            0,
            none,
            length,
            bytes,
            std::ptr::null(),
            std::ptr::null(),
            thread,
            0,
            std::ptr::null(),
        );
    }
    schedule::point();
    drop(inside);
    profiler.leave(None, task);
}
