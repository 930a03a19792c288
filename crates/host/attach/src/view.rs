//! Directories of the target's view, opened from outside.
//!
//! A path is walked one component at a time below `/proc/PID/root`, including links, as the target's kernel view resolves it.
//! An absolute link stays inside the target's root, and `..` cannot leave it.
//! All further operations use the directory's descriptor, so no process can swap a component afterwards.

use crate::proc::read_while_it_answers;
use crate::rights::Rights;
use crate::status::Capability;
use remora_symbols::TargetPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, StatVfsMountFlags};
use rustix::io::Errno;
use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum links followed, as in the kernel.
const MOST_LINKS: usize = 40;
/// Maximum components walked.
const MOST_COMPONENTS: usize = 512;
/// Maximum directories kept open on the way.
const MOST_OPEN: usize = 64;
/// Maximum entries read of a directory, and names kept; the rest is ignored.
const MOST_ENTRIES: usize = 1 << 20;
pub(crate) const MOST_NAMES: usize = 1 << 10;

/// A directory of the target.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: TargetPath,
    host_path: PathBuf,
    on_the_way: Vec<Permissions>,
}

/// Permissions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permissions {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
}

/// A right, as its bit in the last three of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    Write = 2,
    Search = 1,
}

impl Permissions {
    fn of(stat: &Stat) -> Permissions {
        Permissions { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode }
    }

    /// Whether these rights include `right` on a directory with these permissions. Ignores access control lists.
    pub(crate) fn allow(self, who: &Rights, right: Right) -> bool {
        let shift = match () {
            () if who.uid == self.uid => 6,
            () if who.has_group(self.gid) => 3,
            () => 0,
        };
        let reads = right != Right::Write && who.is_capable(Capability::DacReadSearch);
        self.mode >> shift & right as u32 != 0 || who.is_capable(Capability::DacOverride) || reads
    }

    /// Whether only these users can rename or delete other users' files in it. Its group may, if it is root's, or has the number of one of
    /// these users: by convention such a group has no other member.
    fn is_kept_by(self, trusted: &[u32]) -> bool {
        let by_group = self.mode & 0o020 != 0 && !trusted.contains(&self.gid);
        let is_sticky = self.mode & 0o1000 != 0;
        trusted.contains(&self.uid) && (is_sticky || self.mode & 0o002 == 0 && !by_group)
    }
}

impl Directory {
    /// Whether the process may create files in it.
    pub(crate) fn writable_by(&self, who: &Rights) -> bool {
        self.on_the_way.last().is_some_and(|directory| directory.allow(who, Right::Write))
    }

    /// Whether only these users can replace a file in it.
    pub(crate) fn is_kept_by(&self, trusted: &[u32]) -> bool {
        self.on_the_way.iter().all(|directory| directory.is_kept_by(trusted))
    }

    /// Opens `path` of the view whose root directory is `root`, if the process can reach it with these rights. Otherwise it would learn from
    /// what follows whether directories on the way exist.
    pub(crate) fn open_for(root: &Path, path: &TargetPath, who: &Rights) -> Result<Directory, Errno> {
        let directory = Directory::open(root, path)?;
        if directory.reachable_by(who) { Ok(directory) } else { Err(Errno::ACCESS) }
    }

    /// Opens `path` of the view whose root directory is `root`. The caller asks [`Directory::reachable_by`].
    pub(crate) fn open(root: &Path, path: &TargetPath) -> Result<Directory, Errno> {
        match Walk::along(root, path)? {
            (walk, None) => walk.finish(root),
            (_, Some(_)) => Err(Errno::NOTDIR),
        }
    }

    /// The path in the target's view, links resolved.
    pub(crate) fn path(&self) -> &TargetPath {
        &self.path
    }

    /// The path in our view, valid as long as the target lives.
    pub(crate) fn host_path(&self) -> &Path {
        &self.host_path
    }

    /// Its descriptor.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// A short path for `name` in it, valid in this process while the directory is open.
    pub(crate) fn short_path(&self, name: &OsStr) -> PathBuf {
        Path::new("/proc/self/fd").join(self.fd.as_raw_fd().to_string()).join(name)
    }

    /// Whether the process can reach it from the root.
    pub(crate) fn reachable_by(&self, who: &Rights) -> bool {
        self.on_the_way.iter().all(|directory| directory.allow(who, Right::Search))
    }

    /// Mount flags and bytes available to us.
    pub(crate) fn file_system(&self) -> Result<FileSystem, Errno> {
        let found = rustix::fs::fstatvfs(&self.fd)?;
        Ok(FileSystem {
            no_execute: found.f_flag.contains(StatVfsMountFlags::NOEXEC),
            read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        })
    }

    /// Whether we may create files in it, as far as the kernel reports in advance.
    pub(crate) fn writable_by_us(&self) -> bool {
        use rustix::fs::Access;
        rustix::fs::accessat(&self.fd, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
    }

    /// The file `name` in it, opened only as a path (`O_PATH`), without following a link, and its `stat`.
    pub(crate) fn file(&self, name: &OsStr) -> Result<(OwnedFd, Stat), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        Ok((file, stat))
    }

    /// Removes the file `name` in it.
    pub(crate) fn unlink(&self, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())
    }

    /// Names of its `wanted` entries, read with these rights: the target may have chosen its path. Of an endless directory, the first
    /// entries.
    pub(crate) fn names(&self, rights: &Rights, wanted: impl Fn(&OsStr) -> bool) -> Result<Vec<OsString>, Errno> {
        let _rights = rights.assume()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?;
        let entries = rustix::fs::Dir::read_from(readable)?.take(MOST_ENTRIES).map_while(Result::ok);
        let names = entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        Ok(names.filter(|name| wanted(name)).take(MOST_NAMES).collect())
    }
}

/// Each path once, in the order of their first occurrence.
pub(crate) fn distinct(paths: impl IntoIterator<Item = TargetPath>) -> Vec<TargetPath> {
    let mut seen = HashSet::new();
    paths.into_iter().filter(|path| seen.insert(path.clone())).collect()
}

/// Flags and free space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSystem {
    pub(crate) no_execute: bool,
    pub(crate) read_only: bool,
    pub(crate) free_bytes: u64,
}

/// The regular file at `path` of the view whose root directory is `root`, opened only as a path (`O_PATH`).
pub(crate) fn regular_file(root: &Path, path: &TargetPath) -> Result<OwnedFd, Errno> {
    Walk::along(root, path)?.1.ok_or(Errno::ISDIR)
}

/// The kind of a path component.
enum Step {
    Entered,
    Link(TargetPath),
    File(OwnedFd),
}

/// The path walked so far: the root and each directory entered.
struct Walk {
    opened: Vec<(OwnedFd, OsString, Permissions)>,
    /// Of directories that it left again, by `..` or a link. Who may not search them would not have come this far.
    left: Vec<Permissions>,
    /// Whether the last directory is below a process's of a `/proc`. Whoever looks up a name there can be kept waiting by that process.
    is_in_a_process: bool,
}

/// Whether it is a directory of a `/proc`, but not its first one.
fn is_of_a_process(directory: &OwnedFd, stat: &Stat) -> Result<bool, Errno> {
    const FIRST: u64 = 1;
    Ok(rustix::fs::fstatfs(directory)?.f_type == rustix::fs::PROC_SUPER_MAGIC && stat.st_ino != FIRST)
}

impl Walk {
    fn new(root: &Path) -> Result<Walk, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = move |root: &Path| Ok(rustix::fs::open(root, flags, Mode::empty())?);
        let opened = read_while_it_answers(root, open);
        let fd = opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let stat = rustix::fs::fstat(&fd)?;
        let is_in_a_process = is_of_a_process(&fd, &stat)?;
        let opened = vec![(fd, OsString::new(), Permissions::of(&stat))];
        Ok(Walk { opened, left: Vec::new(), is_in_a_process })
    }

    /// Goes back to the first `depth` directories.
    fn go_back(&mut self, depth: usize) {
        self.left.extend(self.opened.drain(depth..).map(|(_, _, permissions)| permissions));
        self.is_in_a_process = false;
    }

    /// Walks a whole path. It ends in a directory, which was entered, or in a regular file.
    fn along(root: &Path, path: &TargetPath) -> Result<(Walk, Option<OwnedFd>), Errno> {
        let mut walk = Walk::new(root)?;
        let mut left: VecDeque<OsString> = path.names().collect();
        let (mut links, mut steps) = (0, 0);
        while let Some(name) = left.pop_front() {
            steps += 1;
            if steps > MOST_COMPONENTS {
                return Err(Errno::NAMETOOLONG);
            }
            match walk.step(&name)? {
                Step::Entered => {}
                Step::File(file) if left.is_empty() => return Ok((walk, Some(file))),
                Step::File(_) => return Err(Errno::NOTDIR),
                Step::Link(_) if links == MOST_LINKS => return Err(Errno::LOOP),
                Step::Link(link) => {
                    links += 1;
                    if link.is_absolute() {
                        walk.go_back(1);
                    }
                    link.names().rev().for_each(|part| left.push_front(part));
                }
            }
        }
        Ok((walk, None))
    }

    /// Enters `name`, returns its link target, or finds a regular file.
    fn step(&mut self, name: &OsStr) -> Result<Step, Errno> {
        if name == ".." {
            self.go_back((self.opened.len() - 1).max(1));
            return Ok(Step::Entered);
        }
        let Some((here, _, _)) = self.opened.last() else { return Err(Errno::NOENT) };
        if self.is_in_a_process {
            return Err(Errno::OPNOTSUPP);
        }
        if self.opened.len() > MOST_OPEN {
            return Err(Errno::NAMETOOLONG);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(here, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&fd, "", Vec::new())?;
                Ok(Step::Link(TargetPath::from_bytes(target.into_bytes())))
            }
            FileType::Directory => {
                self.is_in_a_process = is_of_a_process(&fd, &stat)?;
                self.opened.push((fd, name.to_owned(), Permissions::of(&stat)));
                Ok(Step::Entered)
            }
            FileType::RegularFile => Ok(Step::File(fd)),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn finish(mut self, root: &Path) -> Result<Directory, Errno> {
        let names = || self.opened.iter().skip(1).map(|(_, name, _)| name);
        let path = names().fold(TargetPath::from("/"), |path, name| path.join(name));
        let host_path = names().fold(root.to_owned(), |path, name| path.join(name));
        let entered = self.opened.iter().map(|(_, _, permissions)| *permissions);
        let on_the_way = self.left.into_iter().chain(entered).collect();
        let (fd, _, _) = self.opened.pop().ok_or(Errno::NOENT)?;
        Ok(Directory { fd, path, host_path, on_the_way })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_stay_inside_the_root_and_dots_do_not_leave_it() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(root.path().join("var/tmp/deep")).expect("made");
        symlink("/var/tmp", root.path().join("tmp")).expect("linked");
        symlink("../tmp/deep/../..", root.path().join("var/up")).expect("linked");
        symlink("/var/tmp", root.path().join("var/absolute")).expect("linked");
        symlink("loop", root.path().join("loop")).expect("linked");
        std::fs::write(root.path().join("file"), "x").expect("written");
        let cases = [
            ("/tmp", Ok("/var/tmp")),
            ("/tmp/deep", Ok("/var/tmp/deep")),
            ("/../../var", Ok("/var")),
            ("/var/up", Ok("/var")),
            ("/var/absolute/deep", Ok("/var/tmp/deep")),
            ("/", Ok("/")),
            ("/loop", Err(Errno::LOOP)),
            ("/file", Err(Errno::NOTDIR)),
            ("/none", Err(Errno::NOENT)),
        ];
        for (path, expected) in cases {
            let found = Directory::open(root.path(), &path.into());
            let found = found.as_ref().map(|found| found.path().to_str().expect("text")).map_err(|errno| *errno);
            assert_eq!(found, expected, "{path}");
        }
    }

    /// A link to `/proc/PID/root` beside a library, and root waited for a process that was executing a program.
    #[test]
    fn a_path_through_the_directory_of_a_process_ended_in_a_wait_for_that_process() {
        let root = tempfile::tempdir().expect("a directory");
        symlink("/proc/self/root/tmp", root.path().join("link")).expect("linked");
        let view = Path::new("/");
        let link = TargetPath::from(root.path().join("link").to_str().expect("text"));
        for path in ["/proc/self/root", "/proc/1/root/tmp", "/proc/1/map_files/1-2", "/proc/1/task/1/cwd"] {
            assert_eq!(Directory::open(view, &path.into()).err(), Some(Errno::OPNOTSUPP), "{path}");
            assert_eq!(regular_file(view, &path.into()).err(), Some(Errno::OPNOTSUPP), "{path}");
        }
        assert_eq!(regular_file(view, &link).err(), Some(Errno::OPNOTSUPP));
        let inside = Path::new("/proc/self/task");
        assert_eq!(Directory::open(inside, &"/1".into()).err(), Some(Errno::OPNOTSUPP));
        assert!(Directory::open(view, &"/proc/self".into()).is_ok());
        assert!(Directory::open(view, &"/proc/self/../sys".into()).is_ok());
    }

    #[test]
    fn a_directory_is_listed_with_the_rights_of_the_targets_user_and_not_without_end() {
        let root = tempfile::tempdir().expect("a directory");
        let set = |mode| std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(mode)).expect("set");
        (0..MOST_NAMES + 2).for_each(|number| drop(std::fs::write(root.path().join(format!("a{number}")), "")));
        std::fs::write(root.path().join("b"), "").expect("written");
        let directory = Directory::open(root.path(), &"/".into()).expect("opens");
        let stranger = Rights::of_user(4_000_000, 4_000_000, &[], 0);
        let named =
            |letter: u8| directory.names(&stranger, |name| name.as_bytes()[0] == letter).map(|names| names.len());
        set(0o711);
        assert_eq!(named(b'b'), Err(Errno::ACCESS));
        set(0o755);
        assert_eq!((named(b'a'), named(b'b'), named(b'c')), (Ok(MOST_NAMES), Ok(1), Ok(0)));
    }

    #[test]
    fn att_06_permissions_are_judged_for_the_target_not_for_us() {
        let directory = Permissions { uid: 10, gid: 20, mode: 0o710 };
        let cases = [
            (Rights::of_user(10, 1, &[], 0), true, true),
            (Rights::of_user(1, 20, &[], 0), true, false),
            (Rights::of_user(1, 1, &[20], 0), true, false),
            (Rights::of_user(1, 1, &[], 0), false, false),
            (Rights::of_user(1, 1, &[], 1 << 1), true, true),
            (Rights::of_user(1, 1, &[], 1 << 2), true, false),
        ];
        for (who, search, write) in cases {
            let allowed = (directory.allow(&who, Right::Search), directory.allow(&who, Right::Write));
            holds!(ATT_06 rem, allowed == (search, write), "{who:?}");
        }
    }

    #[test]
    fn a_path_through_a_directory_of_roots_and_back_showed_whether_that_one_exists() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(root.path().join("closed/secret")).expect("made");
        std::fs::create_dir(root.path().join("mine")).expect("made");
        symlink("/mine", root.path().join("closed/back")).expect("linked");
        let set = |path: &str, mode| {
            std::fs::set_permissions(root.path().join(path), std::fs::Permissions::from_mode(mode)).expect("set");
        };
        set("", 0o755);
        let stranger = Rights::of_user(4_000_000, 4_000_000, &[], 0);
        for (mode, expected) in [(0o700, false), (0o755, true)] {
            set("closed", mode);
            for path in ["/closed/secret/../../mine", "/closed/back"] {
                let directory = Directory::open(root.path(), &path.into()).expect("opens");
                assert_eq!(directory.path(), &TargetPath::from("/mine"));
                assert_eq!(directory.reachable_by(&stranger), expected, "{path} with {mode:o}");
            }
        }
    }

    #[test]
    fn a_directory_is_kept_unless_a_third_user_can_replace_what_is_in_it() {
        for (uid, gid, mode, expected) in [
            (0, 0, 0o755, true),
            (0, 0, 0o1777, true),
            (0, 0, 0o777, false),
            (10, 10, 0o775, true),
            (10, 20, 0o775, false),
            (0, 0, 0o775, true),
            (20, 20, 0o755, false),
            (20, 20, 0o1777, false),
        ] {
            assert_eq!(Permissions { uid, gid, mode }.is_kept_by(&[0, 10]), expected, "{uid} {gid} {mode:o}");
        }
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(root.path().join("above/kept")).expect("made");
        let own = [rustix::process::geteuid().as_raw()];
        for (mode, expected) in [(0o755, true), (0o777, false)] {
            std::fs::set_permissions(root.path().join("above"), std::fs::Permissions::from_mode(mode)).expect("set");
            let directory = Directory::open(root.path(), &TargetPath::from("/above/kept")).expect("opens");
            assert_eq!(directory.is_kept_by(&own), expected, "what is above it can be replaced as a whole");
        }
    }

    #[test]
    fn att_06_a_closed_directory_on_the_way_makes_it_unreachable() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(root.path().join("closed/open")).expect("made");
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).expect("set");
        std::fs::set_permissions(root.path().join("closed"), std::fs::Permissions::from_mode(0o700)).expect("set");
        let directory = Directory::open(root.path(), &"/closed/open".into()).expect("opens");
        let stranger = Rights::of_user(4_000_000, 4_000_000, &[], 0);
        holds!(ATT_06 rem, !directory.reachable_by(&stranger));
        assert!(Directory::open(root.path(), &"/".into()).expect("opens").reachable_by(&stranger));
    }
}
