//! Threads of the profiler that still run when the runtime unloads the library.
//!
//! Such a thread executes unmapped code sooner or later. So each unload is announced on the page before `dlclose`: if the process then dies,
//! the laboratory knows the cause, whatever instruction the crash hit. A thread that only ends a little later is no fault.

use super::page::Line;
use super::{leftovers, monitor};
use crate::schedule::threads::this_thread;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The clause of such a thread.
pub const CLAUSE: &str = "DET-04";
/// Where it is found.
pub const CALL: &str = "dlclose";

/// An unload that may not be over.
#[derive(Default)]
struct Unload {
    /// Threads that ran when it began, by system thread ID.
    threads: BTreeSet<u32>,
    /// Threads that have requested the detach. DET-05 is about them.
    askers: BTreeSet<u32>,
}

static UNLOAD: Mutex<Unload> = Mutex::new(Unload { threads: BTreeSet::new(), askers: BTreeSet::new() });

/// The running thread requests the detach.
pub fn asks() {
    lock().askers.insert(this_thread());
}

/// The runtime is about to release the object, or the library (`unmaps`).
pub fn begins(unmaps: bool) {
    let threads = monitor::profiler_threads();
    let mut unload = lock();
    let others: Vec<u32> = threads.keys().filter(|id| !unload.askers.contains(id)).copied().collect();
    if others.is_empty() {
        return end(&mut unload);
    }
    unload.threads.extend(others);
    // A thread that was reported at the detach request is not reported again.
    let is_known = monitor::has_broken(CLAUSE);
    let unreported = threads.iter().filter(|(id, _)| !is_known && unload.threads.contains(id));
    let names: BTreeSet<String> = unreported.map(|(_, name)| leftovers::named("a thread", name)).collect();
    monitor::write(&Line::UnloadBegins { threads: names.into_iter().collect(), unmaps });
}

/// Whether no thread runs any more that ran when the unload began.
pub fn has_no_threads() -> bool {
    let unload = lock();
    unload.threads.is_empty() || unload.threads.is_disjoint(&monitor::profiler_threads().into_keys().collect())
}

/// Ends the wait for those threads. Reports the ones that still run.
pub fn is_over() {
    let threads = monitor::profiler_threads();
    let mut unload = lock();
    let left: BTreeSet<String> = threads
        .iter()
        .filter(|(id, _)| unload.threads.contains(id))
        .map(|(_, name)| leftovers::named("a thread", name))
        .collect();
    if left.is_empty() {
        end(&mut unload);
    } else if !monitor::has_broken(CLAUSE) {
        left.iter().for_each(|thread| monitor::broken_in(CLAUSE, Some(CALL), &message(thread)));
    }
}

/// No thread runs any more: from here on, a crash has another cause.
fn end(unload: &mut Unload) {
    if !std::mem::take(&mut unload.threads).is_empty() {
        monitor::write(&Line::UnloadIsOver);
    }
}

/// The finding on a thread.
pub fn message(thread: &str) -> String {
    format!(
        "{thread} of the profiler was still running when the runtime unloaded the library: end and join it before you refuse the attach, or ask for the detach"
    )
}

fn lock() -> std::sync::MutexGuard<'static, Unload> {
    UNLOAD.lock().expect("no panic while locked")
}
