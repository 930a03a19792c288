//! A machine: processes of several users, files, a registry, and the ways to attach a profiler from one process to another.
//!
//! # Design constraints
//! A runtime sees only [`ProcessEnvironment`](crate::runtime::ProcessEnvironment). A trigger sees only what its account may see. It reports
//! errors as text ([`AttachError`]), as the founding documents require of a tool.

mod account;
mod diagnostics;
mod files;
mod hosting_client;
mod hosting_server;
pub mod mscoree;
mod process;
mod real_file;
mod trigger;

pub(crate) use hosting_client::HostingClient;
pub(crate) use hosting_server::HostingServer;
pub(crate) use trigger::attach_with;

pub use account::{Account, Integrity, ROOT};
pub use files::{Build, File, LoadError};
pub use process::{Other, Process, ProcessStart};
pub use trigger::{AttachError, AttachOptions, RuntimeEntry, Trigger};

use crate::differences::RuntimeVersion;
use crate::faults::Faults;
use crate::library::Library;
use crate::runtime::{GcMode, Runtime};
use corprof::Guid;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// See the module documentation.
pub struct Machine {
    /// The version of its runtimes.
    pub runtime_version: RuntimeVersion,
    /// Records misuse.
    pub faults: Arc<Faults>,
    processes: Mutex<Vec<Arc<Process>>>,
    files: Mutex<HashMap<String, File>>,
    registry: Mutex<HashMap<Guid, String>>,
    look_ups: AtomicUsize,
    opens_real_files: AtomicBool,
    load_failures: Mutex<HashMap<String, String>>,
}

/// The first process. On both systems, process numbers are often multiples of four.
const FIRST_PROCESS: u32 = 1000;

/// Paths whose last failure is kept.
const MOST_FAILURES: usize = 1000;

impl Machine {
    /// A machine without processes.
    pub fn new(runtime_version: RuntimeVersion, faults: Arc<Faults>) -> Arc<Machine> {
        Arc::new(Machine {
            runtime_version,
            faults,
            processes: Mutex::default(),
            files: Mutex::default(),
            registry: Mutex::default(),
            look_ups: AtomicUsize::new(0),
            opens_real_files: AtomicBool::new(false),
            load_failures: Mutex::default(),
        })
    }

    /// Adds a file.
    pub fn put(&self, path: &str, file: File) {
        self.files.lock().expect("no panic while locked").insert(path.to_owned(), file);
    }

    /// Registers a class, as `regsvr32` does.
    pub fn register(&self, class: Guid, path: &str) {
        self.registry.lock().expect("no panic while locked").insert(class, path.to_owned());
    }

    /// Registry lookups of classes so far.
    pub fn look_ups(&self) -> usize {
        self.look_ups.load(Ordering::SeqCst)
    }

    /// Starts a process. It has no runtime yet.
    pub fn start(self: &Arc<Self>, account: Account, environment: &[(&str, &str)]) -> Arc<Process> {
        self.start_as(account, Build::default(), environment)
    }

    /// Starts a process of this build, or in its own mount namespace.
    pub fn start_as(self: &Arc<Self>, account: Account, build: Build, environment: &[(&str, &str)]) -> Arc<Process> {
        let id = FIRST_PROCESS + 4 * self.processes.lock().expect("no panic while locked").len() as u32;
        self.start_with(&ProcessStart { id, account, build, environment, gc_mode: GcMode::default() })
    }

    /// Starts a process with everything given. Its number must be free.
    pub fn start_with(self: &Arc<Self>, start: &ProcessStart<'_>) -> Arc<Process> {
        let process = Process::new(start, self);
        self.processes.lock().expect("no panic while locked").push(process.clone());
        process
    }

    /// From now on, a path that is not among the added files names a file of the system.
    pub fn open_real_files(&self) {
        self.opens_real_files.store(true, Ordering::SeqCst);
    }

    /// Why the system could not open a real file the last time, in its words.
    pub fn load_failure(&self, path: &str) -> Option<String> {
        self.load_failures.lock().expect("no panic while locked").get(path).cloned()
    }

    /// A process that has not ended.
    pub fn process(&self, id: u32) -> Option<Arc<Process>> {
        let processes = self.processes.lock().expect("no panic while locked");
        processes.iter().find(|process| process.id == id && !process.has_ended()).cloned()
    }

    /// The runtimes of all its processes.
    fn runtimes(&self) -> Vec<Arc<Runtime>> {
        let processes = self.processes.lock().expect("no panic while locked");
        processes.iter().flat_map(|process| process.runtimes()).collect()
    }

    /// The file as a process sees it.
    fn open(&self, path: &str, process: &Process) -> Result<Arc<Library>, LoadError> {
        let files = self.files.lock().expect("no panic while locked");
        match files.get(path) {
            Some(file) => file.open(process),
            None if self.opens_real_files.load(Ordering::SeqCst) => {
                drop(files);
                self.open_real(path)
            }
            None => Err(LoadError::Missing),
        }
    }

    /// Keeps the system's words: the runtime's answer is only a number.
    fn open_real(&self, path: &str) -> Result<Arc<Library>, LoadError> {
        let opened = real_file::open(path, &self.faults);
        let mut failures = self.load_failures.lock().expect("no panic while locked");
        failures.remove(path);
        opened.map_err(|(reason, words)| {
            if failures.len() < MOST_FAILURES {
                failures.insert(path.to_owned(), words);
            }
            reason
        })
    }

    fn registered(&self, class: &Guid) -> Option<String> {
        self.look_ups.fetch_add(1, Ordering::SeqCst);
        self.registry.lock().expect("no panic while locked").get(class).cloned()
    }
}
