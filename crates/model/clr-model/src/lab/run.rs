//! One run: a runtime, a busy program, and the profiler, from its attach to its detach or to the exit.

use super::library_file::{self, LibraryFile};
use super::monitor;
use super::page::{Line, PageWriter};
use super::recorder::{self, Recorder};
use super::unload;
use crate::application::{self, Interrupt};
use crate::differences::RuntimeVersion;
use crate::faults::Faults;
use crate::library::Library;
use crate::runtime::{AttachRequest, Called, GcMode, ProcessEnvironment, Runtime, RuntimeConfig, give_the_heap_memory};
use crate::schedule::{self, Random, threads};
use crate::scripted::{self, Script};
use corprof::{Guid, HResult};
use remora_wire::{CLSID_MAIN, CLSID_NOTIFICATION};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The data for InitializeForAttach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientData {
    /// This text. `{pid}` becomes the number of the run's process.
    Text(String),
    /// The bytes of a file.
    File(PathBuf),
}

impl ClientData {
    fn bytes(&self) -> Result<Vec<u8>, String> {
        match self {
            ClientData::Text(text) => Ok(text.replace("{pid}", &std::process::id().to_string()).into_bytes()),
            ClientData::File(file) => std::fs::read(file)
                .map_err(|error| format!("the client data {} cannot be read: {error}", file.display())),
        }
    }
}

/// The specification of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunSpec {
    /// The profiler's library.
    pub library: String,
    /// Its class; any class if none is given.
    pub class: Option<u128>,
    /// The data for InitializeForAttach.
    pub client_data: Option<ClientData>,
    /// The runtime, by its name.
    pub runtime_version: String,
    /// The schedule.
    pub seed: u64,
    /// How long to wait for the detach request.
    pub timeout: Duration,
}

/// Limit for a callback, an attach answer, and a detach.
const LONGEST: Duration = Duration::from_secs(2);
/// A profiler that does not detach in this time stays on purpose, if the run waits as long.
const LONG_ENOUGH: Duration = Duration::from_secs(1);
/// Limit for the release of a thread's resources after its end.
const LAST_INSTRUCTIONS: Duration = Duration::from_secs(1);
/// How long a profiler without callbacks may do the wrong thing.
const UNHEARD: Duration = Duration::from_millis(100);
/// Time between two checks.
const INTERVAL: Duration = Duration::from_micros(200);
/// Minimum of checks, however slow the machine is.
const FEWEST_CHECKS: u32 = 100;
/// Maximum time counted for one check: the machine may have been suspended in between.
const LONGEST_CHECK: Duration = Duration::from_millis(100);
/// Pause of the program's threads between two steps, nanoseconds of model time.
const PACE: u64 = 5_000_000;
/// Latest exit in the middle of profiling after the attach, milliseconds.
const LATEST_EXIT: usize = 20;
/// A class of no particular profiler.
const ANY_CLASS: u128 = 0x4C61_6221_0000_4000_8000_0000_0000_0001;
/// The modules that every program has: the framework's, and its own.
const MODULES: [Called; 2] = [
    Called { module: "System.Private.CoreLib", class: "System.Object" },
    Called { module: "Application", class: "Program" },
];
/// Number of run kinds.
const LIVES: u64 = 4;

/// The kind of a run, by its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunKind {
    /// Until the profiler detaches.
    Whole,
    /// The process exits in the middle.
    CutShort,
    /// Until it detaches; then it is attached again.
    Twice,
    /// After the attach and detach of a main profiler. Since 6 the runtime then miscounts notification-only profilers: they get no
    /// callbacks, and a detach request crashes.
    AfterAnother,
}

/// The environment. The runtime reads only a setting, so that it soon checks a delayed detach again. Profilers see that of `remora lab`.
struct LabEnvironment;

impl ProcessEnvironment for LabEnvironment {
    /// By default .NET Core 3.1 checks again after ten minutes. This is the default of later versions.
    fn variable(&self, name: &str) -> Option<String> {
        (name == "COMPlus_ProfAPI_DetachMaxSleepMs").then(|| "1388".to_owned())
    }

    fn variable_for_profiler(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

struct Run {
    runtime: Arc<Runtime>,
    library: Arc<Library>,
    order: RunSpec,
    client_data: Option<Vec<u8>>,
    refuses_class: Arc<AtomicBool>,
    /// For Remora's own agent.
    recorder: Recorder,
    random: Random,
    /// Earlier profilers.
    others: usize,
}

/// Executes a run, and writes findings to the page on standard input. The process should exit afterwards.
///
/// # Errors
/// Why the run could not begin.
pub fn run(order: &RunSpec) -> Result<(), String> {
    let writer = PageWriter::take().map_err(|error| error.to_string())?;
    let runtime_version = RuntimeVersion::by_name(&order.runtime_version)
        .ok_or_else(|| format!("no runtime is called {}", order.runtime_version))?;
    let client_data = order.client_data.as_ref().map(ClientData::bytes).transpose()?;
    threads::use_os_threads(order.seed);
    give_the_heap_memory();
    let faults = Arc::new(Faults::default());
    let gc_mode = gc_mode(order.seed);
    let config = RuntimeConfig { process: Arc::new(LabEnvironment), gc_mode, ..RuntimeConfig::of(runtime_version) };
    let runtime = Runtime::start_in(runtime_version, faults.clone(), config);
    let life = life(order.seed);
    if life == RunKind::AfterAnother {
        another_comes_and_goes(&runtime, &faults)?;
    }
    let others = runtime.remembered().len();
    monitor::install(writer, order.seed.is_multiple_of(2));
    std::panic::set_hook(Box::new(|panic| monitor::write(&Line::Failed(panic.to_string()))));
    let refuses_class = Arc::new(AtomicBool::new(false));
    let library = Library::new(LibraryFile::new(&order.library, refuses_class.clone()), faults.clone());
    let mut run = Run {
        runtime,
        library,
        order: order.clone(),
        client_data,
        refuses_class,
        recorder: Recorder::of(order.seed, order.seed / LIVES),
        random: Random::new(order.seed),
        others,
    };
    for called in MODULES {
        run.runtime.load_module_called(called);
    }
    let interrupt: Interrupt = Arc::new(|| schedule::sleep(PACE));
    application::start(&run.runtime, &interrupt, &mut run.random, (2, usize::MAX));
    monitor::begin();
    run.live(order.class, life);
    schedule::stop();
    monitor::exercised("MOD-01");
    monitor::end(!monitor::callbacks(LONGEST / 2).is_empty());
    Ok(())
}

/// Whether a run asks Remora's own agent for a heap task.
pub fn is_of_heap(seed: u64) -> bool {
    recorder::task(seed / LIVES).is_of_heap()
}

fn life(seed: u64) -> RunKind {
    match seed % LIVES {
        1 => RunKind::CutShort,
        2 => RunKind::Twice,
        3 => RunKind::AfterAnother,
        _ => RunKind::Whole,
    }
}

/// The GC mode of a run, by its seed: mostly the default. Each run kind occurs in each mode.
fn gc_mode(seed: u64) -> GcMode {
    match seed / LIVES % 4 {
        2 => GcMode::Blocking,
        3 => GcMode::Server,
        _ => GcMode::Concurrent,
    }
}

/// Attaches and detaches a main profiler of the laboratory's own. Nothing monitors it.
fn another_comes_and_goes(runtime: &Arc<Runtime>, faults: &Arc<Faults>) -> Result<(), String> {
    let (library, script) = scripted::library(Script::new(), faults);
    let request = AttachRequest { class: Guid::from_u128(ANY_CLASS), library: Some(library), client_data: Vec::new() };
    let answer = runtime.ask_for_attach(request);
    let leaves = until(LONGEST, || answer.get().is_some())
        && until(LONGEST, || !runtime.is_attaching())
        && script.request_detach(1).is_success()
        && until(LONGEST, || runtime.profilers().is_empty());
    if leaves { Ok(()) } else { Err("the profiler of the laboratory's own that comes first did not leave".into()) }
}

impl Run {
    fn live(&mut self, class: Option<u128>, life: RunKind) {
        let Some(class) = self.attach(class) else { return };
        if life == RunKind::CutShort {
            std::thread::sleep(Duration::from_millis(self.random.below(LATEST_EXIT) as u64));
            return self.exit();
        }
        if life == RunKind::AfterAnother && self.is_only_notified() {
            return self.stay_without_callbacks();
        }
        if !self.leaves(1) {
            return self.exit();
        }
        // After that fault, the requesting thread is kept for good.
        if life == RunKind::Twice && !monitor::has_broken("DET-05") {
            self.again(class);
        }
    }

    fn is_only_notified(&self) -> bool {
        self.runtime.profilers().iter().any(|profiler| profiler.notification_only)
    }

    /// The runtime has lost this profiler. A detach request would crash, and is reported as a fault. The profiler stays until the exit.
    fn stay_without_callbacks(&self) {
        if until(UNHEARD, || monitor::asked() > 0) {
            return;
        }
        monitor::exercised("DET-18");
        self.exit();
    }

    /// Attaches, and returns the class that the library accepted. `None` if nothing is attached.
    fn attach(&self, class: Option<u128>) -> Option<u128> {
        let is_notified = self.runtime.differences().notification_profilers;
        let own = if is_notified { CLSID_NOTIFICATION } else { CLSID_MAIN };
        let classes = class.map_or_else(|| vec![ANY_CLASS, number(own)], |class| vec![class]);
        let mut code = HResult::E_FAIL;
        for class in classes {
            code = self.ask(class)?;
            if code.is_success() {
                monitor::exercised("ATT-09");
                monitor::exercised("ATT-20");
                return Some(class);
            }
            if code != HResult::CLASS_E_CLASSNOTAVAILABLE {
                break;
            }
        }
        self.check_refusal(code);
        None
    }

    /// Requests an attach and waits. `None` without an answer, which is reported.
    fn ask(&self, class: u128) -> Option<HResult> {
        let client_data = self.client_data.clone().unwrap_or_else(|| self.own_client_data(class));
        let request = AttachRequest { class: Guid::from_u128(class), library: Some(self.library.clone()), client_data };
        let answer = self.runtime.ask_for_attach(request);
        if !until(LONGEST, || answer.get().is_some()) {
            if monitor::callbacks(LONGEST / 2).is_empty() {
                let message = format!(
                    "the attach had no answer within {} seconds, and no callback is known to run",
                    LONGEST.as_secs()
                );
                monitor::broken_in("MOD-01", None, &message);
            }
            self.report_hangs();
        }
        self.recorder.confirmed.store(answer.get().is_some_and(HResult::is_success), Ordering::SeqCst);
        answer.get()
    }

    /// Remora's own agent needs the recorder's address. Others get nothing.
    fn own_client_data(&self, class: u128) -> Vec<u8> {
        let is_own = [number(CLSID_MAIN), number(CLSID_NOTIFICATION)].contains(&class);
        self.recorder.confirmed.store(false, Ordering::SeqCst);
        if is_own { self.recorder.client_data() } else { Vec::new() }
    }

    fn check_refusal(&self, code: HResult) {
        check_unload();
        let words = format!("{:#010x}", code.0);
        if let Some(refused) = self.runtime.remembered().get(self.others..).and_then(<[_]>::last) {
            let message = format!(
                "InitializeForAttach refused with {words}: it does not want this runtime, this class (--clsid) or what it was handed (--client-data), and nothing more could be exercised"
            );
            monitor::write(&Line::Note { clause: "ATT-20".into(), message });
            monitor::exercised("ATT-10");
            // An object that stays is a matter of DET-10: a static one goes with its library.
            let last_release = refused.record().last_release;
            // A thread that still runs is the cause of a library that stays.
            let has_threads = monitor::has_broken(unload::CLAUSE);
            if !has_threads && (last_release.is_none() || !until(LAST_INSTRUCTIONS, || !self.is_mapped())) {
                let answered = last_release.map_or("did not return".to_owned(), |left| format!("was answered {left}"));
                let message = format!(
                    "the profiler refused its attach, and its library is still in the process (the last Release {answered})"
                );
                monitor::broken_in("ATT-10", Some("InitializeForAttach"), &message);
            }
        } else if code == HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE {
            let message =
                "the object does not answer for ICorProfilerCallback3, without which no profiler can be attached";
            monitor::broken_in("ATT-09", Some("QueryInterface"), message);
        } else if self.refuses_class.load(Ordering::SeqCst) {
            let message = format!("DllGetClassObject answered {words}; give the profiler's class with --clsid");
            monitor::broken_in("ATT-20", Some("DllGetClassObject"), &message);
        } else if self.was_loaded() {
            let hint = if code == HResult::CLASS_E_CLASSNOTAVAILABLE {
                "; give the profiler's class with --clsid"
            } else {
                ""
            };
            let message = format!("the class factory made no object (answered {words}){hint}");
            monitor::broken_in("ATT-20", Some("CreateInstance"), &message);
        }
    }

    /// Waits for the profiler's own detach, for the `round`th time. False if it stays.
    fn leaves(&self, round: u32) -> bool {
        if !until(self.order.timeout, || monitor::asked() >= round) {
            if self.order.timeout >= LONG_ENOUGH {
                monitor::stays();
            }
            return false;
        }
        if !until(LONGEST, || self.runtime.profilers().is_empty()) {
            self.report_hangs();
            return false;
        }
        for clause in ["DET-07", "DET-10", "DET-14", "DET-20", "DET-21"] {
            monitor::exercised(clause);
        }
        self.check_leftovers();
        true
    }

    /// The runtime has released the library: no leftovers are allowed.
    fn check_leftovers(&self) {
        if monitor::has_broken("DET-05") {
            // The requesting thread is kept: continuing it would crash.
            return;
        }
        check_unload();
        if !until(LAST_INSTRUCTIONS, || !self.is_mapped()) {
            monitor::broken(
                "DET-14",
                "the library is still mapped after its unload: a reference of its own was not given back, or a destructor of a thread pins it",
            );
        }
        if !until(LAST_INSTRUCTIONS, || monitor::leftovers().is_empty()) {
            for left in monitor::leftovers() {
                monitor::broken("DET-14", &format!("{} is still there after the unload", left.what));
            }
        }
        for kind in self.library.ways_in() {
            monitor::broken("DET-14", &format!("{kind} is still there after the unload"));
        }
        if self.runtime.enumerators.count() > 0 {
            monitor::broken("DET-14", "an enumerator of the runtime's was never released");
        }
    }

    fn again(&self, class: u128) {
        monitor::release_askers(false);
        match self.ask(class) {
            Some(code) if code.is_success() => monitor::exercised("DET-12"),
            Some(code) => {
                let message = format!("the second attach of the same library was refused with {:#010x}", code.0);
                return monitor::broken("DET-12", &message);
            }
            None => return,
        }
        if !self.leaves(2) {
            self.exit();
        }
    }

    /// The process exits while the profiler is attached, or still detaching.
    fn exit(&self) {
        // A profiler that suspends the target briefly gets time to resume it.
        if !until(LONGEST, || !self.runtime.is_left_suspended()) {
            return self.report_hangs();
        }
        let is_attached = !self.runtime.profilers().is_empty();
        let runtime = self.runtime.clone();
        let exits = schedule::spawn("the thread that exits", move || {
            // A thread that the runtime knows, like the main thread of a program: it is counted during Shutdown.
            runtime.begin_thread();
            runtime.exit();
        });
        if !until(LONGEST, || schedule::has_ended(exits) && monitor::callbacks(Duration::ZERO).is_empty()) {
            return self.report_hangs();
        }
        monitor::exercised("DET-07");
        if is_attached {
            monitor::exercised("DET-17");
        }
    }

    fn report_hangs(&self) {
        let (callbacks, seconds) = (monitor::callbacks(LONGEST / 2), LONGEST.as_secs());
        if self.runtime.is_left_suspended() {
            monitor::broken_in("MOD-01", None, LEFT_SUSPENDED);
        }
        for callback in callbacks {
            let message = format!("{callback} has not returned within {seconds} seconds");
            monitor::broken_in(clause_of_hang(callback), Some(callback), &message);
        }
    }

    fn is_mapped(&self) -> bool {
        library_file::range(&self.order.library).is_some()
    }

    fn was_loaded(&self) -> bool {
        !monitor::has_broken("ATT-06") && !monitor::has_broken("ATT-20")
    }
}

/// The message for a profiler that suspends the target for good.
const LEFT_SUSPENDED: &str = "the profiler has suspended the runtime and never resumed it: a program would stand still";

/// The runtime has unloaded the library. Threads of the profiler get time to end, and a crash time to come.
fn check_unload() {
    until(LAST_INSTRUCTIONS, || monitor::has_broken(unload::CLAUSE) || unload::has_no_threads());
    unload::is_over();
}

/// Waits until `holds`; false on a time-out. A busy machine gets more time: a minimum of checks is always made.
fn until(longest: Duration, holds: impl Fn() -> bool) -> bool {
    let (mut waited, mut looks) = (Duration::ZERO, 0);
    loop {
        let begun = Instant::now();
        if holds() {
            return true;
        }
        if waited > longest && looks > FEWEST_CHECKS {
            return false;
        }
        std::thread::sleep(INTERVAL);
        waited += begun.elapsed().min(LONGEST_CHECK);
        looks += 1;
    }
}

/// The clause for a callback that never returns.
pub(super) fn clause_of_hang(callback: &str) -> &'static str {
    match callback {
        "ProfilerDetachSucceeded" | "Release" => "DET-21",
        "Shutdown" => "DET-17",
        _ => "DET-07",
    }
}

fn number(class: (u32, u16, u16, [u8; 8])) -> u128 {
    u128::from(class.0) << 96
        | u128::from(class.1) << 80
        | u128::from(class.2) << 64
        | u128::from(u64::from_be_bytes(class.3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_life_comes_in_each_way_of_collecting_and_the_first_ones_in_that_of_a_program_that_says_nothing() {
        for life_wanted in 0..LIVES {
            let seeds = (0..16).filter(|seed| life(*seed) == life(life_wanted));
            let modes: Vec<GcMode> = seeds.map(gc_mode).collect();
            assert_eq!(modes, [GcMode::Concurrent, GcMode::Concurrent, GcMode::Blocking, GcMode::Server]);
        }
    }
}
