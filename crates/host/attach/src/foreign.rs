//! Opens files whose paths a process chose. It may be hostile: a path may lead through links to devices, pipes and files of the host.
//!
//! A path is walked below the process's root as in [`crate::view`], so no link leaves that root, and only a regular file is opened.
//! The check of a path and its opening are one step: the opened file is the checked one.
//! Files of the kernel's own file systems (`/proc`, `/sys`) are refused: some show more to a reader with capabilities, or change when read.

use crate::rights::Rights;
use crate::view::regular_file;
use remora_symbols::TargetPath;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// File systems in which the kernel shows itself (`include/uapi/linux/magic.h`; of configfs, fusectl and nfsd in their sources). An overlay
/// of one reads it with the capabilities of whoever mounted it.
const KERNEL_FILE_SYSTEMS: [i64; 24] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x5a3c_69f0, // apparmorfs
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0x6265_6570, // configfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x0765_5821, // resctrl
    0xcafe_4a11, // bpf
    0x4249_4e4d, // binfmt_misc
    0x1cd1,      // devpts
    0x6c6f_6f70, // binder
    0x6573_5543, // fusectl
    0x6e66_7364, // nfsd
    0x6e73_6673, // nsfs
    0xabba_1974, // xenfs
    0x9fa1,      // openpromfs
    0x9fa2,      // usbfs
];

/// Opens the regular file at `path` of the view whose root directory is `root`, for reading, if these rights allow it.
///
/// # Errors
/// The system's; `ENOTDIR` or `EISDIR` if it is no regular file, `EOPNOTSUPP` if it is a file of the kernel, `ENODATA` if it is empty,
/// `EPERM` if this process may not act as that user.
pub(crate) fn open_in_root(root: &Path, path: &TargetPath, rights: &Rights) -> Result<File, Errno> {
    let _rights = rights.assume()?;
    opened(regular_file(root, path)?)
}

/// Opens the target of a link in `/proc`, if it is a regular file: the executable of a process, or a file that it has mapped. The process
/// has that file already, so this process's own rights are used: a service may have opened it before it dropped its own.
///
/// # Errors
/// The system's; `EISDIR` if it is no regular file, `EOPNOTSUPP` if it is a file of the kernel, `ENODATA` if it is empty.
pub(crate) fn open_link(link: &Path) -> Result<File, Errno> {
    let file = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind == FileType::RegularFile { opened(file) } else { Err(Errno::ISDIR) }
}

/// Opens the regular file at a path that the user of this process named, with this process's own rights. It waits for no pipe or device.
///
/// # Errors
/// The system's; `EISDIR` if it is no regular file, `EOPNOTSUPP` if it is a file of the kernel, `ENODATA` if it is empty.
pub fn open_named_file(path: &Path) -> io::Result<File> {
    Ok(open_link(path)?)
}

/// Opens a path descriptor of a regular file for reading, unless the file is the kernel's. Sysfs shows root all registers of a PCI device.
/// Reading `/proc/kmsg` takes its data away from others. A file of size 0 may be on a file system unknown here.
///
/// # Errors
/// The system's; `EOPNOTSUPP` if it is a file of the kernel, `ENODATA` if it is empty.
pub(crate) fn opened(file: OwnedFd) -> Result<File, Errno> {
    if KERNEL_FILE_SYSTEMS.contains(&rustix::fs::fstatfs(&file)?.f_type) {
        return Err(Errno::OPNOTSUPP);
    }
    if rustix::fs::fstat(&file)?.st_size == 0 {
        return Err(Errno::NODATA);
    }
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{Proc, Status};
    use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_regular_files_inside_the_root_are_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("dev")).expect("made");
        std::fs::write(root.join("inside"), "inside").expect("written");
        std::fs::write(root.join("empty"), "").expect("written");
        std::fs::write(folder.path().join("outside"), "outside").expect("written");
        let outside = folder.path().join("outside");
        for (link, to) in [
            ("link", Path::new("/inside")),
            ("dots", Path::new("../../inside")),
            ("leaves", &outside),
            ("rises", Path::new("../outside")),
            ("device", Path::new("/dev/null")),
            ("self", Path::new("self")),
        ] {
            symlink(to, root.join(link)).expect("linked");
        }
        let mode = Mode::from_raw_mode(0o600);
        let node = |name: &str, kind| rustix::fs::mknodat(rustix::fs::CWD, root.join(name), kind, mode, 0);
        node("pipe", FileType::Fifo).expect("made");
        let own = Rights::of(&Proc::default().status(std::process::id()).expect("it lives"));
        let cases = [
            ("/inside", Ok("inside")),
            ("inside", Ok("inside")),
            ("/link", Ok("inside")),
            ("/dots", Ok("inside")),
            ("/leaves", Err(Errno::NOENT)),
            ("/rises", Err(Errno::NOENT)),
            ("/device", Err(Errno::NOENT)),
            ("/pipe", Err(Errno::NOTDIR)),
            ("/dev", Err(Errno::ISDIR)),
            ("/inside/more", Err(Errno::NOTDIR)),
            ("/self", Err(Errno::LOOP)),
            ("/empty", Err(Errno::NODATA)),
        ];
        for (path, expected) in cases {
            let text = open_in_root(&root, &path.into(), &own).map(|mut file| {
                let mut text = String::new();
                file.read_to_string(&mut text).expect("readable");
                text
            });
            assert_eq!(text.as_deref().map_err(|errno| *errno), expected, "{path}");
        }
        assert_eq!(open_link(Path::new("/proc/self/cwd")).map(drop), Err(Errno::ISDIR));
        assert!(open_link(Path::new("/proc/self/exe")).is_ok());
    }

    /// Root read the PCI configuration space of a device that a target had named as its library.
    #[test]
    fn regression_a_file_of_the_kernel_that_has_a_size_was_read_with_the_capabilities_of_root() {
        let path = "/sys/kernel/notes";
        assert!(std::fs::metadata(path).expect("each kernel has it").len() > 0);
        let watch = init(CreateFlags::NONBLOCK).expect("made");
        add_watch(&watch, path, WatchFlags::OPEN).expect("watched");
        let own = Rights::of(&Proc::default().status(std::process::id()).expect("it lives"));
        let refused = Some(Errno::OPNOTSUPP);
        assert_eq!(open_in_root(Path::new("/"), &path.into(), &own).err(), refused);
        assert_eq!(open_in_root(Path::new("/proc/self/root"), &path.into(), &own).err(), refused);
        assert_eq!(open_link(Path::new(path)).err(), refused);
        assert_eq!(open_link(Path::new("/proc/self/status")).err(), refused);
        let mut space = [std::mem::MaybeUninit::uninit(); 4096];
        assert_eq!(Reader::new(&watch, &mut space).next().err(), Some(Errno::AGAIN), "opened");
    }

    #[test]
    fn files_that_only_a_link_in_proc_leads_to_are_opened_wherever_they_are() {
        let memory = File::from(memfd_create("memory", MemfdFlags::CLOEXEC).expect("made"));
        let shared = tempfile::tempfile_in("/dev/shm").expect("made");
        for mut file in [memory, shared, tempfile::tempfile().expect("made")] {
            file.write_all(b"content").expect("written");
            let link = format!("/proc/self/fd/{}", file.as_raw_fd());
            assert!(open_link(Path::new(&link)).is_ok(), "{link}");
        }
        let maps = Proc::default().maps(std::process::id()).expect("readable");
        let own = std::env::current_exe().expect("known");
        let mapping = maps.iter().find(|mapping| own.to_str().is_some_and(|own| mapping.path == own)).expect("mapped");
        let link = format!("/proc/self/map_files/{:x}-{:x}", mapping.start, mapping.end);
        // Not everyone may follow these.
        assert!([None, Some(Errno::PERM)].contains(&open_link(Path::new(&link)).err()));
    }

    #[test]
    fn a_file_that_the_targets_user_cannot_read_is_not_read_for_it() {
        let root = tempfile::tempdir().expect("a folder");
        let (user, group, other) = (4_000_001, 4_000_002, 4_000_003);
        let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("set");
        set(root.path(), 0o755);
        for (name, owner, group, mode) in [
            ("own", user, other, 0o600),
            ("groups", other, group, 0o640),
            ("all", 0, 0, 0o644),
            ("roots", 0, 0, 0o600),
            ("others", other, other, 0o640),
        ] {
            let path = root.path().join(name);
            std::fs::write(&path, name).expect("written");
            std::os::unix::fs::chown(&path, Some(owner), Some(group)).expect("given");
            set(&path, mode);
        }
        symlink("/roots", root.path().join("link")).expect("linked");
        let ids = Status { real_uid: user, real_gid: user, file_uid: user, file_gid: user, ..Status::default() };
        let mut status = Status { groups: vec![group], ..ids };
        let readable = |status: &Status| {
            let rights = Rights::of(status);
            ["own", "groups", "all", "roots", "others", "link"]
                .map(|name| open_in_root(root.path(), &name.into(), &rights).map(drop).err())
        };
        let denied = Some(Errno::ACCESS);
        assert_eq!(readable(&status), [None, None, None, denied, denied, denied]);
        (status.real_uid, status.file_uid) = (0, 0);
        status.capabilities = u64::MAX;
        assert_eq!(readable(&status), [None; 6], "root's process reads all");
    }
}
