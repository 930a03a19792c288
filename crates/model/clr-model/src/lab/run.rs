//! One run: a runtime, a busy program, and the profiler, from its attach to its detach or to the exit.

use super::clauses::{CLAUSES, LoadMode};
use super::codes::named_code;
use super::elf::ElfFacts;
use super::hang::{LONGEST, LONGEST_SHUTDOWN};
use super::library_file::{self, LibraryFile};
use super::page::{Line, PageWriter};
use super::recorder::{self, Recorder};
use super::{around, hang, leftovers, limits, monitor, process_wide, system, unload};
use crate::application::{self, Interrupt};
use crate::differences::RuntimeVersion;
use crate::faults::Faults;
use crate::library::Library;
use crate::runtime::{
    AttachRequest, Called, Contents, GcMode, ProcessEnvironment, Runtime, RuntimeConfig, give_the_heap_memory,
    map_own_library,
};
use crate::schedule::{self, Random, Task, threads};
use crate::scripted::{self, Script};
use corprof::Guid;
use serde::{Deserialize, Serialize};
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
    /// How it is loaded.
    pub mode: LoadMode,
    /// The data for InitializeForAttach.
    pub client_data: Option<ClientData>,
    /// The runtime, by its name.
    pub runtime_version: String,
    /// The schedule.
    pub seed: u64,
    /// How long to wait for the detach request.
    pub timeout: Duration,
    /// The runtime's own library.
    pub own_library: Option<String>,
}

/// The exit code of a complete run: no profiler ends its process with it by chance.
pub const COMPLETE: i32 = 86;
/// A profiler that does not detach in this time stays on purpose, if the run waits as long.
const LONG_ENOUGH: Duration = Duration::from_secs(1);
/// Limit for the release of a thread's resources after its end.
pub(super) const LAST_INSTRUCTIONS: Duration = Duration::from_secs(1);
/// How long a profiler without callbacks may do the wrong thing.
const UNHEARD: Duration = Duration::from_millis(100);
/// Time between two checks.
const INTERVAL: Duration = Duration::from_micros(200);
/// Minimum of checks, however slow the machine is.
const FEWEST_CHECKS: u32 = 100;
/// Maximum time counted for one check: the machine may have been suspended in between.
const LONGEST_CHECK: Duration = Duration::from_millis(100);
/// How often a wait goes on for a disk, each time for half as long: a run must end within its limit.
const MOST_DISK_WAITS: u32 = 2;
/// Pause of the program's threads between two steps, nanoseconds of model time.
const PACE: u64 = 5_000_000;
/// Latest exit in the middle of profiling after the attach, milliseconds.
const LATEST_EXIT: usize = 20;
/// A class of no particular profiler.
pub(super) const ANY_CLASS: u128 = 0x4C61_6221_0000_4000_8000_0000_0000_0001;
/// The modules that every program has: the framework's, and its own.
const FRAMEWORK: Called = Called { module: "System.Private.CoreLib", class: "System.Object" };
const PROGRAM: Called = Called { module: "Application", class: "Program" };
/// Flags and signature of the program's `Main`: private, static, hidden by its signature; no arguments, no result.
const MAIN: (u32, [u8; 3]) = (0x91, [0x00, 0x00, 0x01]);
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

/// A run in progress.
pub(super) struct Run {
    pub(super) runtime: Arc<Runtime>,
    pub(super) library: Arc<Library>,
    pub(super) order: RunSpec,
    pub(super) client_data: Option<Vec<u8>>,
    pub(super) refuses_class: Arc<AtomicBool>,
    /// For Remora's own agent.
    pub(super) recorder: Recorder,
    random: Random,
    /// Earlier profilers.
    pub(super) others: usize,
    /// The program's threads.
    program: Vec<Task>,
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
    threads::use_os_threads(order.seed).on_stuck_start(hang::no_thread_begins);
    give_the_heap_memory();
    // The runtime's library needs it (`readelf -d libcoreclr.so`, 3.1 to 10), so it is there before a profiler. One that came with the profiler
    // could bind to the profiler's weak symbols, and keep it. Without it, a profiler in C++ cannot be loaded either.
    let _ = system::open("libstdc++.so.6");
    if let Some(path) = &order.own_library {
        // In a folder that forbids execution, profilers do not find it.
        let _ = map_own_library(path.as_ref());
    }
    let faults = Arc::new(Faults::default());
    let gc_mode = gc_mode(order.seed);
    let config = RuntimeConfig { process: Arc::new(LabEnvironment), gc_mode, ..RuntimeConfig::of(runtime_version) };
    let runtime = Runtime::start_in(runtime_version, faults.clone(), config);
    let life = life(order.seed);
    if life == RunKind::AfterAnother && order.mode == LoadMode::Attach {
        another_comes_and_goes(&runtime, &faults)?;
    }
    let others = runtime.remembered().len();
    monitor::install(writer, order.mode, order.seed.is_multiple_of(2));
    hang::watch_exit();
    std::panic::set_hook(Box::new(|panic| panicked(&panic.to_string())));
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
        program: Vec::new(),
    };
    match order.mode {
        LoadMode::Attach => {
            run.start_program();
            monitor::begin().inspect_err(|why| monitor::failed(why))?;
            run.live(order.class, life);
        }
        LoadMode::FromStart => {
            monitor::begin().inspect_err(|why| monitor::failed(why))?;
            run.live_from_start(order.class, life);
        }
    }
    // Each further step could wait for that lock.
    hang::look_for_linkers_lock();
    let hangs = !monitor::callbacks(LONGEST / 2).is_empty();
    if !hangs {
        around::look_for_closed_descriptors();
    }
    // From here on, no call of the profiler is a finding: the other looks take longer than the exit of a process.
    schedule::stop();
    if !hangs {
        around::look();
        around::look_at_signals(&run.program);
    }
    run.let_the_program_end();
    monitor::exercised("MOD-01");
    monitor::end(!monitor::callbacks(LONGEST / 2).is_empty());
    // The process exits now. The profiler may have closed descriptors of the run: closing them again would abort it.
    std::mem::forget(run);
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
    fn start_program(&mut self) {
        self.runtime.load_module_called(FRAMEWORK);
        let (flags, signature) = MAIN;
        let contents = Contents::of_program(PROGRAM.class, |made, _| _ = made.method(flags, "Main", &signature));
        self.runtime.load_module_with(PROGRAM, contents);
        let interrupt: Interrupt = Arc::new(|| schedule::sleep(PACE));
        self.program = application::start(&self.runtime, &interrupt, &mut self.random, (2, usize::MAX));
    }

    /// The profiler is there before the program. No other one comes first, and none is loaded twice.
    fn live_from_start(&mut self, class: Option<u128>, life: RunKind) {
        if !self.load_at_start(class) {
            return;
        }
        self.start_program();
        if matches!(life, RunKind::CutShort | RunKind::AfterAnother) {
            return self.exit_in_the_middle();
        }
        if !self.leaves(1) {
            self.exit();
        }
    }

    fn exit_in_the_middle(&mut self) {
        std::thread::sleep(Duration::from_millis(self.random.below(LATEST_EXIT) as u64));
        self.exit();
    }

    fn live(&mut self, class: Option<u128>, life: RunKind) {
        let Some(class) = self.attach(class) else { return };
        if life == RunKind::CutShort {
            return self.exit_in_the_middle();
        }
        if life == RunKind::AfterAnother && self.is_only_notified() {
            return self.stay_without_callbacks();
        }
        if !self.leaves(1) {
            return self.exit();
        }
        // After that fault, the requesting thread is kept for good. And nothing can be loaded without a descriptor.
        if life == RunKind::Twice && monitor::has_broken("DET-05") {
            let message = "the library was unmapped under the thread that asked for the detach (DET-05)".to_owned();
            monitor::write(&Line::Note { clause: "DET-12".into(), message });
        } else if life == RunKind::Twice && !system::has_no_descriptor() {
            match around::barrier() {
                Some(message) => monitor::write(&Line::Note { clause: "DET-12".into(), message }),
                None => self.again(class),
            }
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

    /// Waits for the profiler's own detach, for the `round`th time. False if it stays.
    fn leaves(&self, round: u32) -> bool {
        if !until(self.order.timeout, || monitor::asked() >= round) {
            self.note_wait();
            if self.order.timeout >= LONG_ENOUGH {
                monitor::stays();
            }
            return false;
        }
        if !until_returned(LONGEST, || self.runtime.profilers().is_empty()) {
            self.report_hangs();
            return false;
        }
        monitor::has_left();
        for clause in ["DET-07", "DET-10", "DET-20", "DET-21", "DET-22"] {
            monitor::exercised(clause);
        }
        if self.check_leftovers() {
            monitor::exercised("DET-14");
        } else {
            around::not_seen("DET-14");
        }
        true
    }

    /// The detach did not come in the run that waits longest.
    fn note_wait(&self) {
        if self.order.seed > 0 {
            return;
        }
        let waited = self.order.timeout.as_secs_f64();
        for clause in CLAUSES.iter().filter(|clause| clause.needs_detach()) {
            let message =
                format!("{}; it did not ask within {waited} s: let it ask earlier, or raise `--wait`", clause.exercise);
            monitor::write(&Line::Note { clause: clause.id.to_owned(), message });
        }
    }

    /// The runtime has released the library: no leftovers are allowed. Returns whether all that there is could be looked at.
    fn check_leftovers(&self) -> bool {
        if monitor::has_broken("DET-05") {
            // The requesting thread is kept: continuing it would crash.
            return !monitor::is_hidden();
        }
        check_unload();
        if !until(LAST_INSTRUCTIONS, || self.mapped() == Some(false)) && self.is_mapped() {
            hang::look_for_linkers_lock();
            let why = ElfFacts::of(&self.order.library).why_it_stays();
            let why = why
                .as_deref()
                .unwrap_or("a reference of its own was not given back, or a destructor of a thread pins it");
            monitor::broken("DET-14", &format!("the library is still mapped after its unload: {why}"));
        }
        if !until(LAST_INSTRUCTIONS, || monitor::leftovers().is_some_and(|left| left.is_empty())) {
            monitor::leftovers().unwrap_or_default().iter().for_each(|left| is_left(&left.what));
        }
        self.library.ways_in().into_iter().for_each(is_left);
        if self.runtime.enumerators.count() > 0 {
            monitor::broken("DET-14", "an enumerator of the runtime's was never released");
        }
        self.mapped().is_some() && !monitor::is_hidden()
    }

    fn again(&self, class: u128) {
        monitor::release_askers(false);
        match self.ask(class) {
            Some(code) if code.is_success() => monitor::exercised("DET-12"),
            Some(code) => {
                let message = format!("the second attach of the same library was refused with {}", named_code(code));
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
        if !until_returned(LONGEST_SHUTDOWN, || {
            schedule::has_ended(exits) && monitor::callbacks(Duration::ZERO).is_empty()
        }) {
            return self.report_hangs();
        }
        monitor::exercised("DET-07");
        if is_attached {
            monitor::exercised("DET-17");
        }
    }

    /// At its end, a thread runs the destructors of its values: a profiler may have left some.
    fn let_the_program_end(&self) {
        let threads = threads::os_threads();
        let of = |task: &Task| threads.and_then(|threads| threads.thread_of(*task));
        until(LAST_INSTRUCTIONS, || {
            !monitor::callbacks(Duration::ZERO).is_empty()
                || !self.program.iter().filter_map(of).any(leftovers::is_alive)
        });
    }

    pub(super) fn report_hangs(&self) {
        if self.runtime.is_left_suspended() {
            monitor::broken_in("MOD-01", None, LEFT_SUSPENDED);
        }
        hang::report();
    }

    /// Whether the library is mapped, as far as is known.
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped() == Some(true)
    }

    fn mapped(&self) -> Option<bool> {
        library_file::range(&self.order.library).map(|range| range.is_some())
    }
}

/// It is still there. One cause can break both clauses: the profiler should have closed it before its request.
fn is_left(what: &str) {
    let same = if monitor::has_named(unload::CLAUSE, &format!("{what} was still there")) {
        "; it is what DET-04 names"
    } else {
        ""
    };
    monitor::broken("DET-14", &format!("{what} is still there after the unload{same}"));
}

/// The message for a profiler that suspends the target for good.
const LEFT_SUSPENDED: &str = "the profiler has suspended the runtime and never resumed it: a program would stand still";

/// The runtime has unloaded the library. Threads of the profiler get time to end, and a crash time to come.
pub(super) fn check_unload() {
    until(LAST_INSTRUCTIONS, monitor::unload_is_settled);
    monitor::unload_is_over();
}

/// Waits until `holds`; false on a time-out. A busy machine gets more time: a minimum of checks is always made.
pub(super) fn until(longest: Duration, holds: impl Fn() -> bool) -> bool {
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

/// Waits for callbacks in the same way. One that began later has its own time, and one that waits for a slow disk gets more.
pub(super) fn until_returned(longest: Duration, holds: impl Fn() -> bool) -> bool {
    let (mut limit, mut disk_waits, mut is_after_disk) = (longest, MOST_DISK_WAITS, false);
    while !until(limit, &holds) {
        let is_on_disk = disk_waits > 0 && monitor::callback_waits_for_a_disk();
        disk_waits -= u32::from(is_on_disk);
        // When the disk is done, the callback still has something to do. It may have been done just now.
        if !is_on_disk && !mem::take(&mut is_after_disk) {
            until(longest, || holds() || !hang::may_return());
            return holds() || monitor::callbacks(Duration::ZERO).is_empty() && until(LAST_INSTRUCTIONS, holds);
        }
        is_after_disk |= is_on_disk;
        limit = longest / 2;
    }
    true
}

pub(super) fn number(class: (u32, u16, u16, [u8; 8])) -> u128 {
    u128::from(class.0) << 96
        | u128::from(class.1) << 80
        | u128::from(class.2) << 64
        | u128::from(u64::from_be_bytes(class.3))
}

/// A check of the compiler's, in builds for tests only.
const MISALIGNED: &str = "misaligned pointer dereference";

/// Our own code has panicked. If the profiler is the cause, the run ends, and says so.
fn panicked(message: &str) {
    if message.contains(MISALIGNED) {
        monitor::broken("MOD-01", "an address that the profiler gave is not aligned for what the runtime reads there");
    } else if limits::is_limited() && limits::is_want(message) {
        monitor::raise_limits();
        limits::of_early_end().iter().for_each(monitor::write);
    } else {
        let before = monitor::before().filter(|_| process_wide::is_of_failed_call(message));
        let barriers = before.map_or_else(Vec::new, |before| before.process_wide.barriers_now());
        if barriers.is_empty() {
            return monitor::failed(message);
        }
        process_wide::of_early_end(&barriers).iter().for_each(monitor::write);
    }
    monitor::write(&Line::Done);
    // SAFETY: takes a number. The locks of this thread do not matter any more.
    unsafe { libc::_exit(COMPLETE) };
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
