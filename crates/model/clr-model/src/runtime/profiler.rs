//! A profiler as the runtime keeps it: its object, its mask, and its running callbacks.

use super::client_data::ClientData;
use super::threads::ThreadId;
use crate::library::Library;
use crate::mutation;
use crate::schedule::Task;
use remora_clr_abi::{InfoObject, Live, ProfilerObject};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Its state (`ProfilerStatus`, inc/profilepriv.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// Inside InitializeForAttach.
    #[default]
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
    /// The runtime's copy of the client data.
    pub(super) client_data: OnceLock<ClientData>,
    pub(super) object: Mutex<Option<Arc<ProfilerObject>>>,
    pub(super) info: OnceLock<Box<InfoObject<super::info::Server>>>,
    /// Metadata objects that it has not released.
    pub metadata: Live,
    record: Mutex<Record>,
}

/// What changes about a profiler.
#[derive(Debug, Clone, Default)]
pub struct Record {
    pub(super) status: Status,
    /// Both halves of its mask.
    pub(super) mask: (u32, u32),
    /// Whether code was changed, hooks set, or rejit enabled.
    pub(super) irreversible: bool,
    /// The time in which it expects its callbacks to return, milliseconds.
    pub(super) expected: u64,
    /// Running callbacks by runtime thread: the evacuation counters. Threads unknown to the runtime have none.
    evacuation: HashMap<ThreadId, u32>,
    /// Running callbacks by thread, known or not, for checks of its behaviour.
    running: HashMap<Task, Vec<&'static str>>,
    /// Calls of ProfilerAttachComplete so far.
    pub attach_completes: u32,
    /// Calls of ProfilerDetachSucceeded so far.
    pub detach_succeededs: u32,
    /// The answer of the last Release: 0 if the profiler freed itself.
    pub last_release: Option<u32>,
    /// The detach thread's checks so far whether every callback had returned.
    pub looks: u32,
    /// Its callbacks so far.
    pub(super) callbacks_received: u64,
    /// Whether it got a callback during its last SuspendRuntime, which proves that the runtime still found it.
    pub(super) was_called_while_suspended: bool,
    /// Whether metadata that it had open at its detach request was reported.
    pub(super) open_metadata_is_reported: bool,
    /// Whether it got Shutdown.
    pub(super) exit_reported: bool,
}

impl Profiler {
    pub(super) fn new(
        library: Arc<Library>,
        object: ProfilerObject,
        notification_only: bool,
        attached: bool,
    ) -> Profiler {
        let status = if attached { Status::InitializingForAttach } else { Status::InitializingForStartup };
        Profiler {
            library,
            notification_only,
            attached,
            callback_version: object.version(),
            client_data: OnceLock::new(),
            object: Mutex::new(Some(Arc::new(object))),
            info: OnceLock::new(),
            metadata: Live::default(),
            record: Mutex::new(Record { status, ..Record::default() }),
        }
    }

    /// What is known about it now.
    pub fn record(&self) -> Record {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no panic while locked")
    }

    /// Its state.
    pub fn status(&self) -> Status {
        self.lock().status
    }

    pub(super) fn become_(&self, status: Status) {
        self.lock().status = status;
    }

    /// Both halves of its mask.
    pub fn mask(&self) -> (u32, u32) {
        self.lock().mask
    }

    /// Its object, until the last Release.
    pub(super) fn object(&self) -> Option<Arc<ProfilerObject>> {
        self.object.lock().expect("no panic while locked").clone()
    }

    /// Whether every callback on the runtime's threads has returned.
    pub(super) fn is_evacuated(&self) -> bool {
        let mut record = self.lock();
        record.looks += 1;
        mutation::is("DET-07") || record.evacuation.values().all(|count| *count == 0)
    }

    /// The callbacks that have not returned, by name: the innermost one of each thread.
    pub fn running_callbacks(&self) -> Vec<&'static str> {
        let mut running: Vec<&'static str> =
            self.lock().running.values().filter_map(|slots| slots.last().copied()).collect();
        running.sort_unstable();
        running
    }

    /// Whether no callback runs, including those that the runtime does not count.
    pub(super) fn is_quiet(&self) -> bool {
        self.lock().running.values().all(Vec::is_empty)
    }

    pub(super) fn enter(&self, thread: Option<ThreadId>, task: Task, slot: &'static str) {
        let mut record = self.lock();
        if let Some(thread) = thread {
            *record.evacuation.entry(thread).or_default() += 1;
        }
        record.running.entry(task).or_default().push(slot);
    }

    pub(super) fn leave(&self, thread: Option<ThreadId>, task: Task) {
        let mut record = self.lock();
        if let Some(thread) = thread {
            record.evacuation.entry(thread).and_modify(|count| *count = count.saturating_sub(1));
        }
        record.running.entry(task).and_modify(|slots| _ = slots.pop());
    }

    /// Whether the thread is inside a callback of this profiler.
    pub(super) fn runs_on(&self, task: Task) -> bool {
        self.innermost_on(task).is_some()
    }

    /// Whether another thread is inside a callback of this profiler.
    pub(super) fn runs_beside(&self, task: Task) -> bool {
        self.lock().running.iter().any(|(other, slots)| *other != task && !slots.is_empty())
    }

    /// The innermost callback of this profiler on the thread.
    pub(super) fn innermost_on(&self, task: Task) -> Option<&'static str> {
        self.lock().running.get(&task)?.last().copied()
    }
}
