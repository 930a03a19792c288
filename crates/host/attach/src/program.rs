//! A program that a process runs, and the only way to open files by paths of that process.
//!
//! A process can execute a set-user-ID program at any moment. Then its paths are still those that its user chose, and its rights are root's.
//! So the rights are read before the paths, and a file is given out only if the process still runs the same program afterwards.
//! Refused: rights that the process got after it was found, and files of a process that has replaced its program or ended.

use crate::foreign::{open_in_root, open_link};
use crate::proc::{Proc, Stat, Status, is_out_of_descriptors, read_while_it_answers};
use crate::rights::Rights;
use remora_symbols::{MapEntry, TargetPath};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// The program that a process ran when it was found.
#[derive(Debug, Clone)]
pub struct Program {
    proc: Proc,
    pid: u32,
    /// `None` if only `status` was read.
    identity: Option<Identity>,
    rights: Rights,
}

/// What only this program of this process has.
#[derive(Debug, Clone)]
struct Identity {
    start_time: u64,
    /// Its auxiliary vector, if readable: the random addresses in it differ after each exec, even of the same program.
    vector: Option<Vec<u8>>,
}

/// The fate of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs the same program.
    Same,
    /// It replaced its program by another, or restarted the same one.
    Replaced,
    /// It has ended.
    Ended,
}

/// The auxiliary vector of a process. One without memory of its own has none.
fn vector(proc: &Proc, pid: u32) -> Option<Vec<u8>> {
    proc.read(pid, "auxv").ok().filter(|vector| !vector.is_empty())
}

impl Program {
    /// What the process runs now. Call it before you read a path of the process.
    ///
    /// # Errors
    /// The system's.
    pub fn of(proc: &Proc, pid: u32) -> io::Result<Program> {
        Program::with_status(proc, pid).map(|(program, ..)| program)
    }

    /// The same, with the data it was made of.
    pub(crate) fn with_status(proc: &Proc, pid: u32) -> io::Result<(Program, Stat, Status)> {
        // Before the rights: what has them is this program, if it is still the same in the end.
        let vector = vector(proc, pid);
        let (stat, status) = (proc.stat(pid)?, proc.status(pid)?);
        let rights = Rights::of(&status);
        let identity = Some(Identity { start_time: stat.start_time, vector });
        Ok((Program { proc: proc.clone(), pid, identity, rights }, stat, status))
    }

    /// For a process that is only listed: it has no file to open, and only `status` is read, which no process can hold back.
    pub(crate) fn unexamined(proc: &Proc, pid: u32) -> io::Result<(Program, Status)> {
        let status = proc.status_without_namespaces(pid)?;
        let (proc, rights) = (proc.clone(), Rights::of(&status));
        Ok((Program { proc, pid, identity: None, rights }, status))
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The mappings of the process now, with paths in its own view.
    pub fn maps(&self) -> io::Result<Vec<MapEntry>> {
        self.proc.maps(self.pid)
    }

    /// The fate of its process. One about to end counts as ended.
    pub fn fate(&self) -> Fate {
        let Some(identity) = &self.identity else { return Fate::Same };
        match self.proc.stat(self.pid) {
            Ok(stat) if stat.start_time == identity.start_time && !stat.is_ending() => {}
            // Nothing is known; whatever is done to it will fail for the same reason, and tell it.
            Err(error) if is_out_of_descriptors(&error) => return Fate::Same,
            // It executes a program, and does not get on with it.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Fate::Replaced,
            Ok(_) | Err(_) => return Fate::Ended,
        }
        match (&identity.vector, self.proc.read(self.pid, "auxv")) {
            (Some(before), Ok(now)) if !now.is_empty() && *before != now => Fate::Replaced,
            (_, Err(error)) if error.kind() == io::ErrorKind::TimedOut => Fate::Replaced,
            _ => Fate::Same,
        }
    }

    /// The rights with which paths of the process may be used: those of the program when it was found, as far as the process still has them.
    ///
    /// # Errors
    /// `EPERM`: it has become another user. Otherwise the system's.
    pub(crate) fn rights(&self) -> io::Result<Rights> {
        let now = Rights::of(&self.proc.status(self.pid)?);
        Ok(self.rights.lesser(&now).ok_or(Errno::PERM)?)
    }

    /// Checks that nothing read since [`Program::of`] is another program's. Unlike [`Program::fate`], doubt is an error.
    ///
    /// # Errors
    /// `ESRCH`.
    pub(crate) fn require_certainly_same(&self) -> io::Result<()> {
        let is_same = self.identity.as_ref().is_some_and(|known| {
            let is_same_process = self.proc.stat(self.pid).is_ok_and(|stat| stat.start_time == known.start_time);
            is_same_process && vector(&self.proc, self.pid) == known.vector
        });
        if is_same { Ok(()) } else { Err(Errno::SRCH.into()) }
    }

    /// Opens the regular file at a path of the process's own view, for reading. Its user must be able to read it, or the process must have
    /// it mapped: a service may have mapped it before it dropped the rights for it.
    ///
    /// # Errors
    /// The system's; `ENOTDIR` or `EISDIR` if it is no regular file, `EOPNOTSUPP` if it is a file of the kernel, `ENODATA` if it is empty.
    /// `EPERM` if this process may not act as that user. `ESRCH` if the process has replaced its program or ended.
    pub fn open(&self, path: &TargetPath) -> io::Result<File> {
        match open_in_root(&self.path("root"), path, &self.rights()?) {
            Err(refused @ (Errno::ACCESS | Errno::PERM)) => {
                let maps = self.maps()?;
                let mapped = maps.iter().find(|mapping| mapping.path == *path && !mapping.deleted);
                mapped.map_or(Err(refused.into()), |mapping| self.open_mapped(mapping))
            }
            opened => self.if_same(opened?),
        }
    }

    /// Opens the file of a mapping by its path, as [`Program::open`] does, but does not read the mappings again.
    ///
    /// # Errors
    /// See [`Program::open`].
    pub fn open_path_of(&self, mapping: &MapEntry) -> io::Result<File> {
        match open_in_root(&self.path("root"), &mapping.path, &self.rights()?) {
            Err(Errno::ACCESS | Errno::PERM) => self.open_mapped(mapping),
            opened => self.if_same(opened?),
        }
    }

    /// Opens the file behind a mapping of the process, deleted or not.
    ///
    /// # Errors
    /// See [`Program::open`].
    pub fn open_mapped(&self, mapping: &MapEntry) -> io::Result<File> {
        let link = self.path(&format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
        self.if_same(read_while_it_answers(&link, |link| Ok(open_link(link)?))?)
    }

    /// Opens the file of the program, and its path in the process's view.
    ///
    /// # Errors
    /// See [`Program::open`].
    pub fn open_executable(&self) -> io::Result<(TargetPath, File)> {
        let path = self.proc.link_in_view(self.pid, "exe")?;
        let file = read_while_it_answers(&self.path("exe"), |link| Ok(open_link(link)?))?;
        Ok((path, self.if_same(file)?))
    }

    fn if_same(&self, opened: File) -> io::Result<File> {
        self.require_certainly_same().map(|()| opened)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.proc.path(self.pid, name)
    }
}
