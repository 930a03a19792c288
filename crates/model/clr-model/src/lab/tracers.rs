//! Who traces the threads of a run, as a debugger does (ptrace).
//!
//! The whole laboratory may run under a tracer, such as `strace`. That one is no fault of the profiler.

use super::observer;
use super::proc_file::field;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::parent_id;

/// The most processes from a tracer up to the laboratory.
const MOST_ANCESTORS: usize = 64;

/// Threads that trace a thread of this process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tracers(BTreeSet<u32>);

impl Tracers {
    /// Those of now.
    pub fn now() -> Option<Tracers> {
        observer::look(tracers).map(Tracers)
    }

    /// Whether another one has come since, and the profiler can have brought it: it is the laboratory, or descends from it.
    pub fn has_grown(&self) -> bool {
        let (before, laboratory) = (self.0.clone(), parent_id());
        let is_new = move |tracer: &u32| !before.contains(tracer) && descends(*tracer, laboratory);
        observer::look(move || tracers().iter().any(is_new)).unwrap_or(false)
    }
}

fn tracers() -> BTreeSet<u32> {
    let own = std::process::id();
    threads_of(own).into_iter().filter_map(|thread| tracer(own, thread)).filter(|tracer| *tracer != 0).collect()
}

/// The thread that traces a thread; 0 if none does.
pub fn tracer(process: u32, thread: u32) -> Option<u32> {
    number(&format!("/proc/{process}/task/{thread}/status"), "TracerPid:")
}

/// The threads of a process.
pub fn threads_of(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a thread belongs to a process or to one of its descendants.
fn descends(thread: u32, ancestor: u32) -> bool {
    let status = |thread: u32| format!("/proc/{thread}/status");
    let parent = |thread: &u32| number(&status(*thread), "PPid:").filter(|parent| *parent != 0);
    let chain = std::iter::successors(Some(thread), parent).take(MOST_ANCESTORS);
    chain.into_iter().any(|thread| number(&status(thread), "Tgid:") == Some(ancestor))
}

fn number(path: &str, name: &str) -> Option<u32> {
    field(path, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::threads::this_thread;

    #[test]
    fn a_thread_descends_from_its_process_and_its_ancestors_and_from_nobody_else() {
        let (own, parent) = (std::process::id(), parent_id());
        // A test runs on a thread that is not the first one.
        let thread = this_thread();
        assert!(descends(own, own) && descends(thread, own) && descends(thread, parent));
        assert!(!descends(parent, own) && !descends(own, thread));
    }
}
