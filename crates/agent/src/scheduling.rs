//! What the scheduler says about other threads. The sampler asks at most instants, so the files stay open.

use crate::proc::parse_readiness;
use remora_agent_hot::waited_in;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Threads with open files at most, two each. The target's limit counts them, too.
const THREADS: usize = 32;

/// Room for a thread's `stat`: 52 numbers and a short name.
const ROOM: usize = 1024;

/// The open files of one thread.
struct Files {
    thread: u32,
    stat: File,
    /// `None` if the kernel does not have it.
    schedstat: Option<File>,
}

/// Open files of threads. A thread has one possible place, so another thread with the same place closes its files.
#[derive(Default)]
pub struct Scheduling {
    places: [Option<Files>; THREADS],
}

impl Scheduling {
    /// The CPU on which a thread runs or waits to run; `None` if it is blocked, or gone.
    pub fn ready_on(&mut self, thread: u32) -> Option<i32> {
        let (text, length) = self.read(thread, |files| Some(&files.stat))?;
        parse_readiness(&String::from_utf8_lossy(text.get(..length)?))
    }

    /// How long a thread has waited for CPUs in its life, nanoseconds. An unfinished wait does not count. `None` if it is gone, or the
    /// kernel does not say.
    pub fn waited_for_cpu(&mut self, thread: u32) -> Option<u64> {
        let (text, length) = self.read(thread, |files| files.schedstat.as_ref())?;
        waited_in(text.get(..length)?)
    }

    fn read(&mut self, thread: u32, which: fn(&Files) -> Option<&File>) -> Option<([u8; ROOM], usize)> {
        let place = self.places.get_mut(thread as usize % THREADS)?;
        if place.as_ref().is_none_or(|files| files.thread != thread) {
            *place = None;
            let open = |name: &str| File::open(format!("/proc/self/task/{thread}/{name}")).ok();
            *place = Some(Files { thread, stat: open("stat")?, schedstat: open("schedstat") });
        }
        let mut text = [0; ROOM];
        let length = which(place.as_ref()?)?.read_at(&mut text, 0);
        if length.is_err() {
            // The thread has ended. A new thread may get its number.
            *place = None;
        }
        Some((text, length.ok()?))
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
        let mut scheduling = Scheduling::default();
        // SAFETY: gettid takes nothing.
        let own = unsafe { libc::gettid() } as u32;
        assert!(scheduling.ready_on(own).is_some(), "it runs now");
        assert!(scheduling.waited_for_cpu(own).is_some());
        let _ = scheduling.ready_on(thread);
        drop(end);
        other.join().expect("it ends");
        // The kernel removes the thread a moment after `join`.
        while scheduling.places.iter().flatten().any(|files| files.thread == thread) {
            let _ = scheduling.ready_on(thread);
        }
        assert_eq!(scheduling.ready_on(thread), None);
    }
}
