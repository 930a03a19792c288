//! What a main profiler leaves behind in the runtime, and how it is set right.
//!
//! Since .NET 6 the runtime counts the notification-only profilers, and takes one off whenever any profiler leaves, a main one, too
//! (`DeRegisterProfilerInfo`, vm/profilepriv.inl). Where the count has become too small the next notification-only profiler, whoever's it
//! is, hears nothing, and its detach ends the process (measured on 8, 9 and 10). One that comes and stays, inert, sets the count right.

use crate::arrival::{Began, Task, arrive, can_stand_beside};
use crate::presence::Presence;
use crate::{Error, NotAttached};
use remora_receipt::{Facts, ProfilerCount, ProfilerSlot, find_libraries};
use remora_trigger::Process;
use remora_wire::EventKind;
use std::path::Path;
use std::time::Duration;

/// How many may come without being called, and stay: so many main profilers less may have left before without the count having been set
/// right.
const MOST_LOST: usize = 4;

/// Places that a runtime has for notification-only profilers (MAX_NOTIFICATION_PROFILERS, vm/profilepriv.h).
const PLACES: usize = 32;

/// Places that a main profiler of ours needs to be free: for what stays afterwards, for what looks whether the count is right then, and,
/// should that have to stay, for whatever comes later.
const NEEDED_AFTERWARDS: usize = 3;

/// How long the agent's word is waited for before looking again.
const LOOK: Duration = Duration::from_millis(10);

/// How many places libraries of ours hold that stay in `process`; an error if too few are left for another main profiler of ours.
///
/// # Errors
/// That number.
pub fn has_places_for_a_main_one(process: &Process) -> Result<usize, usize> {
    let held = held(process);
    if held + NEEDED_AFTERWARDS <= PLACES { Ok(held) } else { Err(held) }
}

fn held(process: &Process) -> usize {
    find_libraries(Path::new("/proc"), process.pid).len()
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
    timeout: Duration,
) -> Result<(Presence, Began), NotAttached> {
    let mut stayed = Vec::new();
    let mut last = None;
    loop {
        let NotAttached { error, facts } = match arrive(process, library, task, timeout) {
            Ok((mut presence, began)) => {
                presence.facts.stayed = stayed;
                return Ok((presence, began));
            }
            Err(failed) => failed,
        };
        // One that came to nothing before it was in the target says nothing of those that are.
        let mut facts = facts.or_else(|| last.take());
        let is_lost = matches!(error, Error::Inert(_)) && slot(facts.as_deref()) == ProfilerSlot::NotificationOnly;
        if let Some(facts) = &mut facts {
            stayed.append(&mut facts.stayed);
        }
        if !is_lost || stayed.len() > MOST_LOST || held(process) >= PLACES {
            if let Some(facts) = &mut facts {
                facts.stayed = stayed;
            }
            return Err(NotAttached { error, facts });
        }
        last = facts;
    }
}

fn slot(facts: Option<&Facts>) -> ProfilerSlot {
    facts.map_or(ProfilerSlot::None, |facts| facts.slot)
}

/// After a main profiler of ours, of which `facts` tell, has left or was refused: sets the count right, and looks whether it is. The facts
/// tell from then on what that has left, too.
///
/// # Errors
/// [`Error::Count`] if the count is as it was, [`Error::CountUnseen`] if nobody could look.
pub fn set_count_right(process: &Process, library: &[u8], timeout: Duration, facts: &mut Facts) -> Result<(), Error> {
    if !can_stand_beside(process) {
        facts.count = ProfilerCount::Right;
        return Ok(());
    }
    let staying = one_stays(process, library, timeout)?;
    match one_is_called(process, library, timeout, facts) {
        Ok(()) => {
            facts.count = ProfilerCount::SetRight;
            Ok(())
        }
        Err(error) => {
            facts.stayed.extend(staying);
            Err(Error::CountUnseen(Box::new(error)))
        }
    }
}

/// Comes as a notification-only profiler, and stays; by which name. Whether the runtime calls it says nothing: where another one came in
/// between, it does so although the count is too small, and that other one hears nothing once this one has left (seen on 8, 9 and 10).
fn one_stays(process: &Process, library: &[u8], timeout: Duration) -> Result<Vec<String>, Error> {
    match arrive(process, library, Task::of_count(EventKind::Nothing), timeout) {
        // An agent that works is not the one that was sent.
        Ok(_) => Err(Error::Count(Box::new(Error::Refused("it did not stay".into())))),
        Err(NotAttached { error: Error::Inert(_), facts }) => Ok(facts.map(|facts| facts.stayed).unwrap_or_default()),
        Err(NotAttached { error, .. }) => Err(Error::Count(Box::new(error))),
    }
}

/// One more comes, is called if the count is right, and leaves. It was not right if a main profiler had left before ours, and nobody has
/// set it right (a command that was killed): then this one stays, too, and another one comes.
fn one_is_called(process: &Process, library: &[u8], timeout: Duration, facts: &mut Facts) -> Result<(), Error> {
    let (left, ended) = match arrive_heard(process, library, Task::of_count(EventKind::Heard), timeout) {
        Ok((presence, _)) => leaves(presence),
        Err(NotAttached { error, facts }) => (facts.map(|facts| *facts).unwrap_or_default(), Err(error)),
    };
    facts.stayed.extend(left.stayed);
    facts.placed.extend(left.placed);
    facts.agent_threads.extend(left.agent_threads);
    facts.socket_inodes.extend(left.socket_inodes);
    ended
}

fn leaves(mut presence: Presence) -> (Facts, Result<(), Error>) {
    let failure = presence.leave(LOOK, |_| 0, |_| {});
    let Presence { mut facts, library, .. } = presence;
    let ended = match (failure, facts.inert.clone()) {
        (Some(failure), _) => Err(failure),
        (None, Some(reason)) => {
            facts.stayed.push(library);
            Err(Error::Inert(reason))
        }
        (None, None) => Ok(()),
    };
    (facts, ended)
}
