//! Callbacks that do not return: a finding for each, with the stack of one, and the end of the run.

use super::monitor::{self, Running};
use super::page::SHUTDOWN;
use super::proc_file::{field, state};
use super::{leftovers, system};
use crate::schedule::{
    self,
    threads::{os_threads, this_thread},
};
use rustix::process::Pid;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Limit for a callback, an attach answer, and a detach.
pub const LONGEST: Duration = Duration::from_secs(4);
/// Limit for Shutdown: a profiler may wait there for a thread that looks every few seconds. The program's exit waits for it.
pub const LONGEST_SHUTDOWN: Duration = Duration::from_secs(10);
/// The finding on a thread of the profiler's own.
const LOCKED: &str = "a thread of the profiler's own holds a lock of the dynamic linker for good: no thread of the program can begin or end. A dlopen, dlclose, constructor or destructor on it has not returned within 4 seconds";
/// The finding if no thread of the profiler's is left.
const LOCKED_BY_ENDED: &str = "a thread has ended with a lock of the dynamic linker, in a constructor or a destructor of the library: no thread of the program can begin or end";
/// The thread that could not begin, and nobody had the lock.
static NO_OWNER: AtomicU32 = AtomicU32::new(0);
/// How often a thread that does not begin is looked at, and the time between two looks.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Time between two checks.
const INTERVAL: Duration = Duration::from_millis(10);

/// One thread reports: the first one ends the run.
static REPORTS: Mutex<()> = Mutex::new(());

/// Reports each callback that has run longer than it may.
pub fn report() {
    let late = |running: &Running| running.age >= longest(running.name);
    report_these(monitor::running(LONGEST).into_iter().filter(late).collect());
}

/// Whether callbacks run, and none has run longer than it may.
pub fn may_return() -> bool {
    let running = monitor::running(Duration::ZERO);
    !running.is_empty() && running.iter().all(|running| running.age < longest(running.name))
}

/// The run ends here if one of them hangs: in a constructor or a destructor of the library it holds a lock of the dynamic linker, for which
/// every further step of the run could wait.
fn report_these(callbacks: Vec<Running>) {
    let _reports = REPORTS.lock().expect("no panic while locked");
    let mut hangs = false;
    for Running { name: callback, thread, .. } in callbacks {
        if !leftovers::is_alive(thread) {
            let message = format!(
                "{callback} has ended the thread that called it: the runtime's threads are not the profiler's to end (exit, or a forbidden system call)"
            );
            monitor::broken_in("MOD-01", Some(callback), &message);
            monitor::abandon(thread);
            // With a lock of the dynamic linker.
            hangs |= matches!(callback, "dlopen" | "dlclose");
            continue;
        }
        hangs = true;
        system::show_stack(thread);
        monitor::hangs(clause(callback), Some(callback), &message(callback));
    }
    if hangs {
        monitor::exercised("MOD-01");
        monitor::end(true);
    }
}

/// A thread of this number does not begin. If it sleeps, another one holds a lock of the dynamic linker, which each thread needs when it
/// begins. Otherwise the machine is too busy. `own` are the threads of the runtime's side.
pub fn no_thread_begins(own: Vec<u32>, number: u32, has_begun: &dyn Fn() -> bool) {
    if !sleeps(number) || has_begun() {
        return;
    }
    let callbacks = monitor::running(LONGEST);
    // One that holds the lock has run for as long as the thread has waited. It may still return.
    if callbacks.iter().any(|running| running.age < longest_with_disk(running)) {
        return;
    }
    report_these(callbacks);
    let _reports = REPORTS.lock().expect("no panic while locked");
    // Without the observer, which may wait for the same thread.
    let mut threads = monitor::before().map_or_else(Vec::new, |before| before.state.threads_besides(own));
    threads.retain(|thread| *thread != number);
    if threads.is_empty() {
        // Its owner may just have released it.
        if NO_OWNER.swap(number, Ordering::SeqCst) != number {
            return;
        }
    }
    if let [thread] = threads[..] {
        system::show_stack(thread);
    }
    monitor::hangs("MOD-01", None, if threads.is_empty() { LOCKED_BY_ENDED } else { LOCKED });
    monitor::exercised("MOD-01");
    monitor::end(true);
}

/// One whose thread waits for a disk has as long as Shutdown. Read without the observer.
fn longest_with_disk(running: &Running) -> Duration {
    let thread = Pid::from_raw(running.thread.cast_signed());
    if thread.and_then(state) == Some('D') { LONGEST_SHUTDOWN } else { longest(running.name) }
}

/// Whether a thread sleeps all the time (state S in proc(5)), and nobody wakes it. One that waits for a CPU or for a disk has another state.
fn sleeps(thread: u32) -> bool {
    let status = format!("/proc/self/task/{thread}/status");
    let sleep = || {
        let state = field(&status, "State:")?;
        state.starts_with('S').then(|| field(&status, "voluntary_ctxt_switches:")).flatten()
    };
    let first = sleep();
    let is_same = |_| {
        std::thread::sleep(BETWEEN_LOOKS);
        sleep() == first
    };
    first.is_some() && (0..LOOKS).all(is_same)
}

/// If a thread of the profiler holds a lock of the dynamic linker for good, this finds it: a new thread needs that lock.
pub fn look_for_linkers_lock() {
    if let Some(os_threads) = os_threads() {
        // Without memory or a number for it, there is no thread, and nothing is found.
        let _ = os_threads.try_spawn(|| {});
    }
}

/// When the process exits later, and that hangs, the running thread shows where.
pub fn watch_exit() {
    let this = this_thread();
    schedule::spawn("the thread that watches the exit", move || {
        while !monitor::is_over() {
            std::thread::sleep(INTERVAL);
        }
        std::thread::sleep(LONGEST);
        system::show_stack(this);
    });
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
    format!("{callback} has not returned within {} seconds", longest(callback).as_secs())
}

/// The longest time for a callback.
pub fn longest(callback: &str) -> Duration {
    if callback == SHUTDOWN { LONGEST_SHUTDOWN } else { LONGEST }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_has_no_cpu_yet_does_not_sleep() {
        let (tell, begun) = channel();
        let locked = Mutex::new(());
        let held = locked.lock().expect("nobody has it");
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (told, locked) = (tell.clone(), &locked);
            scope.spawn(move || {
                told.send(this_thread()).expect("heard");
                drop(locked.lock());
            });
            let sleeper = begun.recv().expect("it begins");
            while !sleeps(sleeper) {
                std::thread::yield_now();
            }
            let ends = &ends;
            scope.spawn(move || {
                tell.send(this_thread()).expect("heard");
                while !ends.load(Ordering::SeqCst) {}
            });
            let busy = begun.recv().expect("it begins");
            let is_taken_for_a_sleeper = (0..3).any(|_| sleeps(busy));
            ends.store(true, Ordering::SeqCst);
            drop(held);
            assert!(!is_taken_for_a_sleeper);
        });
    }
}
