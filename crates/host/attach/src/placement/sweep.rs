//! Removes files that an interrupted run left for the target.
//!
//! It considers only files with a name of ours, owned by us, in the directories for placement. A locked library and a socket with a
//! listener belong to a live run and stay. Files that look dead are examined twice: another run may just be placing them.

use super::candidates::{Purpose, directories};
use super::{MUSL_SUFFIX, is_ours};
use crate::error::Error;
use crate::foreign::opened;
use crate::proc::{Locks, Proc};
use crate::process::Process;
use crate::rights::Rights;
use crate::view::{Directory, MOST_NAMES};
use remora_symbols::TargetPath;
use rustix::fs::{FileType, FlockOperation, Stat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The files found, as paths in the target's view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Deleted.
    pub removed: Vec<TargetPath>,
    /// Belongs to a run that is alive, and by which process, if that can be seen. The first 16 of them.
    pub in_use: Vec<(TargetPath, Option<u32>)>,
    /// How many more belong to one.
    pub more_in_use: usize,
    /// Could not be deleted, and why.
    pub failed: Vec<(TargetPath, String)>,
}

/// A file that looks dead is examined again after this long. A live run needs an instant between creating it and locking it, or listening
/// on it.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Files in use that are kept by name. A target can make thousands that look so, and each line about one waits for its user's arguments.
const MOST_IN_USE: usize = 16;

/// Removes files that an interrupted run left within reach of `process`.
///
/// # Errors
/// The process has ended, or its rights cannot be read.
pub fn sweep(process: &Process) -> Result<Swept, Error> {
    sweep_named(process, |_| true)
}

/// The same, but keeps what the next attach to a process on musl reuses.
///
/// # Errors
/// See [`sweep`].
pub fn sweep_unused(process: &Process) -> Result<Swept, Error> {
    sweep_named(process, |name| !name.as_encoded_bytes().ends_with(MUSL_SUFFIX.as_bytes()))
}

fn sweep_named(process: &Process, is_wanted: impl Fn(&OsStr) -> bool) -> Result<Swept, Error> {
    process.require_same()?;
    let root = process.proc.path(process.pid, "root");
    let mut swept = Swept::default();
    let rights = super::target_rights(process)?;
    let suspects = suspects(process, (&root, &rights), &mut swept);
    if suspects.is_empty() {
        return Ok(swept);
    }
    std::thread::sleep(RECHECK_INTERVAL);
    let users = Users::now(process);
    for Suspect { directory, name } in suspects.iter().filter(|suspect| is_wanted(&suspect.name)) {
        match judge(directory, name, (&rights, &users)) {
            Some(Use::By(user)) => swept.keep(directory.path().join(name), user),
            Some(Use::Nobody) => remove(directory, name, &mut swept),
            None => {}
        }
    }
    Ok(swept)
}

impl Swept {
    fn keep(&mut self, path: TargetPath, user: Option<u32>) {
        if self.in_use.len() < MOST_IN_USE { self.in_use.push((path, user)) } else { self.more_in_use += 1 }
    }
}

/// A file of ours that looked unused.
struct Suspect {
    directory: Rc<Directory>,
    name: OsString,
}

/// The first pass: records files in use, and returns those that look dead.
fn suspects(process: &Process, (root, rights): (&Path, &Rights), swept: &mut Swept) -> Vec<Suspect> {
    let users = Users::now(process);
    let mut suspects = Vec::new();
    let mut seen: Vec<TargetPath> = Vec::new();
    for path in directories(process).into_iter().chain(process.library_directory.clone()) {
        let Ok(directory) = Directory::open_for(root, &path, rights) else { continue };
        if seen.iter().any(|known| known == directory.path()) {
            continue;
        }
        seen.push(directory.path().clone());
        let directory = Rc::new(directory);
        let belongs = |name: &OsStr| ours(&directory, name, rights).is_some();
        let names = directory.names(rights, belongs).unwrap_or_default();
        if names.len() == MOST_NAMES {
            let more = format!(
                "there may be more than {MOST_NAMES} files of an interrupted run; the next `detach` looks at those"
            );
            swept.failed.push((path.clone(), more));
        }
        for name in names {
            match judge(&directory, &name, (rights, &users)) {
                Some(Use::By(user)) => swept.keep(directory.path().join(&name), user),
                Some(Use::Nobody) => suspects.push(Suspect { directory: Rc::clone(&directory), name }),
                None => {}
            }
        }
    }
    suspects
}

/// The users of files, read once a look: `/proc/locks` is too long to read it for each file.
#[derive(Default)]
struct Users {
    /// Names of all listening sockets, in the target's network namespace and in ours. Their paths are of no use: a run binds its socket
    /// through a descriptor of its own (`/proc/self/fd/7/NAME`).
    listening: HashSet<OsString>,
    locks: Locks,
}

impl Users {
    fn now(process: &Process) -> Users {
        let theirs = process.proc.listening(process.pid).unwrap_or_default();
        let ours = Proc::default().listening(std::process::id()).unwrap_or_default();
        let listening = theirs.into_iter().chain(ours).map(|socket| socket.path.file_name().into());
        Users { listening: listening.collect(), locks: Proc::default().locks() }
    }
}

/// Whether a live run uses a file.
#[derive(Debug, PartialEq, Eq)]
enum Use {
    /// One does, by this process, if that can be seen.
    By(Option<u32>),
    /// None does.
    Nobody,
}

/// The file `name` of a run as our user, with its purpose. Others may make files of such a name.
fn ours(directory: &Directory, name: &OsStr, target: &Rights) -> Option<(Purpose, OwnedFd, Stat)> {
    let purpose = is_ours(name)?;
    let (file, stat) = directory.file(name).ok()?;
    let ourselves = rustix::process::geteuid().as_raw();
    let is_it = match (&purpose, FileType::from_raw_mode(stat.st_mode)) {
        // A socket of a run as root has the target's user as owner.
        (Purpose::Socket, FileType::Socket) => stat.st_uid == ourselves || ourselves == 0 && stat.st_uid == target.uid,
        (Purpose::Library { .. }, FileType::RegularFile) => stat.st_uid == ourselves,
        _ => false,
    };
    is_it.then_some((purpose, file, stat))
}

/// Whether a live run uses a file; `None` if it is not ours.
fn judge(directory: &Directory, name: &OsStr, (rights, users): (&Rights, &Users)) -> Option<Use> {
    let (purpose, file, stat) = ours(directory, name, rights)?;
    let holder = users.locks.holder(stat.st_dev, stat.st_ino);
    let is_used = match purpose {
        Purpose::Socket => users.listening.contains(name),
        Purpose::Library { .. } => is_locked(file).unwrap_or(holder.is_some()),
    };
    Some(if is_used { Use::By(holder) } else { Use::Nobody })
}

fn remove(directory: &Directory, name: &OsStr, swept: &mut Swept) {
    let path = directory.path().join(name);
    match directory.unlink(name) {
        Ok(()) => swept.removed.push(path),
        Err(Errno::NOENT) => {}
        Err(errno) => swept.failed.push((path, errno.to_string())),
    }
}

/// Whether a process has locked the regular file of a path descriptor; `None` if it cannot be opened. An empty file cannot: its run may be
/// about to write it.
fn is_locked(file: OwnedFd) -> Option<bool> {
    let file = opened(file).ok()?;
    Some(rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
    use rustix::fs::{CWD, Mode, RenameFlags, makedev, mknodat, renameat_with};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The sweep checked a file, then opened it by name. A device that took its place in between was opened as root.
    #[test]
    fn a_device_that_takes_the_place_of_a_library_is_never_opened() {
        let root = tempfile::tempdir().expect("a folder");
        let name = "libremora_agent-0123456789abcdef.so";
        let (library, device) = (root.path().join(name), root.path().join("device"));
        std::fs::write(&library, "x").expect("written");
        mknodat(CWD, &device, FileType::CharacterDevice, Mode::RUSR, makedev(1, 5)).expect("root may");
        let watch = init(CreateFlags::NONBLOCK).expect("made");
        add_watch(&watch, &device, WatchFlags::OPEN).expect("watched");
        let directory = Directory::open(root.path(), &"/".into()).expect("opens");
        let rights = Rights::of_user(0, 0, &[], 0);
        let (has_ended, users) = (AtomicBool::new(false), Users::default());
        let judged = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    renameat_with(CWD, &library, CWD, &device, RenameFlags::EXCHANGE).expect("exchanged");
                }
            });
            let judged: Vec<_> = (0..20_000).map(|_| judge(&directory, name.as_ref(), (&rights, &users))).collect();
            has_ended.store(true, Ordering::Relaxed);
            judged
        });
        assert!(judged.contains(&Some(Use::Nobody)) && judged.contains(&None), "each of them was there");
        let mut space = [std::mem::MaybeUninit::uninit(); 4096];
        assert_eq!(Reader::new(&watch, &mut space).next().err(), Some(Errno::AGAIN), "opened");
    }
}
