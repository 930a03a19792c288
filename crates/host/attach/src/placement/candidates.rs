//! Candidate directories, in order, and what rules each out.

use crate::process::Process;
use crate::view::{FileSystem, distinct};
use remora_symbols::TargetPath;

/// Directories from a process's environment, before and after the usual ones.
const FIRST: [&str; 1] = ["TMPDIR"];
const USUAL: [&str; 3] = ["/tmp", "/dev/shm", "/var/tmp"];
const LATER: [&str; 2] = ["XDG_RUNTIME_DIR", "HOME"];
/// File systems of mounts tried last.
const WRITABLE_KINDS: [&str; 8] = ["tmpfs", "overlay", "ext4", "ext3", "xfs", "btrfs", "zfs", "f2fs"];
/// System directories, excluded even if a mount there could hold a file.
const SYSTEM: [&str; 5] = ["/sys", "/proc", "/dev", "/boot", "/etc"];
/// Maximum mounts tried.
const MOST_MOUNTS: usize = 16;
/// Space left free for others, so that a small /tmp is not filled completely.
const SPARE_BYTES: u64 = 64 << 10;

/// The file to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A library to map executable.
    Library {
        /// Its size.
        bytes: u64,
    },
    /// A socket.
    Socket,
}

/// Permissions on a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    /// The target's user may enter it.
    pub(super) reachable: bool,
    /// The target's user may create files in it, or the caller has chosen it for the library.
    pub(super) writable: bool,
    /// No third user can replace a file in it, or the caller has chosen it.
    pub(super) kept: bool,
}

/// Decides about a directory from these facts only; the error is why it is unsuitable.
pub(super) fn verdict(access: Access, file_system: FileSystem, purpose: Purpose) -> Result<(), String> {
    let unusable = |why: &str| Err(why.to_owned());
    match purpose {
        _ if !access.reachable => unusable("the target's user may not enter it"),
        _ if file_system.read_only => unusable("read-only"),
        // The target may have chosen it: no file may appear where the target could not create one itself, such as among root's programs.
        _ if !access.writable => unusable("the target's user may not write to it"),
        Purpose::Library { .. } if !access.kept => unusable(
            "other users could replace the library in it (they can write to it and it has no sticky bit, or it is theirs)",
        ),
        Purpose::Library { .. } if file_system.no_execute => unusable("mounted noexec"),
        Purpose::Library { bytes } if file_system.free_bytes < bytes.saturating_add(SPARE_BYTES) => {
            unusable(&format!("full ({} bytes left)", file_system.free_bytes))
        }
        _ => Ok(()),
    }
}

/// Directories for the library: the chosen one, or all candidates.
pub(super) fn for_the_library(process: &Process) -> Vec<TargetPath> {
    process.library_directory.clone().map_or_else(|| directories(process), |chosen| vec![chosen])
}

/// All candidates in the target's view, best first, each once.
pub(super) fn directories(process: &Process) -> Vec<TargetPath> {
    let environment = process.proc.environment(process.pid).unwrap_or_default();
    let named = |names: &[&str]| -> Vec<TargetPath> {
        let values = names.iter().filter_map(|name| environment.iter().find(|(key, _)| *key == **name));
        values.map(|(_, value)| value.as_path()).filter(TargetPath::is_absolute).collect()
    };
    let own = process.executable.iter().chain(process.runtime().map(|runtime| &runtime.file));
    let own = own.filter_map(TargetPath::parent);
    let working = process.proc.link_in_view(process.pid, "cwd").ok();
    let mounts = process.proc.mounts(process.pid).unwrap_or_default().into_iter();
    let mounts = mounts
        .filter(|mount| !mount.no_execute && !mount.read_only && mount.kind.is_one_of(&WRITABLE_KINDS))
        .filter(|mount| !SYSTEM.iter().any(|system| mount.point.below(&(*system).into()).is_some()))
        .map(|mount| mount.point)
        .take(MOST_MOUNTS);
    let usual = USUAL.iter().map(|path| TargetPath::from(*path));
    distinct(named(&FIRST).into_iter().chain(usual).chain(named(&LATER)).chain(own).chain(working).chain(mounts))
}
