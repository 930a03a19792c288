//! Whether a process can be recorded, found before anything is asked of it; what stands in the way, as a failure.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::library::requirements;
use crate::{hold, holder};
use remora_trigger::proc::Proc;
use remora_trigger::{Check, Error, Process, Reason, Slot, check, check_answer, find};
use std::time::Duration;

/// How long the runtime may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Name of the check that finds our own library in the process.
const OWN_AGENT: &str = "remora's agent";

/// What stands in the way.
#[derive(Debug)]
pub(crate) struct Obstacle {
    /// As it is told.
    pub(crate) failure: Failure,
    /// What was found, alone.
    pub(crate) found: String,
    /// Whether it stands in the way of the agent only, and the runtime's own sampler can be used instead.
    pub(crate) agent_only: bool,
}

/// Looks at everything that this library needs; the runtime itself is asked only if nothing else stands in every engine's way.
pub(crate) fn examine(process: &Process, library: &[u8], slot: Slot) -> Result<Vec<Check>, Failure> {
    let mut checks = check(process, &requirements(library)?.for_slot(slot));
    // Before its agent has arrived, or with the runtime's own sampler, there is nothing of another recording in the process.
    let held = hold::holder(process).is_some();
    for check in checks.iter_mut().filter(|check| check.name == OWN_AGENT && (held || !check.passed)) {
        judge_own_agent(process, check);
    }
    if checks.iter().all(|check| check.passed || is_agent_only(check.name)) {
        checks.push(check_answer(process, PATIENCE));
    }
    Ok(checks)
}

/// The first obstacle, if there is one: what stands in every engine's way before what stands in the agent's only.
pub(crate) fn obstacle(process: &Process, checks: &[Check]) -> Option<Obstacle> {
    let failed = || checks.iter().filter(|check| !check.passed);
    let first = failed().find(|check| !is_agent_only(check.name)).or_else(|| failed().next())?;
    if let Some(failure) = ended(process.pid) {
        return Some(Obstacle { found: failure.to_string(), failure, agent_only: false });
    }
    let failure = match &process.attachable {
        Err(reason) => Failure::Trigger(Error::NotAttachable { pid: process.pid, reason: reason.clone() }),
        Ok(()) => Failure::Precondition {
            process_id: process.pid,
            found: first.found.clone(),
            remedy: first.remedy.clone().unwrap_or_else(|| "see docs/troubleshooting.md".to_owned()),
            exit: exit(first.name),
        },
    };
    let found = first.found.clone();
    Some(Obstacle { failure, found, agent_only: process.attachable.is_ok() && is_agent_only(first.name) })
}

/// Whether the process has ended while it was looked at: then everything fails, and that is why.
fn ended(process_id: u32) -> Option<Failure> {
    match find(process_id) {
        Err(error @ Error::NoSuchProcess { .. }) => Some(error.into()),
        Ok(Process { attachable: Err(reason @ Reason::Ended), pid, .. }) => {
            Some(Error::NotAttachable { pid, reason }.into())
        }
        // It has given up its memory, and is on its way out: it may not even look like .NET any more.
        _ if Proc::default().maps(process_id).is_ok_and(|maps| maps.is_empty()) => {
            Some(Error::NoSuchProcess { pid: process_id }.into())
        }
        _ => None,
    }
}

/// Our library in the process is either at work for somebody, or an inert residue, beside which another works normally.
fn judge_own_agent(process: &Process, check: &mut Check) {
    match holder::of(process) {
        Some(holder) => {
            check.passed = false;
            check.found = format!("it is being recorded by {holder}");
            check.remedy = Some("wait for that recording to end, or end it".to_owned());
        }
        None if !holder::agent_lives(process.pid) => {
            check.passed = true;
            check.found = "an earlier one is mapped and inert".to_owned();
            check.remedy = Some("nothing need be done: it does not disturb a new one".to_owned());
        }
        None => {
            check.remedy = Some(format!(
                "its `remora` has ended or cannot be seen, and it has not left yet; try again in some seconds, or run `remora detach -p {}`, \
                 which waits for it",
                process.pid
            ));
        }
    }
}

fn is_agent_only(name: &str) -> bool {
    matches!(
        name,
        "architecture" | "libc" | "libraries" | "directory" | "profiler slot" | "signals" | "descriptors of the agent"
    )
}

fn exit(name: &str) -> Exit {
    match name {
        "process" => Exit::NoProcess,
        "runtime" => Exit::Unsupported,
        "rights" | "mappings" => Exit::NoPermission,
        "diagnostics port" => Exit::DiagnosticsOff,
        "running" | "answer" => Exit::NoAnswer,
        "architecture" | "libc" | "libraries" | "directory" => Exit::CannotLoad,
        "profiler slot" => Exit::SlotTaken,
        OWN_AGENT => Exit::Held,
        _ => Exit::Refused,
    }
}
