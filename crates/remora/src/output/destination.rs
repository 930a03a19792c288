//! The destination of a result: standard output, or a file.
//!
//! A file is written under another name beside it and then renamed, so readers see all of it or nothing.
//! Other targets (a pipe, `/dev/null`) are written directly: there is nothing to overwrite.
//! The folder is opened once, at the first check, and kept open ([`Folder`]).

use super::folder::{DIGITS, Folder, UNFINISHED, Unfinished, free_space};
use crate::failure::{Failure, Place};
use remora_terminal::Escaped;
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, fstatvfs};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Minimum free space to start a recording, bytes.
const SPACE_NEEDED: u64 = 16 << 20;

/// The mode of a file that the umask decides about.
pub(crate) const FOR_ALL: Mode = Mode::from_raw_mode(0o666);

/// Space allocated for a result, bytes.
const RESERVE: u64 = 4 << 20;

/// Allocated space on a disk, free again when dropped.
#[derive(Debug)]
pub(crate) struct Reserve(#[expect(dead_code, reason = "the open file is the space")] File);

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

    /// Checks that the receipt does not go where this result does, however that is called: one would replace the other.
    pub(crate) fn check_apart(&self, receipt: Option<&Destination>, what: &str) -> Result<(), Failure> {
        let is_same = receipt.is_some_and(|receipt| match (self.entry(), receipt.entry()) {
            (Ok(Some(one)), Ok(Some(other))) => one.name == other.name && one.folder.is_same_as(other.folder),
            (Ok(None), Ok(None)) => true,
            // What cannot be opened is reported when it is checked.
            _ => false,
        });
        let advice = "and the receipt cannot be written to the same file; give --receipt another name";
        if is_same { Err(Failure::Usage(format!("{what} {advice}"))) } else { Ok(()) }
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
            // The result would take the place of the link: of `/dev/stdout`, for everybody.
            Some(_) if entry.folder.is_descriptor(entry.name) => {
                let why = "is a file that the shell has opened; give `-o -` and redirect standard output";
                return Err(Failure::Usage(format!("{} {why}", entry.path.display())));
            }
            None if entry.is_too_long() => return Err(entry.failed(Errno::NAMETOOLONG.into())),
            _ if !entry.force && entry.is_there() => return Err(Failure::Exists(entry.place())),
            _ => {}
        }
        check_space(entry.place(), entry.folder)?;
        let (before, after) = entry.part();
        let probed = entry.folder.probe(&before, after);
        probed.map_err(|error| entry.failed(if keeps_no_files(entry.folder) { no_files() } else { error }))
    }

    /// Allocates space for a result that is written only at the end. It is a file without a name: a killed command leaves nothing. `None`
    /// where the file system has no such files, or cannot allocate.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn reserve(&self) -> Result<Option<Reserve>, Failure> {
        let Some(entry) = self.entry()?.filter(|entry| !entry.is_special()) else { return Ok(None) };
        let Some(file) = entry.folder.unnamed(Mode::RUSR).map_err(|error| entry.failed(error))? else {
            return Ok(None);
        };
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, RESERVE) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(entry.failed(errno.into())),
            allocated => Ok(allocated.is_ok().then_some(Reserve(file))),
        }
    }

    /// Calls `write`, and moves the result to its final name if that succeeded.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        self.write_as(FOR_ALL, write)
    }

    /// The same; a new file has this mode.
    pub(crate) fn write_as(
        &self,
        mode: Mode,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let Some(entry) = self.entry()? else {
            crate::console::prints();
            let out = io::stdout();
            return to_stream(out.is_terminal(), out.lock(), write)
                .map_err(|error| Failure::output(Place::StandardOutput, error));
        };
        if entry.is_special() {
            let file = entry.open_special()?;
            return to_stream(file.is_terminal(), &*file, write).map_err(|error| entry.failed(error));
        }
        let (before, after) = entry.part();
        let written = entry.folder.create_whole(&before, after, mode, write);
        let part = written.map_err(|error| entry.failed(error))?;
        // A part is useless. A failed removal is not the error to report.
        entry.put(&part).inspect_err(|_| drop(part.remove()))
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

/// Writes to what is no regular file. A terminal gets control characters escaped, under whatever name it was opened. A closed pipe
/// (`remora convert x.remora -o - --format folded | head`) is no failure: the reader has enough.
fn to_stream(
    is_terminal: bool,
    mut out: impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let written = if is_terminal {
        let mut escaped = Escaped::new(out);
        write(&mut escaped).and_then(|()| escaped.flush())
    } else {
        write(&mut out)
    };
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
    // If free space is unknown, writing reports a full disk. A file system without a size is not full.
    let Some(free) = free_space(folder).filter(|free| *free < SPACE_NEEDED) else { return Ok(()) };
    let why = format!("{:.1} MiB are free, {} MiB are needed", free as f64 / f64::from(1 << 20), SPACE_NEEDED >> 20);
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
mod tests;
