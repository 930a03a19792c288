//! What a main profiler leaves behind in the runtime, and how it is set right.
//!
//! Since .NET 6 the runtime counts the notification-only profilers, and takes one off whenever any profiler leaves, a main one, too
//! (`DeRegisterProfilerInfo`, vm/profilepriv.inl). Where the count has become too small the next notification-only profiler, whoever's it
//! is, hears nothing, and its detach ends the process (measured on 8, 9 and 10). One that comes and stays, inert, sets the count right.

use crate::arrival::{Began, arrive, can_stand_beside};
use crate::presence::Presence;
use crate::{Error, NotAttached};
use remora_attach::Process;
use remora_receipt::{Facts, ProfilerCount, ProfilerSlot, find_what_stays};
use remora_wire::Task;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// How many may come without being called, and stay: so many main profilers less may have left before without the count having been set
/// right.
const MOST_LOST: usize = 4;

/// First version that counts profilers beside the main one.
const FIRST_WITH_COUNT: u32 = 6;

/// Places that a runtime has for notification-only profilers (MAX_NOTIFICATION_PROFILERS, vm/profilepriv.h).
const PLACES: usize = 32;

/// Places that a main profiler of ours needs to be free: for what stays afterwards, for what looks whether the count is right then, and,
/// should that have to stay, for whatever comes later.
const NEEDED_AFTERWARDS: usize = 3;

/// How long the agent's word is waited for before looking again.
const LOOK: Duration = Duration::from_millis(10);

/// Whether enough places are left in `process` for another main profiler of ours.
///
/// # Errors
/// How many are held by libraries of ours that stay.
pub fn has_places_for_a_main_one(process: &Process) -> Result<(), usize> {
    let held = find_what_stays(Path::new("/proc"), process.pid).len();
    if has_places(held) { Ok(()) } else { Err(held) }
}

fn has_places(held: usize) -> bool {
    held + NEEDED_AFTERWARDS <= PLACES
}

/// Comes as [`arrive`] does. Where main profilers have left before and nobody has set the count right, as where a command of ours was killed
/// that was one, the first to come hears nothing and must stay: that sets the count right by one, and another one comes.
///
/// # Errors
/// As those of [`arrive`]; what stays of those that came before, the facts tell.
pub(crate) fn arrive_heard(
    process: &Process,
    library: &[u8],
    task: Task,
    table: Option<&OwnedFd>,
    timeout: Duration,
) -> Result<(Presence, Began), NotAttached> {
    let mut lost: Option<Box<Facts>> = None;
    loop {
        let NotAttached { error, facts } = match arrive(process, library, task, table, timeout) {
            Ok((mut presence, began)) => {
                if let Some(lost) = lost {
                    presence.facts.absorb(*lost);
                }
                return Ok((presence, began));
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

/// Of those that were lost and of the last one. One that came to nothing before it was in the target says nothing of those that are.
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

/// After a main profiler of ours, of which `facts` tell, has left or was refused: sets the count right, and looks whether the next one is
/// called. The facts tell from then on of those that come for that, too.
///
/// # Errors
/// [`Error::Count`] if the count is as it was, [`Error::CountUnseen`] if nobody could look.
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

/// Comes as a notification-only profiler, and stays. Whether the runtime calls it says nothing: where another one came in between, it does
/// so although the count is too small, and that other one hears nothing once this one has left (seen on 8, 9 and 10).
fn one_stays(process: &Process, library: &[u8], timeout: Duration, facts: &mut Facts) -> Result<(), Error> {
    let (came, stays) = match arrive(process, library, Task::Placeholder, None, timeout) {
        // An agent that works is not the one that was sent.
        Ok((presence, _)) => (Some(presence.facts), Err("it did not stay".to_owned())),
        Err(NotAttached { error: Error::Inert(_), facts }) => (facts.map(|facts| *facts), Ok(())),
        Err(NotAttached { error, facts }) => (facts.map(|facts| *facts), Err(error.to_string())),
    };
    let mut came = came.unwrap_or_default();
    facts.staying.append(&mut came.stayed);
    facts.absorb(came);
    stays.map_err(Error::Count)
}

/// One more comes, is called if the count is right, and leaves. It was not right if a main profiler had left before ours, and nobody has
/// set it right (a command that was killed): then this one stays, too, and another one comes. Where another vendor's notification-only
/// profiler is in the process it is called either way, and says nothing.
fn one_is_called(process: &Process, library: &[u8], timeout: Duration, facts: &mut Facts) -> Result<(), Error> {
    let (came, ended) = match arrive_heard(process, library, Task::CallbackCheck, None, timeout) {
        Ok((presence, _)) => leaves(presence),
        Err(NotAttached { error, facts }) => (facts.map(|facts| *facts).unwrap_or_default(), Err(error)),
    };
    facts.absorb(came);
    ended
}

fn leaves(mut presence: Presence) -> (Facts, Result<(), Error>) {
    let failure = presence.leave(LOOK, |_| 0, |_| {}, || false);
    let has_left = presence.detached || !presence.target.maps(&presence.library);
    let Presence { mut facts, library, .. } = presence;
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
    fn det_18_a_main_one_comes_only_where_what_sets_the_count_right_and_one_more_find_places() {
        assert!(has_places(0) && has_places(29));
        assert!(!has_places(30) && !has_places(PLACES));
    }
}
