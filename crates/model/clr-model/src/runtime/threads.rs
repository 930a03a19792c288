//! Managed threads: which of the modelled threads the runtime knows, and where they are in their code.

use super::calls::{call_all, low};
use super::{Runtime, State};
use crate::mutation;
use crate::schedule::{self, Task};
use corprof::sys;
use std::collections::BTreeMap;
use std::sync::MutexGuard;

/// A ThreadID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub usize);

/// Of ThreadIDs, which are addresses in a real process.
const FIRST_THREAD: usize = 0x7000_0000;

/// Of those that no profiler sees.
const FIRST_HIDDEN: usize = 0x7F00_0000;

#[derive(Debug)]
pub(super) struct Thread {
    /// Its number in the system.
    pub(super) os_thread: u32,
    /// Addresses, innermost last.
    pub(super) stack: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Threads {
    pub(super) known: BTreeMap<ThreadId, Thread>,
    of_task: BTreeMap<Task, ThreadId>,
    /// Threads of profilers that the runtime has come to know by what they asked for: no managed code is on them.
    of_profilers: Vec<Task>,
    begun: usize,
}

/// The system's number of the running thread: the true one where a thread of the system runs the schedule, for what is handed to a
/// profiler's library is used there. A coroutine gets one that nobody has.
fn os_thread(begun: usize) -> u32 {
    match schedule::threads::os_threads() {
        Some(_) => schedule::threads::this_thread(),
        None => 1000 + begun as u32,
    }
}

impl Runtime {
    /// The running thread becomes one of the runtime's own.
    pub fn begin_thread(&self) -> ThreadId {
        let task = schedule::current();
        let (thread, os_thread) = {
            let mut state = self.lock_thread_store();
            let thread = ThreadId(FIRST_THREAD + state.threads.begun * 0x100);
            state.threads.begun += 1;
            let os_thread = os_thread(state.threads.begun);
            state.threads.known.insert(thread, Thread { os_thread, stack: Vec::new() });
            state.threads.of_task.insert(task, thread);
            (thread, os_thread)
        };
        schedule::note("A thread begins ({})", thread.0 as u64);
        call_all!(self, low(sys::COR_PRF_MONITOR_THREADS), thread_created(thread.0));
        call_all!(self, low(sys::COR_PRF_MONITOR_THREADS), thread_assigned_to_os_thread(thread.0, os_thread));
        thread
    }

    /// The runtime needs the running thread to be one of its own, and makes it one. It stays that until it ends.
    pub(super) fn adopt_thread(&self) {
        if self.this_thread().is_none() {
            self.begin_thread();
            self.lock().threads.of_profilers.push(schedule::current());
        }
    }

    /// Whether the running thread was made one of the runtime's own like that.
    pub(super) fn is_adopted(&self) -> bool {
        self.lock().threads.of_profilers.contains(&schedule::current())
    }

    /// The running thread ends, as far as the runtime is concerned.
    pub fn end_thread(&self) {
        let Some(thread) = self.this_thread() else { return };
        {
            let mut state = self.lock_thread_store();
            state.threads.known.remove(&thread);
            state.heap.thread_ends(thread);
        }
        schedule::note("A thread ends ({})", thread.0 as u64);
        call_all!(self, low(sys::COR_PRF_MONITOR_THREADS), thread_destroyed(thread.0));
        self.lock().threads.of_task.remove(&schedule::current());
    }

    /// The state, in which threads may be added and taken away: who has suspended the managed threads holds the list of them (facts 5; source:
    /// threads.cpp, Thread::OnThreadTerminate and ThreadStore::AddThread).
    fn lock_thread_store(&self) -> MutexGuard<'_, State> {
        let is_free = |state: &State| state.suspended_by.is_none_or(|task| task == schedule::current());
        loop {
            let state = self.lock();
            if is_free(&state) || schedule::is_stopped() || mutation::is("GCH-06/4") {
                return state;
            }
            drop(state);
            schedule::wait_until(None, || is_free(&self.lock()));
        }
    }

    /// The running thread is one of the runtime's own that nobody is told of: the background collection's.
    pub(super) fn begin_hidden_thread(&self) {
        let mut state = self.lock();
        let thread = ThreadId(FIRST_HIDDEN + state.threads.begun * 0x100);
        state.threads.begun += 1;
        state.threads.of_task.insert(schedule::current(), thread);
    }

    /// It ends.
    pub(super) fn end_hidden_thread(&self) {
        self.lock().threads.of_task.remove(&schedule::current());
    }

    /// The runtime's id of the running thread, if it knows it.
    pub fn this_thread(&self) -> Option<ThreadId> {
        self.lock().threads.of_task.get(&schedule::current()).copied()
    }

    /// The running thread calls into code at an address.
    pub fn push_frame(&self, address: u64) {
        self.with_stack(|stack| stack.push(address));
    }

    /// It returns.
    pub fn pop_frame(&self) {
        self.with_stack(|stack| {
            stack.pop();
        });
    }

    /// The running thread's number in the system and its stack, innermost first.
    pub fn stack(&self) -> Option<(u32, Vec<u64>)> {
        let thread = self.this_thread()?;
        let state = self.lock();
        let known = state.threads.known.get(&thread)?;
        Some((known.os_thread, known.stack.iter().rev().copied().collect()))
    }

    /// Numbers in the system of the threads that it knows.
    pub fn os_threads(&self) -> Vec<u32> {
        self.lock().threads.known.values().map(|thread| thread.os_thread).collect()
    }

    fn with_stack(&self, change: impl FnOnce(&mut Vec<u64>)) {
        let Some(thread) = self.this_thread() else { return };
        if let Some(thread) = self.lock().threads.known.get_mut(&thread) {
            change(&mut thread.stack);
        }
    }

    /// Waits until nobody has suspended the managed threads: what a managed thread does at each safepoint.
    pub fn safepoint(&self) {
        schedule::point();
        if self.lock().suspended_by.is_some() {
            schedule::wait_until(None, || self.lock().suspended_by.is_none());
        }
    }
}

impl Runtime {
    /// Whether there was ever a notification-only profiler that the runtime did not find (`main_departure_is_miscounted`): it is not told
    /// of unloads then, and cannot know that.
    pub fn has_lost_track(&self) -> bool {
        self.lock().has_lost_track
    }
}
