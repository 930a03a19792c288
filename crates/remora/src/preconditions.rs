//! Checks whether a process can be recorded, before it is contacted; turns an obstacle into a failure.

use crate::failure::Failure;
use crate::library::requirements;
use crate::{instance_lock, lock_holder};
use remora_attach::proc::Proc;
use remora_attach::{Check, Error, Process, Reason, Remedy, Slot, Subject, check, check_answer, find};
use std::time::Duration;

/// Timeout for the runtime's answer to a request for its process info.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An obstacle.
#[derive(Debug)]
pub(crate) struct Obstacle {
    /// As an error message.
    pub(crate) failure: Failure,
    /// The finding alone.
    pub(crate) found: String,
    /// Whether only the agent is blocked, so that the runtime's own sampler can be used.
    pub(crate) agent_only: bool,
}

/// Checks all requirements of this library. The runtime itself is asked only if nothing blocks every engine.
pub(crate) fn examine(process: &Process, library: &[u8], slot: Slot) -> Result<Vec<Check>, Failure> {
    let mut checks = check(process, &requirements(library)?.for_slot(slot));
    // Before its agent has attached, or with the runtime's own sampler, another recording leaves no sign in the process.
    let held = instance_lock::holder(process).is_some();
    for check in checks.iter_mut().filter(|check| check.subject == Subject::OwnAgent && (held || check.has_failed())) {
        judge_own_agent(process, check);
    }
    if checks.iter().all(|check| !check.has_failed() || check.subject.concerns_the_agent_only()) {
        checks.push(check_answer(process, TIMEOUT));
    }
    Ok(checks)
}

/// The first obstacle, if any: obstacles for every engine come before those for the agent only.
pub(crate) fn obstacle(process: &Process, checks: &[Check]) -> Option<Obstacle> {
    let failed = || checks.iter().filter(|check| check.has_failed());
    let first = failed().find(|check| !check.subject.concerns_the_agent_only()).or_else(|| failed().next())?;
    if let Some(failure) = ended(process.pid) {
        return Some(Obstacle { found: failure.to_string(), failure, agent_only: false });
    }
    let failure = match &process.attachable {
        Err(reason) => Failure::Attach(Error::NotAttachable { pid: process.pid, reason: reason.clone() }),
        Ok(()) => Failure::precondition(process, first.clone()),
    };
    let found = first.found.clone();
    Some(Obstacle { failure, found, agent_only: process.attachable.is_ok() && first.subject.concerns_the_agent_only() })
}

/// Whether the process ended during the checks: then every check fails, for that reason.
fn ended(process_id: u32) -> Option<Failure> {
    match find(process_id) {
        Err(error @ Error::NoSuchProcess { .. }) => Some(error.into()),
        Ok(Process { attachable: Err(reason @ Reason::Ended), pid, .. }) => {
            Some(Error::NotAttachable { pid, reason }.into())
        }
        // It has released its memory and is exiting: it may not even look like a .NET process any more.
        _ if Proc::default().maps(process_id).is_ok_and(|maps| maps.is_empty()) => {
            Some(Error::NoSuchProcess { pid: process_id }.into())
        }
        _ => None,
    }
}

/// Our library in the process is either recording for another command, or inert; beside an inert one another agent works normally.
fn judge_own_agent(process: &Process, check: &mut Check) {
    match lock_holder::of(process) {
        Some(_) if instance_lock::is_held_by_the_parent(process) => {
            check.passed = Some(true);
            check.found = "that of the recording that wants this".to_owned();
            check.remedies = vec![Remedy::Nothing];
        }
        Some(holder) => {
            check.passed = Some(false);
            check.found = format!("it is being recorded by {holder}");
            check.remedies = vec![Remedy::WaitForRecording];
        }
        None if !lock_holder::agent_lives(process.pid) => {
            check.passed = Some(true);
            check.found = "an earlier one is mapped and inert".to_owned();
            check.remedies = vec![Remedy::Nothing];
        }
        None => {
            check.found.push_str(", and its `remora` has ended or cannot be seen");
            check.remedies = vec![Remedy::TryAgain, Remedy::DetachAgent { pid: process.pid }];
        }
    }
}
