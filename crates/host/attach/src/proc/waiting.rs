//! Reads of a process's files that the process can keep waiting.
//!
//! While a process executes a program, the kernel holds its `exec_update_lock`, also while it closes files (fs/exec.c, `begin_new_exec`). A
//! file of the user's own FUSE file system can make that last for ever. Until then, whoever reads one of [`LOCKED`] waits for the lock
//! (tried with Linux 6.18, where ps(1) waits as well). So another thread reads them, and can be abandoned.

use rustix::io::Errno;
use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Files of a process that need its `exec_update_lock` or the lock of its memory, and folders of such. The other lock can be held back, too:
/// by a mapping over a changed page of a FUSE file (tried).
const LOCKED: [&str; 15] = [
    "auxv",
    "cmdline",
    "cwd",
    "environ",
    "exe",
    "fd",
    "io",
    "map_files",
    "maps",
    "ns",
    "root",
    "smaps",
    "smaps_rollup",
    "stat",
    "wchan",
];
/// How long to wait for one: `smaps_rollup` of a large process takes a second or two.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Stack of a thread that reads one.
const STACK: usize = 256 << 10;

/// Paths whose readers were abandoned, and whether they have ended since. While one waits, no other one is sent.
static ABANDONED: LazyLock<Mutex<HashMap<PathBuf, Arc<AtomicBool>>>> = LazyLock::new(Mutex::default);

thread_local! {
    /// Whether somebody abandons this thread if it waits.
    static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that is abandoned if it waits. It reads everything itself.
pub(crate) fn this_thread_may_wait() {
    MAY_WAIT.set(true);
}

/// Does `read`, which opens `path`, a file of a process. It has the rights of the calling thread.
///
/// # Errors
/// Those of `read`; `ETIMEDOUT` if the process kept the reader waiting for five seconds.
pub fn read_while_it_answers<T: Send + 'static>(
    path: &Path,
    read: impl FnOnce(&Path) -> io::Result<T> + Send + Clone + 'static,
) -> io::Result<T> {
    if is_locked(path) { in_time(path, TIMEOUT, read) } else { read(path) }
}

fn is_locked(path: &Path) -> bool {
    let mut names = path.iter().rev().take(2).filter_map(|name| name.to_str());
    names.any(|name| LOCKED.contains(&name))
}

/// Does `read`, which reads files of a process at or below `path`, in a thread that is abandoned after some time.
///
/// # Errors
/// Those of `read`; `ETIMEDOUT` if it was abandoned, now or earlier, and has not ended since.
pub fn in_time<T: Send + 'static>(
    path: &Path,
    timeout: Duration,
    read: impl FnOnce(&Path) -> io::Result<T> + Send + Clone + 'static,
) -> io::Result<T> {
    if MAY_WAIT.get() {
        return read(path);
    }
    let abandoned = || ABANDONED.lock().unwrap_or_else(PoisonError::into_inner);
    if abandoned().get(path).is_some_and(|ended| !ended.load(Ordering::Acquire)) {
        return Err(Errno::TIMEDOUT.into());
    }
    let (sender, answer) = mpsc::sync_channel(1);
    let ended = Arc::new(AtomicBool::new(false));
    let (its_path, its_end, its_read) = (path.to_owned(), Arc::clone(&ended), read.clone());
    let work = move || {
        this_thread_may_wait();
        let _ = sender.send(its_read(&its_path));
        its_end.store(true, Ordering::Release);
    };
    // A thread has the rights of the one that starts it.
    let Ok(_) = thread::Builder::new().name("read".into()).stack_size(STACK).spawn(work) else {
        // Under a limit of threads, the read may wait.
        return read(path);
    };
    match answer.recv_timeout(timeout) {
        Ok(answer) => answer,
        // It panicked.
        Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::Other.into()),
        Err(RecvTimeoutError::Timeout) => {
            let mut abandoned = abandoned();
            abandoned.retain(|_, ended| !ended.load(Ordering::Acquire));
            abandoned.insert(path.to_owned(), ended);
            Err(Errno::TIMEDOUT.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};

    #[test]
    fn a_reader_that_waits_is_abandoned_and_no_other_is_sent_until_it_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("maps");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("made");
        let soon = Duration::from_millis(50);
        let kind = |result: io::Result<Vec<u8>>| result.map_err(|error| error.kind());
        let read = |path: &Path| fs::read(path);
        assert_eq!(kind(in_time(&path, soon, read)), Err(io::ErrorKind::TimedOut));
        let never = |_: &Path| -> io::Result<Vec<u8>> { unreachable!("the first one still waits") };
        assert_eq!(kind(in_time(&path, Duration::MAX, never)), Err(io::ErrorKind::TimedOut));
        drop(OpenOptions::new().write(true).open(&path).expect("the reader waits"));
        let ended = Arc::clone(&ABANDONED.lock().expect("whole")[&path]);
        while !ended.load(Ordering::Acquire) {
            thread::yield_now();
        }
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "7f00-7f10").expect("written");
        assert_eq!(kind(in_time(&path, Duration::MAX, read)), Ok(b"7f00-7f10".to_vec()));
    }

    #[test]
    fn files_that_need_the_lock_are_known_by_their_names() {
        for (path, expected) in [
            ("/proc/1/auxv", true),
            ("/proc/1/map_files/7f00-7f10", true),
            ("/proc/1/task/2/smaps_rollup", true),
            ("/proc/1/ns/user", true),
            ("/proc/1/status", false),
            ("/proc/locks", false),
        ] {
            assert_eq!(is_locked(Path::new(path)), expected, "{path}");
        }
    }
}
