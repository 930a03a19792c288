//! Stops the forked copy of a target during its heap walk.
//!
//! A heap of some million objects is walked in hundredths of a second, too fast to catch by polling. So the command is stopped before the
//! fork. Then nobody drains the copy's ring, and the copy waits for space.

use crate::{Remora, Target, until};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

/// The command is resumed before every `CHECKS`-th check.
const CHECKS: u32 = 20;

/// A stopped copy. It needs more data than the ring has space for: two million objects.
#[derive(Debug)]
pub struct HeldCopy {
    pid: u32,
}

impl HeldCopy {
    /// The copy of `command`'s snapshot of `target`. The command continues once the copy is stopped.
    pub fn of(target: &Target, command: &Remora) -> HeldCopy {
        let waiting = WaitingCopy::of(target, command);
        signal(waiting.pid, Signal::STOP);
        let pid = waiting.pid;
        waiting.command_goes_on();
        HeldCopy { pid }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Resumes it, unless the agent has ended it since, as it does after its command has ended.
    pub fn go_on(&self) {
        let sent = kill_process(as_pid(self.pid), Signal::CONT);
        assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "process {} cannot be signalled: {sent:?}", self.pid);
    }

    /// Kills it.
    pub fn kill(&self) {
        signal(self.pid, Signal::KILL);
    }

    /// Waits until it has ended, for any reason. Its parent may not have reaped it yet.
    pub fn until_it_has_ended(&self) {
        until("the copy has ended", || matches!(state(self.pid), None | Some('Z')));
    }
}

/// A copy that waits for space in the ring, because its command is stopped.
#[derive(Debug)]
pub struct WaitingCopy {
    pid: u32,
    /// The command's process id.
    remora: u32,
}

impl WaitingCopy {
    /// The copy of `command`'s snapshot of `target`; as for [`HeldCopy`] it needs more data than the ring has space for.
    pub fn of(target: &Target, command: &Remora) -> WaitingCopy {
        until("the agent is there", || has_agent(target.pid()));
        let remora = innermost(command.pid());
        let (mut looks, mut copy) = (0, None);
        // The copy may do everything before the walk, but cannot finish the walk. A copy that finds the heap inconsistent ends by itself,
        // and another is forked.
        until("the copy waits for room", || {
            // Until the start message the agent needs the command, which is resumed for a moment now and then.
            if copy.is_none() && looks % CHECKS == 0 {
                signal(remora, Signal::CONT);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            signal(remora, Signal::STOP);
            looks += 1;
            copy = children(target.pid()).next();
            copy.is_some_and(|copy| state(copy) == Some('S'))
        });
        let pid = copy.unwrap_or_else(|| panic!("there is no copy"));
        WaitingCopy { pid, remora }
    }

    /// Waits until it has ended, for any reason.
    pub fn until_it_has_ended(&self) {
        until("the copy has ended", || matches!(state(self.pid), None | Some('Z')));
    }

    /// Resumes the command, which drains the ring.
    pub fn command_goes_on(self) {
        signal(self.remora, Signal::CONT);
    }
}

/// State of a process, as the kernel reports it: `S` sleeping, `T` stopped, `Z` zombie.
pub fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn signal(process: u32, signal: Signal) {
    kill_process(as_pid(process), signal)
        .unwrap_or_else(|error| panic!("process {process} cannot be signalled: {error}"));
}

fn as_pid(process: u32) -> Pid {
    Pid::from_raw(process as i32).unwrap_or_else(|| panic!("no process has the number 0"))
}

/// The last in a chain of processes that start each other: the command of a script.
fn innermost(process: u32) -> u32 {
    children(process).last().map_or(process, innermost)
}

fn threads(process: u32) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    entries.flatten().map(|entry| entry.path())
}

/// Cheaper than all [`crate::Facts`], which matters here.
fn children(process: u32) -> impl Iterator<Item = u32> {
    let lists = threads(process).map(|thread| fs::read_to_string(thread.join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>())
}

fn has_agent(process: u32) -> bool {
    threads(process)
        .any(|thread| fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("remora-agent")))
}
