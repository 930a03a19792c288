//! The diagnostics socket of a runtime, or why there is none.
//!
//! The socket's name contains the target's own process id and its start time. So a file of an earlier process with the same id is not
//! mistaken for it. Nothing connects here: `/proc/PID/net/unix` lists the listening sockets.

use crate::error::Reason;
use crate::proc::{ListeningSocket, Proc, Stat, Status};
use crate::rights::Rights;
use crate::survey::Survey;
use crate::view::{Directory, distinct};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use remora_symbols::{TargetPath, TargetText};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Variables that disable the port if they are 0 (or false).
const SWITCHES: [&str; 4] = [
    "DOTNET_EnableDiagnostics",
    "COMPlus_EnableDiagnostics",
    "DOTNET_EnableDiagnostics_IPC",
    "COMPlus_EnableDiagnostics_IPC",
];

/// Directories of listening sockets that are searched. A runtime has one.
const MOST_BOUND: usize = 8;

/// The socket of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagnosticsSocket {
    /// Path in the target's view, links resolved.
    pub target_path: TargetPath,
    /// Path in our view.
    pub host_path: PathBuf,
    /// Its owner; only this user and root may use it.
    pub owner: u32,
    /// The process that must listen on it, in our view.
    pub(crate) listener: u32,
    root: PathBuf,
    /// Those with which its directory must be reachable.
    rights: Rights,
}

impl DiagnosticsSocket {
    /// The socket's file, opened only as a path (`O_PATH`).
    ///
    /// # Errors
    /// `ENOTSOCK`: its name now refers to another file, or to another user's socket. Otherwise the system's.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        let directory = Directory::open_for(&self.root, &self.target_path.parent().ok_or(Errno::NOENT)?, &self.rights)?;
        let (file, stat) = directory.file(self.target_path.file_name().as_ref())?;
        let is_same = FileType::from_raw_mode(stat.st_mode) == FileType::Socket && stat.st_uid == self.owner;
        if is_same { Ok(file) } else { Err(Errno::NOTSOCK) }
    }
}

/// The process at the other end of a connected Unix socket, in our numbering: the one that connected or listens. `None` if it is in a
/// namespace that is invisible from here.
pub fn peer(socket: &impl AsFd) -> Option<u32> {
    let credentials = getsockopt(socket, PeerCredentials).ok()?;
    u32::try_from(credentials.pid()).ok().filter(|pid| *pid > 0)
}

/// Finds the socket of the process, or why there is none.
pub(crate) fn find(
    proc: &Proc,
    pid: u32,
    identity: (&Stat, &Status),
    (environment, survey): (&[(TargetText, TargetText)], &Survey),
) -> Result<DiagnosticsSocket, Reason> {
    let name = Name::of(proc, pid, identity);
    let listening: Option<Vec<TargetPath>> = survey.listening(proc, pid).ok().map(|sockets| {
        let named = sockets.iter().filter(|socket| name.fits(socket.path.file_name().as_ref()));
        own(proc, pid, named.collect()).into_iter().map(|socket| socket.path.clone()).collect()
    });
    let bound = listening.iter().flatten().filter_map(TargetPath::parent);
    let named = environment.iter().find(|(key, value)| *key == "TMPDIR" && value.starts_with("/"));
    let named = named.map(|(_, value)| value.as_path());
    let directories = distinct(bound.take(MOST_BOUND).chain(named).chain(["/tmp".into()]));
    let root = proc.path(pid, "root");
    let file = directories.iter().find_map(|directory| name.look_in(&root, directory));
    match (file, listening) {
        (Some(file), Some(listening)) if listening.is_empty() => Err(Reason::SocketStale { path: file.target_path }),
        (Some(file), _) => Ok(file),
        (None, Some(listening)) if !listening.is_empty() => Err(Reason::SocketDeleted { path: listening[0].clone() }),
        (None, _) => Err(absent(&name, environment, &directories)),
    }
}

/// Those of `named` that the process has open. Any user can listen under the name of its socket, as often as there are descriptors. Without
/// the right to see its descriptors, all.
fn own<'a>(proc: &Proc, pid: u32, named: Vec<&'a ListeningSocket>) -> Vec<&'a ListeningSocket> {
    if named.is_empty() {
        return named;
    }
    let Ok(descriptors) = std::fs::read_dir(proc.path(pid, "fd")) else { return named };
    let mut by_inode: HashMap<u64, &ListeningSocket> = named.into_iter().map(|socket| (socket.inode, socket)).collect();
    let opened = descriptors.flatten().filter_map(|entry| socket_inode(&std::fs::read_link(entry.path()).ok()?));
    opened.filter_map(|inode| by_inode.remove(&inode)).collect()
}

/// The inode in `socket:[4711]`.
fn socket_inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn absent(name: &Name, environment: &[(TargetText, TargetText)], directories: &[TargetPath]) -> Reason {
    let off = |value: &TargetText| value.resembles("0") || value.resembles("false");
    match environment.iter().find(|(key, value)| key.is_one_of(&SWITCHES) && off(value)) {
        Some((key, value)) => Reason::DiagnosticsDisabled { variable: format!("{key}={value}") },
        None => Reason::NoSocket {
            name: format!("{}{}-socket", name.start, name.start_time.as_deref().unwrap_or("*")),
            searched: directories.iter().map(TargetPath::to_string).collect::<Vec<_>>().join(", "),
        },
    }
}

/// The name of the socket's file.
struct Name {
    listener: u32,
    start: String,
    /// `None` if the target's clock differs from ours: its start time then differs from the one we read.
    start_time: Option<String>,
    /// Possible owners: the process's user, or root, if root started the process. Other users could have made a file of that name.
    owners: [u32; 3],
    /// The rights for listing its directory.
    rights: Rights,
}

impl Name {
    fn of(proc: &Proc, pid: u32, (stat, status): (&Stat, &Status)) -> Name {
        let own_pid = status.namespaced_pid.unwrap_or(pid);
        Name {
            listener: pid,
            start: format!("dotnet-diagnostic-{own_pid}-"),
            start_time: proc.shares_clock(pid).then(|| stat.start_time.to_string()),
            owners: [0, status.effective_uid, proc.root_user(pid)],
            rights: Rights::of(status),
        }
    }

    fn fits(&self, name: &OsStr) -> bool {
        let time = name.to_str().and_then(|name| name.strip_prefix(&self.start)?.strip_suffix("-socket"));
        time.is_some_and(|time| match &self.start_time {
            Some(expected) => time == expected,
            None => !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit()),
        })
    }

    fn look_in(&self, root: &Path, directory: &TargetPath) -> Option<DiagnosticsSocket> {
        let opened = Directory::open_for(root, directory, &self.rights).ok()?;
        // Other users may have made files of that form.
        let owner = |name: &OsStr| {
            let (_, stat) = opened.file(name).ok()?;
            let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
            (is_socket && self.owners.contains(&stat.st_uid)).then_some(stat.st_uid)
        };
        let name = match &self.start_time {
            Some(time) => format!("{}{time}-socket", self.start).into(),
            None => {
                let is_it = |name: &OsStr| self.fits(name) && owner(name).is_some();
                opened.names(&self.rights, is_it).ok()?.into_iter().next()?
            }
        };
        Some(DiagnosticsSocket {
            owner: owner(&name)?,
            target_path: opened.path().join(&name),
            host_path: opened.host_path().join(&name),
            listener: self.listener,
            root: root.to_path_buf(),
            rights: self.rights.clone(),
        })
    }
}
