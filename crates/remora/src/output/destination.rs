//! The destination of a result: standard output, or a file.
//!
//! A file is written under another name beside it and then renamed, so readers see all of it or nothing.
//! Other targets (a pipe, `/dev/null`) are written directly: there is nothing to overwrite.
//! The folder is opened once, at the first check, and kept open ([`Folder`]).

use super::folder::{DIGITS, Folder, UNFINISHED, Unfinished};
use crate::failure::{Failure, Place};
use rustix::fs::{AtFlags, FileType, Mode, fstatvfs};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
        /// What is no regular file, once it was checked: the reader of a pipe would take its end for the end of the result.
        special: OnceCell<Arc<File>>,
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
        Destination::File { path: path.to_owned(), force, flag, folder: OnceCell::new(), special: OnceCell::new() }
    }

    /// Whether this is or will be a regular file; anything else is written directly.
    pub(crate) fn is_regular(&self) -> bool {
        // If the folder cannot be opened, a regular file is assumed.
        matches!(self, Destination::File { .. }) && !matches!(self.entry(), Ok(Some(entry)) if entry.is_special())
    }

    /// Where what was written is, for messages; `None` for standard output.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let Destination::File { path, .. } = self else { return None };
        match self.entry() {
            Ok(Some(entry)) if !entry.is_special() => Some(entry.folder.path_of(entry.name, path.clone())),
            _ => Some(path.clone()),
        }
    }

    /// Whether it can be written: not there already, in a directory that can be written to, on a disk with room.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Some(entry) = self.entry()? else { return Ok(()) };
        match entry.type_of() {
            Some(FileType::Directory) => return Err(Failure::IsDirectory(entry.place())),
            _ if entry.is_special() => return entry.open_special().map(drop),
            None if entry.is_too_long() => return Err(entry.failed(Errno::NAMETOOLONG.into())),
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
            let file = entry.open_special()?;
            return read_enough(write(&mut &*file)).map_err(|error| entry.failed(error));
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
        let after = format!("{UNFINISHED}{ending}");
        if let Some(entry) = self.entry()?.filter(|entry| !entry.is_special()) {
            let before = format!("{}.", entry.stem(".".len() + after.len()));
            return entry.folder.create(&before, &after, mode).map_err(|error| entry.failed(error));
        }
        let directory = std::env::temp_dir();
        let created = Folder::open(&directory).and_then(|folder| folder.create("remora-", &after, mode & Mode::RWXU));
        created.map_err(|error| Failure::output(Place::Temporary(directory), error))
    }

    /// The name with its folder, which is opened if necessary; `None` for standard output.
    fn entry(&self) -> Result<Option<Entry<'_>>, Failure> {
        let Destination::File { path, force, flag, folder, special } = self else { return Ok(None) };
        // Components leave a slash at the end out, and a dot behind it.
        let is_a_folders = [&b"/"[..], b"/."].iter().any(|end| path.as_os_str().as_encoded_bytes().ends_with(end));
        let Some(name) = path.file_name().filter(|_| !is_a_folders) else {
            return Err(Failure::IsDirectory(flag.place(path)));
        };
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
        Ok(folder.get().map(|folder| Entry { path, force: *force, flag: *flag, folder, special, name }))
    }
}

/// A name in a folder, for an existing or a new file.
struct Entry<'a> {
    path: &'a Path,
    force: bool,
    flag: Flag,
    folder: &'a Folder,
    special: &'a OnceCell<Arc<File>>,
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
        self.special.get().is_some()
            || self.type_of().is_some_and(|found| ![FileType::RegularFile, FileType::Directory].contains(&found))
    }

    /// Opens what is no regular file, once: for the check and for the result.
    fn open_special(&self) -> Result<Arc<File>, Failure> {
        if let Some(opened) = self.special.get() {
            return Ok(Arc::clone(opened));
        }
        let opened = self.folder.find(self.name).and_then(|found| found.open_special()).map_err(|error| {
            match (self.type_of(), Errno::from_io_error(&error)) {
                (Some(FileType::Fifo), Some(Errno::NXIO)) => Failure::NoReader(self.place()),
                _ => self.failed(error),
            }
        })?;
        Ok(Arc::clone(self.special.get_or_init(|| Arc::new(opened))))
    }

    fn is_too_long(&self) -> bool {
        self.name.len() > self.folder.longest_name()
    }

    /// The name, shortened so that random digits and this many bytes fit beside it.
    fn stem(&self, beside: usize) -> String {
        let mut stem = self.name.to_string_lossy().into_owned();
        let room = self.folder.longest_name().saturating_sub(DIGITS + beside);
        while stem.len() > room {
            stem.pop();
        }
        stem
    }

    /// Prefix and suffix of the name until the file is complete.
    fn part(&self) -> (String, &'static str) {
        let after = ".part";
        (format!(".{}.", self.stem("..".len() + after.len())), after)
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
            // And who finds the other one does not open it.
            let other = file(&directory, force);
            let other = other.entry().expect("opened").expect("a file");
            let refused = other.folder.find(other.name).expect("there").open_special().expect_err("a file");
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
            destination.write(|out| out.write_all(b"ours")).expect("the pipe was opened at the check");
            assert_eq!(rustix::io::read(&reader, &mut [0; 10]).expect("it came"), 4);
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
            assert_eq!(destination.path(), Some(moved.join("out.html")), "whoever looks for it finds it");
            for (folder, count) in [(&foreign, 0), (&moved, 1)] {
                assert_eq!(std::fs::read_dir(folder).expect("there").count(), count, "{}", folder.display());
                std::fs::remove_dir_all(folder).expect("removed");
            }
            std::fs::remove_file(&folder).expect("removed");
        }
    }

    #[test]
    fn regression_the_reader_of_a_pipe_took_the_end_of_the_check_for_the_end_of_the_result() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("out.html");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).expect("made");
        let destination = file(&directory, false);
        assert!(matches!(destination.check(), Err(Failure::NoReader(_))), "it is not waited for");
        let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).expect("opened");
        destination.check().expect("somebody reads it");
        // A command keeps a copy of what it checked.
        let destination = destination.clone();
        assert_eq!(rustix::io::read(&reader, &mut [0; 10]), Err(Errno::AGAIN), "more may come");
        destination.write(|out| out.write_all(b"ours")).expect("written");
        assert_eq!(rustix::io::read(&reader, &mut [0; 10]), Ok(4));
    }

    #[test]
    fn regression_a_long_name_was_refused_since_that_of_the_unfinished_file_was_too_long() {
        let directory = tempfile::tempdir().expect("a directory");
        for stem in ["a".repeat(250), "\u{f6}".repeat(125)] {
            let name = format!("{stem}.html");
            let destination = Destination::of(&directory.path().join(&name), true);
            destination.check().expect("the name is just not too long");
            let (part, _) = destination.begin("remora-heap", Mode::RUSR).expect("begun");
            assert!(part.path().to_string_lossy().ends_with(".unfinished.remora-heap"));
            destination.put(&part).expect("renamed");
            destination.write(|out| out.write_all(b"ours")).expect("written");
            assert!(names(&directory).contains(&name));
            let destination = Destination::of(&directory.path().join(stem + ".folded"), true);
            assert!(
                matches!(destination.check(), Err(Failure::Output { .. })),
                "too long, which is not found at the end only"
            );
        }
    }

    const NO_TEMPORARY: &str = "/dev/null/none";
    const THIS: &str = "output::destination::tests::regression_an_error_of_the_temporary_directory_did_not_name_tmpdir";

    /// Runs itself again with a TMPDIR that is none.
    #[test]
    fn regression_an_error_of_the_temporary_directory_did_not_name_tmpdir() {
        if std::env::temp_dir() == Path::new(NO_TEMPORARY) {
            let failure = Destination::Stdout.begin("remora", Mode::RUSR).expect_err("there is no such directory");
            let expected = "the directory for temporary files, /dev/null/none (TMPDIR), cannot be written: \
                            Not a directory (os error 20); check its permissions, or set TMPDIR to another place";
            return assert_eq!(failure.line(), expected);
        }
        let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
        let ran = command.args(["--exact", THIS]).env("TMPDIR", NO_TEMPORARY).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
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
