//! One runtime in a modelled process: its loaded code, its profilers, and its calls to them.
//!
//! A step of the runtime is what the real one does under one lock. Between two steps any other thread may run ([`schedule::point`]).

mod answers;
mod attach;
mod calls;
mod client_data;
mod code;
mod collector;
mod detach;
mod event_pipe;
mod exceptions;
mod function_control;
mod gc_mode;
mod heap;
mod hooks;
mod il;
mod info;
mod leftovers;
mod loading;
mod log;
mod machine_code;
mod memory;
mod metadata;
mod metadata_contents;
mod objects;
mod own_library;
mod process_environment;
mod profiler;
mod rejit;
mod stacks;
mod startup;
mod threads;
mod tiering;

pub use attach::{Answer, AttachRequest, NamedRequest};
pub use client_data::FREED;
pub use code::{Called, Code, FunctionId, FunctionTruth, ModuleId, Step};
pub use gc_mode::GcMode;
pub use heap::{ClassId, LARGE, ObjectId, ObjectKey, Shape};
pub use leftovers::ThreadInterference;
pub use log::{EVENT_ID, EVENT_SOURCE};
pub use machine_code::{execute, give_the_code_memory};
pub use memory::give_the_heap_memory;
pub use metadata_contents::{Contents, Framework, Value, in_signature};
pub use own_library::{map_own_library, write_own_library};
pub use process_environment::{EmptyEnvironment, ProcessEnvironment};
pub use profiler::{Profiler, Status};
pub use startup::RuntimeConfig;
pub use threads::ThreadId;
pub use tiering::OFTEN;

use calls::call_all;

use crate::differences::{Differences, RuntimeVersion};
use crate::faults::Faults;
use crate::library::Library;
use crate::mutation;
use crate::schedule;
use remora_clr_abi::Live;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// An entry of the log of attaches, detaches and failures (contract ATT-15, DET-23).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A profiler was attached.
    Attached,
    /// A profiler could not be loaded; the code says why.
    Failed(u32),
    /// A profiler has been unloaded.
    Detached,
    /// A profiler was loaded at startup.
    Loaded,
    /// A profiler for 2.x was not loaded. The variable would allow it.
    TooOld(&'static str),
    /// A profiler for 2.x was not loaded, since another runtime of the process has one.
    OtherRuntimeHasOne,
}

/// See the module documentation.
pub struct Runtime {
    /// The simulated version.
    pub runtime_version: RuntimeVersion,
    /// Records misuse.
    pub faults: Arc<Faults>,
    /// Enumerators that profilers have not released.
    pub enumerators: Live,
    /// Open enumerations of metadata.
    lists: Mutex<metadata::Lists>,
    config: RuntimeConfig,
    state: Mutex<State>,
    ending: AtomicBool,
    exiting: AtomicBool,
    /// Calls of each thread since the process began to exit.
    calls_after_exit: Mutex<HashMap<schedule::Task, u32>>,
    /// Start of each thread's last call, nanoseconds.
    calls: Mutex<HashMap<schedule::Task, u64>>,
}

/// Allowed calls of a thread after Shutdown: they may have begun before it.
const ON_ITS_WAY: u32 = 4;

/// The data under the runtime's locks.
#[derive(Default)]
struct State {
    code: Code,
    /// The metadata of modules as it was last read.
    metadata: HashMap<code::ModuleId, metadata::Built>,
    threads: threads::Threads,
    profilers: Vec<Arc<Profiler>>,
    /// Every profiler so far. The model keeps what a real runtime frees, to detect late uses.
    remembered: Vec<Arc<Profiler>>,
    /// The runtime's count of notification-only profilers: wrong after the detach of a main profiler (`main_departure_is_miscounted`).
    notification_count: i32,
    /// Whether this error has ever hidden a notification-only profiler.
    has_lost_track: bool,
    has_detach_thread: bool,
    /// Profilers whose detach is not complete, oldest request first.
    detaching: Vec<Arc<Profiler>>,
    /// Whether the detach thread is to wake up. Two requests are one signal (source: profdetach.cpp, s_eventDetachWorkAvailable).
    detach_is_signalled: bool,
    /// Whether the detach thread evacuates or unloads a profiler, with the lock of the status.
    evacuates: bool,
    /// Whether the detach thread is unloading one of them: last callback, release, free.
    unloads: bool,
    requests: Vec<attach::Pending>,
    /// Whether an attach request is being served.
    serves: bool,
    log: Vec<Entry>,
    /// A finalizer runs and does not return.
    finalizer_is_blocked: bool,
    /// The call of the profiler that failed and ended the last attach.
    failed_call: Option<&'static str>,
    /// Threads stay in callbacks about loaded modules.
    keeps_in_callbacks: bool,
    /// How many do.
    kept_in_callbacks: u32,
    /// The thread that has suspended the managed threads.
    suspended_by: Option<schedule::Task>,
    /// The threads that hold an object, once for each hold: no GC begins before they let go of it.
    cooperative: Vec<schedule::Task>,
    heap: heap::Heap,
    hooks: hooks::Hooks,
    rejit: rejit::Rejit,
    tiering: tiering::Tiering,
    sessions: event_pipe::Sessions,
    leftovers: leftovers::Leftovers,
    /// The runtime itself, for the threads that it starts.
    myself: Weak<Runtime>,
}

impl State {
    /// Counts as the runtime does, including its error.
    fn count_notification_only(&mut self, change: i32) {
        self.notification_count += change;
        let mut left = self.profilers.iter().filter(|one| one.status() != Status::Gone);
        self.has_lost_track |= self.notification_count <= 0 && left.any(|one| one.notification_only);
    }
}

impl Runtime {
    /// Starts a runtime with its attach server.
    pub fn start(runtime_version: RuntimeVersion, faults: Arc<Faults>) -> Arc<Runtime> {
        Runtime::start_in(runtime_version, faults, RuntimeConfig::of(runtime_version))
    }

    /// The same with a configuration. A profiler that the environment names is loaded first.
    pub fn start_in(runtime_version: RuntimeVersion, faults: Arc<Faults>, config: RuntimeConfig) -> Arc<Runtime> {
        let runtime = Arc::new(Runtime {
            runtime_version,
            faults,
            enumerators: Live::default(),
            lists: Mutex::default(),
            state: Mutex::new(State {
                code: Code::of_runtime(if mutation::is("SBS-03") { 0 } else { config.number }),
                heap: heap::Heap::collected(config.gc_mode),
                ..State::default()
            }),
            config,
            ending: AtomicBool::new(false),
            exiting: AtomicBool::new(false),
            calls_after_exit: Mutex::default(),
            calls: Mutex::default(),
        });
        runtime.lock().myself = Arc::downgrade(&runtime);
        runtime.enter_own_library();
        runtime.load_what_the_environment_names();
        let server = runtime.clone();
        schedule::spawn("the runtime's attach server", move || server.serve_attaches());
        runtime
    }

    /// The behaviour of this version.
    pub fn differences(&self) -> &'static Differences {
        self.runtime_version.differences()
    }

    /// Whether it miscounts the detach of a main profiler as one of a notification-only profiler.
    fn miscounts_main_departures(&self) -> bool {
        self.differences().main_departure_is_miscounted && !mutation::is("DET-18")
    }

    /// The log, oldest entry first.
    pub fn log(&self) -> Vec<Entry> {
        self.lock().log.clone()
    }

    /// Loaded profilers, including detaching ones.
    pub fn profilers(&self) -> Vec<Arc<Profiler>> {
        self.lock().profilers.clone()
    }

    /// Every profiler that was ever initialised, oldest first.
    pub fn remembered(&self) -> Vec<Arc<Profiler>> {
        self.lock().remembered.clone()
    }

    /// The process exits: profilers get Shutdown, and the runtime's own threads end where they are.
    pub fn exit(&self) {
        schedule::note("The process exits", 0);
        self.ending.store(true, Ordering::SeqCst);
        call_all!(self, |_| true, shutdown());
        self.exiting.store(true, Ordering::SeqCst);
    }

    /// Whether the process has begun to exit: profilers are getting Shutdown.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Whether the process is exiting: profilers have got Shutdown.
    pub fn is_exiting(&self) -> bool {
        self.exiting.load(Ordering::SeqCst)
    }

    /// The running thread begins a call.
    fn begin_call(&self) {
        self.calls.lock().expect("no panic while locked").insert(schedule::current(), schedule::now());
    }

    /// Start of the running thread's call, nanoseconds.
    fn call_begun(&self) -> u64 {
        let calls = self.calls.lock().expect("no panic while locked");
        calls.get(&schedule::current()).copied().unwrap_or_else(schedule::now)
    }

    /// Counts a call of the running thread after the exit. Returns whether it must have begun after Shutdown.
    fn calls_too_late(&self) -> bool {
        let mut calls = self.calls_after_exit.lock().expect("no panic while locked");
        let count = calls.entry(schedule::current()).or_default();
        *count += 1;
        *count > ON_ITS_WAY
    }

    fn myself(&self) -> Option<Arc<Runtime>> {
        self.lock().myself.upgrade()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    fn write_log(&self, entry: Entry) {
        self.config.process.logged(self.version(), &entry);
        self.lock().log.push(entry);
    }
}

/// Takes a reference on a library while an attach is decided.
fn load(library: &Arc<Library>) {
    if mutation::is("SBS-01") && library.is_mapped() {
        return;
    }
    library.hold();
    schedule::note("The library is loaded", 0);
}
