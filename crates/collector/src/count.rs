//! What a main profiler leaves behind in the runtime, and how it is set right.
//!
//! Since .NET 6 the runtime counts the notification-only profilers, and takes one off whenever any profiler leaves, a main one, too
//! (`DeRegisterProfilerInfo`, vm/profilepriv.inl). Where the count has become too small the next notification-only profiler, whoever's it
//! is, hears nothing, and its detach ends the process (measured on 8, 9 and 10). One that comes and stays, inert, sets the count right.

use crate::arrival::{Began, Task, arrive, can_stand_beside};
use crate::presence::Presence;
use crate::{Error, NotAttached};
use remora_receipt::{Facts, ProfilerCount, ProfilerSlot};
use remora_trigger::Process;
use remora_wire::{Contents, EventKind, Moment, Roots};
use std::time::Duration;

/// How often one comes to be heard: one main profiler less may have left before without the count having been set right.
const MOST_COMINGS: usize = 4;

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
    let mut stayed = 0;
    loop {
        let failed = match arrive(process, library, task, timeout) {
            Ok((mut presence, began)) => {
                presence.facts.count = repaired(stayed, presence.facts.count);
                return Ok((presence, began));
            }
            Err(failed) => failed,
        };
        let is_lost = matches!(failed.error, Error::Inert(_)) && failed.slot() == Some(ProfilerSlot::NotificationOnly);
        stayed += usize::from(is_lost);
        if !is_lost || stayed == MOST_COMINGS {
            let NotAttached { error, facts } = failed;
            let facts = facts.or_else(|| (stayed > 0).then(Box::default));
            return Err(NotAttached { error, facts: facts.map(|facts| with_count(facts, stayed)) });
        }
    }
}

fn with_count(mut facts: Box<Facts>, stayed: usize) -> Box<Facts> {
    facts.count = repaired(stayed, facts.count);
    facts
}

fn repaired(stayed: usize, count: ProfilerCount) -> ProfilerCount {
    if stayed > 0 { ProfilerCount::Repaired } else { count }
}

/// Comes once more, as a notification-only profiler, after a main one of ours has left or was refused, and stays: the count is right from now
/// on. Whether the runtime calls it says nothing: where another one came in between, it does so although the count is too small, and that
/// other one hears nothing once this one has left (seen on 8, 9 and 10).
///
/// # Errors
/// The count is as it was.
pub fn set_count_right(process: &Process, library: &[u8], timeout: Duration) -> Result<ProfilerCount, Error> {
    if !can_stand_beside(process) {
        return Ok(ProfilerCount::Right);
    }
    let task = Task {
        event: EventKind::Nothing,
        contents: Contents::None,
        moment: Moment::Collected,
        roots: Roots::Inferred,
        frequency: 1,
        signal_budget: 1,
        thread_budget: 1,
    };
    match arrive(process, library, task, timeout) {
        // An agent that works is not the one that was sent.
        Ok(_) => Err(Error::Count(Box::new(Error::Refused("it did not stay".into())))),
        Err(NotAttached { error: Error::Inert(_), .. }) => Ok(ProfilerCount::SetRight),
        Err(NotAttached { error, .. }) => Err(Error::Count(Box::new(error))),
    }
}
