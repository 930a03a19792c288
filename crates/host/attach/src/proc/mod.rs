//! `/proc` from outside a process: bounded reads, and parsers for the few files needed.
//!
//! The root may be another directory, so that tests can make up processes.
//! A process that vanishes meanwhile gives an error of kind `NotFound` (or ESRCH), never a panic.

mod locks;
mod mounts;
mod sockets;
mod stat;
mod waiting;

pub use crate::status::{Capability, Status, parse_status};
pub(crate) use locks::Locks;
pub use mounts::{Mount, parse_mounts};
pub use sockets::{ListeningSocket, parse_listening};
pub use stat::{Stat, parse_stat};
pub(crate) use waiting::this_thread_may_wait;
pub use waiting::{in_time, read_while_it_answers};

use remora_symbols::{MapEntry, TargetPath, TargetText, parse_maps};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum bytes read of any of these files; the rest is ignored. A server's maps have about 1 MiB.
const LARGEST_FILE: u64 = 64 << 20;
/// Bytes of arguments and of an environment that are read. A process can have the kernel show any of its memory in their place, gigabytes
/// of zeros for nothing (`PR_SET_MM_MAP`). The first bounds what `ps` keeps of each process.
const MOST_ARGUMENT_BYTES: u64 = 256 << 10;
const MOST_ENVIRONMENT_BYTES: u64 = 1 << 20;
/// Arguments, or variables, that are kept.
const MOST_TEXTS: usize = 4096;

/// The mount point of control groups, by convention (systemd's file-hierarchy(7), and all container runtimes).
const GROUPS: &str = "/sys/fs/cgroup";

/// The source of process data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proc {
    root: PathBuf,
    /// The mount point of control groups.
    groups: PathBuf,
    viewer: Option<Viewer>,
}

/// The observer, whose permissions decide what can be attached to.
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

    /// Whether it may use files that belong to `owner` only.
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

    /// The same data, with control groups mounted elsewhere; for tests.
    pub fn with_groups(self, groups: impl Into<PathBuf>) -> Proc {
        Proc { groups: groups.into(), ..self }
    }

    /// The mount point of control groups.
    pub(crate) fn groups(&self) -> &Path {
        &self.groups
    }

    /// The kernel's account of the machine's memory.
    pub(crate) fn machine_memory(&self) -> io::Result<Vec<u8>> {
        read_bounded(&self.root.join("meminfo"))
    }

    /// The same data for another observer; for tests.
    pub fn seen_by(self, viewer: Viewer) -> Proc {
        Proc { viewer: Some(viewer), ..self }
    }

    /// The observer.
    pub fn viewer(&self) -> Viewer {
        self.viewer.unwrap_or_else(Viewer::ourselves)
    }

    /// Who has locked the file of this device and inode by flock(2), if that can be seen.
    pub fn lock_holder(&self, device: u64, inode: u64) -> Option<u32> {
        self.locks().holder(device, inode)
    }

    /// All locks by flock(2) that can be seen, of one look: any user can hold a hundred thousand.
    pub(crate) fn locks(&self) -> Locks {
        let locks = read_bounded(&self.root.join("locks")).unwrap_or_default();
        Locks::parse(&String::from_utf8_lossy(&locks))
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

    /// The children of a process's threads. (The kernel lists them with CONFIG_PROC_CHILDREN, as distributions build it for CRIU; otherwise
    /// the list is empty.)
    pub fn children(&self, pid: u32) -> Vec<u32> {
        let Ok(threads) = std::fs::read_dir(self.path(pid, "task")) else { return Vec::new() };
        let lists = threads.flatten().filter_map(|thread| read_bounded(&thread.path().join("children")).ok());
        let text: Vec<String> = lists.map(|list| String::from_utf8_lossy(&list).into_owned()).collect();
        text.iter().flat_map(|list| list.split_ascii_whitespace()).filter_map(|child| child.parse().ok()).collect()
    }

    /// Target of a link of a process, unchanged.
    pub fn link(&self, pid: u32, name: &str) -> io::Result<TargetPath> {
        read_while_it_answers(&self.path(pid, name), |path| std::fs::read_link(path).map(TargetPath::from))
    }

    /// The process's `stat`.
    pub fn stat(&self, pid: u32) -> io::Result<Stat> {
        let bytes = self.read(pid, "stat")?;
        parse_stat(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat is not as proc(5) describes"))
    }

    /// The process's `status`, whose capabilities may be those of another user namespace.
    pub fn status_without_namespaces(&self, pid: u32) -> io::Result<Status> {
        self.read(pid, "status").map(|bytes| parse_status(&bytes))
    }

    /// The process's `status`. For a process in another or unknown user namespace, without capabilities: those apply only to that
    /// namespace, and any user can create one.
    pub fn status(&self, pid: u32) -> io::Result<Status> {
        let mut status = self.status_without_namespaces(pid)?;
        let namespaces = (self.link(pid, "ns/user"), own_link("ns/user"));
        if !matches!(namespaces, (Ok(theirs), Ok(ours)) if theirs == ours) {
            status.capabilities = 0;
        }
        Ok(status)
    }

    /// Whether the monotonic clock of a process is ours. In a time namespace of its own it has another zero.
    pub fn shares_clock(&self, pid: u32) -> bool {
        match (self.link(pid, "ns/time"), own_link("ns/time")) {
            (Ok(theirs), Ok(ours)) => theirs == ours,
            // Before Linux 5.6 there are no such namespaces.
            _ => true,
        }
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

    /// A link of a process in its own view: its executable, its working directory.
    pub fn link_in_view(&self, pid: u32, name: &str) -> io::Result<TargetPath> {
        let path = self.link(pid, name)?;
        Ok(in_view(&self.link(pid, "root").unwrap_or_default(), path))
    }

    /// The process's mounts.
    pub fn mounts(&self, pid: u32) -> io::Result<Vec<Mount>> {
        self.read(pid, "mountinfo").map(|bytes| parse_mounts(&bytes))
    }

    /// Listening Unix sockets in the process's network namespace.
    pub fn listening(&self, pid: u32) -> io::Result<Vec<ListeningSocket>> {
        self.read(pid, "net/unix").map(|bytes| parse_listening(&bytes))
    }

    /// The arguments that the process was started with: the first 256 KiB or 4,096 of them. `…` stands for the rest.
    pub fn command_line(&self, pid: u32) -> io::Result<Vec<TargetText>> {
        let bytes = read_up_to(&self.path(pid, "cmdline"), MOST_ARGUMENT_BYTES)?;
        let whole = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        let mut parts = whole.split(|byte| *byte == 0).filter(|_| !bytes.is_empty());
        let mut arguments: Vec<TargetText> = parts.by_ref().take(MOST_TEXTS).map(TargetText::from_bytes).collect();
        if parts.next().is_some() || bytes.len() as u64 == MOST_ARGUMENT_BYTES {
            arguments.push("…".into());
        }
        Ok(arguments)
    }

    /// The environment at the start of the process.
    pub fn environment(&self, pid: u32) -> io::Result<Vec<(TargetText, TargetText)>> {
        let bytes = read_up_to(&self.path(pid, "environ"), MOST_ENVIRONMENT_BYTES)?;
        Ok(bytes
            .split(|byte| *byte == 0)
            .filter(|part| !part.is_empty())
            .take(MOST_TEXTS)
            .filter_map(|part| {
                let at = part.iter().position(|byte| *byte == b'=')?;
                Some((TargetText::from_bytes(&part[..at]), TargetText::from_bytes(&part[at + 1..])))
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
}

/// A link of this process, for comparison with another process's. Its number may differ in this `/proc`.
pub(crate) fn own_link(name: &str) -> io::Result<TargetPath> {
    std::fs::read_link(Path::new("/proc/self").join(name)).map(TargetPath::from)
}

/// A path from `/proc`, in the view of the process whose root is `root`. The kernel writes it in our view, which differs after a chroot.
fn in_view(root: &TargetPath, path: TargetPath) -> TargetPath {
    path.below(root).filter(|_| root.is_absolute()).unwrap_or(path)
}

/// Reads a file up to a limit.
pub(crate) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    read_up_to(path, LARGEST_FILE)
}

/// Reads so many bytes of a file.
fn read_up_to(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_while_it_answers(path, move |path| {
        let mut bytes = Vec::new();
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

/// Whether an error means that this process, or the system, has no descriptor left: then nothing is known of what was to be opened.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|out| error.raw_os_error() == Some(out.raw_os_error()))
}

/// Whether an error means that the process is gone.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests;
