//! What a snapshot and a watch do alike: the checks before the process is contacted, and the repair after a main profiler.

use super::allowance::Allowance;
use crate::args::HeapTakeArgs;
use crate::baseline::{Baseline, receipt_text, verdict};
use crate::console::{note, note_all};
use crate::exit::Exit;
use crate::failure::{Failure, Remedies};
use crate::instance_lock::InstanceLock;
use crate::library;
use crate::output::Destination;
use crate::preconditions::{examine, obstacle};
use crate::target::unless_it_ended;
use remora_attach::{Process, Slot, Subject, Version, loaded_profilers};
use remora_collector::{NotAttached, has_places_for_a_main_one, set_count_right};
use remora_receipt::{Facts, ProfilerCount};
use std::time::Duration;

/// Timeout of an attach, as of each of its steps.
pub(super) const ATTACH_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Whether the agent takes the main profiler's place.
pub(super) fn is_main(args: &HeapTakeArgs) -> bool {
    args.roots || args.watch.is_some()
}

/// Where `--receipt` goes, unchecked.
pub(super) fn receipt_place(args: &HeapTakeArgs) -> Result<Option<Destination>, Failure> {
    let place = args.receipt.as_deref().map(|path| Destination::of_receipt(path, args.force));
    if args.shown.json && place == Some(Destination::Stdout) {
        let advice = "--json prints to standard output, and so does `-`; give --receipt a file, or leave --json out";
        return Err(Failure::Usage(advice.to_owned()));
    }
    Ok(place)
}

/// Runs every check that can fail before the process is contacted.
pub(super) fn prepare(args: &HeapTakeArgs, process: &Process) -> Result<(Allowance, InstanceLock, Baseline), Failure> {
    let prepared = || {
        let slot = if is_main(args) { Slot::Main } else { Slot::Beside };
        if let Some(obstacle) = obstacle(process, &examine(process, library::FOR_HEAPS, slot)?) {
            return Err(beside_another(args, obstacle.failure));
        }
        can_be_taken(args, process)?;
        if is_main(args) {
            has_a_place(process)?;
        }
        Ok((Allowance::of(process, args.max_extra_memory)?, InstanceLock::take(process)?, Baseline::of(process)?))
    };
    prepared().map_err(|failure| unless_it_ended(process, failure))
}

/// The end where the agent could not attach: whatever came of it has to be gone.
pub(super) fn not_attached(
    args: &HeapTakeArgs,
    before: &Baseline,
    process: &Process,
    NotAttached { error, facts }: NotAttached,
) -> Result<Exit, Failure> {
    let failure = unless_it_ended(process, error.into());
    let Some(mut facts) = facts else { return Err(failure) };
    if is_main(args) && process.require_same().is_ok() {
        set_right(before, process, &mut facts);
    }
    let receipt = before.verify(&facts, false);
    note_all(&receipt_text(&receipt));
    verdict(Err(failure), receipt.clean())
}

/// Alternatives where the main profiler's slot is taken.
fn beside_another(args: &HeapTakeArgs, mut failure: Failure) -> Failure {
    if let Failure::Precondition { subject: Subject::ProfilerSlot, remedies, .. } = &mut failure {
        *remedies = Remedies::Text(match (args.watch, args.roots) {
            (Some(_), _) => {
                "take two snapshots beside the other profiler (.NET 6 and later), `remora heap -p PID -o FILE` now and later, \
                 and compare them with `remora heap diff`"
            }
            (None, true) => {
                "leave --roots out: a snapshot is then taken beside the other profiler (.NET 6 and later), and roots are inferred"
            }
            (None, false) => "start the program without the other profiler: before .NET 6 there is room for one only",
        });
    }
    failure
}

/// First version that counts the profilers beside the main one.
const FIRST_WITH_COUNT: u32 = 6;

/// Announces what the detach of a main profiler leaves in the runtime.
pub(super) fn say_what_stays(process: &Process) {
    if version(process).is_none_or(|version| version.major >= FIRST_WITH_COUNT) {
        note(
            ".NET miscounts notification-only profilers after a main profiler: the next one would get no callbacks, and its detach would crash \
             the process. To correct that, Remora's library stays mapped, inert.",
        );
    }
}

/// Repairs the runtime's profiler count after a main profiler, whether it attached or was refused. A profiler still in the process
/// prevents the repair.
pub(super) fn set_right(before: &Baseline, process: &Process, facts: &mut Facts) {
    let stays = facts.inert.is_some() || facts.attach_completed && !facts.detach_confirmed;
    if stays || !before.wait_for_the_agent(facts) {
        return;
    }
    match set_count_right(process, library::FOR_RECORDINGS, ATTACH_TIME_LIMIT, facts) {
        Ok(()) if facts.count == ProfilerCount::SetRight => say_what_is_not_seen(process),
        Ok(()) => {}
        Err(error) => note(&error.to_string()),
    }
}

/// Warns about another notification-only profiler: beside it, ours gets callbacks although the count is too small.
fn say_what_is_not_seen(process: &Process) {
    if let Some(other) = loaded_profilers(process).first() {
        note(&format!(
            "another profiler is loaded ({other}): beside it nobody can see whether .NET counts its profilers right now. It does, unless \
             another main profiler has left this process before, such as that of a `remora heap --roots` or `--watch` that was killed; \
             then the other profiler must not detach before the program ends."
        ));
    }
}

/// Whether the profiler that repairs the count afterwards finds a free slot.
fn has_a_place(process: &Process) -> Result<(), Failure> {
    let Err(held) = has_places_for_a_main_one(process) else { return Ok(()) };
    Err(Failure::Precondition {
        process_id: process.pid,
        found: format!(
            "{held} libraries of earlier snapshots with --roots or --watch stay in it, and each holds a place of its runtime's 32"
        ),
        subject: Subject::ProfilerSlot,
        remedies: Remedies::Text("take one without, or restart the program: only its end gives the places back"),
    })
}

fn version(process: &Process) -> Option<Version> {
    process.runtime().and_then(|runtime| runtime.version)
}

/// First version that can enumerate its objects without a GC.
const FIRST_AS_IT_IS: u32 = 9;

/// Whether the runtime supports the request. A runtime of unknown version is asked by attaching.
fn can_be_taken(args: &HeapTakeArgs, process: &Process) -> Result<(), Failure> {
    match version(process).filter(|version| args.no_gc && version.major < FIRST_AS_IT_IS) {
        Some(version) => Err(Failure::NeedsACollection { runtime: format!(".NET {version}") }),
        None => Ok(()),
    }
}
