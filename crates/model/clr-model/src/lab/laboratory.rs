//! Starts runs, several at a time, survives them, and sums up their findings.

use super::backtrace;
use super::clauses::LoadMode;
use super::death::{hung_in, is_after_shutdown, of_death, of_exec, of_hang, of_lost_first, of_time_limit};
use super::monitor::TRACED;
use super::output::OutputReader;
use super::page::{Line, Page};
use super::process_wide;
use super::report::{Report, RunResult, add_up};
use super::run::{COMPLETE, ClientData, RunSpec, is_of_heap};
use super::run_processes::{Run, RunProcesses};
use crate::differences::RuntimeVersion;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Longest run, besides its waits for detach requests. A longer one hangs where it cannot detect it itself, for example in a constructor of
/// the library.
const LONGEST_RUN: Duration = Duration::from_secs(20);
/// The number of waits that this is divided into.
const TURNS: u32 = 100;
/// The most waits of a run: it may attach twice.
const WAITS: u32 = 2;
/// How long the first run of each runtime waits for a detach request by default. Later runs wait as long if one came, or if it ended early.
pub const WAIT: Duration = Duration::from_secs(1);
/// The wait of later runs if no request came.
const SHORT_TIMEOUT: Duration = Duration::from_millis(30);
/// Maximum of hanging runs for a runtime; the remaining runs are skipped.
const MOST_HANGS: usize = 2;
/// Runs at a time per CPU: they mostly wait.
const RUNS_A_PROCESSOR: usize = 3;

/// What a file is, and when it changed last: device, inode, length, and the time.
type FileState = Option<(u64, u64, u64, i64, i64)>;
/// The libraries as they were at the start, by their paths.
type Files = BTreeMap<String, FileState>;

/// Then a run says nothing about the profiler.
const CHANGED: &str = "was changed, replaced or deleted while it was tested, by the profiler itself or by somebody else: the verdicts are those of the runs before; test a copy that stays as it is";

/// The runtime's side has done everything, and the process is still there at the end of the run's time.
const EXIT_HANGS: &str = "the process did not end: its exit hangs";

/// Standard output is the program's.
const WRITES: &str = "the profiler writes to standard output, which belongs to the program";

/// The subject and the settings of a check.
pub struct Laboratory<'a> {
    /// The profiler's library.
    pub library: String,
    /// Its separate library for heaps, if any: Remora's own agent has one.
    pub library_for_heaps: Option<String>,
    /// The profiler's class; any class if none is given.
    pub class: Option<u128>,
    /// The data for InitializeForAttach; empty if none is given.
    pub client_data: Option<ClientData>,
    /// The path of [`write_own_library`](crate::runtime::write_own_library), if profilers are to find the runtime's library.
    pub own_library: Option<String>,
    /// How the library is loaded.
    pub mode: LoadMode,
    /// How long the first run of each runtime waits for a detach request: [`WAIT`] by default.
    pub wait: Duration,
    /// The runtimes.
    pub runtime_versions: Vec<RuntimeVersion>,
    /// Schedules for each runtime.
    pub seeds: u64,
    /// A command that calls [`super::run::run`] with this specification.
    pub command: &'a (dyn Fn(&str) -> Command + Sync),
    /// Set to stop: the current runs end, and none of their processes remains.
    pub interrupted: &'a AtomicBool,
}

impl Laboratory<'_> {
    /// Makes all runs.
    pub fn run(&self) -> Report {
        let run_processes = RunProcesses::new();
        let libraries = [Some(&self.library), self.library_for_heaps.as_ref()].into_iter().flatten();
        let files: Files = libraries.map(|library| (library.clone(), state_of(library))).collect();
        let first: Vec<RunSpec> = self.runtime_versions.iter().map(|one| self.order(*one, 0, self.wait)).collect();
        let mut all = self.all(&run_processes, &files, &first);
        // One that ended before its time may have been about to ask.
        let waits = |ran: &RunResult| ran.asked || !ran.lines.contains(&Line::Done);
        let waits: BTreeMap<&str, bool> =
            all.iter().flatten().map(|ran| (name(ran.runtime_version), waits(ran))).collect();
        let later: Vec<RunSpec> = (1..self.seeds)
            .flat_map(|seed| self.runtime_versions.iter().map(move |one| (seed, *one)))
            .map(|(seed, one)| {
                let waits = waits.get(name(one)).copied().unwrap_or(false);
                self.order(one, seed, if waits { self.wait } else { self.wait.min(SHORT_TIMEOUT) })
            })
            .collect();
        let wanted = (first.len() + later.len()) as u64;
        all.extend(self.all(&run_processes, &files, &later));
        let mut report = add_up(self.mode, &all);
        report.left_out = wanted - all.len() as u64;
        report
    }

    fn order(&self, runtime_version: RuntimeVersion, seed: u64, timeout: Duration) -> RunSpec {
        let library = self.library_for_heaps.as_ref().filter(|_| is_of_heap(seed)).unwrap_or(&self.library).clone();
        let (class, client_data, own_library) = (self.class, self.client_data.clone(), self.own_library.clone());
        let runtime_version = name(runtime_version).to_owned();
        RunSpec { library, class, client_data, mode: self.mode, runtime_version, seed, timeout, own_library }
    }

    /// Several runs at a time. Missing results were skipped.
    fn all(&self, run_processes: &RunProcesses, files: &Files, orders: &[RunSpec]) -> Vec<Result<RunResult, String>> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let hangs: Mutex<BTreeMap<String, usize>> = Mutex::default();
        let work = || {
            while let Some(order) = orders.get(next.fetch_add(1, Ordering::SeqCst)) {
                if self.interrupted.load(Ordering::SeqCst) {
                    return;
                }
                let hung = hangs.lock().expect("no panic while locked").get(&order.runtime_version).copied();
                if hung.unwrap_or(0) >= MOST_HANGS {
                    continue;
                }
                let before = files.get(&order.library).copied().flatten();
                let ran = self.one(run_processes, order, before);
                if self.interrupted.load(Ordering::SeqCst) {
                    return;
                }
                if ran.as_ref().is_ok_and(|ran| ran.hung) {
                    *hangs.lock().expect("no panic while locked").entry(order.runtime_version.clone()).or_default() +=
                        1;
                }
                done.lock().expect("no panic while locked").push(ran);
            }
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 1..processors * RUNS_A_PROCESSOR {
                // If the system has no more threads, fewer runs go on at a time.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        done.into_inner().expect("no panic while locked")
    }

    /// A run on a file that changes meanwhile says nothing.
    fn one(&self, run_processes: &RunProcesses, order: &RunSpec, before: FileState) -> Result<RunResult, String> {
        let is_same = || {
            let is_same = state_of(&order.library) == before;
            if is_same { Ok(()) } else { Err(format!("the file {} {CHANGED}", order.library)) }
        };
        is_same()?;
        let ran = self.run_one(run_processes, order).map_err(|error| why_not_started(&error))?;
        is_same()?;
        Ok(ran)
    }

    fn run_one(&self, run_processes: &RunProcesses, order: &RunSpec) -> io::Result<RunResult> {
        let page = Page::new()?;
        let words = serde_json::to_string(order).map_err(io::Error::other)?;
        let (reader, stdout, stderr) = OutputReader::begin()?;
        let mut command = (self.command)(&words);
        command.stdin(page.for_run()?).stdout(stdout).stderr(stderr);
        // A group of its own: processes that the profiler starts end with the run.
        let run = run_processes.start(command.process_group(0))?;
        drop(command);
        let longest = LONGEST_RUN + order.timeout.saturating_sub(WAIT) * WAITS;
        let (ended, is_traced) = wait(&run, longest, self.interrupted)?;
        let stopped = !ended && run.is_stopped();
        let has_lost_first = !ended && run.has_lost_first();
        let (other, time_limit, filters) = (run.other_program(), run.reached_time_limit(), run.filters());
        let status = run.end()?;
        let output = reader.end();
        let mut lines = page.lines();
        let is_done = lines.contains(&Line::Done);
        let mut own_lines = lines.len();
        let is_filtered = lines.iter().any(|line| matches!(line, Line::Filters(before) if filters > *before));
        let other = other.filter(|_| !is_done && page.crash().is_none() && (!ended || status.code().is_some()));
        if let Some(other) = &other {
            // The kernel gives a process that becomes another one no more threads: the model may fail then.
            lines.retain(|line| !matches!(line, Line::Failed(_)));
            own_lines = lines.len();
            lines.push(of_exec(other));
        } else if has_lost_first {
            lines.push(of_lost_first());
        } else if !ended && is_done {
            lines.push(Line::Hangs { clause: "DET-17".into(), callback: None, message: EXIT_HANGS.into() });
        } else if !ended && is_filtered && !stopped && page.callbacks().is_empty() {
            // No callback hangs, so the model waits for what it may not do.
            lines.extend(process_wide::of_early_end(&[process_wide::FILTERS]));
        } else if !ended {
            lines.extend(of_hang(&page, stopped));
        } else if let Some((signal, seconds)) = of_time(status, is_done, time_limit) {
            lines.push(of_time_limit(signal, seconds));
        } else if !is_done || status.code() != Some(COMPLETE) {
            lines.extend(of_death(&page, status, is_done, &output.stderr, is_filtered));
        }
        if is_filtered {
            lines.push(Line::Seen(process_wide::changed(process_wide::FILTERS)));
        }
        let hung = !ended || lines.iter().any(|line| matches!(line, Line::Hangs { .. }));
        if is_traced {
            lines.push(Line::Seen(TRACED.to_owned()));
        }
        if output.has_stdout {
            lines.push(Line::Seen(WRITES.to_owned()));
        }
        let asked = lines.contains(&Line::AskedForDetach);
        let runtime_version = RuntimeVersion::by_name(&order.runtime_version).unwrap_or(RuntimeVersion::Core8);
        let (seed, backtrace, after_shutdown) = (order.seed, backtrace::frames(&page), is_after_shutdown(&page));
        let stderr = output.stderr;
        let hung_in = hung_in(&page);
        let running = page.callbacks().into_iter().map(|running| running.name).collect();
        Ok(RunResult {
            runtime_version,
            seed,
            library: order.library.rsplit('/').next().unwrap_or_default().to_owned(),
            lines,
            own_lines,
            hung,
            asked,
            backtrace,
            hung_in,
            running,
            after_shutdown,
            stderr,
        })
    }
}

fn state_of(library: &str) -> FileState {
    let file = fs::metadata(library).ok()?;
    Some((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

/// Signal and limit, if the system has ended the process at its limit of CPU time.
fn of_time(status: ExitStatus, is_done: bool, limit: Option<u64>) -> Option<(i32, u64)> {
    let signal = status.signal().filter(|signal| !is_done && matches!(*signal, libc::SIGKILL | libc::SIGXCPU))?;
    Some((signal, limit?))
}

/// Which limit of the system prevented a start.
fn why_not_started(error: &io::Error) -> String {
    let limit = match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "; raise the limit of open files (`ulimit -n`)",
        Some(libc::EAGAIN) => "; raise the limit of processes (`ulimit -u`)",
        _ => "",
    };
    format!("a run could not be started: {error}{limit}")
}

fn name(runtime_version: RuntimeVersion) -> &'static str {
    runtime_version.differences().name
}

/// Whether the process ended in time, and whether it let itself be traced. It waits in turns: while the whole machine is suspended, only
/// one turn passes.
fn wait(run: &Run, longest: Duration, interrupted: &AtomicBool) -> io::Result<(bool, bool)> {
    let descriptor = pidfd_open(run.pid, PidfdFlags::empty())?;
    let mut is_traced = false;
    let turn = longest / TURNS;
    let turn = Timespec { tv_sec: turn.as_secs() as i64, tv_nsec: turn.subsec_nanos().into() };
    for _ in 0..TURNS {
        if interrupted.load(Ordering::SeqCst) {
            break;
        }
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&turn)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => is_traced |= run.release_traced(),
            Ok(_) => return Ok((true, is_traced)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((false, is_traced))
}
