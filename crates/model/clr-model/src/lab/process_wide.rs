//! What belongs to the whole process, and what a profiler has changed there: working directory, file mask, limits.

use super::{limits, observer};
use std::collections::BTreeMap;
use std::fs;

/// The state at an instant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProcessWide {
    folder: Option<String>,
    file_mask: Option<String>,
    limits: BTreeMap<&'static str, u64>,
    /// Threads whose system calls are filtered.
    filtered: usize,
}

impl ProcessWide {
    /// Reads it.
    pub fn now() -> ProcessWide {
        let limits = limits::soft().into();
        let (folder, file_mask, filtered) = observer::look(|| {
            let folder = fs::read_link("/proc/self/cwd").ok().map(|folder| folder.to_string_lossy().into_owned());
            let file_mask = field("/proc/self/status", "Umask:");
            let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
            let is_filtered = |task: &fs::DirEntry| {
                let path = task.path().join("status");
                field(&path.to_string_lossy(), "Seccomp:").is_some_and(|mode| mode != "0")
            };
            (folder, file_mask, tasks.filter(is_filtered).count())
        });
        ProcessWide { folder, file_mask, limits, filtered }
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
        if self.filtered > before.filtered {
            changes.push("the system calls that threads may make (seccomp)".to_owned());
        }
        changes
    }
}

/// A field of a status file.
fn field(path: &str, name: &str) -> Option<String> {
    let status = fs::read_to_string(path).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}
