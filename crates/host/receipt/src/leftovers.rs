//! Finds what an interrupted recording left in a process. Only names identify it: there is no baseline, and there are no facts.

use crate::comparison::{could_not_be_read, has_no_file, is_agents, is_library, named, paths_of_ours};
use crate::left::{is_ours, stays_on_musl, stays_on_purpose};
use crate::{Error, Kind, Left, Snapshot, Thread};
use std::path::Path;

/// For a library without threads.
const INERT: &str =
    "a recording left it: no thread of it runs, it does nothing, and only the end of the process takes it away";

/// The libraries in process `process_id` that stay on purpose: inert, to correct the runtime's count after a main profiler. Nothing can
/// remove them. [`find_left_overs`] reports all others, and a failure to read.
pub fn find_what_stays(proc_root: &Path, process_id: u32) -> Vec<String> {
    let snapshot = Snapshot::take(proc_root, process_id).unwrap_or_default();
    let stays = |path: &String| stays_on_purpose(path) && is_library(path);
    paths_of_ours(&snapshot).into_iter().map(|(path, _)| path).filter(stays).collect()
}

/// The libraries in process `process_id` that have detached, and that musl keeps mapped.
pub fn find_what_musl_keeps(proc_root: &Path, process_id: u32) -> Vec<String> {
    let snapshot = Snapshot::take(proc_root, process_id).unwrap_or_default();
    let agents_run = snapshot.threads.iter().any(|thread| is_agents(thread, &snapshot));
    let kept = |path: &String| stays_on_musl(path) && !agents_run;
    paths_of_ours(&snapshot).into_iter().map(|(path, _)| path).filter(kept).collect()
}

impl Left {
    /// Whether it is an inert library in memory. It may stay on purpose, since such a library keeps its first name. Or the runtime is about
    /// to unmap it: then it disappears a moment later.
    pub fn may_stay_on_purpose(&self) -> bool {
        self.kind == Kind::Mapping && self.why == INERT && has_no_file(&self.what)
    }
}

/// Everything else of Remora in process `process_id`: mapped libraries and shared memory, descriptors, threads, forked children. Unreadable
/// parts are listed as such; a process that has ended has no leftovers.
pub fn find_left_overs(proc_root: &Path, process_id: u32) -> Vec<Left> {
    let snapshot = match Snapshot::take(proc_root, process_id) {
        Ok(snapshot) => snapshot,
        Err(Error::Gone { .. }) => return Vec::new(),
        Err(error) => return vec![Left::new(Kind::Mapping, format!("process {process_id}"), error.to_string())],
    };
    let why = "a recording left it";
    let agents: Vec<&Thread> = snapshot.threads.iter().filter(|thread| is_agents(thread, &snapshot)).collect();
    let is_inert = agents.is_empty() && snapshot.unread.is_empty();
    let mut left: Vec<Left> = snapshot.unread.iter().map(|unread| could_not_be_read(unread, "now")).collect();
    let ours = paths_of_ours(&snapshot)
        .into_iter()
        .filter(|(path, _)| !stays_on_purpose(path) && (!stays_on_musl(path) || !agents.is_empty()));
    left.extend(ours.map(|(path, _)| {
        let why = if is_inert && is_library(&path) { INERT } else { why };
        Left::new(Kind::Mapping, path, why)
    }));
    left.extend(agents.into_iter().map(|thread| Left::new(Kind::Thread, named(thread), why)));
    for descriptor in snapshot.descriptors.named.iter().filter(|descriptor| is_ours(&descriptor.target)) {
        let what = format!("descriptor {}: {}", descriptor.number, descriptor.target);
        left.push(Left::new(Kind::Descriptor, what, why));
    }
    for child in snapshot.family() {
        if let Some(library) = &child.library {
            let what = format!("process {} \"{}\"", child.id, child.name);
            left.push(Left::new(Kind::Child, what, format!("a forked copy with {library} in it")));
        }
    }
    left
}
