//! Managed threads: those that the runtime knows, and their stacks.

use super::calls::{call_all, low};
use super::{Runtime, State};
use crate::mutation;
use crate::schedule::{self, Task};
pub use corprof::ThreadId;
use corprof::sys;
use std::collections::BTreeMap;
use std::sync::MutexGuard;

/// The first ThreadID; in a real process they are addresses.
const FIRST_THREAD: usize = 0x7000_0000;

/// The first id of threads that no profiler sees.
const FIRST_HIDDEN: usize = 0x7F00_0000;

#[derive(Debug)]
pub(super) struct Thread {
    /// Its system thread ID.
    pub(super) os_thread: u32,
    /// Addresses, innermost last.
    pub(super) stack: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Threads {
    pub(super) known: BTreeMap<ThreadId, Thread>,
    of_task: BTreeMap<Task, ThreadId>,
    /// Profiler threads that became known to the runtime through their calls. They run no managed code.
    of_profilers: Vec<Task>,
    begun: usize,
}

/// The system thread ID of the running thread. It is real on a thread of the system, since a profiler's library uses it. A coroutine gets
/// an unused one.
fn os_thread(begun: usize) -> u32 {
    match schedule::threads::os_threads() {
        Some(_) => schedule::threads::this_thread(),
        None => 1000 + begun as u32,
    }
}

impl State {
    /// Whether the running thread is in cooperative mode.
    fn is_cooperative(&self) -> bool {
        self.cooperative.contains(&schedule::current())
    }
}

impl Runtime {
    /// Makes the running thread known to the runtime.
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

    /// Makes the running thread known to the runtime, until it ends, if it is not already.
    pub(super) fn adopt_thread(&self) {
        if self.this_thread().is_some() {
            return;
        }
        self.begin_thread();
        let runtime = {
            let mut state = self.lock();
            state.threads.of_profilers.push(schedule::current());
            state.myself.clone()
        };
        schedule::at_end(move || {
            if let Some(runtime) = runtime.upgrade().filter(|runtime| !runtime.is_exiting()) {
                runtime.end_adopted_thread();
            }
        });
    }

    /// The running thread of a profiler ends: it is a managed thread no more.
    fn end_adopted_thread(&self) {
        self.end_thread();
        let (mut state, task) = (self.lock(), schedule::current());
        state.threads.of_profilers.retain(|one| *one != task);
        state.heap.gc.forced.retain(|one| *one != task);
    }

    /// Whether the running thread became known through [`adopt_thread`](Self::adopt_thread).
    pub(super) fn is_adopted(&self) -> bool {
        self.lock().threads.of_profilers.contains(&schedule::current())
    }

    /// The runtime forgets the running thread.
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

    /// Locks the state to add or remove threads. A thread that has suspended the managed threads holds the thread list (facts 5; source:
    /// threads.cpp, Thread::OnThreadTerminate and ThreadStore::AddThread).
    fn lock_thread_store(&self) -> MutexGuard<'_, State> {
        if mutation::is("GCH-06/4") { self.lock() } else { self.lock_unsuspended() }
    }

    /// Locks the state while no other thread has suspended the managed threads.
    pub(super) fn lock_unsuspended(&self) -> MutexGuard<'_, State> {
        loop {
            let state = self.lock();
            let is_free = state.suspended_by.is_none_or(|task| task == schedule::current());
            if is_free || state.is_cooperative() || schedule::is_stopped() {
                return state;
            }
            drop(state);
            schedule::wait_until(None, || self.lock().suspended_by.is_none());
        }
    }

    /// Makes the running thread a hidden thread of the runtime, without callbacks: the background GC's.
    pub(super) fn begin_hidden_thread(&self) {
        let mut state = self.lock();
        let thread = ThreadId(FIRST_HIDDEN + state.threads.begun * 0x100);
        state.threads.begun += 1;
        state.threads.of_task.insert(schedule::current(), thread);
    }

    /// Ends the hidden thread.
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

    /// Returns from the innermost call.
    pub fn pop_frame(&self) {
        self.with_stack(|stack| {
            stack.pop();
        });
    }

    /// The running thread's system thread ID and stack, innermost first.
    pub fn stack(&self) -> Option<(u32, Vec<u64>)> {
        let thread = self.this_thread()?;
        let state = self.lock();
        let known = state.threads.known.get(&thread)?;
        Some((known.os_thread, known.stack.iter().rev().copied().collect()))
    }

    /// System thread IDs of all known threads.
    pub fn os_threads(&self) -> Vec<u32> {
        self.lock().threads.known.values().map(|thread| thread.os_thread).collect()
    }

    fn with_stack(&self, change: impl FnOnce(&mut Vec<u64>)) {
        let Some(thread) = self.this_thread() else { return };
        if let Some(thread) = self.lock().threads.known.get_mut(&thread) {
            change(&mut thread.stack);
        }
    }

    /// Waits while managed threads are suspended, as a managed thread does at each safepoint.
    pub fn safepoint(&self) {
        schedule::point();
        let must_wait = {
            let state = self.lock();
            state.suspended_by.is_some() && !state.is_cooperative()
        };
        if must_wait {
            self.wait_suspended();
        }
    }

    /// A thread that comes to a safepoint reports its own wait.
    fn wait_suspended(&self) {
        self.tell_own_suspension();
        schedule::wait_until(None, || self.lock().suspended_by.is_none());
        self.tell_own_resumption();
    }

    /// RuntimeThreadSuspended is about the running thread: the one that suspends the others, and each that waits at a safepoint (source:
    /// threadsuspend.cpp; live: tests/conformance/tests/callbacks.rs).
    pub(super) fn tell_own_suspension(&self) {
        if let Some(ThreadId(thread)) = self.visible_thread() {
            call_all!(self, low(sys::COR_PRF_MONITOR_SUSPENDS), runtime_thread_suspended(thread));
        }
    }

    /// The same for RuntimeThreadResumed.
    pub(super) fn tell_own_resumption(&self) {
        if let Some(ThreadId(thread)) = self.visible_thread() {
            call_all!(self, low(sys::COR_PRF_MONITOR_SUSPENDS), runtime_thread_resumed(thread));
        }
    }

    /// The running thread, if it is a managed one that profilers see.
    fn visible_thread(&self) -> Option<ThreadId> {
        let thread = self.this_thread()?;
        self.lock().threads.known.contains_key(&thread).then_some(thread)
    }

    /// The running thread gives itself a name.
    pub fn name_thread(&self, name: &str) {
        let Some(thread) = self.this_thread() else { return };
        let units: Vec<u16> = name.encode_utf16().collect();
        let (count, units) = (units.len() as u32, units.as_ptr());
        call_all!(self, low(sys::COR_PRF_MONITOR_THREADS), thread_name_changed(thread.0, count, units));
    }

    /// Runs `act` in cooperative mode: a suspension waits for its end, so no object moves meanwhile. The runtime makes callbacks that pass an
    /// object in this way (source: eetoprofinterfaceimpl.cpp, MODE_COOPERATIVE).
    pub(super) fn in_cooperative_mode<R>(&self, act: impl FnOnce() -> R) -> R {
        let task = schedule::current();
        self.lock_unsuspended().cooperative.push(task);
        let answer = act();
        let mut state = self.lock();
        let at = state.cooperative.iter().rposition(|one| *one == task);
        at.map(|at| state.cooperative.remove(at));
        answer
    }

    /// Waits until no other thread is in cooperative mode.
    pub(super) fn wait_for_cooperative_threads(&self) {
        let task = schedule::current();
        let is_alone = || self.lock().cooperative.iter().all(|one| *one == task);
        if !is_alone() {
            schedule::wait_until(None, is_alone);
        }
    }

    /// Whether the runtime ever overlooked a notification-only profiler (`main_departure_is_miscounted`). Such a profiler gets no unload
    /// callbacks, and cannot know it.
    pub fn has_lost_track(&self) -> bool {
        self.lock().has_lost_track
    }
}
