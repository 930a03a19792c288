//! The folder of a result, opened once: all later access uses its descriptor, wherever the path leads by then.
//!
//! A command that runs as root may get a path through other users' directories. Each component is opened separately. A link is followed
//! only if it belongs to root or to us: another user's link would redirect root's output.
//! This is stricter than the kernel's `protected_symlinks`, which applies to sticky directories only.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Links followed in one path, the same limit as the kernel's.
const MOST_LINKS: usize = 40;

/// Attempts to name a new file. Names are random: one that exists already is no accident.
const MOST_NAMES: usize = 8;

/// Longest name of a file where the file system does not say it, bytes (NAME_MAX of Linux, `include/uapi/linux/limits.h`).
const LONGEST_NAME: usize = 255;

/// What the name of a file has that is not whole.
pub(super) const UNFINISHED: &str = ".unfinished.";

/// The number of the root of `/proc`, of each that is mounted (PROC_ROOT_INO of Linux, `include/linux/proc_ns.h`).
const PROC_ROOT: u64 = 1;

/// The file system of pipes without a name (PIPEFS_MAGIC of Linux, `include/uapi/linux/magic.h`).
const PIPE_FILE_SYSTEM: i64 = 0x5049_5045;

const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A directory.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    descriptor: Arc<OwnedFd>,
    /// The given path, for messages.
    path: PathBuf,
}

impl Folder {
    /// Whether both are one folder, by device and inode.
    pub(crate) fn is_same_as(&self, other: &Folder) -> bool {
        let identity = |folder: &Folder| rustix::fs::fstat(&folder.descriptor).map(|stat| (stat.st_dev, stat.st_ino));
        identity(self).is_ok_and(|known| identity(other) == Ok(known))
    }

    /// Opens the folder at a path.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        let descriptor = walk(CWD, path, &mut 0)?;
        match file_type(&descriptor)? {
            FileType::Directory => Ok(Folder { descriptor: Arc::new(descriptor), path: path.to_owned() }),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    /// Whether a name is a link to an open file of a process: in `/proc`, or with a text that leads there.
    pub(super) fn is_descriptor(&self, name: &OsStr) -> bool {
        let text = rustix::fs::readlinkat(self, name, Vec::new());
        let is_in_proc = || rustix::fs::fstatfs(self).is_ok_and(|disk| disk.f_type == PROC_SUPER_MAGIC);
        text.is_ok_and(|text| is_in_proc() || text.as_bytes().starts_with(b"/proc/"))
    }

    /// The type of a file, or of a link's target.
    pub(super) fn type_of(&self, name: &OsStr, flags: AtFlags) -> Option<FileType> {
        let facts = rustix::fs::statat(self, name, flags).ok()?;
        Some(FileType::from_raw_mode(facts.st_mode))
    }

    /// Longest name that a file may have here, bytes.
    pub(super) fn longest_name(&self) -> usize {
        rustix::fs::fstatvfs(self).map_or(LONGEST_NAME, |disk| disk.f_namemax as usize)
    }

    /// Where what has this name is now: at `path`, unless the folder was moved and that leads to something else or to nothing.
    pub(super) fn path_of(&self, name: &OsStr, path: PathBuf) -> PathBuf {
        let Ok(ours) = rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW) else { return path };
        match rustix::fs::lstat(&path) {
            Ok(found) if is_same(&found, &ours) => path,
            _ => std::fs::read_link(by_descriptor(&self.descriptor)).map_or(path, |folder| folder.join(name)),
        }
    }

    /// Creates a file with a name that nobody can guess, and so nobody can take before: `before`, random digits, `after`.
    pub(crate) fn create(&self, before: &str, after: &str, mode: Mode) -> io::Result<(Unfinished, File)> {
        // Readable, since the descriptor is all that is left of it where somebody removes it: [`Unfinished::kept`].
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let (name, file) = named(before, after, |name| rustix::fs::openat(self, name, flags, mode))?;
        let file = File::from(file);
        Ok((Unfinished { folder: self.clone(), name, file: file.try_clone()? }, file))
    }

    /// Creates a file without a name, so a killed command leaves nothing. `None` where the file system or a missing `/proc` prevents it.
    pub(super) fn unnamed(&self, mode: Mode) -> io::Result<Option<File>> {
        match rustix::fs::openat(self, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
            // Each is an older kernel's or file system's answer for "not supported".
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => Ok(None),
            made => Ok(Some(made?).filter(|file| rustix::fs::stat(by_descriptor(file)).is_ok()).map(File::from)),
        }
    }

    /// Creates a file with the content of `write`. It gets its name, as that of [`Self::create`], when it is complete if possible: then a
    /// killed command leaves nothing.
    pub(super) fn create_whole(
        &self,
        before: &str,
        after: &str,
        mode: Mode,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Unfinished> {
        let Some(mut file) = self.unnamed(mode)? else {
            let (part, mut file) = self.create(before, after, mode)?;
            write(&mut file).inspect_err(|_| drop(part.remove()))?;
            return Ok(part);
        };
        write(&mut file)?;
        let path = by_descriptor(&file);
        let link = |name: &OsStr| rustix::fs::linkat(CWD, &path, self, name, AtFlags::SYMLINK_FOLLOW);
        let (name, ()) = named(before, after, link)?;
        Ok(Unfinished { folder: self.clone(), name, file })
    }

    /// Creates and removes a file, without a name if possible.
    pub(super) fn probe(&self, before: &str, after: &str) -> io::Result<()> {
        match self.unnamed(Mode::RUSR)? {
            Some(_) => Ok(()),
            None => self.create(before, after, Mode::RUSR)?.0.remove(),
        }
    }

    /// Opens a folder, or makes it in an existing one.
    pub(crate) fn open_or_make(path: &Path) -> io::Result<Folder> {
        if let (Some(above), Some(name)) = (path.parent(), path.file_name()) {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            match rustix::fs::mkdirat(Folder::open(above)?, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Folder::open(path)
    }

    /// Opens a folder, or makes it and those above it, each with this mode. Like [`Self::open`], it follows no link of another user.
    pub(crate) fn open_or_make_all(path: &Path, mode: Mode) -> io::Result<Folder> {
        match (Folder::open(path), path.parent(), path.file_name()) {
            (Err(missing), Some(above), Some(name)) if missing.kind() == io::ErrorKind::NotFound => {
                match rustix::fs::mkdirat(Folder::open_or_make_all(above, mode)?, name, mode) {
                    Ok(()) | Err(Errno::EXIST) => Folder::open(path),
                    Err(errno) => Err(errno.into()),
                }
            }
            (opened, ..) => opened,
        }
    }

    /// Opens the entry of a name, of any type; follows links, except those of other users.
    pub(crate) fn find(&self, name: &OsStr) -> io::Result<Found> {
        walk(self.as_fd(), Path::new(name), &mut 0).map(Found)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// An entry of a folder. Checking and opening it refer to the same file.
#[derive(Debug)]
pub(crate) struct Found(OwnedFd);

impl Found {
    /// Opens it for reading, if it is a regular file whose owner `is_trusted`. Nothing else is opened: that alone can have an effect.
    pub(crate) fn open_file(&self, is_trusted: impl Fn(u32) -> bool) -> io::Result<File> {
        let facts = rustix::fs::fstat(&self.0)?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile || !is_trusted(facts.st_uid) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Reading a regular file never fails for it. Opening does, where another process has a write lease: it would wait for that one.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::open(by_descriptor(&self.0), flags, Mode::empty())?.into())
    }

    /// Opens it for writing, unless it is a regular file: another user may have put one in the place of a pipe.
    /// A pipe that nobody reads is refused with `ENXIO`, rather than waited for.
    pub(super) fn open_special(&self) -> io::Result<File> {
        let facts = rustix::fs::fstat(&self.0)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another file was put in its place"));
            }
            // A shell's pipe has no name, and comes as a descriptor: whoever passed it on meant it.
            FileType::Fifo if !is_ours(&facts) && rustix::fs::fstatfs(&self.0)?.f_type != PIPE_FILE_SYSTEM => {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the pipe belongs to another user"));
            }
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(by_descriptor(&self.0), flags, Mode::empty())?;
        // A reader who is slow is waited for.
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
        Ok(file.into())
    }
}

/// A file under a temporary name until it is complete.
#[derive(Debug)]
pub(crate) struct Unfinished {
    folder: Folder,
    name: OsString,
    file: File,
}

impl Unfinished {
    /// Where it was created, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    /// Where a reader finds what was written: in the file, or if that was removed, in a copy in the temporary directory.
    pub(crate) fn kept(&self) -> Option<PathBuf> {
        let written = rustix::fs::fstat(&self.file).ok()?;
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if is_same(&found, &written) => Some(self.folder.path_of(&self.name, self.path())),
            _ => self.copy(Mode::from_raw_mode(written.st_mode)).ok(),
        }
    }

    fn copy(&self, mode: Mode) -> io::Result<PathBuf> {
        let name = self.name.to_string_lossy();
        let ending = name.find(UNFINISHED).map_or("", |at| &name[at..]);
        let temporary = Folder::open(&std::env::temp_dir())?;
        let (copy, mut to) = temporary.create("remora-", ending, mode & Mode::RWXU)?;
        let mut from = &self.file;
        let copied = from.rewind().and_then(|()| io::copy(&mut from, &mut to));
        if let Err(error) = copied {
            let _ = copy.remove();
            return Err(error);
        }
        Ok(copy.path())
    }

    /// Takes it away.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Renames it into a folder; replaces an existing file only with `force`.
    pub(crate) fn rename(&self, folder: &Folder, name: &OsStr, force: bool) -> Result<(), Errno> {
        let rename = || rustix::fs::renameat(&self.folder, &self.name, folder, name);
        if force {
            return rename();
        }
        match rustix::fs::renameat_with(&self.folder, &self.name, folder, name, RenameFlags::NOREPLACE) {
            // The file system lacks such a rename. An existing file has appeared since the check.
            Err(Errno::INVAL | Errno::NOSYS) => match folder.type_of(name, AtFlags::SYMLINK_NOFOLLOW) {
                Some(_) => Err(Errno::EXIST),
                None => rename(),
            },
            renamed => renamed,
        }
    }
}

/// Makes an entry with a random name by `make`, which must refuse an existing one.
fn named<T>(before: &str, after: &str, make: impl Fn(&OsStr) -> Result<T, Errno>) -> io::Result<(OsString, T)> {
    for _ in 0..MOST_NAMES {
        let name = OsString::from(format!("{before}{}{after}", random()?));
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return Ok((name, made?)),
        }
    }
    Err(Errno::EXIST.into())
}

/// Resolves a path to a descriptor, without rights to read or write.
fn walk(from: BorrowedFd<'_>, path: &Path, links: &mut usize) -> io::Result<OwnedFd> {
    let directory =
        |at: BorrowedFd<'_>, part: &str| rustix::fs::openat(at, part, PATH_ONLY | OFlags::DIRECTORY, Mode::empty());
    let mut at = directory(from, if path.is_absolute() { "/" } else { "." })?;
    for part in path.components() {
        at = match part {
            Component::CurDir | Component::RootDir | Component::Prefix(_) => continue,
            Component::ParentDir => directory(at.as_fd(), "..")?,
            Component::Normal(name) => step(at, name, links)?,
        };
    }
    Ok(at)
}

/// Opens the entry of this name; follows a link.
fn step(folder: OwnedFd, name: &OsStr, links: &mut usize) -> io::Result<OwnedFd> {
    let open = |flags| rustix::fs::openat(&folder, name, PATH_ONLY | flags, Mode::empty());
    // The kernel mounts an automount directory only if a directory is requested.
    let found = match open(OFlags::NOFOLLOW | OFlags::DIRECTORY) {
        Err(Errno::NOTDIR | Errno::LOOP) => open(OFlags::NOFOLLOW)?,
        found => return Ok(found?),
    };
    let facts = rustix::fs::fstat(&found)?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::Symlink {
        return Ok(found);
    }
    let is_in_proc = rustix::fs::fstatfs(&found)?.f_type == PROC_SUPER_MAGIC;
    // Links of `/proc` itself (`self`) belong to the kernel, though in a user namespace their owner may look like nobody.
    let is_the_kernels = is_in_proc && rustix::fs::fstat(&folder)?.st_ino == PROC_ROOT;
    if !is_the_kernels && !is_ours(&facts) {
        let why = format!("{} is a link of another user", Path::new(name).display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    *links += 1;
    if *links > MOST_LINKS {
        return Err(Errno::LOOP.into());
    }
    // The text of a descriptor's link (`/dev/fd/63`) is no path. No other user can replace it.
    if is_in_proc {
        return Ok(open(OFlags::empty())?);
    }
    let text = rustix::fs::readlinkat(&found, "", Vec::new())?;
    walk(folder.as_fd(), Path::new(OsStr::from_bytes(text.as_bytes())), links)
}

/// Free bytes on the disk of a file or a folder; `None` if unknown, and where the system shows things of its own, as in /proc.
pub(super) fn free_space(file: impl AsFd) -> Option<u64> {
    let disk = rustix::fs::fstatvfs(file).ok().filter(|disk| disk.f_blocks > 0)?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// The path that opens what a descriptor refers to.
fn by_descriptor(descriptor: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Whether only root and our own user decide about a file.
fn is_ours(facts: &Stat) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&facts.st_uid)
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn file_type(descriptor: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(descriptor)?.st_mode))
}

/// Digits in a name that make it one of its own.
pub(super) const DIGITS: usize = 8;

/// Digits that nobody can guess, [`DIGITS`] of them.
fn random() -> io::Result<String> {
    let mut bytes = [0; 4];
    // The kernel returns so few bytes completely, once its generator is seeded.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:08x}", u32::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

    const STRANGER: u32 = 65_534;

    #[test]
    fn a_pipe_of_another_user_gets_no_result_but_one_without_a_name_does() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("made");
        let reader = std::fs::File::options().read(true).write(true).open(&path).expect("opened");
        let folder = Folder::open(directory.path()).expect("opened");
        let open = || folder.find(OsStr::new("pipe")).expect("it is there").open_special();
        open().expect("ours");
        std::os::unix::fs::chown(&path, Some(4_000_001), None).expect("given");
        assert_eq!(open().expect_err("another user's").kind(), io::ErrorKind::PermissionDenied);
        drop(reader);
        let (_reader, writer) = io::pipe().expect("a pipe");
        rustix::fs::fchown(&writer, Some(rustix::fs::Uid::from_raw(4_000_001)), None).expect("given");
        let link = Folder::open(Path::new("/proc/self/fd")).expect("opened");
        let found = link.find(OsStr::new(&writer.as_raw_fd().to_string())).expect("it is there");
        found.open_special().expect("passed on as a descriptor");
    }

    #[test]
    fn a_way_through_a_link_of_another_user_is_refused_wherever_the_link_is() {
        if !rustix::process::geteuid().is_root() {
            // Only root can give a link away. CI runs this as root.
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(at("real/inner")).expect("made");
        symlink("real", at("ours")).expect("linked");
        symlink("real", at("theirs")).expect("linked");
        symlink("theirs/inner", at("through-theirs")).expect("linked");
        symlink("/dev/null", at("real/null")).expect("linked");
        for link in ["theirs", "real/null"] {
            lchown(at(link), Some(STRANGER), None).expect("given away");
        }
        let kind = |path: &str| Folder::open(&at(path)).map(drop).map_err(|error| error.kind());
        for allowed in ["real", "ours", "ours/inner", "ours/inner/../inner", "ours/.."] {
            assert_eq!(kind(allowed), Ok(()), "{allowed}");
        }
        for refused in ["theirs", "theirs/inner", "through-theirs", "ours/../theirs/inner"] {
            assert_eq!(kind(refused), Err(io::ErrorKind::PermissionDenied), "{refused}");
        }
        let error = Folder::open(&at("ours")).expect("ours").find(OsStr::new("null")).expect_err("theirs");
        assert_eq!(error.to_string(), "null is a link of another user");
        // Other users' folders are allowed as components.
        std::os::unix::fs::chown(at("real"), Some(STRANGER), None).expect("given away");
        assert_eq!(kind("real/inner"), Ok(()));
    }

    /// Root made a directory where another user's link led, before it refused to write there.
    #[test]
    fn no_folder_is_made_behind_a_link_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            // Only root can give a link away. CI runs this as root.
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("victim")).expect("made");
        for link in ["ours", "theirs"] {
            symlink("victim", at(link)).expect("linked");
        }
        symlink("nowhere", at("dangling")).expect("linked");
        lchown(at("theirs"), Some(STRANGER), None).expect("given away");
        let make = |path: &str| Folder::open_or_make_all(&at(path), Mode::RWXU).map(drop).map_err(|error| error.kind());
        for path in ["theirs/one", "theirs/one/two"] {
            assert_eq!(make(path), Err(io::ErrorKind::PermissionDenied), "{path}");
        }
        assert_eq!(make("dangling/one"), Err(io::ErrorKind::NotFound));
        assert_eq!(std::fs::read_dir(at("victim")).expect("there").count(), 0);
        assert!(!at("nowhere").exists());
        assert_eq!((make("ours/one/two"), make("ours/one/two"), make("three")), (Ok(()), Ok(()), Ok(())));
        assert!(at("victim/one/two").is_dir() && at("three").is_dir());
    }

    #[test]
    fn regression_a_message_named_an_unfinished_file_that_was_removed() {
        use std::io::Write;
        let directory = tempfile::tempdir().expect("a directory");
        let [path, moved] = ["folder", "moved"].map(|name| directory.path().join(name));
        std::fs::create_dir(&path).expect("made");
        let folder = Folder::open(&path).expect("it is there");
        let (part, mut file) = folder.create("out.", ".unfinished.nettrace", Mode::RUSR).expect("created");
        file.write_all(b"ours").expect("written");
        assert_eq!(part.kept(), Some(part.path()));
        std::fs::rename(&path, &moved).expect("moved");
        std::fs::create_dir(&path).expect("made");
        assert_eq!(part.kept(), Some(moved.join(&part.name)), "where it is now");
        std::fs::remove_dir_all(&moved).expect("removed");
        let copy = part.kept().expect("the descriptor still has it");
        let content = std::fs::read(&copy).expect("it is there");
        std::fs::remove_file(&copy).expect("removed");
        assert_eq!(content, b"ours");
        assert!(copy.starts_with(std::env::temp_dir()) && copy.to_string_lossy().ends_with(".unfinished.nettrace"));
    }

    #[test]
    fn the_index_of_a_heap_was_opened_before_it_was_looked_at() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        // Opening this one for reading would wait for a writer.
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).expect("made");
        std::fs::write(at("file"), "index").expect("written");
        symlink("file", at("link")).expect("linked");
        let folder = Folder::open(directory.path()).expect("opened");
        let read = |name: &str, is_trusted: bool| {
            let file = folder.find(OsStr::new(name))?.open_file(|_| is_trusted)?;
            io::read_to_string(file)
        };
        assert_eq!((read("file", true).ok(), read("link", true).ok()), (Some("index".into()), Some("index".into())));
        for (name, is_trusted) in [("file", false), ("pipe", true), (".", true), ("nothing", true)] {
            assert!(read(name, is_trusted).is_err(), "{name}");
        }
    }

    /// The kernel lets a process that holds a write lease delay whoever opens the file, by 45 s (`lease-break-time`).
    #[test]
    fn regression_an_index_was_opened_so_that_a_lease_could_delay_it() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("file"), "index").expect("written");
        let found = Folder::open(directory.path()).and_then(|folder| folder.find(OsStr::new("file"))).expect("there");
        let file = found.open_file(|_| true).expect("opened");
        assert!(rustix::fs::fcntl_getfl(&file).expect("known").contains(OFlags::NONBLOCK));
        assert_eq!(io::read_to_string(file).expect("readable"), "index");
    }

    #[test]
    fn links_that_lead_in_circles_and_folders_that_are_none_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        symlink("circle", at("circle")).expect("linked");
        std::fs::write(at("file"), "").expect("written");
        let errno = |name: &str| Folder::open(&at(name)).expect_err("no folder").raw_os_error();
        assert_eq!(errno("circle"), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(errno("file"), Some(Errno::NOTDIR.raw_os_error()));
        assert_eq!(errno("file/inner"), Some(Errno::NOTDIR.raw_os_error()));
        assert_eq!(errno("nothing"), Some(Errno::NOENT.raw_os_error()));
        assert_eq!(Folder::open(Path::new(".")).expect("it is there").path, Path::new("."));
    }
}
