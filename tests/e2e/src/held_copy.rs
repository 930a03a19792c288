//! The copy of a target that walks its heap, caught and standing still.
//!
//! A heap of some million objects is walked in hundredths of a second: too fast for whoever looks now and then. So the command is halted
//! before there is a copy. Then nobody takes what the copy tells, and it waits for room.

use crate::{Remora, Target, until};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

/// Before one of so many looks the command goes on.
const LOOKS: u32 = 20;

/// A copy that stands still. It must have more to tell than there is room for: two million objects.
#[derive(Debug)]
pub struct HeldCopy {
    pid: u32,
}

impl HeldCopy {
    /// That of `command`'s snapshot of `target`. The command goes on when the copy stands.
    pub fn of(target: &Target, command: &Remora) -> HeldCopy {
        let waiting = WaitingCopy::of(target, command);
        signal(waiting.pid, Signal::STOP);
        let pid = waiting.pid;
        waiting.command_goes_on();
        HeldCopy { pid }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// It walks on, if the agent has not ended it meanwhile, as it does where its command is gone.
    pub fn go_on(&self) {
        let sent = kill_process(as_pid(self.pid), Signal::CONT);
        assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "process {} cannot be signalled: {sent:?}", self.pid);
    }

    /// It ends.
    pub fn kill(&self) {
        signal(self.pid, Signal::KILL);
    }

    /// Waits until it has ended, by itself or not. Who may ask for its status, may not have asked.
    pub fn until_it_has_ended(&self) {
        until("the copy has ended", || matches!(state(self.pid), None | Some('Z')));
    }
}

/// A copy that is not halted and waits for room, since its command is halted and takes nothing.
#[derive(Debug)]
pub struct WaitingCopy {
    pid: u32,
    /// The command.
    remora: u32,
}

impl WaitingCopy {
    /// That of `command`'s snapshot of `target`; as for [`HeldCopy`] it must have more to tell than there is room for.
    pub fn of(target: &Target, command: &Remora) -> WaitingCopy {
        until("the agent is there", || has_agent(target.pid()));
        let remora = innermost(command.pid());
        let (mut looks, mut copy) = (0, None);
        // What it does before its walk it is let do, its walk it cannot finish. One whose picture is not true ends by itself, and another
        // one is made.
        until("the copy waits for room", || {
            // Until the agent was told to begin it needs the command, which goes on for a moment now and then.
            if copy.is_none() && looks % LOOKS == 0 {
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

    /// Waits until it has ended, by itself or not.
    pub fn until_it_has_ended(&self) {
        until("the copy has ended", || matches!(state(self.pid), None | Some('Z')));
    }

    /// The command takes what the copy has told.
    pub fn command_goes_on(self) {
        signal(self.remora, Signal::CONT);
    }
}

/// State of a process, as the kernel shows it: `S` sleeps, `T` is halted, `Z` has ended.
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

/// The last of those that a process started that started a process: what a script runs.
fn innermost(process: u32) -> u32 {
    children(process).last().map_or(process, innermost)
}

fn threads(process: u32) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    entries.flatten().map(|entry| entry.path())
}

/// Cheaper than all [`crate::Facts`], which is what counts here.
fn children(process: u32) -> impl Iterator<Item = u32> {
    let lists = threads(process).map(|thread| fs::read_to_string(thread.join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>())
}

fn has_agent(process: u32) -> bool {
    threads(process)
        .any(|thread| fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("remora-agent")))
}
