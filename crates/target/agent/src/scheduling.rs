//! The scheduler's data about other threads. The sampler reads them at most instants, so the files stay open.

use crate::proc::{parse_readiness, parse_system_call};
use remora_sampler::Scheduled;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

/// Threads with open files at most, three each. The target's limit counts them, too.
const THREADS: usize = 16;

/// Files stay open only if the target has this many more descriptors.
const SPARE: u64 = 128;

/// Room for a thread's `stat`: 52 numbers and a short name.
const ROOM: usize = 1024;

/// An open file. The target may have closed its descriptor and use the number for a file of its own, which must stay open.
struct Kept {
    file: ManuallyDrop<File>,
    /// Device and inode.
    identity: (u64, u64),
}

impl Kept {
    fn open(thread: u32, name: &str) -> Option<Kept> {
        let file = File::open(format!("/proc/self/task/{thread}/{name}")).ok()?;
        let identity = identity(&file)?;
        Some(Kept { file: ManuallyDrop::new(file), identity })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if identity(&self.file) == Some(self.identity) {
            // SAFETY: `drop` runs once, and nothing uses the file afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

fn identity(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|data| (data.dev(), data.ino()))
}

/// The open files of one thread: [`NAMES`].
struct Files {
    thread: u32,
    files: [Option<Kept>; NAMES.len()],
}

/// The names of [`Files::files`].
const NAMES: [&str; 3] = ["stat", "schedstat", "syscall"];
const STAT: usize = 0;
const SCHEDSTAT: usize = 1;
const SYSCALL: usize = 2;

/// Where a thread is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a system call: the instruction after it, and the stack pointer there.
    SystemCall { instruction: u64, stack: u64 },
    /// Not blocked, or blocked elsewhere, for example waiting for memory.
    Elsewhere,
}

/// Open files of threads. A thread has one possible place, so another thread with the same place closes its files.
pub struct Scheduling {
    places: [Option<Files>; THREADS],
    /// Files with a larger descriptor do not stay open.
    largest: i32,
}

impl Scheduling {
    pub fn new() -> Self {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is live and writable.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        let largest = limit.rlim_cur.saturating_sub(SPARE);
        Scheduling { places: Default::default(), largest: i32::try_from(largest).unwrap_or(i32::MAX) }
    }

    /// The CPU on which a thread runs or waits to run; `None` if it is blocked, or gone.
    pub fn ready_on(&mut self, thread: u32) -> Option<i32> {
        let (text, length) = self.read(thread, STAT)?;
        parse_readiness(&String::from_utf8_lossy(text.get(..length)?))
    }

    /// The scheduler's counters of a thread. `None` if it is gone, or the kernel does not provide them.
    pub fn scheduled(&mut self, thread: u32) -> Option<Scheduled> {
        let (text, length) = self.read(thread, SCHEDSTAT)?;
        Scheduled::parse(text.get(..length)?)
    }

    /// Where a thread is blocked. `None` if the kernel does not provide it.
    pub fn place(&mut self, thread: u32) -> Option<Place> {
        let (text, length) = self.read(thread, SYSCALL)?;
        let call = parse_system_call(&String::from_utf8_lossy(text.get(..length)?));
        Some(call.map_or(Place::Elsewhere, |(instruction, stack)| Place::SystemCall { instruction, stack }))
    }

    /// Closes the files of the other threads.
    pub fn keep(&mut self, is_kept: impl Fn(u32) -> bool) {
        for place in &mut self.places {
            place.take_if(|files| !is_kept(files.thread));
        }
    }

    fn read(&mut self, thread: u32, which: usize) -> Option<([u8; ROOM], usize)> {
        let place = self.places.get_mut(thread as usize % THREADS)?;
        if place.as_ref().is_none_or(|files| files.thread != thread) {
            *place = Some(Files { thread, files: [None, None, None] });
        }
        let kept = place.as_mut()?.files.get_mut(which)?;
        if kept.is_none() {
            *kept = Some(Kept::open(thread, NAMES.get(which)?)?);
        }
        let file = &kept.as_ref()?.file;
        let mut text = [0; ROOM];
        let length = file.read_at(&mut text, 0);
        // If the thread has ended, a new thread may get its number.
        if length.is_err() || file.as_raw_fd() > self.largest {
            *kept = None;
        }
        Some((text, length.ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::JoinHandle;

    fn own() -> u32 {
        // SAFETY: gettid takes no arguments.
        (unsafe { libc::gettid() }) as u32
    }

    /// A thread that ends with the sender.
    fn waiting_thread() -> (u32, Sender<()>, JoinHandle<()>) {
        let (say, hear) = channel();
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            say.send(own()).expect("the test listens");
            let _ = ended.recv();
        });
        (hear.recv().expect("the thread has begun"), end, thread)
    }

    fn open_files(scheduling: &Scheduling) -> usize {
        scheduling.places.iter().flatten().flat_map(|files| &files.files).flatten().count()
    }

    #[test]
    fn the_files_of_a_thread_that_ended_are_closed() {
        let mut scheduling = Scheduling::new();
        assert!(scheduling.ready_on(own()).is_some(), "it runs now");
        assert!(scheduling.scheduled(own()).is_some_and(|counted| counted.slices > 0));
        assert_eq!(open_files(&scheduling), 2);
        scheduling.keep(|thread| thread != own());
        assert_eq!(open_files(&scheduling), 0);

        let (thread, end, handle) = waiting_thread();
        let _ = scheduling.ready_on(thread);
        assert_eq!(open_files(&scheduling), 1);
        drop(end);
        handle.join().expect("it ends");
        // The kernel removes the thread a moment after `join`.
        while open_files(&scheduling) > 0 {
            let _ = scheduling.ready_on(thread);
        }
        assert_eq!(scheduling.ready_on(thread), None);
    }

    /// Seen: a target closed all descriptors that it did not know, and opened pipes. The sampler closed five of them.
    #[test]
    fn a_descriptor_that_the_target_closed_and_used_again_stays_open() {
        let kept = Kept::open(own(), "stat").expect("it exists");
        let number = kept.file.as_raw_fd();
        let other = File::open("/dev/null").expect("it exists");
        // SAFETY: both descriptors are open. The target may do this to a descriptor of ours.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        drop(kept);
        // SAFETY: only reads the descriptor's flags.
        assert_ne!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
        // SAFETY: this test owns the number now.
        unsafe { libc::close(number) };
    }

    #[test]
    fn where_descriptors_are_few_no_file_stays_open() {
        let mut scheduling = Scheduling { largest: 0, ..Scheduling::new() };
        assert!(scheduling.ready_on(own()).is_some());
        assert_eq!(open_files(&scheduling), 0);
    }
}
