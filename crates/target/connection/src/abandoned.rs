//! Files that a dead recorder left for a process that it started.

use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions, remove_file};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Removes this library's file and the socket if their recorder is dead: it locks the library's file as long as it lives. Errors leave the
/// files to the next recorder, which looks for such files, too.
pub fn remove_abandoned(socket: &str) {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: only compares the address with the linker's list; `info` is a live local.
    let is_found = unsafe { libc::dladdr(remove_abandoned as *const libc::c_void, &raw mut info) } != 0;
    if !is_found || info.dli_fname.is_null() {
        return;
    }
    // SAFETY: the linker's own text, which lives as long as this library is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    remove_unlocked(Path::new(OsStr::from_bytes(name.to_bytes())), Path::new(socket));
}

fn remove_unlocked(library: &Path, socket: &Path) {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(library) else { return };
    if !file.metadata().is_ok_and(|found| found.is_file()) || is_locked(&file) {
        return;
    }
    // A failure is no reason to do less.
    let _ = remove_file(library);
    let _ = remove_file(socket);
}

fn is_locked(file: &File) -> bool {
    // SAFETY: a live descriptor. Closing the file unlocks it.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_dead_recorder_are_removed() {
        let folder = std::env::temp_dir().join(format!("remora-abandoned-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let [library, socket] = ["library", "socket"].map(|name| folder.join(name));
        for file in [&library, &socket] {
            std::fs::write(file, "x").expect("written");
        }
        let recorder = File::open(&library).expect("opened");
        assert!(!is_locked(&recorder), "now it is");
        remove_unlocked(&library, &socket);
        assert!(library.exists() && socket.exists(), "the recorder lives");
        drop(recorder);
        remove_unlocked(&library, &socket);
        assert!(!library.exists() && !socket.exists());
        std::fs::remove_dir(&folder).expect("it is empty");
    }
}
