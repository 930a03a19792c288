//! What belongs to the whole process, and what a profiler has changed there: directories, user, file mask, limits, filters of system calls.

use super::page::Line;
use super::proc_file::field;
use super::{limits, observer};
use crate::schedule::threads::os_threads;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The filters of a profiler, as one of the changes.
const FILTERS: &str = "the system calls that threads may make (seccomp)";

/// The state at an instant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProcessWide {
    folder: Option<String>,
    /// Device and number of the root directory.
    root: Option<(u64, u64)>,
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
            root: fs::metadata("/").ok().map(|root| (root.dev(), root.ino())),
            user: user(),
            file_mask: field("/proc/self/status", "Umask:"),
            filters: own_threads().into_iter().filter_map(filters_of_thread).max().unwrap_or_else(mode),
            limits: BTreeMap::new(),
        })?;
        now.limits = limits;
        Some(now)
    }

    /// The filters. Those are not the profiler's that were there before it.
    pub fn filters(&self) -> u64 {
        self.filters
    }

    /// Whether the running thread has more of them by now.
    pub fn is_filtered_now(&self) -> bool {
        filters("/proc/thread-self/status").unwrap_or_else(mode) > self.filters
    }

    /// What was changed since `before`.
    pub fn changes(&self, before: &ProcessWide) -> Vec<String> {
        let mut changes = Vec::new();
        if self.folder.is_some() && before.folder.is_some() && self.folder != before.folder {
            changes.push("the working directory".to_owned());
        }
        if self.file_mask.is_some() && before.file_mask.is_some() && self.file_mask != before.file_mask {
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
            (self.root != before.root, "the root directory (chroot)"),
            (self.user != before.user, "the user or group"),
            (self.filters > before.filters, FILTERS),
        ];
        changes.into_iter().filter(|(is_changed, _)| *is_changed).map(|(_, what)| what).collect()
    }
}

/// What is said of a change.
pub fn changed(what: &str) -> String {
    format!("the profiler has changed {what} of the process, and has not changed it back")
}

/// What is said of a run that ends early with such filters: nothing about the profiler's own end.
pub fn of_early_end() -> [Line; 2] {
    let message = "a run ended early: the profiler had restricted the system calls of the process (seccomp)";
    [seen_filters(), Line::Unjudged { clause: "MOD-01".into(), message: message.into() }]
}

/// The profiler filters system calls of the runtime's threads.
pub fn seen_filters() -> Line {
    Line::Seen(changed(FILTERS))
}

/// The threads of the runtime's side, also ended ones. The profiler may filter the system calls of its own threads.
fn own_threads() -> Vec<u32> {
    os_threads().map_or_else(Vec::new, |os_threads| os_threads.with_own_threads(<[u32]>::to_vec))
}

fn filters_of_thread(thread: u32) -> Option<u64> {
    filters(&format!("/proc/self/task/{thread}/status"))
}

/// The number of filters of a thread, by its `status`. Kernels before 5.9 only say whether there are any.
pub fn filters(path: &str) -> Option<u64> {
    field(path, "Seccomp_filters:").or_else(|| field(path, "Seccomp:"))?.parse().ok()
}

/// A filter may forbid to read that. Then this says whether the running thread has one: 2, as in `Seccomp:`.
fn mode() -> u64 {
    // SAFETY: takes numbers only.
    u64::try_from(unsafe { libc::prctl(libc::PR_GET_SECCOMP) }).unwrap_or_default()
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
