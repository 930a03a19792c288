//! The destination of a result: standard output, or a file.
//!
//! A file is written under another name beside it and then renamed, so readers see all of it or nothing.
//! Other targets (a pipe, `/dev/null`) are written directly: there is nothing to overwrite.
//! The folder is opened once, at the first check, and kept open ([`Folder`]).

use super::folder::{Folder, Unfinished};
use crate::failure::{Failure, Place};
use rustix::fs::{AtFlags, FileType, Mode, fstatvfs};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Minimum free space to start a recording, bytes.
const SPACE_NEEDED: u64 = 16 << 20;

/// The destination of a result.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// `-`.
    Stdout,
    /// A path.
    File {
        /// The path.
        path: PathBuf,
        /// Whether an existing file may be replaced.
        force: bool,
        /// The flag that names it.
        flag: Flag,
        /// The folder, once it was opened.
        folder: OnceCell<Folder>,
    },
}

/// Equal if the same arguments were given, whether opened or not.
impl PartialEq for Destination {
    fn eq(&self, other: &Destination) -> bool {
        let given = |destination: &Destination| match destination {
            Destination::Stdout => None,
            Destination::File { path, force, flag, .. } => Some((path.clone(), *force, *flag)),
        };
        given(self) == given(other)
    }
}

impl Eq for Destination {}

/// The flag that names a destination, for error messages.
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
    /// The destination of `-o`.
    pub(crate) fn of(path: &Path, force: bool) -> Destination {
        Destination::given(path, force, Flag::Output)
    }

    /// The destination of `--receipt`.
    pub(crate) fn of_receipt(path: &Path, force: bool) -> Destination {
        Destination::given(path, force, Flag::Receipt)
    }

    fn given(path: &Path, force: bool, flag: Flag) -> Destination {
        if path == Path::new("-") {
            return Destination::Stdout;
        }
        Destination::File { path: path.to_owned(), force, flag, folder: OnceCell::new() }
    }

    /// Whether this is or will be a regular file; anything else is written directly.
    pub(crate) fn is_regular(&self) -> bool {
        // If the folder cannot be opened, a regular file is assumed.
        matches!(self, Destination::File { .. }) && !matches!(self.entry(), Ok(Some(entry)) if entry.is_special())
    }

    /// Checks whether it can be written: does not exist yet, in a writable directory, on a disk with free space.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Some(entry) = self.entry()? else { return Ok(()) };
        match entry.type_of() {
            Some(FileType::Directory) => return Err(Failure::IsDirectory(entry.place())),
            _ if entry.is_special() => return entry.open_special().map(drop).map_err(|error| entry.failed(error)),
            _ if !entry.force && entry.is_there() => return Err(Failure::Exists(entry.place())),
            _ => {}
        }
        check_space(entry.place(), entry.folder)?;
        let (before, after) = entry.part();
        let probed = entry.folder.probe(&before, after);
        probed.map_err(|error| entry.failed(if keeps_no_files(entry.folder) { no_files() } else { error }))
    }

    /// Calls `write`, and moves the result to its final name if that succeeded.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let Some(entry) = self.entry()? else {
            crate::console::prints();
            return read_enough(write(&mut io::stdout().lock()))
                .map_err(|error| Failure::output(Place::StandardOutput, error));
        };
        if entry.is_special() {
            let written = entry.open_special().and_then(|mut file| write(&mut file));
            return read_enough(written).map_err(|error| entry.failed(error));
        }
        let (before, after) = entry.part();
        let created = entry.folder.create(&before, after, Mode::from_raw_mode(0o666));
        let (part, mut file) = created.map_err(|error| entry.failed(error))?;
        let written = write(&mut file).map_err(|error| entry.failed(error));
        let placed = written.and_then(|()| entry.put(&part));
        if placed.is_err() {
            // A partial file is useless. A failed removal is not the error to report.
            let _ = part.remove();
        }
        placed
    }

    /// Renames a complete file to its final name.
    pub(crate) fn put(&self, part: &Unfinished) -> Result<(), Failure> {
        self.entry()?.map_or(Ok(()), |entry| entry.put(part))
    }

    /// Creates a file beside the destination that remains if this process is killed: its name says what it is. If the destination is no
    /// regular file, the file is in the temporary directory, readable by its owner only.
    pub(super) fn begin(&self, ending: &str, mode: Mode) -> Result<(Unfinished, File), Failure> {
        let after = format!(".unfinished.{ending}");
        if let Some(entry) = self.entry()?.filter(|entry| !entry.is_special()) {
            let before = format!("{}.", entry.name.to_string_lossy());
            return entry.folder.create(&before, &after, mode).map_err(|error| entry.failed(error));
        }
        let directory = std::env::temp_dir();
        let created = Folder::open(&directory).and_then(|folder| folder.create("remora-", &after, mode & Mode::RWXU));
        created.map_err(|error| Failure::output(Place::File(directory), error))
    }

    /// The name with its folder, which is opened if necessary; `None` for standard output.
    fn entry(&self) -> Result<Option<Entry<'_>>, Failure> {
        let Destination::File { path, force, flag, folder } = self else { return Ok(None) };
        let Some(name) = path.file_name() else { return Err(Failure::IsDirectory(flag.place(path))) };
        if folder.get().is_none() {
            let directory = directory_of(path);
            let opened = Folder::open(&directory).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    Failure::NoDirectory { place: flag.place(path), directory }
                }
                _ => flag.failed(path, error),
            });
            let _ = folder.set(opened?);
        }
        Ok(folder.get().map(|folder| Entry { path, force: *force, flag: *flag, folder, name }))
    }
}

/// A name in a folder, for an existing or a new file.
struct Entry<'a> {
    path: &'a Path,
    force: bool,
    flag: Flag,
    folder: &'a Folder,
    name: &'a OsStr,
}

impl Entry<'_> {
    fn place(&self) -> Place {
        self.flag.place(self.path)
    }

    fn failed(&self, error: io::Error) -> Failure {
        self.flag.failed(self.path, error)
    }

    fn is_there(&self) -> bool {
        self.folder.type_of(self.name, AtFlags::SYMLINK_NOFOLLOW).is_some()
    }

    /// The type of the file, or of a link's target.
    fn type_of(&self) -> Option<FileType> {
        self.folder.type_of(self.name, AtFlags::empty())
    }

    fn is_special(&self) -> bool {
        self.type_of().is_some_and(|found| ![FileType::RegularFile, FileType::Directory].contains(&found))
    }

    fn open_special(&self) -> io::Result<File> {
        self.folder.find(self.name)?.open_special()
    }

    /// Prefix and suffix of the name until the file is complete.
    fn part(&self) -> (String, &'static str) {
        (format!(".{}.", self.name.to_string_lossy()), ".part")
    }

    fn put(&self, part: &Unfinished) -> Result<(), Failure> {
        part.rename(self.folder, self.name, self.force).map_err(|errno| match errno {
            Errno::EXIST if !self.force => Failure::Exists(self.place()),
            errno => self.failed(errno.into()),
        })
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

/// A closed pipe (`remora convert x.remora -o - --format folded | head`) is no failure: the reader has enough.
fn read_enough(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// The folder of a file, from its path.
pub(crate) fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn check_space(place: Place, folder: &Folder) -> Result<(), Failure> {
    // If free space is unknown, writing reports a full disk.
    let Ok(disk) = fstatvfs(folder) else {
        return Ok(());
    };
    if disk.f_blocks == 0 {
        // A file system without a size is not full: /proc and /sys, or memory without a limit.
        return Ok(());
    }
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= SPACE_NEEDED {
        return Ok(());
    }
    let why = format!("{} KiB are free, {} MiB are needed", free >> 10, SPACE_NEEDED >> 20);
    Err(Failure::DiskFull { place, why })
}

/// Whether the file system has no blocks at all, as the kernel's pseudo file systems.
fn keeps_no_files(folder: &Folder) -> bool {
    fstatvfs(folder).is_ok_and(|disk| disk.f_blocks == 0)
}

fn no_files() -> io::Error {
    io::Error::other("no files can be made there, it shows things of the system's own, as /proc does")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::OFlags;

    fn file(directory: &tempfile::TempDir, force: bool) -> Destination {
        Destination::of(&directory.path().join("out.html"), force)
    }

    #[test]
    fn a_command_that_was_ended_while_it_looked_at_its_output_left_a_file() {
        // On tmpfs, which supports files without a name.
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
        let path = directory.path().join("out.html");
        let pipe = || rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).expect("made");
        for force in [false, true] {
            pipe();
            let destination = file(&directory, force);
            let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).expect("opened");
            destination.check().expect("it is a pipe, and somebody reads it");
            let entry = destination.entry().expect("opened").expect("a file");
            let found = entry.folder.find(entry.name).expect("it is there");
            std::fs::remove_file(&path).expect("removed");
            std::fs::write(directory.path().join("precious"), "precious").expect("written");
            std::fs::hard_link(directory.path().join("precious"), &path).expect("linked");
            // Opens the file that was found.
            found.open_special().expect("the pipe").write_all(b"ours").expect("written");
            assert_eq!(rustix::io::read(&reader, &mut [0; 10]).expect("it came"), 4);
            // A file that replaced it is not opened.
            assert_eq!(entry.open_special().expect_err("a file").kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(destination.write(|out| out.write_all(b"ours")).is_ok(), force, "another file has the name");
            assert_eq!(std::fs::read(directory.path().join("precious")).expect("there"), b"precious");
            std::fs::remove_file(&path).expect("removed");
        }
    }

    #[test]
    fn a_pipe_that_is_exchanged_for_a_file_again_and_again_is_written_to_and_the_file_never() {
        let directory = tempfile::tempdir().expect("a directory");
        let [path, other] = ["out.html", "other"].map(|name| directory.path().join(name));
        std::fs::write(&other, "precious").expect("written");
        std::os::unix::fs::symlink("/dev/null", &path).expect("linked");
        let ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    let swap = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(rustix::fs::CWD, &path, rustix::fs::CWD, &other, swap).expect("swapped");
                }
            });
            for _ in 0..2000 {
                // Fails while the other file has the name.
                let _ = file(&directory, false).write(|out| out.write_all(b"ours"));
            }
            ended.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let files = [&path, &other].map(|path| path.symlink_metadata().expect("there").is_file());
        let precious = if files[0] { &path } else { &other };
        assert_eq!((files[0] != files[1], std::fs::read(precious).expect("there")), (true, b"precious".to_vec()));
        assert_eq!(names(&directory).len(), 2, "nothing is left");
    }

    #[test]
    fn a_folder_that_is_put_in_the_place_of_the_checked_one_gets_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let [folder, moved, foreign] = ["folder", "moved", "foreign"].map(|name| directory.path().join(name));
        for write in [0, 1, 2] {
            for made in [&folder, &foreign] {
                std::fs::create_dir(made).expect("made");
            }
            let destination = Destination::of(&folder.join("out.html"), false);
            destination.check().expect("it can be written");
            let swap = || {
                std::fs::rename(&folder, &moved).expect("moved");
                std::os::unix::fs::symlink(&foreign, &folder).expect("linked");
            };
            match write {
                0 => {
                    swap();
                    destination.write(|out| out.write_all(b"ours")).expect("written");
                }
                1 => {
                    let written = destination.write(|out| {
                        swap();
                        out.write_all(b"ours")
                    });
                    written.expect("written");
                }
                _ => {
                    let (part, mut out) = destination.begin("remora", Mode::RUSR).expect("begun");
                    out.write_all(b"ours").expect("written");
                    swap();
                    destination.put(&part).expect("renamed");
                }
            }
            assert_eq!(std::fs::read(moved.join("out.html")).expect("it is there"), b"ours");
            for (folder, count) in [(&foreign, 0), (&moved, 1)] {
                assert_eq!(std::fs::read_dir(folder).expect("there").count(), count, "{}", folder.display());
                std::fs::remove_dir_all(folder).expect("removed");
            }
            std::fs::remove_file(&folder).expect("removed");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_found_through_links_of_ours() {
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("out.html");
        std::os::unix::fs::symlink("/dev/null", &link).expect("linked");
        assert!(!file(&directory, false).is_regular());
        file(&directory, false).check().expect("the link is our own");
        let (_reader, writer) = io::pipe().expect("a pipe");
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        Destination::of(Path::new(&descriptor), false).check().expect("as `-o >(gzip > file)` gives it");
    }

    /// Otherwise other users could create the name first, and so block a recording.
    #[test]
    fn a_spool_had_a_name_that_could_be_guessed() {
        let directory = tempfile::tempdir().expect("a directory");
        for destination in [Destination::Stdout, file(&directory, false)] {
            let parts = [(); 2].map(|()| destination.begin("remora", Mode::from_raw_mode(0o666)).expect("begun").0);
            let paths = parts.each_ref().map(Unfinished::path);
            assert_ne!(paths[0], paths[1]);
            for (part, path) in parts.iter().zip(&paths) {
                let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().expect("there").permissions());
                assert!(destination != Destination::Stdout || mode & 0o77 == 0, "{mode:o}");
                part.remove().expect("removed");
            }
        }
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
