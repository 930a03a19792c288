//! Locations of the library that the target can or cannot open and map, and the runtime's answers. On live runtimes and their models.
//!
//! The profiler is `tests/probe`, from many files. Remora takes no part. Needs root for other users and mounts.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_conformance::in_every_world;
use remora_conformance::probe::{Stage, library};
use remora_e2e::{Facts, Mapping, until};
use remora_holds::holds;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const MODULE_NOT_FOUND: u32 = 0x8007_007E;
const MODULE_LOADS: u32 = 0x4;
/// The offset of the machine field in ELF, and a machine without .NET (EM_SPARCV9).
const MACHINE: usize = 18;
const ANOTHER_MACHINE: u16 = 43;

/// Makes each program with an absolute path reachable for every user, and continues as an unprivileged user who reads only world-readable
/// files. `$ROOM` then has a noexec folder, and one that is not visible from outside.
const AS_STRANGER: &str = "count=0; for each in \"$@\"; do shift; case $each in /*) count=$((count + 1)); \
     mkdir $ROOM/$count; mount --bind \"${each%/*}\" $ROOM/$count; each=$ROOM/$count/${each##*/};; esac; set -- \"$@\" \"$each\"; done; \
     for each in noexec private; do mkdir -p $ROOM/$each; done; \
     mount -t tmpfs -o noexec,mode=755 tmpfs $ROOM/noexec; mount -t tmpfs -o mode=755 tmpfs $ROOM/private; \
     cp $ROOM/libremora_probe.so $ROOM/noexec/lib.so; cp $ROOM/libremora_probe.so $ROOM/private; \
     exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";

#[test]
fn att_06_a_library_that_the_target_cannot_open_or_map_is_refused_and_changes_nothing() {
    in_every_world(|runtime| {
        let room = Room::new();
        let mut stage = Stage::start_behind(runtime, AS_STRANGER, &[("ROOM", room.folder.path())]);
        for file in room.faulty(stage.pid()) {
            let attaching = stage.attach_from(&file);
            until("it is answered, or asks", || !attaching.is_pending() || stage.has_come("InitializeForAttach"));
            holds!(ATT_06 sim clr, !attaching.is_pending(), "{} was loaded", file.display());
            let answer = attaching.answer();
            holds!(ATT_06 sim clr, answer == Err(MODULE_NOT_FOUND), "{}", file.display());
            holds!(ATT_06 sim clr, !is_executable(stage.pid(), &file) && !stage.has_come("InitializeForAttach"), "{}", file.display());
        }
        assert_eq!(stage.act("a load"), "obedient");
        // The next one finds the slot free.
        for name in ["libremora_probe.so", "private/libremora_probe.so"] {
            let attaching = stage.attach_from(&room.path(name));
            let mut init = stage.seat("InitializeForAttach");
            init.done(&format!("mask {MODULE_LOADS:#x} 0"));
            init.done("thread");
            init.leave(0);
            assert_eq!(attaching.answer(), Ok(()), "{name}");
            let mut own = stage.seat("Thread");
            stage.is_alive(&mut own);
            stage.leave(own);
        }
    });
}

/// Whether the file's code is mapped into the target. If the C library may not map the code, its first, read-only mapping remains (seen
/// with glibc 2.36).
fn is_executable(pid: u32, file: &Path) -> bool {
    let is_code = |mapping: &Mapping| mapping.permissions.contains('x') && Path::new(&mapping.name) == file;
    Facts::of(pid).maps.iter().any(is_code)
}

/// A folder with the library, and with files that a target cannot load.
struct Room {
    folder: tempfile::TempDir,
}

impl Room {
    /// With a library that every user can load.
    fn new() -> Room {
        let room = Room { folder: support::open_folder() };
        room.put("libremora_probe.so", &fs::read(library()).unwrap(), 0o644);
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Files that this target cannot load.
    fn faulty(&self, pid: u32) -> Vec<PathBuf> {
        let bytes = fs::read(library()).unwrap();
        self.put("forbidden.so", &bytes, 0o600);
        fs::create_dir(self.path("closed")).unwrap();
        self.put("closed/lib.so", &bytes, 0o644);
        fs::set_permissions(self.path("closed"), Permissions::from_mode(0o700)).unwrap();
        self.put("machine.so", &for_another_machine(&bytes), 0o644);
        self.put("libc.so", &with_another_libc(&bytes), 0o644);
        self.put("text.so", b"This is no library.", 0o644);
        self.put("empty.so", b"", 0o644);
        // Here it exists; the target has another mount there.
        self.put("private/outside.so", &bytes, 0o644);
        let inside = Path::new("/proc").join(pid.to_string()).join("root");
        let seen = |name: &str| inside.join(self.path(name).strip_prefix("/").unwrap());
        assert!(self.path("private/outside.so").exists() && !seen("private/outside.so").exists());
        assert!(!self.path("noexec/lib.so").exists() && seen("noexec/lib.so").exists());
        let names = [
            "missing.so",
            "forbidden.so",
            "closed/lib.so",
            "noexec/lib.so",
            "private/outside.so",
            "machine.so",
            "libc.so",
            "text.so",
            "empty.so",
            "closed",
        ];
        names.map(|name| self.path(name)).to_vec()
    }

    fn put(&self, name: &str, bytes: &[u8], mode: u32) {
        fs::write(self.path(name), bytes).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }
}

fn for_another_machine(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[MACHINE..MACHINE + 2].copy_from_slice(&ANOTHER_MACHINE.to_le_bytes());
    bytes
}

/// Linked against a C library of another name, as one for musl.
fn with_another_libc(bytes: &[u8]) -> Vec<u8> {
    let (own, other) = (b"\0libc.so.6\0", b"\0libc.so.0\0");
    let at = bytes.windows(own.len()).position(|window| window == own).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[at..at + own.len()].copy_from_slice(other);
    bytes
}
