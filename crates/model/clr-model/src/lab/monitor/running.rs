//! The callbacks that run now.

use super::super::leftovers;
use super::{Called, MONITOR};
use crate::schedule::Task;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Callbacks that have run longer than this.
pub fn callbacks(longer_than: Duration) -> Vec<&'static str> {
    running(longer_than).into_iter().map(|running| running.name).collect()
}

/// A running callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// Its name.
    pub name: &'static str,
    /// The system's number of its thread.
    pub thread: u32,
    /// For how long it runs.
    pub age: Duration,
}

/// The same, with their threads and ages.
pub fn running(longer_than: Duration) -> Vec<Running> {
    let Some(monitor) = MONITOR.get() else { return Vec::new() };
    let state = monitor.lock();
    let innermost = state.callbacks.values().filter_map(|stack| stack.last());
    let all = innermost.map(|of| Running { name: of.name, thread: of.thread, age: of.since.elapsed() });
    let mut long: Vec<Running> = all.filter(|running| running.age >= longer_than).collect();
    long.sort_unstable();
    long
}

/// A thread has ended in a callback, which is never over.
pub fn abandon(thread: u32) {
    let Some(monitor) = MONITOR.get() else { return };
    let mut state = monitor.lock();
    let is_dead = |stack: &Vec<Called>| stack.iter().any(|called| called.thread == thread);
    let dead: Vec<Task> = state.callbacks.iter().filter(|(_, stack)| is_dead(stack)).map(|(task, _)| *task).collect();
    for task in dead {
        state.callbacks.remove(&task);
        monitor.writer.seat(task.0, "", Instant::now());
    }
}

/// Whether a callback waits for a disk: its thread, and no other one of the process.
pub fn callback_waits_for_a_disk() -> bool {
    let Some(monitor) = MONITOR.get() else { return false };
    let threads: BTreeSet<u32> = monitor.lock().callbacks.values().flatten().map(|called| called.thread).collect();
    threads.into_iter().any(leftovers::waits_for_a_disk)
}
