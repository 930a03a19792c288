//! Callbacks that do not return: a finding for each, with the stack of one, and the end of the run.

use super::page::SHUTDOWN;
use super::run::{LONGEST, LONGEST_SHUTDOWN};
use super::{leftovers, monitor, system};
use std::sync::Mutex;
use std::time::Duration;

/// One thread reports: the first one ends the run.
static REPORTS: Mutex<()> = Mutex::new(());

/// Reports each callback that has run longer than half of `waited`. The run ends here if one of them hangs: in a constructor or a
/// destructor of the library it holds a lock of the dynamic linker, for which every further step of the run could wait.
pub fn report(waited: Duration) {
    let _reports = REPORTS.lock().expect("no panic while locked");
    let mut hangs = false;
    for (callback, thread) in monitor::callbacks_with_threads(waited / 2) {
        if !leftovers::is_alive(thread) {
            let message = format!(
                "{callback} has ended the thread that called it: the runtime's threads are not the profiler's to end (exit, or a forbidden system call)"
            );
            monitor::broken_in("MOD-01", Some(callback), &message);
            continue;
        }
        hangs = true;
        system::show_stack(thread);
        monitor::hangs(clause(callback), callback, &message(callback));
    }
    if hangs {
        monitor::exercised("MOD-01");
        monitor::end(true);
    }
}

/// The clause for a callback that never returns.
pub fn clause(callback: &str) -> &'static str {
    match callback {
        "ProfilerDetachSucceeded" | "Release" => "DET-21",
        SHUTDOWN => "DET-17",
        _ => "DET-07",
    }
}

/// The finding. With the limit of the callback, however long the run waited: a hang is one finding in every kind of run.
pub fn message(callback: &str) -> String {
    let longest = if callback == SHUTDOWN { LONGEST_SHUTDOWN } else { LONGEST };
    format!("{callback} has not returned within {} seconds", longest.as_secs())
}
