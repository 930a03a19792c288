//! What the laboratory sees of a profiler at the end of a run, and no clause is about.

use super::monitor::{self, TRACED, seen};
use super::{limits, system};
use crate::schedule::Task;

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
    if now.state.is_hidden() {
        seen("nobody can look at what the profiler leaves: the process can open no file any more");
    }
    if before.tracers.has_grown() {
        seen(TRACED);
    }
    for change in now.process_wide.changes(&before.process_wide) {
        seen(&format!("the profiler has changed {change} of the process, and has not changed it back"));
    }
    monitor::raise_limits();
}

/// Looks at the signals that the runtime's threads block. These are the program's.
pub fn look_at_signals(program: &[Task]) {
    for callback in monitor::changed_signals(program) {
        seen(&format!(
            "{callback} changes which signals the runtime's thread blocks, and no later callback changes it back"
        ));
    }
}
