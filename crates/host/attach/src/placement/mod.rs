//! Places files where the target can reach them, and removes them.
//!
//! The library goes into a directory that the target can search and execute from, the socket into one that it can search. Each is a new
//! inode with an unpredictable name, created exclusively and without following links, and is deleted when dropped. Under musl the library's
//! file stays, for the next attach ([`Placed::keep`]).
//! The socket belongs to the target's user: it is created with that user's rights, so no file ever changes its owner.
//! A lock on the library's file, and the listening socket itself, show [`sweep`] that the file is in use.
//! Refused: directories that the target cannot enter, noexec or read-only mounts, full file systems.

mod candidates;
mod reuse;
mod sweep;

pub use sweep::{Swept, sweep, sweep_unused};

use crate::error::Error;
use crate::libc_kind::Libc;
use crate::proc::own_link;
use crate::process::Process;
use crate::rights::Rights;
use crate::view::Directory;
use candidates::{Access, Purpose, verdict};
use remora_symbols::TargetPath;
use rustix::fs::{FlockOperation, MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// The library's file name in the target, before the random part.
pub const LIBRARY_PREFIX: &str = "libremora_agent-";
/// The socket's file name, before the random part.
pub const SOCKET_PREFIX: &str = "remora-";
const LIBRARY_SUFFIX: &str = ".so";
/// Name suffix of a library that may stay mapped.
pub const STAYING_SUFFIX: &str = "-stays.so";
/// Name suffix of the tracer's library, which stays mapped.
pub const TRACER_SUFFIX: &str = "-tracer-stays.so";
/// Name suffix of a library for a process on musl, which never unmaps it.
pub const MUSL_SUFFIX: &str = "-musl.so";
const SOCKET_SUFFIX: &str = ".sock";

/// Readable and executable by all, writable by none.
const LIBRARY_MODE: u32 = 0o555;
const BACKLOG: i32 = 8;

/// A file placed where the target can reach it. Dropping deletes it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Placed {
    /// Path in our view. Valid as long as the target lives.
    pub host_path: PathBuf,
    /// Path in the target's view.
    pub target_path: TargetPath,
    /// Name of its mappings, as in the target's `maps`.
    pub mapped_name: String,
    /// The file: its lock marks it as in use, and a library in memory exists only through it.
    file: Option<OwnedFd>,
    place: Option<(Directory, OsString)>,
    /// Whether the next attach finds it if it stays.
    is_reusable: bool,
}

impl Placed {
    /// Whether the file may stay for the next attach: see [`Placed::keep`].
    pub fn is_reusable(&self) -> bool {
        self.is_reusable
    }

    /// Keeps the file of a reusable library: the process never unmaps the library, and loads it from there again. Returns its path in our
    /// view.
    pub fn keep(mut self) -> PathBuf {
        self.place = None;
        std::mem::take(&mut self.host_path)
    }

    /// Deletes the file now, and reports a failure. Mappings and connections remain.
    pub fn remove(mut self) -> Result<(), Error> {
        self.unlink().map_err(|errno| Error::io("delete", &self.host_path, errno))
    }

    /// Deletes the file of a library that stays mapped for good. It first renames the file, so that the name shows this:
    /// the kernel shows a mapping by the last name of its file. A library without a directory keeps its name. Returns the new name in
    /// `maps`, and the path of the file, if there was one.
    pub fn stays(mut self) -> (String, Option<PathBuf>) {
        self.rename();
        let file = self.file_path();
        (std::mem::take(&mut self.mapped_name), file)
    }

    /// Gives the file to the result, which deletes it when dropped. The rest is as for a library without a file.
    pub fn split_file(&mut self) -> Placed {
        Placed {
            host_path: self.host_path.clone(),
            target_path: self.target_path.clone(),
            mapped_name: self.mapped_name.clone(),
            file: self.file.take(),
            place: self.place.take(),
            is_reusable: false,
        }
    }

    /// The file's path in our view; `None` for a library in memory.
    pub fn file_path(&self) -> Option<PathBuf> {
        self.place.is_some().then(|| self.host_path.clone())
    }

    fn rename(&mut self) {
        let Some((directory, name)) = &mut self.place else { return };
        let stem =
            self.mapped_name.strip_suffix(LIBRARY_SUFFIX).filter(|_| !self.mapped_name.ends_with(STAYING_SUFFIX));
        let Some(staying) = stem.map(|stem| format!("{stem}{STAYING_SUFFIX}")) else { return };
        // If that fails, the old name remains.
        if rustix::fs::renameat(directory.fd(), &*name, directory.fd(), &*staying).is_ok() {
            *name = OsString::from(&staying);
            self.host_path.set_file_name(&staying);
            self.mapped_name = staying;
        }
    }

    fn unlink(&mut self) -> Result<(), Errno> {
        self.file = None;
        match self.place.take().map(|(directory, name)| directory.unlink(&name)) {
            Some(Err(errno)) if errno != Errno::NOENT => Err(errno),
            _ => Ok(()),
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        // Drop cannot report an error; `remove` can, and `sweep` finds leftovers.
        let _ = self.unlink();
    }
}

/// Places the library where the target can load it from. For a process on musl, this is the file that an earlier attach has left, if any.
pub fn place_library(process: &Process, library: &[u8]) -> Result<Placed, Error> {
    let placed = match process.libc {
        Libc::Musl { .. } => reuse::place(process, library),
        _ => place_named(process, library, LIBRARY_SUFFIX),
    };
    placed.map_err(|error| process.or_its_end(error))
}

/// Places a library that may stay in the process for good, with a name that shows this.
///
/// # Errors
/// See [`place_library`].
pub fn place_library_that_may_stay(process: &Process, library: &[u8]) -> Result<Placed, Error> {
    place_named(process, library, STAYING_SUFFIX).map_err(|error| process.or_its_end(error))
}

/// Places the tracer's library, which stays in the process for good once it has changed a method. Its name shows that.
///
/// # Errors
/// See [`place_library`].
pub fn place_tracer(process: &Process, library: &[u8]) -> Result<Placed, Error> {
    place_named(process, library, TRACER_SUFFIX).map_err(|error| process.or_its_end(error))
}

fn place_named(process: &Process, library: &[u8], suffix: &str) -> Result<Placed, Error> {
    process.require_same()?;
    let who = target_rights(process)?;
    let purpose = Purpose::Library { bytes: library.len() as u64 };
    let directories = candidates::for_the_library(process);
    let written = first_usable(process, directories, (&who, purpose), |directory| {
        write_library(directory, library, suffix).map_err(|errno| errno.to_string())
    });
    written.or_else(|tried| {
        in_memory(process, &who, library, suffix)
            .map_err(|why| Error::NoLibraryPlace { tried: format!("{tried}; our own memory: {why}") })
    })
}

/// Listens on a socket that the target can connect to.
pub fn place_socket(process: &Process) -> Result<(UnixListener, Placed), Error> {
    place_listener(process).map_err(|error| process.or_its_end(error))
}

fn place_listener(process: &Process) -> Result<(UnixListener, Placed), Error> {
    process.require_same()?;
    let who = target_rights(process)?;
    let directories = candidates::directories(process);
    let bound = first_usable(process, directories, (&who, Purpose::Socket), |directory| {
        bind(directory, &who).map_err(|errno| errno.to_string())
    });
    bound.map_err(|tried| Error::NoSocketPlace { tried })
}

/// Finds a directory for the library without creating anything: its path, or the obstacle of each candidate.
pub(crate) fn look_for_library_place(process: &Process, bytes: u64) -> Result<TargetPath, String> {
    let who = target_rights(process).map_err(|error| error.to_string())?;
    let directories = candidates::for_the_library(process);
    let found = first_usable(process, directories, (&who, Purpose::Library { bytes }), |directory| {
        if directory.writable_by_us() { Ok(directory.path().clone()) } else { Err("not writable for you".to_owned()) }
    });
    found.or_else(|tried| memory_is_reachable(process, &who).map(|()| "memory".into()).map_err(|_| tried))
}

/// The first of the directories that suits the purpose and in which `attempt` succeeds; else the obstacle of each, as one line.
fn first_usable<T>(
    process: &Process,
    directories: Vec<TargetPath>,
    (who, purpose): (&Rights, Purpose),
    mut attempt: impl FnMut(Directory) -> Result<T, String>,
) -> Result<T, String> {
    let mut tried = Vec::new();
    for path in directories {
        match open(process, &path, who, purpose).and_then(&mut attempt) {
            Ok(done) => return Ok(done),
            Err(why) => tried.push(format!("{path}: {why}")),
        }
    }
    Err(tried.join("; "))
}

fn target_rights(process: &Process) -> Result<Rights, Error> {
    let changed = |what| Error::Changed { pid: process.pid, what };
    process.program.rights().map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => changed("has become another user"),
        _ => changed("has ended"),
    })
}

fn open(process: &Process, path: &TargetPath, who: &Rights, purpose: Purpose) -> Result<Directory, String> {
    let root = process.proc.path(process.pid, "root");
    let directory = Directory::open(&root, path).map_err(|errno| errno.to_string())?;
    let file_system = directory.file_system().map_err(|errno| errno.to_string())?;
    // The path may be one that its user chose after these rights were read.
    process.program.require_certainly_same().map_err(|_| "the process has changed".to_owned())?;
    let trusted = trusted(process, who);
    let is_chosen = process.library_directory.is_some() && purpose != Purpose::Socket;
    let access = Access {
        reachable: directory.reachable_by(who),
        writable: directory.writable_by(who) || is_chosen,
        kept: directory.is_kept_by(&trusted) || is_chosen,
    };
    verdict(access, file_system, purpose).map(|()| directory)
}

/// Users who may replace the library: they could control the target without it, too.
fn trusted(process: &Process, who: &Rights) -> [u32; 4] {
    [0, rustix::process::geteuid().as_raw(), who.uid, process.proc.root_user(process.pid)]
}

pub(crate) fn random_name(prefix: &str, suffix: &str) -> Result<OsString, Errno> {
    let mut bytes = [0; 8];
    if rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())? < 8 {
        return Err(Errno::IO);
    }
    Ok(OsString::from(format!("{prefix}{:016x}{suffix}", u64::from_ne_bytes(bytes))))
}

fn write_library(directory: Directory, library: &[u8], suffix: &str) -> Result<Placed, Errno> {
    let name = random_name(LIBRARY_PREFIX, suffix)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory.fd(), &name, flags, Mode::from_raw_mode(0o700))?;
    let mut placed = placed(directory, name);
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let mut file = File::from(file);
    // From here on dropping `placed` deletes the incomplete file.
    file.write_all(library).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(LIBRARY_MODE))?;
    placed.file = Some(file.into());
    Ok(placed)
}

fn bind(directory: Directory, who: &Rights) -> Result<(UnixListener, Placed), Errno> {
    let name = random_name(SOCKET_PREFIX, SOCKET_SUFFIX)?;
    let address = SocketAddrUnix::new(directory.short_path(&name))?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file takes its mode from the socket: it is never open to others, not even for a moment.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    {
        let _rights = who.assume()?;
        rustix::net::bind(&socket, &address)?;
    }
    let placed = placed(directory, name);
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((UnixListener::from(socket), placed))
}

fn placed(directory: Directory, name: OsString) -> Placed {
    Placed {
        host_path: directory.host_path().join(&name),
        target_path: directory.path().join(&name),
        mapped_name: name.to_string_lossy().into_owned(),
        file: None,
        place: Some((directory, name)),
        is_reusable: false,
    }
}

/// The last resort: a file in our own memory, which the target opens through `/proc`.
fn in_memory(process: &Process, who: &Rights, library: &[u8], suffix: &str) -> Result<Placed, String> {
    memory_is_reachable(process, who)?;
    let name = random_name(LIBRARY_PREFIX, suffix).map_err(|errno| errno.to_string())?;
    let mapped_name = name.to_string_lossy().into_owned();
    let make = |flags| rustix::fs::memfd_create(mapped_name.as_str(), flags);
    // Kernels before 6.3 do not know the flag, and do not need it.
    let file = make(MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
        .or_else(|_| make(MemfdFlags::CLOEXEC))
        .map_err(|errno| errno.to_string())?;
    let mut file = File::from(file);
    file.write_all(library).map_err(|error| error.to_string())?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(LIBRARY_MODE)).map_err(|errno| errno.to_string())?;
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    Ok(Placed {
        host_path: path.clone(),
        target_path: path.into(),
        mapped_name,
        file: Some(file.into()),
        place: None,
        is_reusable: false,
    })
}

/// Whether the target may access our descriptors: same pid namespace, and our user or a privileged one.
fn memory_is_reachable(process: &Process, who: &Rights) -> Result<(), String> {
    let theirs = process.proc.link(process.pid, "ns/pid");
    let ours = own_link("ns/pid");
    if !matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs == ours) {
        return Err("the target lives in another pid namespace".to_owned());
    }
    let ourselves = rustix::process::geteuid().as_raw();
    if who.uid != ourselves && !who.is_capable(crate::proc::Capability::SysPtrace) {
        return Err("the target may not look into our process".to_owned());
    }
    let root = process.proc.path(process.pid, "root");
    let visible = Directory::open(&root, &format!("/proc/{}", std::process::id()).into());
    visible.map(|_| ()).map_err(|errno| format!("the target does not see our /proc: {errno}"))
}

/// Whether a name has the form that this module creates.
fn is_ours(name: &OsStr) -> Option<Purpose> {
    let name = name.to_str()?;
    let random = |prefix, suffix| {
        let middle: Option<&str> = name.strip_prefix(prefix)?.strip_suffix(suffix);
        middle.filter(|text| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let suffixes = [LIBRARY_SUFFIX, STAYING_SUFFIX, TRACER_SUFFIX, MUSL_SUFFIX];
    if suffixes.iter().any(|suffix| random(LIBRARY_PREFIX, *suffix).is_some()) {
        return Some(Purpose::Library { bytes: 0 });
    }
    random(SOCKET_PREFIX, SOCKET_SUFFIX).map(|_| Purpose::Socket)
}

#[cfg(test)]
mod tests;
