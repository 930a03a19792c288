//! The two threads of an attach. They start alike. The first to get a CPU becomes the worker; the other one waits for it, and detaches.
//!
//! If another program keeps a CPU busy, a new thread may wait there for a whole tick of the kernel, even beside an idle CPU. The kernel
//! mostly starts the second thread on another CPU than the first. So one of the two begins at once.

use crate::threads::{self, lock, pause};
use corprof::detach::OwnThread;
use remora_session::ThreadRoles;
use remora_wire::THREAD_NAME;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Pause between two checks for a thread's handle, nanoseconds.
const INTERVAL: u64 = 100_000;

struct Pair<R> {
    roles: Arc<R>,
    claimed: AtomicBool,
    /// Both, from a moment after they begin.
    threads: [Mutex<Option<OwnThread>>; 2],
}

/// Starts both threads.
///
/// # Errors
/// The only thread that started: it works, and no thread detaches after it. `None` if none started.
pub fn start<R: ThreadRoles>(roles: Arc<R>) -> Result<(), Option<OwnThread>> {
    let pair = Arc::new(Pair { roles, claimed: AtomicBool::new(false), threads: Default::default() });
    for index in 0..2 {
        let its = pair.clone();
        let started = threads::start(THREAD_NAME, move || play(its, index));
        let thread = started.map_err(|_| lock(&pair.threads[0]).take())?;
        *lock(&pair.threads[index]) = Some(thread);
    }
    Ok(())
}

fn play<R: ThreadRoles>(pair: Arc<Pair<R>>, index: usize) {
    let roles = pair.roles.clone();
    if !pair.claimed.swap(true, Ordering::AcqRel) {
        drop(pair);
        return roles.work();
    }
    // No thread joins this one.
    handle(&pair.threads[index]).let_go();
    let worker = handle(&pair.threads[1 - index]);
    drop(pair);
    worker.join();
    roles.leave();
}

/// The handle of a thread that already runs: its creator stores the handle a moment later.
fn handle(place: &Mutex<Option<OwnThread>>) -> OwnThread {
    loop {
        let taken = lock(place).take();
        match taken {
            Some(thread) => return thread,
            None => pause(INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Calls(std::sync::Mutex<Sender<(&'static str, u32)>>);

    impl Calls {
        fn tell(&self, what: &'static str) {
            let thread = crate::threads::this_thread();
            self.0.lock().expect("nobody panicked").send((what, thread)).expect("the test listens");
        }
    }

    impl ThreadRoles for Calls {
        fn work(&self) {
            self.tell("works");
        }

        fn leave(self: Arc<Self>) {
            self.tell("leaves");
        }
    }

    #[test]
    fn one_works_and_the_other_leaves_after_it_whichever_began_first() {
        for _ in 0..200 {
            let (sender, calls) = channel();
            assert!(start(Arc::new(Calls(std::sync::Mutex::new(sender)))).is_ok());
            let seen: Vec<(&str, u32)> = calls.iter().collect();
            assert_eq!(seen.iter().map(|(what, _)| *what).collect::<Vec<_>>(), ["works", "leaves"]);
            assert_ne!(seen[0].1, seen[1].1);
        }
    }
}
