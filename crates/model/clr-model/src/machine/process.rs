//! A process: its owner, its environment, its runtimes, and whether a debugger has stopped it.

use super::{Account, Build, LoadError, Machine};
use crate::differences::{Release, RuntimeVersion};
use crate::library::Library;
use crate::mutation;
use crate::runtime::{Entry, GcMode, ProcessEnvironment, Runtime, RuntimeConfig};
use crate::schedule;
use corprof::{Guid, HResult};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// A runtime for .NET programs that does not accept an attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// .NET Core before 3.0: no diagnostics socket for an attach.
    CoreBefore3,
    /// Mono: it answers, but has no profiling API.
    Mono,
    /// Native AOT: it answers, but has no profiling API.
    NativeAot,
}

impl Other {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Other::CoreBefore3 => ".NET Core before 3.0",
            Other::Mono => "Mono",
            Other::NativeAot => "NativeAOT",
        }
    }

    /// Why no profiler can be attached to it, and the remedy.
    pub fn reason(self) -> &'static str {
        match self {
            Other::CoreBefore3 => "attaching came with .NET Core 3.0: use a later one",
            Other::Mono => "Mono has no profiling API that can be attached to: run the program on CoreCLR",
            Other::NativeAot => "a program compiled ahead of time has no profiling API: run it on CoreCLR",
        }
    }
}

/// How a process is started.
#[derive(Debug, Clone, Copy)]
pub struct ProcessStart<'a> {
    /// Its number.
    pub id: u32,
    /// Its account.
    pub account: Account,
    /// Its platform and mount namespace.
    pub build: Build,
    /// Its environment. The first variable of a name counts.
    pub environment: &'a [(&'a str, &'a str)],
    /// The GC mode of its runtimes, from its configuration file.
    pub gc_mode: GcMode,
}

/// See the module documentation.
pub struct Process {
    /// Its number.
    pub id: u32,
    /// Its account.
    pub account: Account,
    pub(super) build: Build,
    environment: Vec<(String, String)>,
    gc_mode: GcMode,
    machine: Weak<Machine>,
    runtimes: Mutex<Vec<Arc<Runtime>>>,
    others: Mutex<Vec<Other>>,
    is_halted: AtomicBool,
    has_an_old_profiler: AtomicBool,
    has_ended: AtomicBool,
    on_each_entry: OnceLock<EntryListener>,
}

/// Gets each entry of the event log before the runtime goes on.
type EntryListener = Box<dyn Fn(Release, &Entry) + Send + Sync>;

impl Process {
    pub(super) fn new(start: &ProcessStart<'_>, machine: &Arc<Machine>) -> Arc<Process> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Arc::new(Process {
            id: start.id,
            account: start.account,
            build: start.build,
            environment: start.environment.iter().map(owned).collect(),
            gc_mode: start.gc_mode,
            machine: Arc::downgrade(machine),
            runtimes: Mutex::default(),
            others: Mutex::default(),
            is_halted: AtomicBool::new(false),
            has_an_old_profiler: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            on_each_entry: OnceLock::new(),
        })
    }

    /// Loads the machine's runtime.
    pub fn load_runtime(self: &Arc<Self>) -> Option<Arc<Runtime>> {
        let release = self.machine.upgrade()?.runtime_version.differences().release;
        self.load_release(release)
    }

    /// Loads another release next to the loaded ones: runtimes of the .NET Framework run side by side. The environment is read first.
    pub fn load_release(self: &Arc<Self>, release: Release) -> Option<Arc<Runtime>> {
        let machine = self.machine.upgrade()?;
        let number = self.runtimes().len();
        let config = RuntimeConfig {
            release,
            number,
            gc_mode: if mutation::is("GCH-05/8") { GcMode::Concurrent } else { self.gc_mode },
            process: Arc::new(Within(Arc::downgrade(self))),
        };
        let runtime = Runtime::start_in(machine.runtime_version, machine.faults.clone(), config);
        self.runtimes.lock().expect("no panic while locked").push(runtime.clone());
        Some(runtime)
    }

    /// Runs another kind of runtime.
    pub fn load_other(&self, other: Other) {
        self.others.lock().expect("no panic while locked").push(other);
    }

    /// Its runtimes in load order.
    pub fn runtimes(&self) -> Vec<Arc<Runtime>> {
        self.runtimes.lock().expect("no panic while locked").clone()
    }

    pub(super) fn others(&self) -> Vec<Other> {
        self.others.lock().expect("no panic while locked").clone()
    }

    /// The readable log entries of its runtimes, with their releases.
    pub fn event_log(&self) -> Vec<(Release, Entry)> {
        let of_one = |runtime: &Arc<Runtime>| {
            let version = runtime.version();
            runtime.published_log().into_iter().map(move |entry| (version, entry)).collect::<Vec<_>>()
        };
        self.runtimes().iter().flat_map(of_one).collect()
    }

    /// Each entry from now on goes to the listener, before the runtime goes on. Only the first one is kept.
    pub fn on_each_entry(&self, listener: impl Fn(Release, &Entry) + Send + Sync + 'static) {
        let _ = self.on_each_entry.set(Box::new(listener));
    }

    /// Whether it could load a library. A careful trigger checks this before an attach.
    pub fn look_at(&self, path: &str) -> Result<(), LoadError> {
        let machine = self.machine.upgrade().ok_or(LoadError::Missing)?;
        machine.open(path, self).map(|_| ())
    }

    /// A debugger stops all its threads. Returns whether they ran.
    pub fn halt(&self) -> bool {
        schedule::note("A debugger stops the process", 0);
        !self.is_halted.swap(true, Ordering::SeqCst)
    }

    /// The debugger resumes it or detaches. Returns whether the process was stopped.
    pub fn resume(&self) -> bool {
        schedule::note("A debugger lets the process go on", 0);
        self.is_halted.swap(false, Ordering::SeqCst)
    }

    /// Ends it and everything in it.
    pub fn end(&self) {
        self.runtimes().iter().for_each(|runtime| runtime.exit());
        if let Some(machine) = self.machine.upgrade().filter(|_| mutation::is("ATT-01")) {
            machine.runtimes().iter().for_each(|runtime| runtime.exit());
        }
        self.has_ended.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// A variable of its environment. Windows ignores case.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let is_desktop = self.machine.upgrade()?.runtime_version == RuntimeVersion::Desktop4;
        let ignores_capitals = is_desktop && !mutation::is("CMP-01/4");
        let is_it = |known: &str| known == name || ignores_capitals && known.eq_ignore_ascii_case(name);
        self.environment.iter().find(|(known, _)| is_it(known)).map(|(_, value)| value.clone())
    }
}

/// The process as its runtimes see it.
struct Within(Weak<Process>);

impl Within {
    fn both(&self) -> Option<(Arc<Process>, Arc<Machine>)> {
        let process = self.0.upgrade()?;
        let machine = process.machine.upgrade()?;
        Some((process, machine))
    }
}

impl ProcessEnvironment for Within {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.upgrade()?.variable(name)
    }

    fn open(&self, path: &str) -> Result<Arc<Library>, HResult> {
        let (process, machine) = self.both().ok_or(HResult::E_UNEXPECTED)?;
        machine.open(path, &process).map_err(|fault| fault.code(machine.runtime_version))
    }

    fn registered(&self, class: &Guid) -> Option<String> {
        self.both()?.1.registered(class)
    }

    fn is_halted(&self) -> bool {
        self.0.upgrade().is_some_and(|process| process.is_halted.load(Ordering::SeqCst))
    }

    fn logged(&self, version: Release, entry: &Entry) {
        if let Some(process) = self.0.upgrade()
            && let Some(listener) = process.on_each_entry.get()
        {
            listener(version, entry);
        }
    }

    fn claim_for_an_old_profiler(&self) -> bool {
        let is_first = |process: Arc<Process>| !process.has_an_old_profiler.swap(true, Ordering::SeqCst);
        self.0.upgrade().is_some_and(is_first) || mutation::is("SBS-04")
    }

    fn give_the_claim_back(&self) {
        if let Some(process) = self.0.upgrade() {
            process.has_an_old_profiler.store(false, Ordering::SeqCst);
        }
    }
}
