//! Free memory of a process, and the memory cost of a copy: read from `/proc` and from the files of control groups.

use crate::proc::Proc;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Maximum nested control groups examined.
const MOST_GROUPS: usize = 64;

/// Memory available before the kernel kills a process for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Its limit.
    pub bound: Bound,
}

/// The limit of a process's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// The machine's memory.
    Machine,
    /// A control group's limit: its directory.
    ControlGroup(PathBuf),
}

impl std::fmt::Display for Bound {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Machine => out.write_str("on the machine"),
            Bound::ControlGroup(path) => write!(out, "in the control group {}", path.display()),
        }
    }
}

/// Free memory of a process: the least of the machine's and of each control group's. `None` if none is readable.
pub(crate) fn room(proc: &Proc, pid: u32) -> Option<Room> {
    let machine = String::from_utf8_lossy(&proc.machine_memory().unwrap_or_default()).into_owned();
    let machine = line(&machine, "MemAvailable:").map(|bytes| Room { bytes, bound: Bound::Machine });
    let groups = groups_of(proc, pid);
    machine.into_iter().chain(groups.iter().flat_map(Group::rooms)).min_by_key(|room| room.bytes)
}

/// The free memory of this process, bytes, also by its limit of address space (`ulimit -v`). `None` if none is known.
pub fn own_room() -> Option<u64> {
    let (proc, own_pid) = (Proc::default(), std::process::id());
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let below_limit = limit.map(|limit| limit.saturating_sub(mapped(&proc, own_pid).unwrap_or(0)));
    room(&proc, own_pid).map(|room| room.bytes).into_iter().chain(below_limit).min()
}

/// The lowest control group that the kernel kills as a whole when a process in it runs out of memory (`memory.oom.group`), if any.
/// The root has no such file, nor has version 1.
pub(crate) fn ends_with(proc: &Proc, pid: u32) -> Option<PathBuf> {
    let groups = groups_of(proc, pid);
    let is_one =
        |directory: &PathBuf| read_to_string(directory.join("memory.oom.group")).is_ok_and(|text| text.trim() == "1");
    groups.iter().flat_map(Group::directories).filter(is_one).max_by_key(|directory| directory.components().count())
}

fn groups_of(proc: &Proc, pid: u32) -> Vec<Group> {
    let of_process = proc.read(pid, "cgroup").unwrap_or_default();
    limits_in(&String::from_utf8_lossy(&of_process), proc.groups())
}

/// The groups in `/proc/PID/cgroup` that may limit memory.
pub(crate) fn limits_in(cgroup: &str, groups: &Path) -> Vec<Group> {
    cgroup.lines().filter_map(|line| Group::of(line, groups)).collect()
}

/// The resident memory of a process, bytes.
pub(crate) fn resident(proc: &Proc, pid: u32) -> Option<u64> {
    line(&String::from_utf8_lossy(&proc.read(pid, "status").ok()?), "VmRSS:")
}

/// The mapped address space of a process, bytes.
pub(crate) fn mapped(proc: &Proc, pid: u32) -> Option<u64> {
    line(&String::from_utf8_lossy(&proc.read(pid, "status").ok()?), "VmSize:")
}

/// The private pages of a process, bytes. Of a copy made by `clone`: the pages written since.
pub(crate) fn private(proc: &Proc, pid: u32) -> Option<u64> {
    let bytes = proc.read(pid, "smaps_rollup").ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(line(&text, "Private_Clean:")? + line(&text, "Private_Dirty:")?)
}

/// `NAME:   123 kB`, in bytes.
fn line(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A control group that may limit memory, and its files: cgroups(7), and the kernel's cgroup-v1/memory and cgroup-v2.
pub(crate) struct Group {
    mount: PathBuf,
    path: PathBuf,
    limit: &'static str,
    usage: &'static str,
    /// Page cache that the kernel reclaims first when memory runs short: not counted as used.
    cache: &'static str,
}

impl Group {
    /// From a line of `/proc/PID/cgroup`.
    fn of(line: &str, groups: &Path) -> Option<Group> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        // A path with `/..` is outside the visible part of the hierarchy: its limits are not readable for us.
        let path = Path::new(path.trim_start_matches('/')).to_owned();
        if path.starts_with("..") {
            return None;
        }
        if controllers.is_empty() {
            let unified = groups.join("unified");
            let mount = if unified.is_dir() { unified } else { groups.to_owned() };
            Some(Group { mount, path, limit: "memory.max", usage: "memory.current", cache: "inactive_file " })
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let (limit, usage) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
            Some(Group { mount: groups.join("memory"), path, limit, usage, cache: "total_inactive_file " })
        } else {
            None
        }
    }

    /// This group and its visible ancestors, the lowest first.
    fn directories(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.path.ancestors().take(MOST_GROUPS).map(|path| self.mount.join(path))
    }

    /// Free memory of this group and its ancestors.
    fn rooms(&self) -> impl Iterator<Item = Room> + '_ {
        let number = |file: PathBuf| read_to_string(file).ok()?.trim().parse::<u64>().ok();
        self.directories().filter_map(move |directory| {
            // `max`, which is no number, means no limit.
            let limit = number(directory.join(self.limit))?;
            let used = number(directory.join(self.usage))?;
            let stat = read_to_string(directory.join("memory.stat")).unwrap_or_default();
            let cached = stat.lines().find_map(|line| line.strip_prefix(self.cache)?.trim().parse().ok()).unwrap_or(0);
            let bytes = limit.saturating_sub(used.saturating_sub(cached));
            Some(Room { bytes, bound: Bound::ControlGroup(directory) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::process::{MadeUp, PID};
    use std::fs::{create_dir_all, write};

    const MACHINE: &str = "MemTotal:  8000 kB\nMemAvailable:       4000 kB\n";

    fn group(root: &Path, path: &str, files: &[(&str, &str)]) {
        let directory = root.join(path);
        create_dir_all(&directory).expect("made");
        files.iter().for_each(|(file, text)| write(directory.join(file), text).expect("written"));
    }

    #[test]
    fn the_tightest_group_above_a_process_bounds_it_and_cached_files_are_free() {
        let (made, groups) = (MadeUp::plain(), tempfile::tempdir().expect("made"));
        let root = groups.path();
        made.set("cgroup", b"0::/pod/app\n");
        group(root, "pod", &[("memory.max", "1000000\n"), ("memory.current", "900000\n")]);
        group(root, "pod/app", &[("memory.max", "max\n"), ("memory.current", "500000\n")]);
        made.machine_memory(MACHINE);
        let room = || room(&made.proc().with_groups(root), PID).expect("known");
        assert_eq!(room(), Room { bytes: 100_000, bound: Bound::ControlGroup(root.join("pod")) });
        write(root.join("pod/memory.stat"), "anon 5\ninactive_file 50000\n").expect("written");
        assert_eq!(room().bytes, 150_000);
        write(root.join("pod/app/memory.max"), "400000").expect("written");
        assert_eq!(room().bytes, 0, "more is used than may be");
    }

    #[test]
    fn a_group_that_is_ended_as_a_whole_is_seen_wherever_it_stands_above_a_process() {
        let (made, groups) = (MadeUp::plain(), tempfile::tempdir().expect("made"));
        let root = groups.path();
        made.set("cgroup", b"0::/pod/app\n");
        group(root, "pod", &[("memory.oom.group", "0\n")]);
        group(root, "pod/app", &[("memory.oom.group", "0\n")]);
        let ends_with = || ends_with(&made.proc().with_groups(root), PID);
        assert_eq!(ends_with(), None);
        write(root.join("pod/memory.oom.group"), "1\n").expect("written");
        assert_eq!(ends_with(), Some(root.join("pod")));
        write(root.join("pod/app/memory.oom.group"), "1\n").expect("written");
        assert_eq!(ends_with(), Some(root.join("pod/app")));
        made.set("cgroup", b"4:memory:/pod/app\n");
        assert_eq!(ends_with(), None, "version 1 has none");
        made.set("cgroup", format!("0::{}\n", "/deep".repeat(100_000)).as_bytes());
        assert_eq!(ends_with(), None, "and as many are looked at as there can be");
    }

    #[test]
    fn groups_of_the_first_version_and_machines_without_any_are_known() {
        let (made, groups) = (MadeUp::plain(), tempfile::tempdir().expect("made"));
        made.set("cgroup", b"5:cpu,cpuacct:/x\n4:memory:/docker/1\n");
        let files = [("memory.limit_in_bytes", "2000"), ("memory.usage_in_bytes", "1500")];
        group(groups.path(), "memory/docker/1", &files);
        made.machine_memory(MACHINE);
        let room = || room(&made.proc().with_groups(groups.path()), PID);
        assert_eq!(room().expect("known").bytes, 500);
        for outside in ["0::/../other\n", "", "nonsense"] {
            made.set("cgroup", outside.as_bytes());
            assert_eq!(room(), Some(Room { bytes: 4000 << 10, bound: Bound::Machine }), "{outside}");
        }
        made.machine_memory("");
        assert_eq!(room(), None);
    }

    #[test]
    fn what_a_process_has_and_what_it_has_alone_is_read() {
        let made = MadeUp::plain();
        made.set(
            "smaps_rollup",
            b"00-01 ---p 0 00:00 0 [rollup]\nRss: 900 kB\nPrivate_Clean: 8 kB\nPrivate_Dirty: 20 kB\n",
        );
        assert_eq!(private(&made.proc(), PID), Some(28 << 10));
        assert!(resident(&Proc::default(), std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
        assert!(room(&Proc::default(), std::process::id()).is_some_and(|room| room.bytes > 0));
    }
}
