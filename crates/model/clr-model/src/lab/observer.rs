//! A thread of the run with descriptors of its own: what it reads from the system does not depend on those of the profiler.
//!
//! A profiler may use up every descriptor of the process. Then nothing in `/proc` could be opened, and leftovers would look absent.
//! No handler of the profiler runs on this thread: the profiler's descriptors do not exist here, so the handler could not work.

use super::limits;
use crate::schedule::{self, answer::Answer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// The first descriptor that the observer closes. The others are the standard ones.
const FIRST: libc::c_uint = 3;
/// The longest wait for a look, in turns: while the whole machine is suspended, only one turn passes.
const TURN: Duration = Duration::from_millis(50);
const TURNS: u32 = 100;
/// The turns for a look after one that did not come.
const TURNS_IF_LATE: u32 = 1;

/// The longest wait for a look.
pub const LONGEST: Duration = TURN.saturating_mul(TURNS);

type Look = Box<dyn FnOnce() + Send>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

struct Observer {
    looks: Mutex<Sender<Look>>,
    process: u32,
    /// The last look did not come in time.
    is_late: AtomicBool,
}

/// Starts the observer. Without it, the running thread looks itself.
pub fn begin() {
    let (observer, wanted) = Observer::new();
    schedule::spawn("the observer of the laboratory", move || {
        block_signals();
        // SAFETY: takes numbers only. From here on, this thread has a table of its own; nothing of ours in it is used.
        let answer = unsafe {
            libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_uint)
        };
        if answer != 0 {
            // An older kernel (before 5.9): copies of the descriptors stay open.
            // SAFETY: takes a number.
            unsafe { libc::unshare(libc::CLONE_FILES) };
        }
        while let Ok(look) = wanted.recv() {
            look();
        }
    });
    // The first and only call.
    let _ = OBSERVER.set(observer);
}

/// Lets the observer look, and waits for its answer. `None` if it did not come in time: that says nothing.
pub fn look<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // A copy of the run that the profiler has forked has no observer.
    match OBSERVER.get().filter(|observer| observer.process == std::process::id()) {
        Some(observer) => observer.look(look, TURNS),
        None => Some(look()),
    }
}

impl Observer {
    fn new() -> (Observer, Receiver<Look>) {
        let (looks, wanted) = channel::<Look>();
        (Observer { looks: Mutex::new(looks), process: std::process::id(), is_late: AtomicBool::new(false) }, wanted)
    }

    fn look<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static, turns: u32) -> Option<T> {
        let answer = Answer::default();
        let answered = answer.clone();
        let look: Look = Box::new(move || {
            limits::raise_lowered();
            answered.give(look());
        });
        // Fails if the observer has ended.
        self.looks.lock().expect("no panic while locked").send(look).ok()?;
        let turns = if self.is_late.load(Ordering::SeqCst) { TURNS_IF_LATE } else { turns };
        let answer = (0..turns).find_map(|_| answer.wait(TURN));
        self.is_late.store(answer.is_none(), Ordering::SeqCst);
        answer
    }
}

fn block_signals() {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a local set.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: a local set; the old one is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_does_not_come_is_no_answer_and_the_next_one_is() {
        let (observer, wanted) = Observer::new();
        assert_eq!(observer.look(|| 1, 1), None);
        let observing = std::thread::spawn(move || wanted.into_iter().for_each(|look| look()));
        while observer.look(|| 2, 1) != Some(2) {}
        assert_eq!(observer.look(|| 3, TURNS), Some(3));
        drop(observer);
        observing.join().expect("it ends");
    }

    #[test]
    fn an_observer_that_has_ended_gives_no_answer() {
        let (observer, wanted) = Observer::new();
        drop(wanted);
        assert_eq!(observer.look(|| 1, TURNS), None);
    }
}
