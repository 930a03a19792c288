//! A profiler as the runtime keeps it: its object, its mask, and its running callbacks.

use super::threads::ThreadId;
use crate::library::Library;
use crate::mutation;
use crate::schedule::Task;
use remora_clr_abi::{InfoObject, Live, ProfilerObject};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Its state (`ProfilerStatus`, inc/profilepriv.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Inside InitializeForAttach.
    InitializingForAttach,
    /// Inside Initialize.
    InitializingForStartup,
    /// Callbacks are enabled.
    Active,
    /// Sealed: no callback begins, and Info refuses every call.
    Detaching,
    /// Unloaded: its Info is freed memory.
    Gone,
}

/// See the module documentation.
pub struct Profiler {
    /// Its library.
    pub library: Arc<Library>,
    /// Whether it is notification-only.
    pub notification_only: bool,
    /// Whether it was attached.
    pub attached: bool,
    /// Its newest ICorProfilerCallback that the runtime uses.
    pub callback_version: u8,
    /// The runtime's copy of the client data. When a real runtime frees it, the model overwrites and keeps it.
    pub(super) client_data: OnceLock<Box<[AtomicU8]>>,
    /// The time-out of the attach, milliseconds: the limit for the wait for a background GC during the initialisation.
    pub(super) attach_milliseconds: AtomicU32,
    pub(super) object: Mutex<Option<Arc<ProfilerObject>>>,
    pub(super) info: OnceLock<Box<InfoObject<super::info::Server>>>,
    status: AtomicU32,
    low: AtomicU32,
    high: AtomicU32,
    /// Whether code was changed, hooks set, or rejit enabled.
    pub(super) irreversible: AtomicBool,
    pub(super) expected: AtomicU64,
    /// Running callbacks by runtime thread: the evacuation counters. Threads unknown to the runtime have none.
    evacuation: Mutex<HashMap<ThreadId, u32>>,
    /// Running callbacks by thread, known or not, for checks of its behaviour.
    running: Mutex<HashMap<Task, Vec<&'static str>>>,
    /// Its calls, for tests: ProfilerAttachComplete, ProfilerDetachSucceeded, the answer of the last Release.
    pub(super) attach_completes: AtomicU32,
    pub(super) detach_succeededs: AtomicU32,
    pub(super) last_release: AtomicU32,
    pub(super) looks: AtomicU32,
    /// Its callbacks so far.
    pub(super) callbacks_received: AtomicU64,
    /// Whether it got a callback during its last SuspendRuntime, which proves that the runtime still found it.
    pub(super) was_called_while_suspended: AtomicBool,
    /// Whether it got Shutdown.
    pub(super) exit_reported: AtomicBool,
    /// Metadata objects that it has not released.
    pub metadata: Live,
}

impl Profiler {
    pub(super) fn new(
        library: Arc<Library>,
        object: ProfilerObject,
        notification_only: bool,
        attached: bool,
    ) -> Profiler {
        Profiler {
            library,
            notification_only,
            attached,
            callback_version: object.version(),
            client_data: OnceLock::new(),
            attach_milliseconds: AtomicU32::new(0),
            object: Mutex::new(Some(Arc::new(object))),
            info: OnceLock::new(),
            status: AtomicU32::new(
                if attached { Status::InitializingForAttach } else { Status::InitializingForStartup } as u32,
            ),
            low: AtomicU32::new(0),
            high: AtomicU32::new(0),
            irreversible: AtomicBool::new(false),
            expected: AtomicU64::new(0),
            evacuation: Mutex::default(),
            running: Mutex::default(),
            attach_completes: AtomicU32::new(0),
            detach_succeededs: AtomicU32::new(0),
            last_release: AtomicU32::new(u32::MAX),
            looks: AtomicU32::new(0),
            exit_reported: AtomicBool::new(false),
            metadata: Live::default(),
            callbacks_received: AtomicU64::new(0),
            was_called_while_suspended: AtomicBool::new(false),
        }
    }

    /// Its state.
    pub fn status(&self) -> Status {
        match self.status.load(Ordering::SeqCst) {
            0 => Status::InitializingForAttach,
            1 => Status::InitializingForStartup,
            2 => Status::Active,
            3 => Status::Detaching,
            _ => Status::Gone,
        }
    }

    pub(super) fn become_(&self, status: Status) {
        self.status.store(status as u32, Ordering::SeqCst);
    }

    /// Both halves of its mask.
    pub fn mask(&self) -> (u32, u32) {
        (self.low.load(Ordering::SeqCst), self.high.load(Ordering::SeqCst))
    }

    pub(super) fn set_mask(&self, low: u32, high: u32) {
        self.low.store(low, Ordering::SeqCst);
        self.high.store(high, Ordering::SeqCst);
    }

    /// Calls of ProfilerAttachComplete so far.
    pub fn attach_completes(&self) -> u32 {
        self.attach_completes.load(Ordering::SeqCst)
    }

    /// Calls of ProfilerDetachSucceeded so far.
    pub fn detach_succeededs(&self) -> u32 {
        self.detach_succeededs.load(Ordering::SeqCst)
    }

    /// The answer of the last Release: 0 if the profiler freed itself.
    pub fn last_release(&self) -> u32 {
        self.last_release.load(Ordering::SeqCst)
    }

    /// The detach thread's checks so far whether every callback had returned.
    pub fn looks(&self) -> u32 {
        self.looks.load(Ordering::SeqCst)
    }

    /// Whether every callback on the runtime's threads has returned.
    pub(super) fn is_evacuated(&self) -> bool {
        self.looks.fetch_add(1, Ordering::SeqCst);
        if mutation::is("DET-07") {
            return true;
        }
        self.evacuation.lock().expect("no panic while locked").values().all(|count| *count == 0)
    }

    /// Whether no callback runs, including those that the runtime does not count.
    pub(super) fn is_quiet(&self) -> bool {
        self.running.lock().expect("no panic while locked").values().all(Vec::is_empty)
    }

    pub(super) fn enter(&self, thread: Option<ThreadId>, task: Task, slot: &'static str) {
        if let Some(thread) = thread {
            *self.evacuation.lock().expect("no panic while locked").entry(thread).or_default() += 1;
        }
        self.running.lock().expect("no panic while locked").entry(task).or_default().push(slot);
    }

    pub(super) fn leave(&self, thread: Option<ThreadId>, task: Task) {
        let fewer = |count: &mut u32| *count = count.saturating_sub(1);
        if let Some(thread) = thread {
            self.evacuation.lock().expect("no panic while locked").entry(thread).and_modify(fewer);
        }
        self.running.lock().expect("no panic while locked").entry(task).and_modify(|slots| {
            slots.pop();
        });
    }

    /// Whether the thread is inside a callback of this profiler.
    pub(super) fn runs_on(&self, task: Task) -> bool {
        self.running.lock().expect("no panic while locked").get(&task).is_some_and(|slots| !slots.is_empty())
    }

    /// The innermost callback of this profiler on the thread.
    pub(super) fn innermost_on(&self, task: Task) -> Option<&'static str> {
        self.running.lock().expect("no panic while locked").get(&task)?.last().copied()
    }
}
