//! The instance lock: one recording of a process at a time. It is a locked file, so of two commands that start at the same instant only
//! one attaches.
//!
//! The file lies in a directory of the recording user, which nobody else can write to: `/run/remora` for root, `/run/user/UID/remora` or
//! `/tmp/remora-UID` for others. If another user has taken that name, the directory is `.remora-lock` in the home directory.
//! Only the recording user and root can open the file: who can read a file can lock it. A recording is refused for the lock of its own user,
//! and of root. Others see in `/proc/locks` whether root's file is locked. For the lock of the process's own user there is
//! only a note: that user can lock any process, and name any holder. The next recording removes unlocked files of ended processes.
//!
//! The kernel releases the lock when its owner ends, in any way. The file name has the process's innermost id, that id's namespace and
//! the start time, so it is the same from another pid namespace.
//! A command with another `/run` does not see the files; only the agent's memory shows such recordings ([`crate::lock_holder`]).
//!
//! The lock applies to every engine: one recording would stop or signal the threads that the other measures.
//!
//! Rejected: an abstract Unix socket. Any process can bind its name, and a process that fills its backlog makes all others wait.

use crate::console::note;
use crate::failure::Failure;
use remora_attach::proc::{Proc, in_time, read_while_it_answers};
use remora_attach::{Process, TargetText};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Attempts to lock, since another command may be inspecting or releasing the lock.
const TRIES: usize = 16;
/// Attempts to find the lock free while a killed holder ends: a second.
const ENDING_TRIES: usize = 500;
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(2);
/// Time for the command line of a recorder. It lies in that process's memory, which its own file system may back.
const COMMAND_LINE_TIME: Duration = Duration::from_secs(1);
/// Time for finding the lock files of processes that are gone.
const SWEEP_TIME: Duration = Duration::from_secs(5);
/// How the files' names begin.
const START: &str = "recording-";
/// Files that are looked at in a directory at a time, in search of those that a killed recorder left.
const MOST_FILES: usize = 256;
/// The longest text that is read of a holder: its id, and the namespace of that id.
const LONGEST_TEXT: u64 = 64;

/// The instance lock. It is released with the value, or when this process ends.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    /// `None` where locking failed for a reason that does not concern other recordings, or where the recording that started this command
    /// has it.
    _locked: Option<Locked>,
}

/// A locked file. Dropping the value removes the name; the lock also ends with the process.
#[derive(Debug)]
struct Locked {
    file: File,
    directory: Directory,
    name: String,
}

/// A directory of one user.
#[derive(Debug)]
struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl InstanceLock {
    /// Takes the lock, or fails with its owner.
    pub(crate) fn take(process: &Process) -> Result<InstanceLock, Failure> {
        if is_held_by_the_parent(process) {
            return Ok(InstanceLock { _locked: None });
        }
        let locked = InstanceLock::take_named(process.pid, process.uid, &name(process))?;
        if let Err(error) = &locked {
            note(&format!(
                "process {} is not locked ({error}): if another command records it, too, each recording shows the other's work",
                process.pid
            ));
        }
        Ok(InstanceLock { _locked: locked.ok() })
    }

    /// The lock of this name, or why locking failed for a reason that does not concern other recordings.
    fn take_named(process_id: u32, user: u32, name: &str) -> Result<Result<Locked, Errno>, Failure> {
        let own = rustix::process::geteuid().as_raw();
        let held = |holder| Err(Failure::Held { process_id, holder: holder_text(holder) });
        let mut last = Errno::AGAIN;
        for _ in 0..TRIES {
            // It may be locked in another directory: who has taken the best one can give it back meanwhile.
            if let Some(holder) = holder_among(own, name) {
                return held(holder);
            }
            match lock(own, name) {
                Ok(locked) => {
                    remove_those_of_ended_processes(own);
                    if own != 0
                        && let Some(holder) = holder_among(0, name)
                    {
                        return held(holder);
                    }
                    if ![0, own].contains(&user) && holder_among(user, name).is_some() {
                        note(&format!(
                            "user {user} has locked process {process_id}: if they record it, too, each recording shows the other's work"
                        ));
                    }
                    return Ok(Ok(locked));
                }
                Err(Errno::WOULDBLOCK) => {
                    if let Some(holder) = holder_among(own, name) {
                        return held(holder);
                    }
                }
                // Another command has just removed the directory or the file.
                Err(Errno::NOENT) => {}
                Err(error) => match directories(own).into_iter().find(|path| is_taken(path, own)) {
                    Some(path) => return Err(Failure::LockTaken { process_id, path }),
                    None => {
                        last = error;
                        break;
                    }
                },
            }
            std::thread::sleep(PAUSE);
        }
        Ok(Err(last))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // On failure an empty file remains, or a directory that another command uses.
        let _ = rustix::fs::unlinkat(&self.directory.descriptor, &self.name, AtFlags::empty());
        let _ = std::fs::remove_dir(&self.directory.path);
    }
}

/// The process that owns the lock of `process`; 0 if it is not visible from here. Only root's locks and our own are trusted.
pub(crate) fn holder(process: &Process) -> Option<u32> {
    let (name, own) = (name(process), rustix::process::geteuid().as_raw());
    holder_among(own, &name).or_else(|| holder_among(0, &name)).filter(|holder| *holder != std::process::id())
}

/// Whether the recording that has started this command has the lock: it wants a snapshot beside itself.
pub(crate) fn is_held_by_the_parent(process: &Process) -> bool {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get() as u32);
    parent.is_some() && holder_among(rustix::process::geteuid().as_raw(), &name(process)) == parent
}

/// A recorder, as text.
pub(crate) fn holder_text(holder: u32) -> String {
    if holder == 0 {
        return "a process that cannot be seen from here".to_owned();
    }
    let proc = Proc::default();
    let command = TargetText::joined(&command_line(&proc, holder));
    // A process chooses its own name; the kernel reports its user.
    let own = rustix::process::geteuid().as_raw();
    match proc.status_without_namespaces(holder).map(|status| status.effective_uid) {
        Ok(0) if own != 0 => format!("another user: process {holder} of root ({command})"),
        Ok(user) if user != own => format!("another user: process {holder} of user {user} ({command})"),
        _ => format!("process {holder} ({command})"),
    }
}

/// A process's command line; empty if it cannot be read in time.
fn command_line(proc: &Proc, process_id: u32) -> Vec<TargetText> {
    let (path, proc) = (proc.path(process_id, "cmdline"), proc.clone());
    in_time(&path, COMMAND_LINE_TIME, move |_| proc.command_line(process_id)).unwrap_or_default()
}

fn name(process: &Process) -> String {
    name_of(process.pid, process.namespaced_pid, process.start_time)
}

fn name_of(process_id: u32, namespaced_pid: u32, start_time: u64) -> String {
    // Who may not know the namespace may not record the process either.
    let path = PathBuf::from(format!("/proc/{process_id}/ns/pid"));
    let namespace = read_while_it_answers(&path, |path| std::fs::metadata(path)).map_or(0, |facts| facts.ino());
    format!("{START}{namespace}-{namespaced_pid}-{start_time}")
}

/// Directories for a user's lock files, best first.
fn directories(user: u32) -> Vec<PathBuf> {
    let first = if user == 0 { "/run/remora".to_owned() } else { format!("/run/user/{user}/remora") };
    let home = std::env::home_dir().filter(|_| user == rustix::process::geteuid().as_raw());
    let in_home = home.and_then(|home| in_home(&home, user));
    [first.into(), format!("/tmp/remora-{user}").into()].into_iter().chain(in_home).collect()
}

/// The directory for who has no other, since another user has taken the name in `/tmp`. `None` if others can write to that home, too.
fn in_home(home: &Path, user: u32) -> Option<PathBuf> {
    open_directory(home, user).filter(|_| home.is_absolute()).map(|home| home.path.join(".remora-lock"))
}

/// Removes the lock file of a killed recorder of this process; returns its path if there was one.
pub(crate) fn remove_stale(process: &Process) -> Option<PathBuf> {
    remove(rustix::process::geteuid().as_raw(), &name(process))
}

/// Removes this user's lock files that nobody holds, of processes that are gone: no later recording has their name.
fn remove_those_of_ended_processes(user: u32) {
    let free: Vec<String> = directories(user).iter().flat_map(|path| files_in(path, user)).collect();
    if free.is_empty() {
        return;
    }
    let proc = Proc::default();
    // Only processes that may have such a file are asked for what they can hold back. If all of it takes too long, the files stay until the
    // next recording.
    let deadline = Instant::now() + SWEEP_TIME;
    let may_have_one = |namespaced: u32| free.iter().any(|name| name.contains(&format!("-{namespaced}-")));
    let name = |pid: u32| {
        let namespaced = proc.status_without_namespaces(pid).ok()?.namespaced_pid.unwrap_or(pid);
        may_have_one(namespaced).then(|| Some(name_of(pid, namespaced, proc.stat(pid).ok()?.start_time)))?
    };
    let Ok(pids) = proc.pids() else { return };
    let mut running = Vec::new();
    for pid in pids {
        running.extend(name(pid));
        if Instant::now() > deadline {
            return;
        }
    }
    for name in free.iter().filter(|name| !running.contains(name)) {
        remove(user, name);
    }
}

/// Names of this user's lock files that nobody holds.
fn files_in(path: &Path, user: u32) -> Vec<String> {
    let Some(directory) = open_directory(path, user) else { return Vec::new() };
    let Ok(entries) = rustix::fs::Dir::read_from(&directory.descriptor) else { return Vec::new() };
    let names =
        entries.flatten().take(MOST_FILES).filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let is_own_file =
        |name: &String| name.starts_with(START) && directory.facts(name).is_ok_and(|facts| is_file_of(&facts, user));
    let is_free = |name: &String| {
        let file = directory.open(name);
        file.is_ok_and(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_ok())
    };
    names.filter(is_own_file).filter(is_free).collect()
}

fn remove(user: u32, name: &str) -> Option<PathBuf> {
    directories(user).into_iter().find_map(|path| {
        // A locked file belongs to a running command.
        let locked = lock_in(open_directory(&path, user)?, name, OFlags::empty()).ok()?;
        Some(locked.directory.path.join(name))
    })
}

/// Creates a user's lock file, and locks it.
///
/// # Errors
/// `EWOULDBLOCK`: it is locked. Otherwise the system's error.
fn lock(user: u32, name: &str) -> Result<Locked, Errno> {
    let mut locked = lock_in(own_directory(user)?, name, OFlags::CREATE)?;
    let io = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    if locked.file.metadata().map_err(io)?.len() > 0 {
        // Its owner was killed; dropping the value removes the file. A file names only one owner, so no reader sees a stale id.
        return Err(Errno::NOENT);
    }
    locked.file.write_all(format!("{} {}", std::process::id(), own_namespace()).as_bytes()).map_err(io)?;
    Ok(locked)
}

/// Locks a file in a directory; `ENOENT` if another command has removed it since.
fn lock_in(directory: Directory, name: &str, flags: OFlags) -> Result<Locked, Errno> {
    let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&directory.descriptor, name, flags, Mode::from_raw_mode(0o600))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let here = directory.facts(name)?;
    if here.st_ino != rustix::fs::fstat(&file)?.st_ino {
        return Err(Errno::NOENT);
    }
    Ok(Locked { file: file.into(), directory, name: name.to_owned() })
}

/// The first usable directory of this user; created if missing.
///
/// # Errors
/// `ENOENT`: another command has just removed it. The next directory in the list would be another lock.
fn own_directory(user: u32) -> Result<Directory, Errno> {
    for path in directories(user) {
        let is_made = matches!(make_directory(&path), Ok(()) | Err(Errno::EXIST));
        match open_directory(&path, user) {
            Some(directory) => return Ok(directory),
            None if is_made && path.symlink_metadata().is_err() => return Err(Errno::NOENT),
            None => {}
        }
    }
    Err(Errno::ACCESS)
}

/// Creates a directory that others can list but not write to, independent of this process's umask.
fn make_directory(path: &Path) -> Result<(), Errno> {
    rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(0o755))
}

/// The owner of this user's lock; 0 if it is not visible from here, or has not written its id.
fn holder_among(user: u32, name: &str) -> Option<u32> {
    holder_as_written(user, name).or_else(|| holder_of_a_closed_file(user, name))
}

/// Who has locked a file of this user that we may not open; 0 for a process that cannot be seen from here.
fn holder_of_a_closed_file(user: u32, name: &str) -> Option<u32> {
    directories(user).iter().find_map(|path| {
        let directory = open_directory(path, user)?;
        let facts = directory.facts(name).ok()?;
        let is_closed = is_file_of(&facts, user) && directory.open(name).err() == Some(Errno::ACCESS);
        is_closed.then(|| Proc::default().lock_holder(facts.st_dev, facts.st_ino))?
    })
}

/// Who has locked a file of this user, as that file says.
fn holder_as_written(user: u32, name: &str) -> Option<u32> {
    for _ in 0..ENDING_TRIES {
        let text = text_of_holder(user, name)?;
        let (holder, namespace) = text.split_once(' ').unwrap_or_default();
        let (is_ours, proc) = (namespace == own_namespace().to_string(), Proc::default());
        // The owner writes its id shortly after locking; until then, a killed owner's file still has the old id.
        let holder: Option<u32> = holder.parse().ok();
        if namespace.is_empty() || is_ours && holder.is_some_and(|holder| has_ended(&proc, holder)) {
            std::thread::sleep(PAUSE);
            continue;
        }
        return Some(holder.filter(|_| is_ours).unwrap_or(0));
    }
    Some(0)
}

/// Whether a process has no memory any more. The kernel frees it before it closes the files, and with them the lock. Unlike the arguments,
/// its size is not in that memory: nobody can keep its reader waiting.
fn has_ended(proc: &Proc, process_id: u32) -> bool {
    proc.read(process_id, "statm").map_or(true, |pages| pages.starts_with(b"0 "))
}

/// The content of this user's lock file, if it is locked.
fn text_of_holder(user: u32, name: &str) -> Option<String> {
    directories(user).iter().find_map(|path| {
        let directory = open_directory(path, user)?;
        let file = directory.open(name).ok()?;
        let facts = rustix::fs::fstat(&file).ok()?;
        let is_own = is_file_of(&facts, user) && facts.st_mode & 0o077 == 0;
        if !is_own || rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK) {
            return None;
        }
        let mut text = String::new();
        // An unreadable file counts as empty.
        let _ = File::from(file).take(LONGEST_TEXT).read_to_string(&mut text);
        Some(text)
    })
}

impl Directory {
    /// Opens a file in it to read. Follows no link, and waits for no writer of a pipe.
    fn open(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())
    }

    fn facts(&self, name: &str) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

fn is_file_of(facts: &Stat, user: u32) -> bool {
    FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile && facts.st_uid == user
}

/// Opens a directory that belongs to this user, and that no other user can write to.
fn open_directory(path: &Path, user: u32) -> Option<Directory> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let descriptor = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let facts = rustix::fs::fstat(&descriptor).ok()?;
    let is_own = facts.st_uid == user && facts.st_mode & 0o022 == 0;
    is_own.then(|| Directory { descriptor, path: path.to_owned() })
}

/// Whether the path of this user's directory belongs to another user or is writable by others.
fn is_taken(path: &Path, user: u32) -> bool {
    path.symlink_metadata().is_ok() && open_directory(path, user).is_none()
}

/// The pid namespace of this process.
fn own_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |facts| facts.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

    /// A name that no other test uses.
    fn own(what: &str) -> String {
        format!("test-{}-{what}", std::process::id())
    }

    #[test]
    fn a_file_has_one_holder_who_is_reported_and_is_free_when_that_ends() {
        let (name, user) = (own("one"), rustix::process::geteuid().as_raw());
        assert_eq!(holder_among(user, &name), None);
        let first = lock(user, &name).expect("it is free");
        assert_eq!(lock(user, &name).map(drop), Err(Errno::WOULDBLOCK));
        assert_eq!(holder_among(user, &name), Some(std::process::id()));
        drop(first);
        assert_eq!(holder_among(user, &name), None);
        drop(lock(user, &name).expect("it is free again"));
        assert!(directories(user).iter().all(|path| !path.join(&name).exists()));
    }

    #[test]
    fn a_holder_that_never_writes_its_name_cannot_be_seen() {
        let (name, user) = (own("nameless"), rustix::process::geteuid().as_raw());
        let first = lock(user, &name).expect("it is free");
        first.file.set_len(0).expect("emptied");
        assert_eq!(holder_among(user, &name), Some(0), "it never writes its name");
        first.file.write_all_at(format!("1 {}", own_namespace()).as_bytes(), 0).expect("written");
        assert_eq!(holder_among(user, &name), Some(1));
    }

    #[test]
    fn a_lock_file_that_says_anything_else_than_an_id_and_its_namespace_names_nobody() {
        let (name, user) = (own("odd"), rustix::process::geteuid().as_raw());
        let first = lock(user, &name).expect("it is free");
        let here = own_namespace();
        let long = "1".repeat(1 << 20);
        let odd =
            [&format!("-1 {here}"), &format!("4294967297 {here}"), &format!("1 {here}0"), &format!("1  {here}"), &long];
        for text in odd.map(String::as_bytes).into_iter().chain([&b"1 \xff\x1b[2J"[..], b"\0\0 1", b" 1 1"]) {
            first.file.set_len(0).expect("emptied");
            first.file.write_all_at(text, 0).expect("written");
            assert_eq!(holder_among(user, &name), Some(0), "{}", String::from_utf8_lossy(&text[..text.len().min(80)]));
        }
    }

    #[test]
    fn what_a_killed_holder_left_is_removed_and_what_is_held_stays() {
        let (name, user) = (own("stale"), rustix::process::geteuid().as_raw());
        let held = lock(user, &name).expect("it is free");
        let path = held.directory.path.join(&name);
        assert_eq!((remove(user, &name), path.exists()), (None, true));
        drop(held);
        assert_eq!(remove(user, &name), None, "there is none");
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, format!("7 {}", own_namespace())).expect("written");
        assert_eq!((remove(user, &name), path.exists()), (Some(path.clone()), false));
    }

    #[test]
    fn lock_files_of_ended_processes_piled_up() {
        let user = rustix::process::geteuid().as_raw();
        let held = lock(user, &own("beside")).expect("it is free");
        let folder = held.directory.path.clone();
        let gone = format!("{START}{}-4194999-{}", own_namespace(), std::process::id());
        let (proc, pid) = (Proc::default(), std::process::id());
        let running = name_of(pid, pid, proc.stat(pid).expect("it lives").start_time);
        for name in [&gone, &running] {
            std::fs::write(folder.join(name), format!("7 {}", own_namespace())).expect("written");
        }
        let other = lock_in(open_directory(&folder, user).expect("ours"), &format!("{gone}1"), OFlags::CREATE);
        remove_those_of_ended_processes(user);
        let left = [&gone, &running, &format!("{gone}1")].map(|name| folder.join(name).exists());
        drop(other);
        assert_eq!(remove(user, &running), Some(folder.join(&running)));
        assert_eq!(left, [false, true, true], "ended, running, held by somebody");
    }

    #[test]
    fn one_who_takes_the_file_of_a_killed_holder_is_not_reported_under_that_ones_name() {
        let (name, user) = (own("dead"), rustix::process::geteuid().as_raw());
        let next = lock(user, &name).expect("it is free");
        let gone = std::process::Command::new("true").spawn().and_then(|mut child| child.wait().map(|_| child.id()));
        next.file.set_len(0).expect("emptied");
        next.file
            .write_all_at(format!("{} {}", gone.expect("it runs"), own_namespace()).as_bytes(), 0)
            .expect("written");
        assert_eq!(holder_among(user, &name), Some(0));
    }

    /// A recorder was killed, and a command right after it was refused: the kernel had not closed the files yet.
    #[test]
    fn regression_a_holder_that_was_ending_was_reported_as_recording() {
        let (name, user) = (own("ending"), rustix::process::geteuid().as_raw());
        let held = lock(user, &name).expect("it is free");
        let mut ending = std::process::Command::new("true").spawn().expect("it runs");
        let state = |pid| Proc::default().stat(pid).map(|stat| stat.state);
        while state(ending.id()).ok() != Some('Z') {
            std::thread::yield_now();
        }
        held.file.set_len(0).expect("emptied");
        held.file.write_all_at(format!("{} {}", ending.id(), own_namespace()).as_bytes(), 0).expect("written");
        assert_eq!(holder_among(user, &name), Some(0));
        drop(held);
        assert_eq!(holder_among(user, &name), None);
        ending.wait().expect("it has ended");
    }

    /// Another user's lock file names a process whose arguments lie in a file system that never answers.
    #[test]
    fn a_holder_that_keeps_readers_of_its_arguments_waiting_keeps_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let proc = Proc::at(folder.path());
        std::fs::create_dir(folder.path().join("7")).expect("made");
        rustix::fs::mknodat(CWD, folder.path().join("7/cmdline"), FileType::Fifo, Mode::RUSR, 0).expect("made");
        for (pages, ended) in [("900 80 7 1 0 9 0\n", false), ("0 0 0 0 0 0 0\n", true)] {
            std::fs::write(folder.path().join("7/statm"), pages).expect("written");
            assert_eq!(has_ended(&proc, 7), ended);
        }
        assert!(command_line(&proc, 7).is_empty());
        assert!(has_ended(&proc, 8) && !has_ended(&Proc::default(), std::process::id()));
    }

    /// A full file system, for one, was passed over in silence.
    #[test]
    fn why_a_process_is_not_locked_is_known() {
        let taken = InstanceLock::take_named(7, 0, &own(&"n".repeat(300)));
        assert_eq!(taken.map(|locked| locked.map(drop)).ok(), Some(Err(Errno::NAMETOOLONG)));
    }

    #[test]
    fn what_a_killed_holder_left_names_nobody() {
        let (name, user) = (own("killed"), rustix::process::geteuid().as_raw());
        let path = lock(user, &name).map(|locked| locked.directory.path.join(&name)).expect("it is free");
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, format!("7 {}", own_namespace())).expect("written");
        assert_eq!(lock(user, &name).map(drop), Err(Errno::NOENT));
        let next = lock(user, &name).expect("it is free");
        assert_eq!(holder_among(user, &name), Some(std::process::id()));
        drop(next);
    }

    #[test]
    fn a_lock_file_that_others_can_open_or_that_is_anothers_names_nobody() {
        let (name, user) = (own("open"), rustix::process::geteuid().as_raw());
        let locked = lock(user, &name).expect("it is free");
        let path = locked.directory.path.join(&name);
        for (mode, expected) in [(0o640, None), (0o604, None), (0o600, Some(std::process::id()))] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            assert_eq!(holder_among(user, &name), expected, "{mode:o}");
        }
        std::os::unix::fs::chown(&path, Some(user + 1), None).expect("root may");
        assert_eq!(holder_among(user, &name), None);
    }

    #[test]
    fn a_lock_file_is_for_its_user_alone_in_a_directory_that_others_cannot_write_to() {
        let (name, user) = (own("modes"), rustix::process::geteuid().as_raw());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("remora");
        let mask = rustix::process::umask(Mode::empty());
        let made = make_directory(&path);
        let locked = open_directory(&path, user).ok_or(Errno::ACCESS).and_then(|it| lock_in(it, &name, OFlags::CREATE));
        rustix::process::umask(mask);
        assert_eq!(made, Ok(()));
        let locked = locked.expect("a directory for locks");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").mode() & 0o7777;
        assert_eq!((mode(&path), mode(&path.join(&name))), (0o755, 0o600));
        drop(locked);
    }

    #[test]
    fn a_directory_that_another_user_can_write_to_holds_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let user = rustix::process::geteuid().as_raw();
        let (path, link) = (folder.path().join("remora"), folder.path().join("link"));
        std::fs::create_dir(&path).expect("made");
        symlink(&path, &link).expect("linked");
        for (mode, expected) in [(0o755, true), (0o700, true), (0o777, false), (0o1777, false), (0o775, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            assert_eq!(open_directory(&path, user).is_some(), expected, "{mode:o}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
        assert!(open_directory(&path, user + 1).is_none() && open_directory(&link, user).is_none());
        let found = |home: &Path| in_home(home, user);
        assert_eq!(found(folder.path()), Some(folder.path().join(".remora-lock")));
        assert_eq!([found(Path::new("/tmp")), found(Path::new("")), found(&link)], [None, None, None]);
        let taken = [(&path, user), (&path, user + 1), (&link, user), (&folder.path().join("none"), user)];
        assert_eq!(taken.map(|(path, user)| is_taken(path, user)), [false, true, true, false]);
    }
}
