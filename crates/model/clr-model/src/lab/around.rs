//! What the laboratory sees of a profiler at the end of a run, and no clause is about.

use super::leftovers::ProcessState;
use super::monitor::{self, TRACED, seen};
use super::page::Line;
use super::process_wide::ProcessWide;
use super::{limits, process_wide, system};
use crate::schedule::Task;

/// A limit of memory that stays.
const FORBIDDEN: &str =
    "the profiler lowered a limit of memory, and it cannot be raised again: nothing more can be loaded";

/// Looks for descriptors that are gone. The runtime's side must not have closed its own yet.
pub fn look_for_closed_descriptors() {
    if monitor::before().is_some_and(|before| before.state.has_closed_descriptors()) {
        seen("the profiler closed descriptors that it had not opened: in a program they belong to others");
    }
}

/// Looks at the process.
pub fn look() {
    let Some(before) = monitor::before() else { return };
    if system::has_no_descriptor() && !limits::is_limited() {
        seen("the profiler has used up all descriptors of the process: the program can open no file and no connection");
    }
    let Some(now) = monitor::Baseline::now() else { return };
    let changes = now.process_wide.changes(&before.process_wide);
    if now.state.is_hidden() && now.process_wide.barriers(&before.process_wide).is_empty() {
        seen("nobody can look at what the profiler leaves: the process can open no file any more");
    }
    if before.tracers.has_grown() {
        seen(TRACED);
    }
    changes.iter().for_each(|change| seen(&process_wide::changed(change)));
    monitor::raise_limits();
}

/// Why nothing is attached again, if the profiler has changed what a load needs: a failure would say nothing about the library.
pub fn barrier() -> Option<String> {
    if limits::forbid_memory() {
        return Some(FORBIDDEN.to_owned());
    }
    let (before, now) = (monitor::before()?, ProcessWide::now()?);
    let changed = now.barriers(&before.process_wide);
    let what = changed.first()?;
    Some(format!("the profiler has changed {what} of the process: whether a library can be loaded then is up to that"))
}

/// The profiler exercised a clause, but nobody could look at the process: it can open no file, or the machine is too busy.
pub fn not_seen(clause: &str) {
    let (clause, message) = (clause.to_owned(), "the process could not be looked at".to_owned());
    let is_hidden = ProcessState::now().is_some_and(|state| state.is_hidden());
    monitor::write(&if is_hidden { Line::Unjudged { clause, message } } else { Line::Note { clause, message } });
}

/// Looks at the signals that the runtime's threads block. These are the program's.
pub fn look_at_signals(program: &[Task]) {
    for callback in monitor::changed_signals(program) {
        seen(&format!(
            "{callback} changes which signals the runtime's thread blocks, and no later callback changes it back"
        ));
    }
}
