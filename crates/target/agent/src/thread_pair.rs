//! The two threads of an attach. They start alike. The first to get a CPU becomes the worker; the other one waits for it, and detaches.
//!
//! If another program keeps a CPU busy, a new thread may wait there for a whole tick of the kernel, even beside an idle CPU. The kernel
//! mostly starts the second thread on another CPU than the first. So one of the two begins at once.

use crate::threads::{OwnThread, begin_this, detach_this, end_this, join, pause};
use remora_session::ThreadRoles;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Pause between two checks for the other thread's handle, nanoseconds.
const LOOK: u64 = 100_000;

struct Pair<R> {
    roles: Arc<R>,
    claimed: AtomicBool,
    /// The handles of both; 0 until they are known.
    handles: [AtomicU64; 2],
}

struct One<R> {
    pair: Arc<Pair<R>>,
    index: usize,
}

/// Starts both threads.
///
/// # Errors
/// The only thread that started: it works, and no thread detaches after it. `None` if none started.
pub fn start<R: ThreadRoles>(roles: Arc<R>) -> Result<(), Option<OwnThread>> {
    let pair = Arc::new(Pair { roles, claimed: AtomicBool::new(false), handles: Default::default() });
    let first = start_one(&pair, 0).map_err(|_| None)?;
    pair.handles[0].store(first.handle(), Ordering::Release);
    match start_one(&pair, 1) {
        Ok(second) => {
            pair.handles[1].store(second.handle(), Ordering::Release);
            Ok(())
        }
        Err(_) => Err(Some(first)),
    }
}

fn start_one<R: ThreadRoles>(pair: &Arc<Pair<R>>, index: usize) -> Result<OwnThread, i32> {
    let one = Box::into_raw(Box::new(One { pair: pair.clone(), index }));
    OwnThread::start(main::<R>, one.cast()).inspect_err(|_| {
        // SAFETY: no thread took the box over.
        drop(unsafe { Box::from_raw(one) });
    })
}

extern "C" fn main<R: ThreadRoles>(argument: *mut c_void) -> *mut c_void {
    begin_this("");
    // SAFETY: `start_one` handed this box over.
    play(*unsafe { Box::from_raw(argument.cast::<One<R>>()) });
    end_this();
    std::ptr::null_mut()
}

fn play<R: ThreadRoles>(One { pair, index }: One<R>) {
    let roles = pair.roles.clone();
    if !pair.claimed.swap(true, Ordering::AcqRel) {
        drop(pair);
        return roles.work();
    }
    detach_this();
    let worker = other_of(&pair, index);
    drop(pair);
    join(worker);
    roles.leave();
}

/// The handle of the other thread, which already runs: its creator stores the handle a moment later.
fn other_of<R>(pair: &Pair<R>, index: usize) -> u64 {
    loop {
        match pair.handles[1 - index].load(Ordering::Acquire) {
            0 => pause(LOOK),
            handle => return handle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Told(std::sync::Mutex<Sender<(&'static str, u32)>>);

    impl Told {
        fn tell(&self, what: &'static str) {
            let thread = crate::threads::this_thread();
            self.0.lock().expect("nobody panicked").send((what, thread)).expect("the test listens");
        }
    }

    impl ThreadRoles for Told {
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
            let (sender, told) = channel();
            assert!(start(Arc::new(Told(std::sync::Mutex::new(sender)))).is_ok());
            let seen: Vec<(&str, u32)> = told.iter().collect();
            assert_eq!(seen.iter().map(|(what, _)| *what).collect::<Vec<_>>(), ["works", "leaves"]);
            assert_ne!(seen[0].1, seen[1].1);
        }
    }
}
