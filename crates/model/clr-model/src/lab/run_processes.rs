//! The processes of the runs and their descendants: none outlives its run.
//!
//! A profiler may move its run out of its group, start processes that leave theirs, or have a thread of the run traced. So the laboratory
//! adopts every orphan (`PR_SET_CHILD_SUBREAPER`). When a run has ended, it kills its children, except other
//! runs and the processes in their groups: a run may have started siblings (CLONE_PARENT), and looks for them.

use super::proc_file::{field, state};
use super::process_wide::filters;
use super::tracers::{threads_of, tracer};
use crate::schedule::threads::this_thread;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest time for the end of children.
const LONGEST_CLEANING: Duration = Duration::from_secs(5);
/// Time between two searches for them.
const INTERVAL: Duration = Duration::from_millis(1);

/// Signals that a run has handlers for. A process that becomes another one has no handlers.
const HANDLED: u64 =
    bit(libc::SIGSEGV) | bit(libc::SIGBUS) | bit(libc::SIGILL) | bit(libc::SIGFPE) | bit(libc::SIGTRAP);

/// The current runs. Locked while one starts, so that it is not mistaken for an orphan.
#[derive(Debug, Default)]
pub struct RunProcesses(Mutex<BTreeSet<i32>>);

/// One run.
#[derive(Debug)]
pub struct Run<'a> {
    all: &'a RunProcesses,
    /// Its process.
    pub pid: Pid,
    /// The file of its program, by device and number.
    program: Option<(u64, u64)>,
    /// The kernel's name for it.
    name: Option<String>,
}

impl RunProcesses {
    /// From now on, orphans of the runs become children of this process.
    pub fn new() -> RunProcesses {
        // SAFETY: plain numbers. If the kernel refuses, orphans are not adopted.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        RunProcesses::default()
    }

    /// Starts a run. The same thread must end it.
    ///
    /// # Errors
    /// The system's.
    pub fn start(&self, command: &mut Command) -> io::Result<Run<'_>> {
        let mut runs = self.0.lock().expect("no panic while locked");
        let run = command.spawn()?;
        let pid = Pid::from_child(&run);
        runs.insert(pid.as_raw_nonzero().get());
        Ok(Run { all: self, pid, program: program(pid), name: name(pid) })
    }

    fn orphans(&self) -> Vec<i32> {
        let runs = self.0.lock().expect("no panic while locked");
        let is_of_run = |child: i32| runs.contains(&child) || group(child).is_some_and(|group| runs.contains(&group));
        children().into_iter().filter(|child| !is_of_run(*child)).collect()
    }
}

/// Kills these children until there are none: a killed one may leave others. Returns those that have not ended.
pub(crate) fn end_all(listed: impl Fn() -> Vec<i32>) -> Vec<i32> {
    let begun = Instant::now();
    loop {
        let left = listed();
        if left.is_empty() || begun.elapsed() > LONGEST_CLEANING {
            return left;
        }
        for child in left {
            if let Some(pid) = Pid::from_raw(child) {
                let _ = kill_process(pid, Signal::KILL);
            }
            // Without waiting: the first process of a PID namespace ends only when somebody has waited for all others there.
            // SAFETY: no status is wanted. If another thread has waited for this process, the call fails.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
        }
        std::thread::sleep(INTERVAL);
    }
}

impl Run<'_> {
    /// The name of the program that it has become (exec), if it has. A profiler may only rename the process.
    pub fn other_program(&self) -> Option<String> {
        let is_other = match program(self.pid) {
            Some(program) => self.program.is_some_and(|before| before != program),
            // It has ended. What the kernel still shows until [`Run::end`]: its name, and which signals it handled.
            None => self.name != name(self.pid) && !self.handles_crashes(),
        };
        if is_other { name(self.pid) } else { None }
    }

    fn handles_crashes(&self) -> bool {
        let handled = field(&format!("/proc/{}/status", self.pid), "SigCgt:")
            .and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        handled.is_some_and(|handled| handled & HANDLED == HANDLED)
    }

    /// The filters of system calls (seccomp) of its first thread. Readable until [`Run::end`].
    pub fn filters(&self) -> u64 {
        filters(&format!("/proc/{}/status", self.pid)).unwrap_or_default()
    }

    /// Its limit of CPU time in seconds, if it has reached one that the laboratory does not have.
    pub fn reached_time_limit(&self) -> Option<u64> {
        let limits = field(&format!("/proc/{}/limits", self.pid), "Max cpu time")?;
        let limit = limits.split_ascii_whitespace().next()?.parse().ok()?;
        let own = rustix::process::getrlimit(rustix::process::Resource::Cpu).current;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // After the name: the state is the third field of all, the ticks in the program and in the kernel are the next ones from the 14th.
        let fields = stat.rsplit_once(") ")?.1.split(' ').skip(14 - 3);
        let ticks: u64 = fields.take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        // The kernel's own count is finer.
        let used = ticks / rustix::param::clock_ticks_per_second() + 1;
        (own.is_none_or(|own| limit < own) && used >= limit).then_some(limit)
    }

    /// Lets threads go on that have made this thread their tracer (PTRACE_TRACEME). A signal stops such a thread until its tracer acts, and then
    /// the process cannot end. Returns whether there were any.
    pub fn release_traced(&self) -> bool {
        let (own, run) = (this_thread(), self.pid.as_raw_nonzero().get());
        let threads = threads_of(run.unsigned_abs());
        let traced: Vec<u32> =
            threads.into_iter().filter(|thread| tracer(run.unsigned_abs(), *thread) == Some(own)).collect();
        for thread in &traced {
            // The end of the first thread is that of the process: `end` wants it.
            let end = if thread.cast_signed() == run { 0 } else { libc::WEXITED };
            // SAFETY: all-zero is a valid value of this plain struct.
            let mut state: libc::siginfo_t = unsafe { std::mem::zeroed() };
            let wanted = libc::WSTOPPED | libc::WNOHANG | libc::__WALL | end;
            // SAFETY: a local place for the answer.
            unsafe { libc::waitid(libc::P_PID, *thread, &raw mut state, wanted) };
            if matches!(state.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED) {
                // SAFETY: the call above has filled the place for a child.
                let signal = unsafe { state.si_status() };
                // SAFETY: takes numbers: this thread is the tracer, and the thread is stopped. The signal goes on to it.
                unsafe { libc::ptrace(libc::PTRACE_DETACH, thread.cast_signed(), 0, signal as libc::c_long) };
            }
        }
        !traced.is_empty()
    }

    /// Whether its first thread has ended, and others have not.
    pub fn has_lost_first(&self) -> bool {
        // One that has ended as a whole looks the same, without other threads.
        state(self.pid) == Some('Z') && threads_of(self.pid.as_raw_nonzero().get().unsigned_abs()).len() > 1
    }

    /// Whether its first thread is stopped, by a signal or a tracer.
    pub fn is_stopped(&self) -> bool {
        matches!(state(self.pid), Some('T' | 't'))
    }

    /// Ends the run if necessary, and everything that it started.
    ///
    /// # Errors
    /// The system's, if another thread has already waited for it.
    pub fn end(self) -> io::Result<ExitStatus> {
        // Not waited for yet, so its numbers are still its own. It may have left its group.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = kill_process(self.pid, Signal::KILL);
        let number = self.pid.as_raw_nonzero().get();
        let status = reap(number);
        self.all.0.lock().expect("no panic while locked").remove(&number);
        end_all(|| self.all.orphans());
        status
    }
}

/// Waits for a run of this thread. A thread of the run that this thread traces must be waited for, too, before the run can end.
fn reap(run: i32) -> io::Result<ExitStatus> {
    loop {
        let mut status = 0;
        // SAFETY: a local place for the status. `__WNOTHREAD` leaves children of other threads to them.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if ended < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        } else if ended == run && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status)) {
            return Ok(ExitStatus::from_raw(status));
        }
    }
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn group(process: i32) -> Option<i32> {
    let group = rustix::process::getpgid(Pid::from_raw(process)).ok()?;
    Some(group.as_raw_nonzero().get())
}

/// Not readable any more when the process has ended.
fn program(pid: Pid) -> Option<(u64, u64)> {
    let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((file.dev(), file.ino()))
}

/// Readable until somebody has waited for the process.
fn name(pid: Pid) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
}

/// The children of every thread of this process.
pub(crate) fn children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers = |list: String| list.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<i32>>();
    lists.flat_map(numbers).collect()
}
