//! Which CPU a thread waits for. The sampler asks this at most instants, so the files stay open.

use crate::proc::parse_readiness;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Open files at most. The target's limit counts them, too.
const FILES: usize = 32;

/// Room for a thread's `stat`: 52 numbers and a short name.
const STAT: usize = 1024;

/// Open `stat` files of threads. A thread has one possible place, so a thread with the same place closes its file.
#[derive(Default)]
pub struct Readiness {
    files: [Option<(u32, File)>; FILES],
}

impl Readiness {
    /// The CPU on which a thread runs or waits to run; `None` if it is blocked, or gone.
    pub fn ready_on(&mut self, thread: u32) -> Option<i32> {
        let place = self.files.get_mut(thread as usize % FILES)?;
        if place.as_ref().is_none_or(|(of, _)| *of != thread) {
            *place = None;
            let file = File::open(format!("/proc/self/task/{thread}/stat")).ok()?;
            *place = Some((thread, file));
        }
        let mut stat = [0; STAT];
        let (_, file) = place.as_ref()?;
        let Ok(length) = file.read_at(&mut stat, 0) else {
            // The thread has ended. A new thread may get its number.
            *place = None;
            return None;
        };
        parse_readiness(&String::from_utf8_lossy(stat.get(..length)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_ended_is_not_ready_and_its_file_is_closed() {
        let (say, hear) = channel();
        let (end, ended) = channel::<()>();
        let other = std::thread::spawn(move || {
            // SAFETY: gettid takes nothing.
            say.send(unsafe { libc::gettid() } as u32).expect("the test listens");
            let _ = ended.recv();
        });
        let thread = hear.recv().expect("the thread has begun");
        let mut readiness = Readiness::default();
        // SAFETY: gettid takes nothing.
        let own = unsafe { libc::gettid() } as u32;
        assert!(readiness.ready_on(own).is_some(), "it runs now");
        let _ = readiness.ready_on(thread);
        drop(end);
        other.join().expect("it ends");
        // The kernel removes the thread a moment after `join`.
        while readiness.files.iter().flatten().any(|(of, _)| *of == thread) {
            let _ = readiness.ready_on(thread);
        }
        assert_eq!(readiness.ready_on(thread), None);
    }
}
