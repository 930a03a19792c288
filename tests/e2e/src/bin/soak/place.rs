//! File systems for the soak alone: they have no other process's files, can be filled, and vanish with the mount namespace.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders where Remora puts files for a target, or locks. Each must be empty at the beginning and at the end.
pub const SHARED: [&str; 4] = ["/tmp", "/dev/shm", "/var/tmp", "/run"];
/// Size of the disk for outputs, MiB.
const DISK: u32 = 24;
/// Size of the folder for a lane's temporary files, MiB.
const PLACE: u32 = 4;
/// The file that fills a disk.
const FILLER: &str = "filler";

/// Mounts an empty file system over each of [`SHARED`].
///
/// # Errors
/// This process has no mount namespace of its own, or may not mount.
pub fn take_the_shared_folders() -> Result<(), String> {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt"));
    let (own, parent) = (namespace("self"), namespace(&std::os::unix::process::parent_id().to_string()));
    if !matches!((&own, &parent), (Ok(own), Ok(parent)) if own != parent) {
        return Err("it mounts over /tmp and needs a mount namespace of its own: run `cargo xtask soak` as root".into());
    }
    SHARED.iter().try_for_each(|folder| mount(Path::new(folder), 4096))
}

/// The file systems of one lane.
pub struct Place {
    /// A small disk for the commands' output.
    pub disk: PathBuf,
    /// The same, with enough space.
    pub roomy: PathBuf,
    /// For the temporary files of targets.
    pub temporary: PathBuf,
}

impl Place {
    /// Mounts them.
    ///
    /// # Errors
    /// They cannot be mounted.
    pub fn of_lane(lane: usize) -> Result<Place, String> {
        let root = PathBuf::from(format!("/tmp/soak-{lane}"));
        let place = Place { disk: root.join("disk"), roomy: root.join("roomy"), temporary: root.join("temporary") };
        make(&place.roomy)?;
        for (folder, size) in [(&place.disk, DISK), (&place.temporary, PLACE)] {
            make(folder)?;
            mount(folder, size)?;
        }
        Ok(place)
    }
}

/// Creates a folder.
///
/// # Errors
/// The system's.
pub fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

/// Fills a file system up to `but` KiB.
///
/// # Panics
/// The file system cannot be queried.
pub fn fill(folder: &Path, but: u64) {
    let facts = rustix::fs::statvfs(folder).unwrap_or_else(|error| panic!("cannot ask {}: {error}", folder.display()));
    let mut rest = (facts.f_bavail * facts.f_frsize).saturating_sub(but * 1024);
    let piece = vec![0; 64 * 1024];
    let Ok(mut file) = fs::File::options().create(true).append(true).open(folder.join(FILLER)) else { return };
    while rest > 0 {
        let length = rest.min(piece.len() as u64);
        // Others write concurrently: if a write fails, the disk is full enough.
        if file.write_all(&piece[..length as usize]).is_err() {
            return;
        }
        rest -= length;
    }
}

/// Removes the file of [`fill`].
pub fn empty(folder: &Path) {
    // It may not exist.
    let _ = fs::remove_file(folder.join(FILLER));
}

/// The names in a folder; none if it does not exist.
pub fn names(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

fn mount(folder: &Path, mebibytes: u32) -> Result<(), String> {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=1777"), "soak"]).arg(folder);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cannot mount a file system at {}: {status}", folder.display())),
        Err(error) => Err(format!("cannot start mount: {error}")),
    }
}
