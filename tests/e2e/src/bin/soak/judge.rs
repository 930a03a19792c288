//! Checks that a round's commands ended as docs/reference/exit-codes.md documents, with a clean receipt and readable files.

use crate::plan::{Actor, End, Plan, Task};
use remora_e2e::{Finished, remora};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The receipt's name in a command's folder.
pub const RECEIPT: &str = "receipt.json";

/// The codes of docs/reference/exit-codes.md that a round may have.
const NO_PROCESS: i32 = 10;
const NO_RUNTIME: i32 = 11;
const SOCKET_GONE: i32 = 14;
const NO_ANSWER: i32 = 15;
const PLACE_TAKEN: i32 = 17;
const HELD: i32 = 18;
const REFUSED: i32 = 19;
const OUTPUT: i32 = 20;
const DISK_FULL: i32 = 21;
const NOT_OURS: i32 = 30;
const TRUNCATED: i32 = 31;
const UNCLEAN: i32 = 40;
const TARGET_ENDED: i32 = 41;
const PART: i32 = 42;
const INTERRUPTED: i32 = 130;

/// The code of a killed command, from [`Finished::code`].
const KILLED: i32 = -1;

/// The receipt's reasons for a library that stays because of a killed command, and for its slot.
const OF_A_KILLED_ONE: [&str; 2] = ["a main profiler had left before", "with it the next one was called"];

/// The receipt's reason for such a library if no later one showed whether it was enough: the target was stopped, or the command was asked to
/// end, before it attached again.
const UNPROVEN: &str = "whether it does with this one the next command shows";

/// The receipt's reason for a forked copy after an exec. The kernel keeps the copy's exit status for the new program, which does not know
/// this child.
const OF_A_COPY: &str = "it ended, but nobody asked for its exit status";

/// A command's result and output folder.
pub struct Act {
    /// Its plan.
    pub actor: Actor,
    /// Its process id.
    pub pid: u32,
    /// How it ended.
    pub finished: Finished,
    /// Its folder.
    pub folder: PathBuf,
}

/// Facts about the target.
pub struct Known {
    /// Whether its runtime counts profilers beside the main one, so that a library may stay.
    pub counts_profilers: bool,
}

/// A finished round.
pub struct Case<'a> {
    /// Its plan.
    pub plan: &'a Plan,
    /// Its commands.
    pub acts: &'a [Act],
    /// Facts about its target.
    pub known: Known,
}

/// Returns the faults. `owed` counts killed commands for which a library may stay; a receipt that reports one lowers it.
pub fn judge(case: &Case, owed: &mut u64) -> Vec<String> {
    let mut faults = Vec::new();
    for act in case.acts {
        let said = |what: String| format!("{}: {what}; it said: {}", act.actor.task.name(), act.finished);
        let code = act.finished.code();
        let is_allowed = allowed(case, act).contains(&code) || code == UNCLEAN && is_explained(case, act, owed);
        if !is_allowed {
            faults.push(said(format!("exit code {code}")));
        }
        faults.extend(unclean(act).map(said));
        faults.extend(files(act).into_iter().map(said));
        if code == HELD && !names_a_rival(case, act) {
            faults.push(said("it does not say who holds the target".to_owned()));
        }
    }
    let undisturbed = case.acts.len() > 1 && case.acts.iter().all(|act| act.actor.end == End::ByItself);
    if undisturbed && case.acts.iter().all(|act| act.finished.code() == HELD) {
        faults.push("each of several was told that another one has the target".to_owned());
    }
    faults
}

/// The codes that the round may have, whatever the receipt says.
fn allowed(case: &Case, act: &Act) -> Vec<i32> {
    let (plan, task) = (case.plan, act.actor.task);
    let heap = matches!(task, Task::Snapshot { .. } | Task::Watch { .. });
    let looks_only = matches!(task, Task::Check | Task::Detach);
    let mut codes = vec![0];
    let mut add = |when: bool, more: &[i32]| codes.extend(more.iter().filter(|_| when));
    // A stopped target cannot be attached to. A running one answers in time, however busy the machine is.
    add(plan.halt.is_some(), &[NO_ANSWER]);
    add(is_killed(act), &[KILLED]);
    // Before a command installs its signal handlers, a signal kills it. It has then printed nothing, except a failure that ends it before
    // that, and must have left nothing.
    let shown = json(&act.finished);
    let is_of_the_failure = shown["error"].is_object() && shown["receipt"].is_null();
    let is_early = act.finished.stderr.is_empty() && (act.finished.stdout.is_empty() || is_of_the_failure);
    add(is_early && act.actor.end != End::ByItself, &[KILLED]);
    add(matches!(act.actor.end, End::Asked { .. } | End::Twice { .. }), &[INTERRUPTED]);
    // These install no signal handlers, so signals kill them.
    add(looks_only && act.actor.end != End::ByItself, &[KILLED]);
    add(heap && (act.actor.end != End::ByItself || plan.disk.is_some()), &[PART]);
    add(matches!(task, Task::Watch { .. }), &[PART]);
    add(plan.disk.is_some() && !looks_only, &[OUTPUT, DISK_FULL]);
    add(case.acts.len() > 1, &[HELD]);
    // A rival's agent may still be attached just after its command was killed.
    add(case.acts.len() > 1 && !looks_only, &[PLACE_TAKEN, REFUSED]);
    codes.extend(plan.death.iter().flat_map(|(order, _)| of_a_death(order)));
    codes
}

/// The codes for a target that ends by this order: before it is found, before the attach, and during the recording.
fn of_a_death(order: &str) -> &'static [i32] {
    match order {
        // The kernel shows its end before it closes its sockets.
        "kill" => &[NO_PROCESS, TARGET_ENDED],
        // The runtime deletes its socket, and ends later.
        "exit" | "segfault" => &[NO_PROCESS, SOCKET_GONE, TARGET_ENDED],
        // The new program has no runtime, but the old one's socket is still there as a file.
        "exec" => &[NO_PROCESS, NO_RUNTIME, SOCKET_GONE, TARGET_ENDED],
        other => panic!("no target ends by {other:?}"),
    }
}

/// Whether every leftover in the receipt is a library that stays because of a killed command.
fn is_explained(case: &Case, act: &Act, owed: &mut u64) -> bool {
    let receipt = receipt_of(act);
    let left = receipt["left"].as_array().map(Vec::as_slice).unwrap_or_default();
    if case.plan.halt.is_some() && act.actor.task.is_main() {
        // A stopped runtime could not repair its count. The next command does, and then reports the library that stays.
        *owed += 1;
        return left.iter().all(|left| left["kind"] == "profiler-slot" || left["kind"] == "mapping");
    }
    if case.plan.death.is_some_and(|(order, _)| order == "exec") {
        let of_the_copy = |left: &Value| left["why"].as_str().is_some_and(|why| why.contains(OF_A_COPY));
        return !left.is_empty() && left.iter().all(of_the_copy);
    }
    let is_disturbed = case.plan.halt.is_some() || act.actor.end != End::ByItself;
    let is_known =
        |why: &str| OF_A_KILLED_ONE.iter().any(|known| why.contains(known)) || is_disturbed && why.contains(UNPROVEN);
    let of_a_killed_one = |left: &&Value| left["why"].as_str().is_some_and(is_known);
    let explained = left.iter().filter(of_a_killed_one).count();
    let mappings = left.iter().filter(|left| left["kind"] == "mapping").count() as u64;
    let so = case.known.counts_profilers && explained == left.len() && !left.is_empty() && mappings <= *owed;
    *owed -= if so { mappings } else { 0 };
    so
}

/// A successful command must not report leftovers.
fn unclean(act: &Act) -> Option<String> {
    let receipt = receipt_of(act);
    if receipt.is_null() || act.finished.code() == UNCLEAN {
        return None;
    }
    let left = receipt["left"].as_array().map_or(0, Vec::len);
    (receipt["clean"] != true || left > 0).then(|| format!("the receipt is not clean: {receipt:#}"))
}

/// From its file; from standard output if the file did not fit on the disk; otherwise null.
fn receipt_of(act: &Act) -> Value {
    let file = std::fs::read(act.folder.join(RECEIPT)).ok();
    let receipt = file.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    receipt.unwrap_or_else(|| json(&act.finished)["receipt"].take())
}

fn is_killed(act: &Act) -> bool {
    matches!(act.actor.end, End::Killed { .. })
}

/// The round's files must be readable, and their counts must add up.
fn files(act: &Act) -> Vec<String> {
    let code = act.finished.code();
    let entries = std::fs::read_dir(&act.folder).into_iter().flatten().flatten();
    let mut faults = Vec::new();
    let mut whole = false;
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == RECEIPT {
            continue;
        }
        let part = name.ends_with(".part");
        let unfinished = part || name.contains(".unfinished");
        whole |= !unfinished;
        if unfinished && [0, TARGET_ENDED, UNCLEAN].contains(&code) || part && !is_killed(act) {
            faults.push(format!("{name} is left over"));
        }
        faults.extend(if name.contains("heap") { snapshot(&path, code) } else { recording(&path, act, unfinished) });
    }
    let writes = matches!(act.actor.task, Task::Record { .. } | Task::Snapshot { .. });
    if writes && code == 0 && !whole {
        faults.push("there is no output".to_owned());
    }
    faults
}

fn recording(path: &Path, act: &Act, unfinished: bool) -> Vec<String> {
    let words: [&OsStr; 5] = ["report".as_ref(), path.as_os_str(), "--json".as_ref(), "--top".as_ref(), "1".as_ref()];
    let report = remora(words);
    let code = report.code();
    let empty = unfinished && code == NOT_OURS && path.metadata().is_ok_and(|facts| facts.len() == 0);
    if empty {
        return Vec::new();
    }
    if code != 0 && !(unfinished && code == TRUNCATED) {
        return vec![format!("`remora report` of {} ends with {code}: {report}", path.display())];
    }
    let shown = json(&report);
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    let loss = &shown["loss"];
    let lost = loss["lost"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all_lost: u64 = lost.iter().map(|lost| number(&lost["samples"])).sum();
    let mut faults = Vec::new();
    let (samples, delivered, taken) = (number(&shown["samples"]), number(&loss["delivered"]), number(&loss["taken"]));
    if !unfinished && (samples != delivered || taken != delivered + all_lost) {
        faults.push(format!("{samples} samples, {delivered} delivered, {taken} taken: {loss:#}"));
    }
    if lost.iter().any(|lost| lost["cause"] == "unaccounted" && number(&lost["samples"]) > 0) {
        faults.push(format!("samples are lost, and nobody knows where: {loss:#}"));
    }
    let own = json(&act.finished);
    if act.finished.code() == 0 && number(&own["recording"]["samples"]) != samples {
        faults
            .push(format!("the command has told of {} samples, the file holds {samples}", own["recording"]["samples"]));
    }
    faults
}

fn snapshot(path: &Path, code: i32) -> Vec<String> {
    let words =
        ["heap".as_ref(), "report".as_ref(), path.as_os_str(), "--json".as_ref(), "--top".as_ref(), "1".as_ref()];
    let report = remora::<&OsStr>(words);
    let read: &[i32] = if code == 0 { &[0] } else { &[0, PART, TRUNCATED, NOT_OURS] };
    if read.contains(&report.code()) {
        return Vec::new();
    }
    vec![format!("`remora heap report` of {} ends with {}: {}", path.display(), report.code(), report.stderr)]
}

/// Whether the message names a rival, or says that one which was killed has ended.
fn names_a_rival(case: &Case, act: &Act) -> bool {
    let said = format!("{}{}", act.finished.stderr, act.finished.text());
    let names = |rival: &&Act| {
        said.contains(&format!("process {} (", rival.pid))
            || matches!(rival.actor.end, End::Killed { .. })
                && said.contains("its `remora` has ended or cannot be seen")
    };
    case.acts.iter().filter(|rival| rival.pid != act.pid).any(|rival| names(&rival))
}

/// A command's JSON output, or null.
fn json(finished: &Finished) -> Value {
    serde_json::from_slice(&finished.stdout).unwrap_or(Value::Null)
}
