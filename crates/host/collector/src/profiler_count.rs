//! Corrects the runtime's count of profilers after a main profiler.
//!
//! Since .NET 6 the runtime counts the notification-only profilers. It decrements the count whenever any profiler detaches, even a main one
//! (`DeRegisterProfilerInfo`, vm/profilepriv.inl). If the count is too small, the next notification-only profiler of any vendor gets no
//! callbacks, and its detach crashes the process (measured on 8, 9 and 10). A placeholder profiler that attaches and stays, inert, corrects
//! the count.

use crate::attach::{Started, attach_agent, can_stand_beside};
use crate::attached_agent::AttachedAgent;
use crate::{Error, NotAttached};
use remora_attach::Process;
use remora_receipt::{Facts, ProfilerCount, ProfilerSlot, find_what_stays};
use remora_wire::Task;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// How many agents may attach without callbacks, and stay. Each one makes up for one earlier main profiler whose miscount was never
/// corrected.
const MOST_LOST: usize = 4;

/// First .NET version that counts notification-only profilers.
const FIRST_WITH_COUNT: u32 = 6;

/// The runtime's slots for notification-only profilers (MAX_NOTIFICATION_PROFILERS, vm/profilepriv.h).
const PLACES: usize = 32;

/// Free slots that a main profiler of ours needs: for the placeholder, for the callback check, and for a later attach if the check must
/// stay.
const NEEDED_AFTERWARDS: usize = 3;

/// Maximum wait for the agent's messages before the next check.
const INTERVAL: Duration = Duration::from_millis(10);

/// Checks whether `process` has enough free slots for another main profiler of ours.
///
/// # Errors
/// The number of slots held by our libraries that stay.
pub fn has_places_for_a_main_one(process: &Process) -> Result<(), usize> {
    let held = find_what_stays(Path::new("/proc"), process.pid).len();
    if has_places(held) { Ok(()) } else { Err(held) }
}

fn has_places(held: usize) -> bool {
    held + NEEDED_AFTERWARDS <= PLACES
}

/// Attaches like [`attach_agent`], again if the agent gets no callbacks. Earlier main profilers may have left the count wrong, for example in a
/// killed `remora`. The first agent then gets no callbacks and must stay: that corrects the count by one, and another agent attaches.
///
/// # Errors
/// Those of [`attach_agent`]; the facts list the agents that stay.
pub(crate) fn attach_agent_with_callbacks(
    process: &Process,
    library: &[u8],
    task: Task,
    table: Option<&OwnedFd>,
    timeout: Duration,
) -> Result<(AttachedAgent, Started), NotAttached> {
    let mut lost: Option<Box<Facts>> = None;
    loop {
        let NotAttached { error, facts } = match attach_agent(process, library, task, table, timeout) {
            Ok((mut agent, began)) => {
                if let Some(lost) = lost {
                    agent.facts.absorb(*lost);
                }
                return Ok((agent, began));
            }
            Err(failed) => failed,
        };
        let is_lost = matches!(error, Error::Inert(_)) && slot(facts.as_deref()) == ProfilerSlot::NotificationOnly;
        let facts = both(lost, facts);
        let stayed = facts.as_ref().map_or(0, |facts| facts.stayed.len());
        if !is_lost || stayed > MOST_LOST {
            return Err(NotAttached { error, facts });
        }
        lost = facts;
    }
}

/// The facts of agents without callbacks, with those of the last one. An attach that failed before its agent was in the target has no
/// facts, and keeps those of the others.
fn both(lost: Option<Box<Facts>>, last: Option<Box<Facts>>) -> Option<Box<Facts>> {
    match (lost, last) {
        (Some(lost), Some(mut last)) => {
            last.absorb(*lost);
            Some(last)
        }
        (lost, last) => last.or(lost),
    }
}

fn slot(facts: Option<&Facts>) -> ProfilerSlot {
    facts.map_or(ProfilerSlot::None, |facts| facts.slot)
}

/// Corrects the count after a main profiler of ours has detached or was refused, and checks whether the next profiler gets callbacks.
/// `facts` describe that main profiler; this adds the facts of the profilers attached for the correction.
///
/// # Errors
/// [`Error::Count`] if the count is still wrong, [`Error::CountUnseen`] if the check failed.
pub fn set_count_right(process: &Process, library: &[u8], timeout: Duration, facts: &mut Facts) -> Result<(), Error> {
    if facts.count == ProfilerCount::Right || major(process).is_some_and(|major| major < FIRST_WITH_COUNT) {
        facts.count = ProfilerCount::Right;
        return Ok(());
    }
    if !can_stand_beside(process) {
        return Err(Error::Count("the runtime does not tell its version".into()));
    }
    one_stays(process, library, timeout, facts)?;
    one_is_called(process, library, timeout, facts).map_err(|error| Error::CountUnseen(error.to_string()))?;
    facts.count = ProfilerCount::SetRight;
    Ok(())
}

/// Attaches a notification-only profiler that stays. Its callbacks prove nothing: if another profiler attached in between, the runtime
/// calls this one although the count is too small. The other one then gets no callbacks once this one has detached (seen on 8, 9 and 10).
fn one_stays(process: &Process, library: &[u8], timeout: Duration, facts: &mut Facts) -> Result<(), Error> {
    let (came, stays) = match attach_agent(process, library, Task::Placeholder, None, timeout) {
        // A working agent is not the requested placeholder.
        Ok((agent, _)) => (Some(agent.facts), Err("it did not stay".to_owned())),
        Err(NotAttached { error: Error::Inert(_), facts }) => (facts.map(|facts| *facts), Ok(())),
        Err(NotAttached { error, facts }) => (facts.map(|facts| *facts), Err(error.to_string())),
    };
    let mut came = came.unwrap_or_default();
    facts.staying.append(&mut came.stayed);
    facts.absorb(came);
    stays.map_err(Error::Count)
}

/// Attaches one more agent, which gets callbacks if the count is right, and detaches it. The count is still wrong if an earlier main
/// profiler (of a killed command) was never corrected: then this agent stays, too, and another one attaches. Beside another vendor's
/// notification-only profiler it gets callbacks in any case, and proves nothing.
fn one_is_called(process: &Process, library: &[u8], timeout: Duration, facts: &mut Facts) -> Result<(), Error> {
    let (came, ended) = match attach_agent_with_callbacks(process, library, Task::CallbackCheck, None, timeout) {
        Ok((agent, _)) => leaves(agent),
        Err(NotAttached { error, facts }) => (facts.map(|facts| *facts).unwrap_or_default(), Err(error)),
    };
    facts.absorb(came);
    ended
}

fn leaves(mut agent: AttachedAgent) -> (Facts, Result<(), Error>) {
    let failure = agent.leave(INTERVAL, |_| 0, |_| {}, || false);
    let has_left = agent.detached || !agent.target.maps(&agent.library);
    let AttachedAgent { mut facts, library, .. } = agent;
    let ended = match (failure, facts.inert.clone()) {
        (Some(failure), _) => Err(failure),
        (None, Some(reason)) => Err(Error::Inert(reason)),
        (None, None) if has_left => Ok(()),
        (None, None) => Err(Error::Inert("the runtime did not confirm its detach".into())),
    };
    if ended.is_err() {
        facts.stayed.push(library);
    }
    (facts, ended)
}

fn major(process: &Process) -> Option<u32> {
    process.runtime().and_then(|runtime| runtime.version).map(|version| version.major)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_one_comes_only_where_what_sets_the_count_right_and_one_more_find_places() {
        assert!(has_places(0) && has_places(29));
        assert!(!has_places(30) && !has_places(PLACES));
    }
}
