//! A place for a result: standard output, or a file.
//!
//! A file is written under another name beside it and then renamed, so that readers see all of it or none.
//! What is not a regular file (a pipe, `/dev/null`) is written directly: there is nothing to overwrite.

use crate::failure::{Failure, Place};
use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Free space below which a recording is not begun, bytes.
const SPACE_NEEDED: u64 = 16 << 20;

/// Where a result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// `-`.
    Stdout,
    /// A path.
    File {
        /// Which.
        path: PathBuf,
        /// Whether a file that is there may be replaced.
        force: bool,
        /// Which flag names it.
        flag: Flag,
    },
}

/// By which flag a place is given: advice speaks of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    /// `-o`.
    Output,
    /// `--receipt`.
    Receipt,
}

impl Flag {
    fn place(self, path: &Path) -> Place {
        match self {
            Flag::Output => Place::File(path.to_owned()),
            Flag::Receipt => Place::Receipt(path.to_owned()),
        }
    }

    fn failed(self, path: &Path, error: io::Error) -> Failure {
        Failure::output(self.place(path), error)
    }
}

impl Destination {
    /// What `-o` means.
    pub(crate) fn of(path: &Path, force: bool) -> Destination {
        Destination::given(path, force, Flag::Output)
    }

    /// What `--receipt` means.
    pub(crate) fn of_receipt(path: &Path, force: bool) -> Destination {
        Destination::given(path, force, Flag::Receipt)
    }

    fn given(path: &Path, force: bool, flag: Flag) -> Destination {
        if path == Path::new("-") {
            return Destination::Stdout;
        }
        Destination::File { path: path.to_owned(), force, flag }
    }

    /// The file, if it is or will be a regular one, and whether it may be replaced; `None` for what is written directly.
    pub(crate) fn regular(&self) -> Option<(&Path, bool)> {
        match self {
            Destination::File { path, force, .. } if !is_special(path) => Some((path, *force)),
            _ => None,
        }
    }

    /// Whether it can be written: not there already, in a directory that can be written to, on a disk with room.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Destination::File { path, force, flag } = self else {
            return Ok(());
        };
        if path.is_dir() {
            return Err(Failure::IsDirectory(flag.place(path)));
        }
        if is_special(path) {
            return open_special(path).map(|_| ()).map_err(|error| flag.failed(path, error));
        }
        if !force && path.symlink_metadata().is_ok() {
            return Err(Failure::Exists(flag.place(path)));
        }
        let directory = directory_of(path);
        if !directory.is_dir() {
            return Err(Failure::NoDirectory { place: flag.place(path), directory });
        }
        check_space(flag.place(path), &directory)?;
        let probed = probe(&directory, &beside(path));
        probed.map_err(|error| flag.failed(path, if keeps_no_files(&directory) { no_files() } else { error }))
    }

    /// Lets `write` write, and puts the result in place if that went well.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        match self {
            Destination::Stdout => {
                crate::console::prints();
                read_enough(write(&mut io::stdout().lock()))
                    .map_err(|error| Failure::output(Place::StandardOutput, error))
            }
            Destination::File { path, flag, .. } if is_special(path) => {
                let written = open_special(path).and_then(|mut file| write(&mut file));
                read_enough(written).map_err(|error| flag.failed(path, error))
            }
            Destination::File { path, force, flag } => {
                let part = beside(path);
                let written = new_file(&part).and_then(|mut file| write(&mut file));
                let placed =
                    written.map_err(|error| flag.failed(path, error)).and_then(|()| put(&part, path, *force, *flag));
                if placed.is_err() {
                    // What is half written helps nobody; that it cannot be removed is not the failure to tell.
                    let _ = std::fs::remove_file(&part);
                }
                placed
            }
        }
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Destination::Stdout => f.write_str("standard output"),
            Destination::File { path, .. } => path.display().fmt(f),
        }
    }
}

/// A reader that has gone away (`remora convert x.remora -o - --format folded | head`) is no failure: it has seen enough.
fn read_enough(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Gives the file `part` the name `path`.
pub(crate) fn place(part: &Path, path: &Path, force: bool) -> Result<(), Failure> {
    put(part, path, force, Flag::Output)
}

fn put(part: &Path, path: &Path, force: bool, flag: Flag) -> Result<(), Failure> {
    use rustix::fs;
    if force {
        return std::fs::rename(part, path).map_err(|error| flag.failed(path, error));
    }
    match fs::renameat_with(fs::CWD, part, fs::CWD, path, fs::RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(Failure::Exists(flag.place(path))),
        // The file system has no such rename; what is there now was not there at the check.
        Err(Errno::INVAL | Errno::NOSYS) if path.symlink_metadata().is_ok() => Err(Failure::Exists(flag.place(path))),
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(part, path).map_err(|error| flag.failed(path, error)),
        Err(errno) => Err(flag.failed(path, errno.into())),
    }
}

/// Creates a file that is not there yet.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Makes a file in the directory and takes it away. It has no name where the file system can do that: a command that is ended meanwhile
/// leaves nothing.
fn probe(directory: &Path, name: &Path) -> io::Result<()> {
    match rustix::fs::open(directory, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR) {
        // Each is how an older kernel or file system says that it cannot.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => new_file(name).and_then(|_| std::fs::remove_file(name)),
        made => made.map(drop).map_err(io::Error::from),
    }
}

/// The name under which `path` is written until it is whole.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    directory_of(path).join(format!(".{name}.{}.part", std::process::id()))
}

pub(crate) fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Opens what is no regular file, for writing. The check and the opening use one descriptor, since another user may
/// replace the file meanwhile. The last link is followed only if it is our own or root's.
fn open_special(path: &Path) -> io::Result<File> {
    let look = OFlags::PATH | OFlags::CLOEXEC;
    let mut found = rustix::fs::open(path, look | OFlags::NOFOLLOW, Mode::empty())?;
    let facts = rustix::fs::fstat(&found)?;
    if FileType::from_raw_mode(facts.st_mode) == FileType::Symlink {
        if ![0, rustix::process::geteuid().as_raw()].contains(&facts.st_uid) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a link of another user"));
        }
        // The text of a descriptor's link (`/dev/fd/63`) is no path. Nobody can swap it.
        let is_descriptor = rustix::fs::fstatfs(&found)?.f_type == PROC_SUPER_MAGIC;
        let to = match is_descriptor {
            true => path.to_owned(),
            false => {
                let to = rustix::fs::readlinkat(&found, "", Vec::new())?;
                directory_of(path).join(OsStr::from_bytes(to.as_bytes()))
            }
        };
        found = rustix::fs::open(to, look, Mode::empty())?;
    }
    if FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) == FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another file was put in its place"));
    }
    OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

fn check_space(place: Place, directory: &Path) -> Result<(), Failure> {
    // Where free space cannot be told, writing will tell.
    let Ok(disk) = rustix::fs::statvfs(directory) else {
        return Ok(());
    };
    if disk.f_blocks == 0 {
        // One without a size is not full: /proc and /sys, or memory without a limit.
        return Ok(());
    }
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= SPACE_NEEDED {
        return Ok(());
    }
    let why = format!("{} KiB are free, {} MiB are needed", free >> 10, SPACE_NEEDED >> 20);
    Err(Failure::DiskFull { place, why })
}

/// Whether the file system there has no room at all, as those have that show the kernel's own things.
fn keeps_no_files(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|disk| disk.f_blocks == 0)
}

fn no_files() -> io::Error {
    io::Error::other("no files can be made there, it shows things of the system's own, as /proc does")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(directory: &tempfile::TempDir, force: bool) -> Destination {
        Destination::of(&directory.path().join("out.html"), force)
    }

    #[test]
    fn a_command_that_was_ended_while_it_looked_at_its_output_left_a_file() {
        // Of memory: such a file system knows files without a name.
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let time = std::time::UNIX_EPOCH;
        let opened = File::open(directory.path()).expect("it can be opened");
        opened.set_times(std::fs::FileTimes::new().set_modified(time)).expect("set");
        file(&directory, false).check().expect("it can be written");
        let changed = directory.path().metadata().and_then(|facts| facts.modified()).expect("it can be asked");
        assert_eq!(changed, time, "a name came and went");
    }

    fn names(directory: &tempfile::TempDir) -> Vec<String> {
        let entries = std::fs::read_dir(directory.path()).expect("it can be read");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_is_put_in_the_place_of_a_pipe_is_not_written_to() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, link, foreign) =
            (directory.path().join("f"), directory.path().join("l"), directory.path().join("x"));
        std::fs::write(&file, "precious").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        for path in [&file, &link] {
            let error = open_special(path).expect_err("it is a regular file");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        std::os::unix::fs::symlink("/dev/null", &foreign).expect("linked");
        assert!(open_special(&foreign).is_ok(), "the link is our own");
        let (_reader, writer) = io::pipe().expect("a pipe");
        let descriptor = format!("/proc/self/fd/{}", writer.as_raw_fd());
        assert!(open_special(Path::new(&descriptor)).is_ok(), "as `-o >(gzip > file)` gives it");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&foreign, Some(65_534), None).expect("given away");
            let error = open_special(&foreign).expect_err("the link is another user's");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!(std::fs::read(&file).expect("there"), b"precious");
    }

    #[test]
    fn what_exists_is_refused_before_anything_is_asked_of_a_target() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(file(&directory, false).check().is_ok());
        assert!(names(&directory).is_empty(), "a check leaves nothing");
        std::fs::write(directory.path().join("out.html"), "precious").expect("written");
        assert!(matches!(file(&directory, false).check(), Err(Failure::Exists(_))));
        assert!(file(&directory, true).check().is_ok());
    }

    #[test]
    fn advice_speaks_of_the_flag_that_named_the_place() {
        let directory = tempfile::tempdir().expect("a directory");
        let there = directory.path().join("there.json");
        std::fs::write(&there, "precious").expect("written");
        let nowhere = directory.path().join("no/receipt.json");
        for path in [there.as_path(), directory.path(), &nowhere, Path::new("/proc/x.json")] {
            for (destination, flag) in
                [(Destination::of(path, false), " -o "), (Destination::of_receipt(path, false), " --receipt ")]
            {
                let told = destination.check().expect_err("it cannot be written").line();
                assert!(told.contains(&format!("give{flag}")), "{told}");
            }
        }
        let written = Destination::of_receipt(&directory.path().join("new.json"), false).write(|out| {
            std::fs::write(directory.path().join("new.json"), "somebody else's")?;
            out.write_all(b"ours")
        });
        assert!(written.expect_err("it is there by now").line().contains("give --receipt another name"));
    }

    #[test]
    fn a_file_system_that_keeps_no_files_is_not_called_full() {
        for place in ["/proc/x.html", "/sys/x.html"] {
            let refused = Destination::of(Path::new(place), false).check().expect_err("nothing can be made there");
            let text = refused.to_string();
            assert!(matches!(refused, Failure::Output { .. }), "{text}");
            assert!(text.contains("no files can be made there") && !text.contains("full"), "{text}");
        }
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_and_takes_nothing_away() {
        let directory = tempfile::tempdir().expect("a directory");
        let broken = |out: &mut dyn Write| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert!(matches!(file(&directory, false).write(broken), Err(Failure::DiskFull { .. })));
        assert!(names(&directory).is_empty());
        std::fs::write(directory.path().join("out.html"), "precious").expect("written");
        assert!(matches!(file(&directory, true).write(broken), Err(Failure::DiskFull { .. })));
        assert_eq!(std::fs::read(directory.path().join("out.html")).expect("it is there"), b"precious");
        assert_eq!(names(&directory), ["out.html"]);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("out.html");
        let written = file(&directory, false).write(|out| {
            std::fs::write(&path, "somebody else's")?;
            out.write_all(b"ours")
        });
        assert!(matches!(written, Err(Failure::Exists(_))));
        assert_eq!(std::fs::read(&path).expect("it is there"), b"somebody else's");
        assert_eq!(names(&directory), ["out.html"]);
    }
}
