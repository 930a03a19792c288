//! What an interrupted recording left in a process, told by names alone: there is no snapshot before, and nobody to ask.

use crate::judge::{could_not_be_read, named, paths_of_ours};
use crate::left::{THREAD_PREFIX, is_ours, stays_on_purpose};
use crate::{Error, Kind, Left, Snapshot};
use std::path::Path;

/// What of Remora is in process `process_id`: mapped libraries and shared memory, descriptors, threads, forked children.
/// What cannot be read is listed as such; a process that has ended has nothing left.
pub fn find_left_overs(proc_root: &Path, process_id: u32) -> Vec<Left> {
    let snapshot = match Snapshot::take(proc_root, process_id) {
        Ok(snapshot) => snapshot,
        Err(Error::Gone { .. }) => return Vec::new(),
        Err(error) => return vec![Left::new(Kind::Mapping, format!("process {process_id}"), error.to_string())],
    };
    let why = "a recording left it";
    let mut left: Vec<Left> = snapshot.unread.iter().map(|unread| could_not_be_read(unread, "now")).collect();
    let ours = paths_of_ours(&snapshot).into_iter().filter(|(path, _)| !stays_on_purpose(path));
    left.extend(ours.map(|(path, _)| Left::new(Kind::Mapping, path, why)));
    for thread in &snapshot.threads {
        // An application may itself be called so; then its threads inherit the name of the process.
        if thread.name.starts_with(THREAD_PREFIX) && thread.name != snapshot.name {
            left.push(Left::new(Kind::Thread, named(thread), why));
        }
    }
    for descriptor in snapshot.descriptors.iter().filter(|descriptor| is_ours(&descriptor.target)) {
        let what = format!("descriptor {}: {}", descriptor.number, descriptor.target);
        left.push(Left::new(Kind::Descriptor, what, why));
    }
    for child in &snapshot.children {
        if let Some(library) = &child.library {
            let what = format!("process {} \"{}\"", child.id, child.name);
            left.push(Left::new(Kind::Child, what, format!("a forked copy with {library} in it")));
        }
    }
    left
}
