//! A process that the harness started: signals, and the wait for its end.

use crate::TIMEOUT;
use rustix::process::{Pid, Signal};
use std::process::{Child, ExitStatus};
use std::time::Instant;

/// Waits for a child, at most for [`TIMEOUT`].
pub(crate) fn wait_for(child: &mut Child, name: &str) -> ExitStatus {
    if let Ok(Some(status)) = child.try_wait() {
        return status;
    }
    let end = Instant::now() + TIMEOUT;
    let process = Pid::from_child(child);
    let handle = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty())
        .unwrap_or_else(|error| panic!("cannot watch {name}: {error}"));
    let mut watched = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
    let left = end.saturating_duration_since(Instant::now());
    let limit = rustix::event::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: 0 };
    match rustix::event::poll(&mut watched, Some(&limit)) {
        Ok(0) => panic!("{name} did not end"),
        Ok(_) => child.wait().unwrap_or_else(|error| panic!("cannot wait for {name}: {error}")),
        Err(error) => panic!("cannot watch {name}: {error}"),
    }
}

/// Sends a signal to a process that one of our values owns.
pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).unwrap_or_else(|| panic!("{pid} is no process id"));
    if let Err(error) = rustix::process::kill_process(pid, signal) {
        panic!("cannot signal {pid:?}: {error}");
    }
}
