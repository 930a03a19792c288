//! The folder of a result, opened once: whatever its path leads to later, everything goes through its descriptor.
//!
//! A command that runs as root may be given a path through directories of other users. Each part of it is opened by itself. A link is
//! followed only if it belongs to root or to us: somebody else's would lead root's output to a place of his choice.
//! That is stricter than the kernel's `protected_symlinks`, which looks at links in sticky directories alone.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Links that are followed on a way, as many as the kernel does.
const MOST_LINKS: usize = 40;

/// Names that are tried for a new file. They are random: that one is there already is no accident.
const MOST_NAMES: usize = 8;

/// The number of the root of `/proc`, of each that is mounted (PROC_ROOT_INO of Linux, `include/linux/proc_ns.h`).
const PROC_ROOT: u64 = 1;

const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A directory.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    descriptor: Arc<OwnedFd>,
    /// As it was given, for messages.
    path: PathBuf,
}

impl Folder {
    /// The one that a path leads to.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        let descriptor = walk(CWD, path, &mut 0)?;
        match file_type(&descriptor)? {
            FileType::Directory => Ok(Folder { descriptor: Arc::new(descriptor), path: path.to_owned() }),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    /// The type of what is there under a name, or of what that leads to.
    pub(super) fn type_of(&self, name: &OsStr, flags: AtFlags) -> Option<FileType> {
        let facts = rustix::fs::statat(self, name, flags).ok()?;
        Some(FileType::from_raw_mode(facts.st_mode))
    }

    /// Creates a file with a name that nobody can guess, and so nobody can take before: `before`, random digits, `after`.
    pub(crate) fn create(&self, before: &str, after: &str, mode: Mode) -> io::Result<(Unfinished, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut refused = Errno::EXIST;
        for _ in 0..MOST_NAMES {
            let name = OsString::from(format!("{before}{}{after}", random()?));
            match rustix::fs::openat(self, &name, flags, mode) {
                Ok(file) => return Ok((Unfinished { folder: self.clone(), name }, file.into())),
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    refused = errno;
                    break;
                }
            }
        }
        Err(refused.into())
    }

    /// Makes a file and takes it away. It has no name where the file system can do that: a command that is ended meanwhile leaves nothing.
    pub(super) fn probe(&self, before: &str, after: &str) -> io::Result<()> {
        match rustix::fs::openat(self, ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR) {
            // Each is how an older kernel or file system says that it cannot.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => self.create(before, after, Mode::RUSR)?.0.remove(),
            made => made.map(drop).map_err(io::Error::from),
        }
    }

    /// What is there under a name, which need not be a file, and what it leads to if it is a link.
    pub(super) fn find(&self, name: &OsStr) -> io::Result<Found> {
        walk(self.as_fd(), Path::new(name), &mut 0).map(Found)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Something that is no regular file. It can be checked and opened afterwards, and is the same in between.
#[derive(Debug)]
pub(super) struct Found(OwnedFd);

impl Found {
    /// Opens it for writing, unless it is a regular file: another user may have put one in the place of a pipe.
    pub(super) fn open_special(&self) -> io::Result<File> {
        if file_type(&self.0)? == FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another file was put in its place"));
        }
        File::options().write(true).open(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// A file that is written under a name of its own until it is whole.
#[derive(Debug)]
pub(crate) struct Unfinished {
    folder: Folder,
    name: OsString,
}

impl Unfinished {
    /// Where it is, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    /// Takes it away.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Gives it a name in a folder; replaces what is there only if that is allowed.
    pub(crate) fn rename(&self, folder: &Folder, name: &OsStr, force: bool) -> Result<(), Errno> {
        let rename = || rustix::fs::renameat(&self.folder, &self.name, folder, name);
        if force {
            return rename();
        }
        match rustix::fs::renameat_with(&self.folder, &self.name, folder, name, RenameFlags::NOREPLACE) {
            // The file system has no such rename; what is there now was not there at the check.
            Err(Errno::INVAL | Errno::NOSYS) => match folder.type_of(name, AtFlags::SYMLINK_NOFOLLOW) {
                Some(_) => Err(Errno::EXIST),
                None => rename(),
            },
            renamed => renamed,
        }
    }
}

/// Opens what a path leads to, without rights to read or write it.
fn walk(from: BorrowedFd<'_>, path: &Path, links: &mut usize) -> io::Result<OwnedFd> {
    let directory =
        |at: BorrowedFd<'_>, part: &str| rustix::fs::openat(at, part, LOOK | OFlags::DIRECTORY, Mode::empty());
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

/// Goes on to what has this name, and where it is a link, to what that leads to.
fn step(folder: OwnedFd, name: &OsStr, links: &mut usize) -> io::Result<OwnedFd> {
    let open = |flags| rustix::fs::openat(&folder, name, LOOK | flags, Mode::empty());
    // Only who wants a directory makes the kernel mount it, where that is done on demand.
    let found = match open(OFlags::NOFOLLOW | OFlags::DIRECTORY) {
        Err(Errno::NOTDIR | Errno::LOOP) => open(OFlags::NOFOLLOW)?,
        found => return Ok(found?),
    };
    let facts = rustix::fs::fstat(&found)?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::Symlink {
        return Ok(found);
    }
    let is_in_proc = rustix::fs::fstatfs(&found)?.f_type == PROC_SUPER_MAGIC;
    // Those of `/proc` itself are the kernel's (`self`), though in a user namespace nobody may be called their owner.
    let is_the_kernels = is_in_proc && rustix::fs::fstat(&folder)?.st_ino == PROC_ROOT;
    if !is_the_kernels && ![0, rustix::process::geteuid().as_raw()].contains(&facts.st_uid) {
        let why = format!("{} is a link of another user", Path::new(name).display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    *links += 1;
    if *links > MOST_LINKS {
        return Err(Errno::LOOP.into());
    }
    // The text of a descriptor's link (`/dev/fd/63`) is no path. Nobody can swap it.
    if is_in_proc {
        return Ok(open(OFlags::empty())?);
    }
    let text = rustix::fs::readlinkat(&found, "", Vec::new())?;
    walk(folder.as_fd(), Path::new(OsStr::from_bytes(text.as_bytes())), links)
}

fn file_type(descriptor: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(descriptor)?.st_mode))
}

/// Eight digits that nobody can guess.
fn random() -> io::Result<String> {
    let mut bytes = [0; 4];
    // So few bytes come whole, once the kernel has any.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:08x}", u32::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

    const STRANGER: u32 = 65_534;

    #[test]
    fn a_way_through_a_link_of_another_user_is_refused_wherever_the_link_is() {
        if !rustix::process::geteuid().is_root() {
            // Nobody else can give a link away. CI runs this as root.
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
        // Their folders are walked through all the same.
        std::os::unix::fs::chown(at("real"), Some(STRANGER), None).expect("given away");
        assert_eq!(kind("real/inner"), Ok(()));
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
