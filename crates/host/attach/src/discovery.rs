//! Finding the processes that run .NET.
//!
//! A process that ends while it is looked at is left out; one that may not be looked into is listed as far as its
//! socket betrays it.

use crate::error::{Error, Reason};
use crate::proc::{Proc, is_out_of_descriptors};
use crate::process::refusal;
use crate::process::{Process, has_ended, inspect, unexamined};
use crate::survey::Survey;
use crate::windowed::Limit;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Time for the files of one of many processes.
const TIME_IN_A_LIST: Duration = Duration::from_secs(2);
/// Time for those of the process that the caller named.
const TIME_ALONE: Duration = Duration::from_secs(10);
/// Time for all else that is read of a process: little, unless it keeps us waiting.
const TIME_BESIDE: Duration = Duration::from_secs(1);

/// Finds one process by its id, or by the id of one of its threads.
pub fn find(pid: u32) -> Result<Process, Error> {
    find_in(&Proc::default(), pid)
}

/// All that a process has started, and what these have, as far as they are still below it: parents before their children.
pub fn descendants(pid: u32) -> Vec<u32> {
    descendants_in(&Proc::default(), pid)
}

/// Like [`descendants`], in another `/proc`.
pub fn descendants_in(proc: &Proc, pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        // The kernel could show a process twice while its parent ends.
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
    match inspect_within(TIME_ALONE, proc, pid, &Arc::new(Survey::begin())).map_err(unread)? {
        Some(process) => Ok(process),
        None => Err(unrecognised(proc, pid)),
    }
}

/// Like [`processes`], in another `/proc`.
pub fn processes_in(proc: &Proc) -> Result<Vec<Process>, Error> {
    let survey = Arc::new(Survey::begin());
    let ourselves = std::process::id();
    let pids = proc.pids().map_err(|error| Error::io("read", proc.path(0, "").join(".."), error))?;
    let mut found = Vec::new();
    for pid in pids.into_iter().filter(|pid| *pid != ourselves) {
        match inspect_within(TIME_IN_A_LIST, proc, pid, &survey) {
            Ok(process) => found.extend(process),
            // Without descriptors none is seen, which is not to say that there is none.
            Err(error) if is_out_of_descriptors(&error) => return Err(Error::unread(proc, pid, error)),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Looks at a process, and at its files for this long, in a thread of its own. The thread is left behind if it takes longer. A process can keep whoever reads its files in `/proc`
/// waiting: its arguments, for one, lie in its own memory, and that in a file system of its own.
fn inspect_within(time: Duration, proc: &Proc, pid: u32, survey: &Arc<Survey>) -> io::Result<Option<Process>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let (theirs, survey) = (proc.clone(), Arc::clone(survey));
    let look = move || drop(sender.send(inspect(&theirs, pid, &survey, time)));
    let thread = std::thread::Builder::new().name("inspect".to_owned()).spawn(look)?;
    match receiver.recv_timeout(time + TIME_BESIDE) {
        Ok(found) => found,
        Err(RecvTimeoutError::Timeout) => Ok(unexamined(proc, pid, Limit::Time)),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => Ok(None),
        },
    }
}

/// No sign of .NET: because there is none, or because we may not look?
fn unrecognised(proc: &Proc, pid: u32) -> Error {
    let (stat, status) = match (proc.stat(pid), proc.status(pid)) {
        (Ok(stat), Ok(status)) => (stat, status),
        (Err(error), _) | (_, Err(error)) => return Error::unread(proc, pid, error),
    };
    let not_attachable = |reason| Error::NotAttachable { pid, reason };
    match proc.maps(pid) {
        _ if has_ended(&stat) => not_attachable(Reason::Ended),
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
