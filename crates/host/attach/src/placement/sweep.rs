//! Removes files that an interrupted run left for the target.
//!
//! It considers only files with a name of ours, owned by us, in the directories for placement. A locked library and a socket with a
//! listener belong to a live run and stay. Files that look dead are examined twice: another run may just be placing them.

use super::candidates::{Purpose, directories};
use super::is_ours;
use crate::error::Error;
use crate::process::Process;
use crate::rights::Rights;
use crate::view::Directory;
use remora_symbols::TargetPath;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The files found, as paths in the target's view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Deleted.
    pub removed: Vec<TargetPath>,
    /// Belongs to a run that is alive, and by which process, if that can be seen.
    pub in_use: Vec<(TargetPath, Option<u32>)>,
    /// Could not be deleted, and why.
    pub failed: Vec<(TargetPath, String)>,
}

/// A file that looks dead is examined again after this long. A live run needs an instant between creating it and locking it, or listening
/// on it.
const SECOND_LOOK: Duration = Duration::from_millis(50);

/// Removes files that an interrupted run left within reach of `process`.
pub fn sweep(process: &Process) -> Result<Swept, Error> {
    process.require_same()?;
    let root = process.proc.path(process.pid, "root");
    let mut swept = Swept::default();
    let who = super::target_status(process)?;
    let suspects = suspects(process, (&root, &Rights::of(&who)), &mut swept);
    if suspects.is_empty() {
        return Ok(swept);
    }
    std::thread::sleep(SECOND_LOOK);
    let listening = listening_names(process);
    for Suspect { directory, name } in &suspects {
        match judge(directory, name, &listening) {
            Some(true) => swept.in_use.push((directory.path().join(name), user_of(directory, name))),
            Some(false) => remove(directory, name, &mut swept),
            None => {}
        }
    }
    Ok(swept)
}

/// A file of ours that looked unused.
struct Suspect {
    directory: Rc<Directory>,
    name: OsString,
}

/// The first pass: records files in use, and returns those that look dead.
fn suspects(process: &Process, (root, rights): (&Path, &Rights), swept: &mut Swept) -> Vec<Suspect> {
    let listening = listening_names(process);
    let mut suspects = Vec::new();
    let mut seen: Vec<TargetPath> = Vec::new();
    for path in directories(process).into_iter().chain(process.library_directory.clone()) {
        let Ok(directory) = Directory::open(root, &path) else { continue };
        if seen.iter().any(|known| known == directory.path()) {
            continue;
        }
        seen.push(directory.path().clone());
        let directory = Rc::new(directory);
        for name in directory.names(rights, |name| is_ours(name).is_some()).unwrap_or_default() {
            match judge(&directory, &name, &listening) {
                Some(true) => swept.in_use.push((directory.path().join(&name), user_of(&directory, &name))),
                Some(false) => suspects.push(Suspect { directory: Rc::clone(&directory), name }),
                None => {}
            }
        }
    }
    suspects
}

/// Names of all listening sockets, in the target's network namespace and in ours.
fn listening_names(process: &Process) -> Vec<OsString> {
    let theirs = process.proc.listening(process.pid).unwrap_or_default();
    let ours = crate::proc::Proc::default().listening(std::process::id()).unwrap_or_default();
    theirs.into_iter().chain(ours).map(|socket| socket.path.file_name().into()).collect()
}

/// Whether a live run uses a file; `None` if it is not ours.
fn judge(directory: &Directory, name: &OsStr, listening: &[OsString]) -> Option<bool> {
    let purpose = is_ours(name)?;
    let stat = directory.stat(name).ok()?;
    let ourselves = rustix::process::geteuid().as_raw();
    let kind = FileType::from_raw_mode(stat.st_mode);
    match purpose {
        // A socket of a run as root has the target's user as owner: only its name identifies it.
        Purpose::Socket if kind != FileType::Socket || (stat.st_uid != ourselves && ourselves != 0) => None,
        Purpose::Library { .. } if kind != FileType::RegularFile || stat.st_uid != ourselves => None,
        Purpose::Socket => Some(listening.iter().any(|known| known == name)),
        Purpose::Library { .. } => Some(is_locked(directory, name)),
    }
}

fn remove(directory: &Directory, name: &OsStr, swept: &mut Swept) {
    let path = directory.path().join(name);
    match directory.unlink(name) {
        Ok(()) => swept.removed.push(path),
        Err(Errno::NOENT) => {}
        Err(errno) => swept.failed.push((path, errno.to_string())),
    }
}

/// The process that has locked a file.
fn user_of(directory: &Directory, name: &OsStr) -> Option<u32> {
    let stat = directory.stat(name).ok()?;
    crate::proc::Proc::default().lock_holder(stat.st_dev, stat.st_ino)
}

fn is_locked(directory: &Directory, name: &OsStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(file) = rustix::fs::openat(directory.fd(), name, flags, Mode::empty()) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}
