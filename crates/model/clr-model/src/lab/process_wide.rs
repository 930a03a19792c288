//! What belongs to the whole process, and what a profiler has changed there: directories, user, file mask, limits, filters of system calls.

use super::page::Line;
use super::proc_file::field;
use super::{limits, observer};
use crate::schedule::threads::os_threads;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The filters of a profiler, as one of the changes.
pub const FILTERS: &str = "the system calls that threads may make (seccomp)";

/// Why a file of /proc cannot be opened without any filter: it is elsewhere, or there is no descriptor or memory.
const OTHER_CAUSES: [i32; 4] = [libc::ENOENT, libc::EMFILE, libc::ENFILE, libc::ENOMEM];

/// The state at an instant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProcessWide {
    folder: Option<String>,
    /// Device and number of the root directory.
    root: Option<(u64, u64)>,
    /// Where new processes of the runtime's threads get their numbers. In another one, a thread can start no thread.
    namespaces: BTreeSet<String>,
    /// Real, effective and saved IDs of user and group.
    user: [[u32; 3]; 2],
    file_mask: Option<String>,
    limits: BTreeMap<&'static str, u64>,
    /// The filters of system calls (seccomp) on the runtime's thread that has the most. The laboratory may run under some itself.
    filters: u64,
}

impl ProcessWide {
    /// Reads it. `None` if the observer did not answer.
    pub fn now() -> Option<ProcessWide> {
        let limits = limits::soft().into();
        let mut now = observer::look(|| ProcessWide {
            folder: fs::read_link("/proc/self/cwd").ok().map(|folder| folder.to_string_lossy().into_owned()),
            root: root(),
            namespaces: own_threads().into_iter().filter_map(|thread| namespace(&of_thread(thread))).collect(),
            user: user(),
            file_mask: field("/proc/self/status", "Umask:"),
            filters: own_threads()
                .into_iter()
                .filter_map(|thread| filters(&format!("{}/status", of_thread(thread))))
                .max()
                .unwrap_or_else(filters_here),
            limits: BTreeMap::new(),
        })?;
        now.limits = limits;
        Some(now)
    }

    /// The filters. Those are not the profiler's that were there before it.
    pub fn filters(&self) -> u64 {
        self.filters
    }

    /// What the profiler has changed by now that a system call of the running thread may need. Takes no lock.
    pub fn barriers_now(&self) -> Vec<&'static str> {
        let is_readable = fs::read_link("/proc/thread-self/ns/pid").is_ok();
        let namespaces = namespace("/proc/thread-self").or(is_readable.then(String::new)).into_iter().collect();
        let (root, user, filters) = (root(), user(), filters_here());
        let now = ProcessWide { root, namespaces, user, filters, ..ProcessWide::default() };
        now.barriers(self)
    }

    /// What was changed since `before`.
    pub fn changes(&self, before: &ProcessWide) -> Vec<String> {
        let mut changes = Vec::new();
        if differs(self.folder.as_ref(), before.folder.as_ref()) {
            changes.push("the working directory".to_owned());
        }
        if differs(self.file_mask.as_ref(), before.file_mask.as_ref()) {
            changes.push("the mask of new files (umask)".to_owned());
        }
        let changed =
            self.limits.iter().filter(|(name, limit)| before.limits.get(*name).is_some_and(|one| one != *limit));
        let changed = changed.filter(|(name, _)| !limits::was_lowered(name));
        changes.extend(changed.map(|(name, _)| format!("the limit {name}")));
        changes.extend(self.barriers(before).into_iter().map(str::to_owned));
        changes
    }

    /// Those changes with which the process may not find a file that was there before, or may not open it.
    pub fn barriers(&self, before: &ProcessWide) -> Vec<&'static str> {
        let changes = [
            (differs(self.root, before.root), "the root directory (chroot)"),
            (self.user != before.user, "the user or group"),
            (!self.namespaces.is_subset(&before.namespaces), "the PID namespace of new processes (unshare)"),
            (self.filters > before.filters, FILTERS),
        ];
        changes.into_iter().filter(|(is_changed, _)| *is_changed).map(|(_, what)| what).collect()
    }
}

/// Whether both are known, and not the same.
fn differs<T: PartialEq>(now: Option<T>, before: Option<T>) -> bool {
    now.is_some() && before.is_some() && now != before
}

/// What is said of a change.
pub fn changed(what: &str) -> String {
    format!("the profiler has changed {what} of the process, and has not changed it back")
}

/// Words of the model's, or of Rust's library, when a system call has failed. Every other end of the model has another cause.
const FAILED_CALL: [&str; 5] =
    ["Os { code: ", "(os error ", "failed to spawn thread", "memory allocation of ", "/library/std/src/sys/"];

/// Whether this is a message about a failed system call.
pub fn is_of_failed_call(message: &str) -> bool {
    FAILED_CALL.iter().any(|words| message.contains(words))
}

/// What is said of a run that ends early because a system call fails after these changes: nothing about the profiler's own end.
pub fn of_early_end(barriers: &[&str]) -> Vec<Line> {
    let message = format!("a run ended early: the profiler had changed {} of the process", barriers.join(" and "));
    let seen = barriers.iter().map(|what| Line::Seen(changed(what)));
    seen.chain([Line::Unjudged { clause: "MOD-01".into(), message }]).collect()
}

/// The threads of the runtime's side, also ended ones. The profiler may filter the system calls of its own threads.
fn own_threads() -> Vec<u32> {
    os_threads().map_or_else(Vec::new, |os_threads| os_threads.with_own_threads(<[u32]>::to_vec))
}

fn of_thread(thread: u32) -> String {
    format!("/proc/self/task/{thread}")
}

/// The number of filters of a thread, by its `status`. Kernels before 5.9 only say whether there are any.
pub fn filters(path: &str) -> Option<u64> {
    field(path, "Seccomp_filters:").or_else(|| field(path, "Seccomp:"))?.parse().ok()
}

/// Those of the running thread. If a filter forbids to read that, it is a new one: before, it could be read.
fn filters_here() -> u64 {
    let status = "/proc/thread-self/status";
    // SAFETY: takes numbers only.
    let has_any = unsafe { libc::prctl(libc::PR_GET_SECCOMP) } > 0;
    match fs::read_to_string(status) {
        Ok(_) => filters(status).unwrap_or_default(),
        Err(error) if OTHER_CAUSES.iter().any(|code| error.raw_os_error() == Some(*code)) => has_any.into(),
        Err(_) if has_any => u64::MAX,
        Err(_) => 0,
    }
}

fn root() -> Option<(u64, u64)> {
    let root = fs::metadata("/").ok()?;
    Some((root.dev(), root.ino()))
}

/// Of a thread. `None` if the thread ends, or the namespace is a new one, which has no process yet.
fn namespace(thread: &str) -> Option<String> {
    let namespace = fs::read_link(format!("{thread}/ns/pid_for_children")).ok()?;
    Some(namespace.to_string_lossy().into_owned())
}

fn user() -> [[u32; 3]; 2] {
    let ([mut real, mut effective, mut saved], mut group) = ([0; 3], [0; 3]);
    // SAFETY: local places for the numbers.
    unsafe { libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) };
    let [of_real, of_effective, of_saved] = &mut group;
    // SAFETY: local places for the numbers.
    unsafe { libc::getresgid(of_real, of_effective, of_saved) };
    [[real, effective, saved], group]
}
