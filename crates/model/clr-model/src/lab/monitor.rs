//! What the runtime's side observes of a profiler in a laboratory run. Outside a run, every function here does nothing.
//!
//! The runtime's files call these functions at places that only the laboratory checks.

mod running;

use super::clauses::LoadMode;
use super::leftovers::{Leftover, ProcessState};
use super::page::{Line, PageWriter, SHUTDOWN};
use super::process_wide::ProcessWide;
use super::signals::SignalMasks;
use super::tracers::Tracers;
use super::unload::{self, Unload};
use super::{limits, observer, system};
use crate::schedule::{self, Task, threads};
use corprof::{HResult, sys};
use remora_clr_abi::slot_lists::ABOUT_IDS;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long the thread that requests the detach is kept in its call, unless the library is unmapped earlier; nanoseconds of model time.
const HELD: u64 = 60_000_000_000;

/// A longer Shutdown is worth a remark.
const SLOW_SHUTDOWN: Duration = Duration::from_secs(1);

/// For what no thread of the runtime's side did.
pub(super) const ON_OWN_THREAD: &str = ", on a thread of the profiler's own";

/// Calls that a profiler makes before it knows whether it has work: they are no work.
const FIRST_QUESTIONS: [&str; 6] = [
    "SetEventMask",
    "SetEventMask2",
    "GetEventMask",
    "GetEventMask2",
    "GetRuntimeInformation",
    "GetEnvironmentVariable",
];

pub(super) use running::Running;
pub use running::{abandon, callback_waits_for_a_disk, callbacks, running};

static MONITOR: OnceLock<Monitor> = OnceLock::new();

pub(super) struct Monitor {
    writer: PageWriter,
    mode: LoadMode,
    /// Whether the unload overtakes the requesting thread (contract DET-08).
    holds_askers: bool,
    before: OnceLock<Baseline>,
    state: Mutex<State>,
    asked: AtomicU32,
    unmapped: AtomicU32,
    held: AtomicU32,
    /// The model's time when a thread was last held.
    held_since: AtomicU64,
    over: AtomicBool,
}

/// The process at an instant.
#[derive(Debug)]
pub(super) struct Baseline {
    pub(super) state: ProcessState,
    pub(super) process_wide: ProcessWide,
    pub(super) tracers: Tracers,
}

#[derive(Default)]
struct State {
    exercised: BTreeSet<&'static str>,
    broken: BTreeSet<(String, String)>,
    remarks: BTreeSet<(&'static str, String)>,
    /// Calls that the model answered with an error.
    refused: BTreeSet<(&'static str, i32)>,
    works: bool,
    failed: bool,
    callbacks: HashMap<Task, Vec<Called>>,
    unload: Unload,
    signals: SignalMasks,
    /// MONITOR_GC was refused in this callback, and no mask has been granted since.
    refused_collections: Option<Option<&'static str>>,
}

/// A running callback.
struct Called {
    name: &'static str,
    since: Instant,
    /// The system's number of its thread.
    thread: u32,
    /// The signals that its thread blocked before.
    blocked: system::BlockedSignals,
}

/// Makes this process a laboratory run.
pub fn install(writer: PageWriter, mode: LoadMode, holds_askers: bool) {
    system::prepare(writer.memory());
    limits::begin();
    // The first and only call.
    let _ = MONITOR.set(Monitor {
        writer,
        mode,
        holds_askers,
        before: OnceLock::new(),
        state: Mutex::default(),
        asked: AtomicU32::new(0),
        unmapped: AtomicU32::new(0),
        held: AtomicU32::new(0),
        held_since: AtomicU64::new(0),
        over: AtomicBool::new(false),
    });
}

/// Whether this process is a laboratory run.
pub fn is_installed() -> bool {
    MONITOR.get().is_some()
}

/// The clause that every loaded profiler exercises.
pub fn clause_of_load() -> &'static str {
    MONITOR.get().map_or(LoadMode::Attach, |monitor| monitor.mode).clause_of_load()
}

/// Records the process's current resources, which are not the profiler's. Without this record, everything would be the profiler's: then
/// the run has failed.
///
/// # Errors
/// Why there is no record.
pub fn begin() -> Result<(), String> {
    let Some(monitor) = MONITOR.get() else { return Ok(()) };
    observer::begin();
    let baseline = Baseline::now().ok_or_else(|| {
        format!(
            "a run could not look at its own process within {} s: the machine has too much to do",
            observer::LONGEST.as_secs()
        )
    })?;
    if baseline.state.is_hidden() {
        return Err("a run could not look at its own process: mount /proc, and let it open files".to_owned());
    }
    monitor.writer.write(&Line::Filters(baseline.process_wide.filters()));
    // The first and only call.
    let _ = monitor.before.set(baseline);
    Ok(())
}

/// The monitor of this process.
pub(super) fn of_this_process() -> Option<&'static Monitor> {
    MONITOR.get()
}

/// What [`begin`] has recorded.
pub(super) fn before() -> Option<&'static Baseline> {
    MONITOR.get()?.before.get()
}

/// The resources added since [`begin`]. `None` if the process cannot be looked at.
pub fn leftovers() -> Option<Vec<Leftover>> {
    MONITOR.get().map_or_else(|| Some(Vec::new()), |monitor| monitor.beyond(None))
}

/// The runtime is about to unload the library.
pub fn unload_begins() {
    if let Some(monitor) = MONITOR.get() {
        monitor.unload_begins(true);
    }
}

/// Whether no thread of the profiler runs any more that ran when the unload began, or such threads have a finding.
pub fn unload_is_settled() -> bool {
    has_broken(unload::CLAUSE)
        || MONITOR.get().is_none_or(|monitor| monitor.unloaded_under().is_some_and(|left| left.is_empty()))
}

/// Ends the wait for those threads. Reports the ones that still run.
pub fn unload_is_over() {
    let Some(monitor) = MONITOR.get() else { return };
    let Some(left) = monitor.unloaded_under() else { return };
    if left.is_empty() {
        monitor.end_unload();
    } else if !has_broken(unload::CLAUSE) {
        left.iter().for_each(|thread| broken_in(unload::CLAUSE, Some(unload::CALL), &unload::message(thread)));
    }
}

/// The laboratory itself failed.
pub fn failed(why: &str) {
    if let Some(monitor) = MONITOR.get() {
        monitor.lock().failed = true;
        monitor.writer.write(&Line::Failed(why.to_owned()));
    }
}

/// Whether it did.
pub fn has_failed() -> bool {
    MONITOR.get().is_some_and(|monitor| monitor.lock().failed)
}

/// The callbacks that have changed for good which signals their thread blocks.
pub(super) fn changed_signals(program: &[Task]) -> BTreeSet<&'static str> {
    MONITOR.get().map_or_else(BTreeSet::new, |monitor| monitor.lock().signals.changed_by(program))
}

/// The profiler has detached.
pub fn has_left() {
    if let Some(monitor) = MONITOR.get() {
        monitor.lock().signals.end();
    }
}

/// Whether what the profiler leaves cannot be looked at.
pub fn is_hidden() -> bool {
    is_installed() && ProcessState::now().is_none_or(|state| state.is_hidden())
}

/// A thread of the process has a tracer.
pub const TRACED: &str = "the profiler lets a thread of the process be traced, as a debugger does (ptrace): each signal stops that thread until the tracer lets it go on";

/// The profiler does what no clause is about.
pub(super) fn seen(message: &str) {
    write(&Line::Seen(message.to_owned()));
}

/// Writes a line.
pub fn write(line: &Line) {
    if let Some(monitor) = MONITOR.get() {
        monitor.writer.write(line);
    }
}

/// Whether the run has ended.
pub(super) fn is_over() -> bool {
    MONITOR.get().is_some_and(|monitor| monitor.over.load(Ordering::SeqCst))
}

/// Ends the run: afterwards only a crash counts. A hanging callback may prevent the exit, so `hangs` kills the process.
pub fn end(hangs: bool) {
    let Some(monitor) = MONITOR.get() else { return };
    monitor.over.store(true, Ordering::SeqCst);
    system::ends();
    monitor.writer.write(&Line::Done);
    if hangs {
        monitor.writer.write(&Line::EndsItself);
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// The profiler exercised a clause.
pub fn exercised(clause: &'static str) {
    let Some(monitor) = MONITOR.get() else { return };
    if monitor.lock().exercised.insert(clause) {
        monitor.writer.write(&Line::Exercised(clause.to_owned()));
    }
}

/// The profiler broke a clause, in the current callback of the running thread.
pub fn broken(clause: &str, message: &str) {
    if let Some(monitor) = MONITOR.get() {
        let callback = monitor.callback_of(schedule::current());
        let is_of_profiler = callback.is_none() && !threads::is_own_thread();
        let whose = if is_of_profiler { ON_OWN_THREAD } else { "" };
        monitor.report(clause, callback, &format!("{message}{whose}"));
    }
}

/// The same, in a callback of another thread.
pub fn broken_in(clause: &str, callback: Option<&'static str>, message: &str) {
    if let Some(monitor) = MONITOR.get() {
        monitor.report(clause, callback, message);
    }
}

/// A callback does not return, or a thread of the profiler's own.
pub(super) fn hangs(clause: &str, callback: Option<&'static str>, message: &str) {
    if let Some(monitor) = MONITOR.get() {
        let (clause, callback, message) = (clause.to_owned(), callback.map(str::to_owned), message.to_owned());
        monitor.writer.write(&Line::Hangs { clause, callback, message });
    }
}

/// The profiler did something harmless that the contract excludes, in the current callback of the running thread.
pub fn remark(clause: &'static str, message: &str) {
    let Some(monitor) = MONITOR.get() else { return };
    if monitor.lock().remarks.insert((clause, message.to_owned())) {
        let callback = monitor.callback_of(schedule::current()).map(str::to_owned);
        let (clause, message) = (clause.to_owned(), message.to_owned());
        monitor.writer.write(&Line::Remark { clause, callback, message });
    }
}

/// The runtime has answered a call of the profiler.
pub fn answered(slot: &'static str, answer: HResult) {
    let Some(monitor) = MONITOR.get() else { return };
    if !FIRST_QUESTIONS.contains(&slot) {
        monitor.works();
    }
    if !answer.is_success() && monitor.lock().refused.insert((slot, answer.0)) {
        monitor.writer.write(&Line::Refused { call: slot.to_owned(), code: answer.0 as u32 });
    }
}

/// Whether this run has broken a clause.
pub fn has_broken(clause: &str) -> bool {
    MONITOR.get().is_some_and(|monitor| monitor.lock().broken.iter().any(|(known, _)| known == clause))
}

/// Whether a finding on this clause begins with these words.
pub(super) fn has_named(clause: &str, words: &str) -> bool {
    let is_it = |(known, message): &(String, String)| known == clause && message.starts_with(words);
    MONITOR.get().is_some_and(|monitor| monitor.lock().broken.iter().any(is_it))
}

/// The running thread calls into the profiler. A callback that an exception leaves is never over: the exception aborts the process, and
/// the name of the callback is still known then.
pub fn callback<R>(name: &'static str, call: impl FnOnce() -> R) -> R {
    let Some(monitor) = MONITOR.get() else { return call() };
    monitor.enter(name);
    let answer = call();
    raise_limits();
    monitor.leave();
    answer
}

/// Raises limits that the profiler has lowered and that the run needs, and says so.
pub fn raise_limits() {
    limits::raise_lowered();
    for (name, value) in limits::newly_lowered() {
        seen(&format!(
            "the profiler lowers the limit {name} of the process to {value}: the program can reach it at any time"
        ));
    }
}

/// Waits a little for the system's scheduler, whose delays are not the profiler's fault. A runtime does not wait for them.
pub fn settle(settled: impl Fn() -> bool) {
    if MONITOR.get().is_some() {
        threads::settle(settled);
    }
}

/// The profiler calls the runtime.
pub fn info_call(slot: &'static str) {
    if MONITOR.get().is_none() {
        return;
    }
    if slot.starts_with("Enum") {
        exercised("CAT-02");
    }
    if ABOUT_IDS.contains(&slot) {
        exercised("CAT-09");
    }
}

/// The profiler has set its event mask, with this answer.
pub fn mask(low: u32, high: Option<u32>, answer: Result<HResult, HResult>) -> Result<HResult, HResult> {
    if let Some(monitor) = MONITOR.get() {
        let answer = answer.unwrap_or_else(|refused| refused);
        exercised("ATT-12");
        if low | high.unwrap_or(0) != 0 {
            monitor.works();
        }
        monitor.check_gc_flags(low, answer);
        let is_forbidden = matches!(
            answer,
            HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER | HResult::E_FAIL | HResult::E_INVALIDARG
        );
        if is_forbidden && monitor.mode == LoadMode::Attach {
            let high = high.map_or(String::new(), |high| format!(", high {high:#x}"));
            let answer = answer.0;
            let message = format!(
                "the event mask {low:#x}{high} has flags that this profiler may not set (answered {answer:#x}); nothing is watched now, ask for those of COR_PRF_ALLOWABLE_AFTER_ATTACH only"
            );
            broken("ATT-12", &message);
        }
    }
    answer
}

/// The profiler forces a GC. `is_reported`: its mask wants GC callbacks.
pub fn forces_collection(is_reported: bool) {
    let Some(monitor) = MONITOR.get() else { return };
    if !is_reported && monitor.lock().refused_collections.is_some() {
        broken(
            "GCH-05",
            &format!(
                "a collection was forced although MONITOR_GC had been refused (CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE): nothing is told of it; ask inside {}, on its thread, and look at the answer",
                monitor.mode.first_callback()
            ),
        );
    }
}

/// The profiler had time to detach, and stays.
pub fn stays() {
    let Some(monitor) = MONITOR.get() else { return };
    let refused = monitor.lock().refused_collections;
    if let Some(callback) = refused {
        broken_in(
            "GCH-05",
            callback,
            &format!(
                "MONITOR_GC was refused (CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE), and the profiler stays as if it had been granted: none of the flags of that call is set; ask inside {}, on its thread, or do without, or leave",
                monitor.mode.first_callback()
            ),
        );
    }
}

/// Accepted detach requests.
pub fn asked() -> u32 {
    MONITOR.get().map_or(0, |monitor| monitor.asked.load(Ordering::SeqCst))
}

/// The library is unmapped: no thread may return into it.
pub fn was_unmapped() {
    let Some(monitor) = MONITOR.get() else { return };
    monitor.unmapped.fetch_add(1, Ordering::SeqCst);
    if monitor.held.load(Ordering::SeqCst) > 0 {
        let milliseconds =
            (schedule::now() - monitor.held_since.load(Ordering::SeqCst)).div_ceil(schedule::MILLISECOND);
        monitor.writer.write(&Line::Preempted { clause: "DET-05".to_owned(), milliseconds });
        monitor.report(
            "DET-05",
            Some("RequestProfilerDetach"),
            "a thread of the profiler's own asked for the detach without a reference of its own on the library, and the library was unmapped before the call had returned; take one before asking, and drop it in the step that ends the thread",
        );
    }
}

impl Baseline {
    /// `None` if the observer did not answer.
    pub(super) fn now() -> Option<Baseline> {
        let (state, process_wide, tracers) = (ProcessState::now()?, ProcessWide::now()?, Tracers::now()?);
        Some(Baseline { state, process_wide, tracers })
    }
}

impl Monitor {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    pub(super) fn beyond(&self, asker: Option<u32>) -> Option<Vec<Leftover>> {
        Some(ProcessState::now()?.beyond(&self.before.get()?.state, asker))
    }

    /// Whether a callback runs on another thread.
    pub(super) fn is_called_beside(&self, task: Task) -> bool {
        self.lock().callbacks.iter().any(|(other, stack)| *other != task && !stack.is_empty())
    }

    fn report(&self, clause: &str, callback: Option<&'static str>, message: &str) {
        let (clause, callback, message) = (clause.to_owned(), callback.map(str::to_owned), message.to_owned());
        if !self.over.load(Ordering::SeqCst) && self.lock().broken.insert((clause.clone(), message.clone())) {
            self.writer.write(&Line::Broken { clause, callback, message });
        }
    }

    /// Threads that the profiler has started since [`begin`], by system thread ID.
    fn threads(&self) -> Option<BTreeMap<u32, String>> {
        self.before.get()?.state.new_threads()
    }

    /// The threads that ran when the unload began, and still run.
    fn unloaded_under(&self) -> Option<BTreeSet<String>> {
        let threads = self.threads()?;
        Some(self.lock().unload.left(&threads))
    }

    fn unload_begins(&self, unmaps: bool) {
        let Some(threads) = self.threads() else { return };
        let left = self.lock().unload.begins(&threads);
        if left.is_empty() {
            return self.end_unload();
        }
        // A thread that was reported at the detach request is not reported again.
        let unreported = if has_broken(unload::CLAUSE) { Vec::new() } else { left.into_iter().collect() };
        self.writer.write(&Line::UnloadBegins { threads: unreported, unmaps });
    }

    /// From here on, a crash has another cause.
    fn end_unload(&self) {
        if self.lock().unload.end() {
            self.writer.write(&Line::UnloadIsOver);
        }
    }

    fn works(&self) {
        if !std::mem::replace(&mut self.lock().works, true) {
            self.writer.write(&Line::Worked);
        }
    }

    pub(super) fn callback_of(&self, task: Task) -> Option<&'static str> {
        self.lock().callbacks.get(&task).and_then(|stack| Some(stack.last()?.name))
    }

    fn enter(&self, name: &'static str) {
        if name == "Release" {
            self.unload_begins(false);
        }
        if name == SHUTDOWN {
            self.writer.write(&Line::ShutsDown);
        }
        let task = schedule::current();
        let blocked = system::blocked_signals();
        let since = Instant::now();
        let called = Called { name, since, thread: threads::this_thread(), blocked };
        let mut state = self.lock();
        state.callbacks.entry(task).or_default().push(called);
        if threads::is_own_thread() {
            state.signals.enter(task, name, blocked);
        }
        drop(state);
        self.writer.seat(task.0, name, since);
    }

    fn leave(&self) {
        let task = schedule::current();
        let blocked = system::blocked_signals();
        let slow;
        let outer = {
            let mut state = self.lock();
            let stack = state.callbacks.entry(task).or_default();
            let (left, outer) = (stack.pop(), stack.last().map(|called| (called.name, called.since)));
            slow = left.as_ref().is_some_and(|left| left.name == SHUTDOWN && left.since.elapsed() > SLOW_SHUTDOWN);
            if let Some(left) = left {
                state.signals.leave(task, left.name, (left.blocked, blocked));
            }
            outer
        };
        if slow {
            remark("DET-17", "Shutdown took longer than a second: the exit of a program waits for it");
        }
        let (name, since) = outer.unwrap_or(("", Instant::now()));
        self.writer.seat(task.0, name, since);
    }

    /// A refusal is no fault, since the runtime collects concurrently. Ignoring it is a fault.
    fn check_gc_flags(&self, low: u32, answer: HResult) {
        let is_refused = matches!(
            answer,
            HResult::CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE | HResult::CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC
        );
        if low & sys::COR_PRF_MONITOR_GC != 0 && (is_refused || answer.is_success()) {
            exercised("GCH-05");
        }
        let callback = self.callback_of(schedule::current());
        let mut state = self.lock();
        if is_refused {
            state.refused_collections = Some(callback);
        } else if answer.is_success() {
            state.refused_collections = None;
        }
    }

    /// The detach request was accepted.
    pub(super) fn accepted(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        system::asks();
        self.writer.write(&Line::AskedForDetach);
        exercised("DET-02");
    }

    /// The running thread, one of the profiler's own, has asked for it.
    pub(super) fn has_asked(&self) {
        self.lock().unload.asks(threads::this_thread());
        exercised("DET-05");
        self.hold();
    }

    /// Keeps the requesting thread in its call, so that the unload overtakes it. A thread whose library is unmapped never returns.
    fn hold(&self) {
        if !self.holds_askers {
            return;
        }
        let before = self.unmapped.load(Ordering::SeqCst);
        self.held_since.store(schedule::now(), Ordering::SeqCst);
        self.held.fetch_add(1, Ordering::SeqCst);
        let released = || self.unmapped.load(Ordering::SeqCst) != before || RELEASED.load(Ordering::SeqCst);
        schedule::wait_until(Some(HELD), released);
        if self.unmapped.load(Ordering::SeqCst) != before {
            schedule::wait_until(None, || false);
            loop {
                std::thread::park();
            }
        }
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The runtime has released its reference, and the library is still mapped: kept threads may continue.
static RELEASED: AtomicBool = AtomicBool::new(false);

/// See [`RELEASED`].
pub fn release_askers(released: bool) {
    RELEASED.store(released, Ordering::SeqCst);
}
