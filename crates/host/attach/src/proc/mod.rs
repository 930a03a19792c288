//! `/proc` as seen from outside a process: bounded reads, and parsers for the few files that are needed.
//!
//! The root may be another directory, so that tests can make up processes.
//! A process that vanishes while it is read gives an error of kind `NotFound` (or ESRCH), never a panic.

mod locks;
mod mounts;
mod sockets;
mod stat;
mod status;

pub use mounts::{Mount, parse_mounts};
pub use sockets::{ListeningSocket, parse_listening};
pub use stat::{Stat, parse_stat};
pub use status::{Capability, Status, parse_status};

use crate::foreign::{open_in_root, open_link};
use crate::rights::Rights;
use remora_symbols::{MapEntry, TargetPath, parse_maps};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The most that is read of any of these files; what lies beyond is not seen. A server's maps have about 1 MiB.
const LARGEST_FILE: u64 = 64 << 20;

/// Where control groups are mounted, by convention (systemd's file-hierarchy(7), and all container runtimes).
const GROUPS: &str = "/sys/fs/cgroup";

/// Where processes are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proc {
    root: PathBuf,
    /// Where control groups are mounted.
    groups: PathBuf,
    viewer: Option<Viewer>,
}

/// Who looks: decides what may be attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewer {
    /// Effective user id.
    pub uid: u32,
    /// Effective capabilities, as the bits of `CapEff`.
    pub capabilities: u64,
}

impl Viewer {
    /// This process.
    pub fn ourselves() -> Viewer {
        let status = read_bounded(Path::new("/proc/self/status")).map(|bytes| parse_status(&bytes)).unwrap_or_default();
        Viewer { uid: rustix::process::geteuid().as_raw(), capabilities: status.capabilities }
    }

    /// Whether it may use what belongs to `owner` alone.
    pub fn may_act_for(self, owner: u32) -> bool {
        self.uid == owner || self.is_capable(Capability::DacOverride)
    }

    /// Whether it has this capability.
    pub fn is_capable(self, capability: Capability) -> bool {
        capability.is_in(self.capabilities)
    }
}

impl Default for Proc {
    fn default() -> Proc {
        Proc::at("/proc")
    }
}

impl Proc {
    /// A directory laid out like `/proc`.
    pub fn at(root: impl Into<PathBuf>) -> Proc {
        Proc { root: root.into(), groups: GROUPS.into(), viewer: None }
    }

    /// The same, with control groups that are mounted elsewhere; for tests.
    pub fn with_groups(self, groups: impl Into<PathBuf>) -> Proc {
        Proc { groups: groups.into(), ..self }
    }

    /// Where control groups are mounted.
    pub(crate) fn groups(&self) -> &Path {
        &self.groups
    }

    /// What the kernel says of the memory of the machine.
    pub(crate) fn machine_memory(&self) -> io::Result<Vec<u8>> {
        read_bounded(&self.root.join("meminfo"))
    }

    /// The same, looked at by somebody else; for tests.
    pub fn seen_by(self, viewer: Viewer) -> Proc {
        Proc { viewer: Some(viewer), ..self }
    }

    /// Who looks.
    pub fn viewer(&self) -> Viewer {
        self.viewer.unwrap_or_else(Viewer::ourselves)
    }

    /// Who has locked the file of this device and inode by flock(2), if that can be seen.
    pub fn lock_holder(&self, device: u64, inode: u64) -> Option<u32> {
        let locks = read_bounded(&self.root.join("locks")).ok()?;
        locks::parse_lock_holder(&String::from_utf8_lossy(&locks), device, inode)
    }

    /// All process ids, in order; those that vanish meanwhile are no error.
    pub fn pids(&self) -> io::Result<Vec<u32>> {
        let mut pids: Vec<u32> =
            std::fs::read_dir(&self.root)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// Path of a file of a process.
    pub fn path(&self, pid: u32, name: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(name)
    }

    /// Content of a file of a process.
    pub fn read(&self, pid: u32, name: &str) -> io::Result<Vec<u8>> {
        read_bounded(&self.path(pid, name))
    }

    /// What the threads of a process have started and is still theirs. (The kernel lists it with CONFIG_PROC_CHILDREN, as distributions
    /// build it for CRIU; without, there is nothing.)
    pub fn children(&self, pid: u32) -> Vec<u32> {
        let Ok(threads) = std::fs::read_dir(self.path(pid, "task")) else { return Vec::new() };
        let lists = threads.flatten().filter_map(|thread| read_bounded(&thread.path().join("children")).ok());
        let text: Vec<String> = lists.map(|list| String::from_utf8_lossy(&list).into_owned()).collect();
        text.iter().flat_map(|list| list.split_ascii_whitespace()).filter_map(|child| child.parse().ok()).collect()
    }

    /// Target of a link of a process, as it stands there.
    pub fn link(&self, pid: u32, name: &str) -> io::Result<TargetPath> {
        std::fs::read_link(self.path(pid, name)).map(TargetPath::from)
    }

    /// The process's `stat`.
    pub fn stat(&self, pid: u32) -> io::Result<Stat> {
        let bytes = self.read(pid, "stat")?;
        parse_stat(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat is not as proc(5) describes"))
    }

    /// The process's `status`. Of one in another user namespace, or where that cannot be known, without capabilities: they are for what
    /// belongs to that namespace, and anybody can make one.
    pub fn status(&self, pid: u32) -> io::Result<Status> {
        let mut status = self.read(pid, "status").map(|bytes| parse_status(&bytes))?;
        let namespaces = (self.link(pid, "ns/user"), own_link("ns/user"));
        if !matches!(namespaces, (Ok(theirs), Ok(ours)) if theirs == ours) {
            status.capabilities = 0;
        }
        Ok(status)
    }

    /// The process's mappings, with paths in its own view.
    pub fn maps(&self, pid: u32) -> io::Result<Vec<MapEntry>> {
        let mut maps = self.read(pid, "maps").map(|bytes| parse_maps(&bytes))?;
        let root = self.link(pid, "root").unwrap_or_default();
        for mapping in &mut maps {
            mapping.path = in_view(&root, std::mem::take(&mut mapping.path));
        }
        Ok(maps)
    }

    /// What a link of a process means to it: its executable, its working directory.
    pub fn link_in_view(&self, pid: u32, name: &str) -> io::Result<TargetPath> {
        let path = self.link(pid, name)?;
        Ok(in_view(&self.link(pid, "root").unwrap_or_default(), path))
    }

    /// The process's mounts.
    pub fn mounts(&self, pid: u32) -> io::Result<Vec<Mount>> {
        self.read(pid, "mountinfo").map(|bytes| parse_mounts(&bytes))
    }

    /// Unix sockets that somebody listens on, in the process's network namespace.
    pub fn listening(&self, pid: u32) -> io::Result<Vec<ListeningSocket>> {
        self.read(pid, "net/unix").map(|bytes| parse_listening(&bytes))
    }

    /// The arguments that the process was started with.
    pub fn command_line(&self, pid: u32) -> io::Result<Vec<String>> {
        let bytes = self.read(pid, "cmdline")?;
        let mut arguments: Vec<String> =
            bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        if arguments.last().is_some_and(String::is_empty) {
            arguments.pop();
        }
        Ok(arguments)
    }

    /// The environment that the process was started with.
    pub fn environment(&self, pid: u32) -> io::Result<Vec<(String, String)>> {
        let bytes = self.read(pid, "environ")?;
        Ok(bytes
            .split(|byte| *byte == 0)
            .filter_map(|part| {
                let at = part.iter().position(|byte| *byte == b'=')?;
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                Some((text(&part[..at]), text(&part[at + 1..])))
            })
            .collect())
    }

    /// The user that is root in the process's user namespace.
    pub(crate) fn root_user(&self, pid: u32) -> u32 {
        let map = self.read(pid, "uid_map").unwrap_or_default();
        let first = String::from_utf8_lossy(&map).lines().next().map(str::to_owned).unwrap_or_default();
        let mut numbers = first.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
        match (numbers.next(), numbers.next()) {
            (Some(0), Some(outside)) => outside,
            _ => 0,
        }
    }

    /// Opens the regular file at a path of the process's own view, for reading: if its user can read it, or if the process has it mapped. A
    /// service may have mapped it before it gave up the rights that this takes.
    ///
    /// # Errors
    /// The system's; `ENOTDIR` or `EISDIR` for what is no regular file, `ENODATA` for an empty one, `EPERM` if this process may not act
    /// as that user.
    pub fn open(&self, pid: u32, path: &TargetPath) -> io::Result<File> {
        match open_in_root(&self.path(pid, "root"), path, &Rights::of(&self.status(pid)?)) {
            Err(refused @ (Errno::ACCESS | Errno::PERM)) => {
                let maps = self.maps(pid)?;
                let mapped = maps.iter().find(|mapping| mapping.path == *path && !mapping.deleted);
                mapped.map_or(Err(refused.into()), |mapping| self.open_mapped(pid, mapping))
            }
            opened => Ok(opened?),
        }
    }

    /// Opens the file behind a mapping of the process, deleted or not.
    ///
    /// # Errors
    /// As those of [`Proc::open`].
    pub fn open_mapped(&self, pid: u32, mapping: &MapEntry) -> io::Result<File> {
        Ok(open_link(&self.path(pid, &format!("map_files/{:x}-{:x}", mapping.start, mapping.end)))?)
    }

    /// Opens the program that the process runs.
    ///
    /// # Errors
    /// As those of [`Proc::open`].
    pub fn open_executable(&self, pid: u32) -> io::Result<File> {
        Ok(open_link(&self.path(pid, "exe"))?)
    }
}

/// A link of this process, to be compared with another one's. Its number may be another one in this `/proc`.
pub(crate) fn own_link(name: &str) -> io::Result<TargetPath> {
    std::fs::read_link(Path::new("/proc/self").join(name)).map(TargetPath::from)
}

/// A path from `/proc`, in the view of the process whose root is `root`. The kernel writes it as we see it, which differs after a chroot.
fn in_view(root: &TargetPath, path: TargetPath) -> TargetPath {
    path.below(root).filter(|_| root.is_absolute()).unwrap_or(path)
}

/// Reads a file up to a limit.
pub(crate) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether an error means that this process, or the system, has no descriptor left: then nothing is known of what was to be opened.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|out| error.raw_os_error() == Some(out.raw_os_error()))
}

/// Whether an error means that the process is gone.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// A path from a `/proc` file, in which space, tab, newline and backslash are written as octal.
fn unescape(bytes: &[u8]) -> TargetPath {
    let mut path = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        match digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()) {
            Some(byte) => {
                path.push(byte);
                at += 4;
            }
            None => {
                path.push(bytes[at]);
                at += 1;
            }
        }
    }
    TargetPath::from_bytes(path)
}

#[cfg(test)]
mod tests;
