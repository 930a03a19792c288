//! Finds processes that run .NET.
//!
//! A process that ends meanwhile is omitted; one without read permission is listed as far as its socket reveals it.

mod inspectors;

use crate::error::{Error, Reason};
use crate::proc::{Proc, is_out_of_descriptors};
use crate::process::{Process, refusal, unexamined};
use crate::windowed::Limit;
use inspectors::Inspectors;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time limit for the files of one of many processes.
const TIME_IN_A_LIST: Duration = Duration::from_secs(2);
/// Time limit for the files of a process that the caller named.
const TIME_ALONE: Duration = Duration::from_secs(10);
/// Time for a whole list, beyond what has begun by then. Those that are left are listed without a look.
const TIME_OF_A_LIST: Duration = Duration::from_secs(15);
/// Processes of a list that are looked at at a time: each may keep us waiting.
const AT_A_TIME: usize = 4;
/// Processes of one user that may keep us waiting before the others of that user come last.
const SLOW_OF_A_USER: usize = 2;
/// Processes that may keep us waiting at all; then each has [`SHORT_TIME`]. One user can have 65,536 user ids.
const SLOW_OF_ALL: usize = 4;
const SHORT_TIME: Duration = Duration::from_millis(200);

/// Finds one process by its id, or by the id of one of its threads.
pub fn find(pid: u32) -> Result<Process, Error> {
    find_in(&Proc::default(), pid)
}

/// All descendants of a process that are still below it: parents before their children.
pub fn descendants(pid: u32) -> Vec<u32> {
    descendants_in(&Proc::default(), pid)
}

/// Like [`descendants`], in another `/proc`.
pub fn descendants_in(proc: &Proc, pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        // The kernel may list a process twice while its parent ends.
        found.extend(proc.children(parent).into_iter().filter(|child| !found.contains(child)).collect::<Vec<_>>());
    }
    found.split_off(1)
}

/// All processes that run .NET, by id.
pub fn processes() -> Result<Vec<Process>, Error> {
    processes_in(&Proc::default())
}

/// Like [`find`], in another `/proc`.
pub fn find_in(proc: &Proc, pid: u32) -> Result<Process, Error> {
    let unread = |error| Error::unread(proc, pid, error);
    let status = proc.status(pid).map_err(unread)?;
    let pid = if status.process_id == 0 { pid } else { status.process_id };
    let mut inspectors = Inspectors::new(proc, TIME_ALONE);
    inspectors.begin(pid).map_err(|error| Error::io("start", "a thread", error))?;
    match inspectors.next(Duration::MAX).map_or(Ok(None), |inspected| inspected.found).map_err(unread)? {
        Some(process) => Ok(process),
        None => Err(unrecognised(proc, pid)),
    }
}

/// Like [`processes`], in another `/proc`.
pub fn processes_in(proc: &Proc) -> Result<Vec<Process>, Error> {
    list(proc, Inspectors::new(proc, TIME_IN_A_LIST))
}

fn list(proc: &Proc, mut inspectors: Inspectors<'_>) -> Result<Vec<Process>, Error> {
    let ourselves = std::process::id();
    let of_all = proc.path(0, "").parent().map(Path::to_owned).unwrap_or_default();
    let pids = proc.pids().map_err(|error| Error::io("read", &of_all, error))?;
    if pids.is_empty() {
        let cause = "it shows no process; mount it (`mount -t proc proc /proc`)";
        return Err(Error::io("use", of_all, io::Error::new(io::ErrorKind::NotFound, cause)));
    }
    let mut queue = Queue::of(pids.into_iter().filter(|pid| *pid != ourselves));
    // No process can hold that back.
    let user = |pid| proc.status_without_namespaces(pid).map_or(0, |status| status.effective_uid);
    let deadline = Instant::now() + TIME_OF_A_LIST;
    let mut at_a_time = AT_A_TIME;
    let mut found = Vec::new();
    loop {
        while inspectors.busy() < at_a_time {
            let Some(pid) = queue.next(user) else { break };
            if Instant::now() >= deadline {
                found.extend(unexamined(proc, pid, Limit::Time));
                continue;
            }
            match inspectors.begin(pid) {
                Ok(()) => {}
                Err(error) if inspectors.started() == 0 => return Err(Error::io("start", "a thread", error)),
                // Processes that keep their readers waiting have taken all threads that there may be.
                Err(_) if inspectors.busy() == 0 => found.extend(unexamined(proc, pid, Limit::Time)),
                Err(_) => {
                    at_a_time = inspectors.busy();
                    queue.first.push_front(pid);
                }
            }
        }
        let patience = queue.patience();
        let Some(inspected) = inspectors.next(patience) else { break };
        if inspected.took >= patience.min(TIME_IN_A_LIST) {
            queue.was_slow(user(inspected.pid));
        }
        match inspected.found {
            Ok(process) => found.extend(process),
            // Without descriptors no process is seen, which does not mean that there is none.
            Err(error) if is_out_of_descriptors(&error) => return Err(Error::unread(proc, inspected.pid, error)),
            Err(_) => {}
        }
    }
    found.sort_by_key(|process| process.pid);
    Ok(found)
}

/// The processes to look at. One user's can keep us waiting for all of the time: those of a user with slow ones come last.
#[derive(Debug, Default)]
struct Queue {
    first: VecDeque<u32>,
    last: VecDeque<u32>,
    /// The number of slow processes of each user.
    slow: HashMap<u32, usize>,
}

impl Queue {
    fn of(pids: impl Iterator<Item = u32>) -> Queue {
        Queue { first: pids.collect(), ..Queue::default() }
    }

    fn next(&mut self, user: impl Fn(u32) -> u32) -> Option<u32> {
        while let Some(pid) = self.first.pop_front() {
            if self.slow.is_empty() || self.slow.get(&user(pid)).is_none_or(|slow| *slow < SLOW_OF_A_USER) {
                return Some(pid);
            }
            self.last.push_back(pid);
        }
        self.last.pop_front()
    }

    fn was_slow(&mut self, user: u32) {
        *self.slow.entry(user).or_default() += 1;
    }

    /// How long to wait for one. There can be too many slow ones, whoever they belong to.
    fn patience(&self) -> Duration {
        if self.slow.values().sum::<usize>() < SLOW_OF_ALL { Duration::MAX } else { SHORT_TIME }
    }
}

/// Distinguishes a process without .NET from one that we may not examine.
fn unrecognised(proc: &Proc, pid: u32) -> Error {
    let (stat, status) = match (proc.stat(pid), proc.status(pid)) {
        (Ok(stat), Ok(status)) => (stat, status),
        (Err(error), _) | (_, Err(error)) => return Error::unread(proc, pid, error),
    };
    let not_attachable = |reason| Error::NotAttachable { pid, reason };
    match proc.maps(pid) {
        _ if stat.is_ending() => not_attachable(Reason::Ended),
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Error::unread(proc, pid, error),
        maps => match refusal(proc, pid, &status, &format!("user {}", status.effective_uid)) {
            Some(reason @ Reason::LacksCapability { .. }) => not_attachable(reason),
            Some(reason) if maps.is_err() => not_attachable(reason),
            _ => Error::NotDotNet { pid, name: stat.name },
        },
    }
}

#[cfg(test)]
mod tests;
