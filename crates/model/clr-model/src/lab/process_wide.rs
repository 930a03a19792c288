//! What belongs to the whole process, and what a profiler has changed there: working directory, file mask, limits.

use super::proc_file::field;
use super::{limits, observer};
use crate::schedule::threads::os_threads;
use std::collections::BTreeMap;
use std::fs;

/// The state at an instant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProcessWide {
    folder: Option<String>,
    file_mask: Option<String>,
    limits: BTreeMap<&'static str, u64>,
    /// The filters of system calls (seccomp) on the runtime's thread that has the most. The laboratory may run under some itself.
    filters: u64,
}

impl ProcessWide {
    /// Reads it. `None` if the observer did not answer.
    pub fn now() -> Option<ProcessWide> {
        let limits = limits::soft().into();
        let (folder, file_mask, filters) = observer::look(|| {
            let folder = fs::read_link("/proc/self/cwd").ok().map(|folder| folder.to_string_lossy().into_owned());
            let file_mask = field("/proc/self/status", "Umask:");
            (folder, file_mask, own_threads().into_iter().filter_map(filters).max().unwrap_or_default())
        })?;
        Some(ProcessWide { folder, file_mask, limits, filters })
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
        if self.filters > before.filters {
            changes.push("the system calls that threads may make (seccomp)".to_owned());
        }
        changes
    }
}

/// The threads of the runtime's side, also ended ones. The profiler may filter the system calls of its own threads.
fn own_threads() -> Vec<u32> {
    os_threads().map_or_else(Vec::new, |os_threads| os_threads.with_own_threads(<[u32]>::to_vec))
}

/// The number of filters of a thread. Kernels before 5.9 only say whether there are any.
fn filters(thread: u32) -> Option<u64> {
    let path = format!("/proc/self/task/{thread}/status");
    field(&path, "Seccomp_filters:").or_else(|| field(&path, "Seccomp:"))?.parse().ok()
}
