//! A thread of the run with descriptors of its own: what it reads from the system does not depend on those of the profiler.
//!
//! A profiler may use up every descriptor of the process. Then nothing in `/proc` could be opened, and leftovers would look absent.

use super::limits;
use crate::schedule;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// The first descriptor that the observer closes. The others are the standard ones.
const FIRST: libc::c_uint = 3;
/// A longer look never ends: the process is dying.
const LONGEST: Duration = Duration::from_secs(5);

type Look = Box<dyn FnOnce() + Send>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

struct Observer {
    looks: Mutex<Sender<Look>>,
    process: u32,
}

/// Starts the observer. Without it, the running thread looks itself.
pub fn begin() {
    let (looks, wanted) = channel::<Look>();
    schedule::spawn("the observer of the laboratory", move || {
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
    let _ = OBSERVER.set(Observer { looks: Mutex::new(looks), process: std::process::id() });
}

/// Lets the observer look, and waits for its answer.
pub fn look<T: Default + Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
    // A copy of the run that the profiler has forked has no observer.
    let Some(observer) = OBSERVER.get().filter(|observer| observer.process == std::process::id()) else {
        return look();
    };
    let (answer, answered) = channel();
    let look: Look = Box::new(move || {
        limits::raise_lowered();
        // The asking thread waits for it.
        let _ = answer.send(look());
    });
    // The observer ends with the process.
    let _ = observer.looks.lock().expect("no panic while locked").send(look);
    answered.recv_timeout(LONGEST).unwrap_or_default()
}
