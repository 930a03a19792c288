//! One profiler as the runtime keeps it: its object, its mask, and who is inside it.

use super::threads::ThreadId;
use crate::library::Library;
use crate::mutation;
use crate::schedule::Task;
use remora_clr_abi::{InfoObject, Live, ProfilerObject};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// How far it is (`ProfilerStatus`, inc/profilepriv.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Inside InitializeForAttach.
    InitializingForAttach,
    /// Inside Initialize.
    InitializingForStartup,
    /// Callbacks are on.
    Active,
    /// Sealed: no callback begins, every question is refused.
    Detaching,
    /// Unloaded: its Info is freed memory.
    Gone,
}

/// See the module documentation.
pub struct Profiler {
    /// Its library.
    pub library: Arc<Library>,
    /// Whether it is only notified.
    pub notification_only: bool,
    /// Whether it was attached.
    pub attached: bool,
    /// The newest ICorProfilerCallback that the runtime has of it.
    pub callback_version: u8,
    /// The runtime's copy of the client data: kept, overwritten, when a real runtime frees it.
    pub(super) client_data: OnceLock<Box<[AtomicU8]>>,
    /// The time-out of the attach, milliseconds: how long a background collection may be waited for while it initialises.
    pub(super) attach_milliseconds: AtomicU32,
    pub(super) object: Mutex<Option<Arc<ProfilerObject>>>,
    pub(super) info: OnceLock<Box<InfoObject<super::info::Server>>>,
    status: AtomicU32,
    low: AtomicU32,
    high: AtomicU32,
    /// Whether code was changed, hooks set, or rejit enabled.
    pub(super) irreversible: AtomicBool,
    pub(super) expected: AtomicU64,
    /// Callbacks that run, by the runtime's thread: the evacuation counters. Threads unknown to the runtime have none.
    evacuation: Mutex<HashMap<ThreadId, u32>>,
    /// Callbacks that run, by thread, known or not: to check what it does.
    running: Mutex<HashMap<Task, Vec<&'static str>>>,
    /// What it was called, for tests: ProfilerAttachComplete, ProfilerDetachSucceeded, the answer of the last Release.
    pub(super) attach_completes: AtomicU32,
    pub(super) detach_succeededs: AtomicU32,
    pub(super) last_release: AtomicU32,
    pub(super) looks: AtomicU32,
    /// Callbacks that it was given.
    pub(super) callbacks_received: AtomicU64,
    /// Whether it was called back during its last SuspendRuntime: the proof that the runtime still found it then.
    pub(super) was_called_while_suspended: AtomicBool,
    /// Whether it was told that the process exits.
    pub(super) told_of_exit: AtomicBool,
    /// Metadata that it has opened and not given back.
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
            told_of_exit: AtomicBool::new(false),
            metadata: Live::default(),
            callbacks_received: AtomicU64::new(0),
            was_called_while_suspended: AtomicBool::new(false),
        }
    }

    /// How far it is.
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

    /// How often ProfilerAttachComplete came.
    pub fn attach_completes(&self) -> u32 {
        self.attach_completes.load(Ordering::SeqCst)
    }

    /// How often ProfilerDetachSucceeded came.
    pub fn detach_succeededs(&self) -> u32 {
        self.detach_succeededs.load(Ordering::SeqCst)
    }

    /// What the last Release answered: 0 where the profiler freed itself.
    pub fn last_release(&self) -> u32 {
        self.last_release.load(Ordering::SeqCst)
    }

    /// How often the detach thread has looked whether every callback had returned.
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

    /// Whether no callback runs, those among them that the runtime does not count.
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

    /// The callback of this profiler that the thread is in, the innermost one.
    pub(super) fn innermost_on(&self, task: Task) -> Option<&'static str> {
        self.running.lock().expect("no panic while locked").get(&task)?.last().copied()
    }
}
