//! Placing, removing and sweeping, in made-up processes with a root directory of their own.

use super::*;
use crate::tests::process::MadeUp;
use crate::view::FileSystem;
use remora_holds::holds;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;

/// A user that is not root.
const USER: u32 = 65_534;

#[test]
fn att_06_the_library_is_a_new_file_that_anybody_can_read_and_nobody_can_write() {
    let made = MadeUp::core_clr();
    let process = made.find();
    let first = place_library(&process, b"library").expect("placed");
    let second = place_library(&process, b"library").expect("placed");
    assert_ne!(first.target_path, second.target_path);
    let name = first.target_path.file_name().to_owned();
    assert!(name.starts_with("libremora_agent"), "{name}");
    assert_eq!(first.target_path.parent(), Some("/scratch".into()), "TMPDIR of the target comes first");
    let file = std::fs::metadata(&first.host_path).expect("there");
    holds!(ATT_06 rem, file.permissions().mode() & 0o777 == 0o555);
    assert_ne!(file.ino(), std::fs::metadata(&second.host_path).expect("there").ino());
    assert_eq!(std::fs::read(&first.host_path).expect("readable"), b"library");
}

#[test]
fn att_18_nothing_stays_after_dropping_or_removing() {
    let made = MadeUp::core_clr();
    let process = made.find();
    let library = place_library(&process, b"library").expect("placed");
    let (listener, socket) = place_socket(&process).expect("placed");
    assert_eq!(made.names_in("scratch").len(), 2);
    drop(library);
    socket.remove().expect("removed");
    drop(listener);
    holds!(ATT_18 rem, made.names_in("scratch") == Vec::<String>::new());
}

/// The kernel shows a mapped file by its last name.
#[test]
fn det_18_a_library_that_stays_is_gone_from_its_directory_and_is_called_so_where_it_is_open() {
    let made = MadeUp::core_clr();
    let process = made.find();
    for place in [place_library, place_library_that_may_stay] {
        let library = place(&process, b"library").expect("placed");
        let open = std::fs::File::open(&library.host_path).expect("there");
        library.stays();
        holds!(DET_18 rem, made.names_in("scratch") == Vec::<String>::new());
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        let shown = std::fs::read_link(link).expect("open").display().to_string();
        let name = shown.rsplit('/').next().and_then(|name| name.strip_suffix(" (deleted)")).unwrap_or_default();
        assert!(name.ends_with(STAYING_SUFFIX) && is_ours(OsStr::new(name)).is_some(), "{shown}");
    }
}

#[test]
fn att_18_the_file_goes_even_if_the_target_went_first() {
    let made = MadeUp::core_clr();
    let library = place_library(&made.find(), b"library").expect("placed");
    made.end();
    library.remove().expect("removed");
    holds!(ATT_18 rem, made.names_in("scratch") == Vec::<String>::new());
}

/// Its directories vanish with the process: their errors are not the cause.
#[test]
fn a_process_that_ends_while_something_is_placed_has_ended() {
    type Place = fn(&Process) -> Result<(), Error>;
    let places: [Place; 3] = [
        |process| place_library(process, b"library").map(drop),
        |process| place_library_that_may_stay(process, b"library").map(drop),
        |process| place_socket(process).map(drop),
    ];
    for place in places {
        let made = MadeUp::core_clr();
        let process = made.find();
        let status = made.read("status");
        std::fs::remove_dir_all(made.in_root("scratch")).expect("removed");
        std::fs::remove_dir_all(made.in_root("tmp")).expect("removed");
        let error = place(&process).expect_err("nothing can be placed");
        assert!(matches!(error, Error::NoLibraryPlace { .. } | Error::NoSocketPlace { .. }), "{error:?}");
        // Between the first read and the directories: the reader waits for this write.
        made.becomes_a_pipe("status");
        let ends = std::thread::scope(|scope| {
            let placed = scope.spawn(|| place(&process));
            made.write_when_read("status", &status, || made.remove("stat"));
            placed.join().expect("no panic")
        });
        assert!(matches!(ends, Err(Error::Changed { pid: 777, .. })), "{ends:?}");
    }
}

#[test]
fn the_socket_belongs_to_one_user_and_works_below_a_long_path() {
    let made = MadeUp::core_clr_with_directory(&format!("/{}/{}", "d".repeat(90), "e".repeat(90)));
    let (listener, socket) = place_socket(&made.find()).expect("placed");
    assert!(socket.host_path.as_os_str().len() > 108);
    assert_eq!(std::fs::metadata(&socket.host_path).expect("there").permissions().mode() & 0o777, 0o600);
    let directory = Directory::open(socket.host_path.parent().expect("has one"), &"/".into()).expect("opens");
    let path = directory.short_path(socket.host_path.file_name().expect("has one"));
    let mut theirs = UnixStream::connect(path).expect("connects");
    let (mut ours, _) = listener.accept().expect("accepts");
    ours.write_all(b"hello").expect("written");
    drop(ours);
    let mut text = String::new();
    theirs.read_to_string(&mut text).expect("read");
    assert_eq!(text, "hello");
}

#[test]
fn att_06_each_candidate_that_does_not_do_is_named_with_its_fault() {
    let good = FileSystem { no_execute: false, read_only: false, free_bytes: 1 << 30 };
    let library = Purpose::Library { bytes: 1 << 20 };
    let full = FileSystem { free_bytes: 1 << 20, ..good };
    let all = Access { reachable: true, writable: true, kept: true };
    let cases = [
        (all, good, library, None),
        (Access { reachable: false, ..all }, good, library, Some("may not enter")),
        (all, FileSystem { no_execute: true, ..good }, library, Some("noexec")),
        (all, FileSystem { read_only: true, ..good }, library, Some("read-only")),
        (all, full, library, Some("full (1048576 bytes left)")),
        (Access { writable: false, ..all }, good, library, Some("may not write")),
        (Access { kept: false, ..all }, good, library, Some("could replace")),
        (all, FileSystem { no_execute: true, ..full }, Purpose::Socket, None),
        (all, FileSystem { read_only: true, ..good }, Purpose::Socket, Some("read-only")),
        (Access { kept: false, ..all }, good, Purpose::Socket, None),
        (Access { writable: false, ..all }, good, Purpose::Socket, Some("may not write")),
    ];
    for (access, file_system, purpose, fault) in cases {
        match (verdict(access, file_system, purpose), fault) {
            (Ok(()), None) => {}
            (Err(why), Some(part)) => holds!(ATT_06 rem, why.contains(part), "{why}"),
            (found, expected) => panic!("{file_system:?} {purpose:?}: {found:?}, expected {expected:?}"),
        }
    }
}

/// Kubernetes makes such directories (`emptyDir`), and a hardened pod has no other.
#[test]
fn a_directory_that_everybody_can_write_to_serves_if_it_was_chosen_only() {
    let made = MadeUp::core_clr();
    std::fs::create_dir_all(made.in_root("scratch/volume")).expect("made");
    let mode = |path: &str, mode| {
        std::fs::set_permissions(made.in_root(path), std::fs::Permissions::from_mode(mode)).expect("set");
    };
    mode("scratch/volume", 0o777);
    ["", "scratch", "tmp"].into_iter().for_each(|path| mode(path, 0o777));
    let mut process = made.find();
    let refused = place_library(&process, b"library").expect_err("others can replace it");
    assert!(matches!(&refused, Error::NoLibraryPlace { tried } if tried.contains("other users")), "{refused:?}");
    process.library_directory = Some("/scratch/volume".into());
    let placed = place_library(&process, b"library").expect("it was chosen");
    assert_eq!(placed.target_path.parent(), Some("/scratch/volume".into()));
    // The state after a killed recording: without the lock.
    let (host, target) = (placed.host_path.clone(), placed.target_path.clone());
    drop(placed);
    std::fs::write(&host, "library").expect("written");
    assert_eq!(sweep(&process).expect("looked").removed, [target]);
    process.library_directory = Some("/none".into());
    let refused = place_library(&process, b"library").expect_err("there is none");
    assert!(matches!(&refused, Error::NoLibraryPlace { tried } if tried.starts_with("/none: ")), "{refused:?}");
}

/// Before, root made the file and changed its owner by name; a quick user could have swapped it for another file of root's.
#[test]
fn the_socket_is_made_with_the_rights_of_the_targets_user_and_only_where_these_suffice() {
    assert!(rustix::process::geteuid().is_root(), "this test acts as several users");
    let made = MadeUp::core_clr();
    made.identity_without_capabilities(USER);
    let other = made.in_root("tmp");
    for directory in [made.in_root(""), made.in_root("scratch"), other.clone()] {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).expect("set");
    }
    let refused = place_socket(&made.find()).expect_err("both directories are root's");
    assert!(matches!(&refused, Error::NoSocketPlace { tried } if tried.contains("may not write")), "{refused:?}");
    std::os::unix::fs::chown(&other, Some(USER), Some(USER)).expect("set");
    let (_listener, socket) = place_socket(&made.find()).expect("placed");
    let facts = std::fs::metadata(&socket.host_path).expect("there");
    assert_eq!((socket.target_path.parent(), facts.uid(), facts.gid()), (Some("/tmp".into()), USER, USER));
    let ours = tempfile::NamedTempFile::new().expect("made");
    assert_eq!(ours.as_file().metadata().expect("open").uid(), 0, "this thread acts as root again");
}

/// Only the library's place was chosen by it. Which socket was connected to, and what `detach` removed, still showed the directory.
#[test]
fn what_only_root_can_reach_is_neither_a_socket_nor_swept() {
    assert!(rustix::process::geteuid().is_root(), "this test acts as several users");
    let made = MadeUp::core_clr_with_directory("/closed/secret/../../scratch");
    made.identity_without_capabilities(USER);
    std::fs::set_permissions(made.in_root(""), std::fs::Permissions::from_mode(0o755)).expect("set");
    made.socket_in("scratch");
    made.listening(&["/closed/secret/../../scratch", "/tmp"]);
    let bait = made.in_root("scratch/remora-0123456789abcdef.sock");
    drop(UnixListener::bind(&bait).expect("bound"));
    for path in [&bait, &made.in_root("scratch")] {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).expect("set");
    }
    for (mode, place, is_swept) in [(0o700, "/tmp", false), (0o755, "/scratch", true)] {
        std::fs::set_permissions(made.in_root("closed"), std::fs::Permissions::from_mode(mode)).expect("set");
        let process = made.find();
        let socket = process.diagnostics.as_ref().expect("found");
        assert_eq!(socket.target_path.parent(), Some(place.into()), "{mode:o}");
        assert_eq!(!sweep(&process).expect("looked").removed.is_empty(), is_swept, "{mode:o}");
    }
}

#[test]
fn other_mounts_are_tried_last_and_the_systems_own_never() {
    let made = MadeUp::core_clr();
    made.set(
        "mountinfo",
        b"1 1 0:1 / /data rw - ext4 /dev/sda rw\n\
          2 1 0:2 / /locked ro - ext4 /dev/sdb rw\n\
          3 1 0:3 / /plain rw,noexec - xfs /dev/sdc rw\n\
          4 1 0:4 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
          5 1 0:5 / /net rw - nfs4 server:/ rw\n",
    );
    let expected = [
        "/scratch",
        "/tmp",
        "/dev/shm",
        "/var/tmp",
        "/opt/app",
        "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.4",
        "/data",
    ];
    assert_eq!(candidates::directories(&made.find()), expected.map(TargetPath::from));
}

#[test]
fn att_18_a_sweep_takes_what_is_dead_and_leaves_what_lives_or_is_not_ours() {
    let made = MadeUp::core_clr();
    let process = made.find();
    let alive = place_library(&process, b"library").expect("placed");
    let (_listener, listening) = place_socket(&process).expect("placed");
    let dead_library = "libremora_agent-0123456789abcdef.so";
    let dead_one_that_stayed = "libremora_agent-0123456789abcdef-stays.so";
    let dead_socket = "remora-0123456789abcdef.sock";
    made.write("scratch", dead_library, b"left");
    made.write("scratch", dead_one_that_stayed, b"left");
    drop(UnixListener::bind(made.in_root("scratch").join(dead_socket)).expect("bound"));
    for name in ["libremora_agent.so", "remora-0123.sock", "notes.txt", "remora-zzzzzzzzzzzzzzzz.sock"] {
        made.write("scratch", name, b"not ours");
    }
    let mut swept = sweep(&process).expect("swept");
    swept.removed.sort();
    swept.in_use.sort();
    // This process has locked the library; who listens on a socket is not looked for.
    let ourselves = Some(std::process::id());
    let mut living = vec![(alive.target_path.clone(), ourselves), (listening.target_path.clone(), None)];
    living.sort();
    let dead =
        [dead_one_that_stayed, dead_library, dead_socket].map(|name| TargetPath::from("/scratch").join(name)).to_vec();
    holds!(ATT_18 rem, (swept.removed, swept.in_use, swept.failed) == (dead, living, Vec::new()));
    assert_eq!(made.names_in("scratch").len(), 6);
}

/// A target's thousands of files in use, with a hundred thousand locks, kept `detach` busy for hours.
#[test]
fn regression_the_locks_of_all_processes_were_read_again_for_each_file_in_use() {
    let made = MadeUp::core_clr();
    let process = made.find();
    let _locked: Vec<_> = (0..100)
        .map(|number| {
            let name = format!("libremora_agent-{number:016x}.so");
            made.write("scratch", &name, b"in use");
            let file = File::open(made.in_root("scratch").join(name)).expect("just written");
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).expect("locked");
            file
        })
        .collect();
    let text = std::fs::read("/proc/locks").expect("readable").len() as u64;
    let before = bytes_read();
    let swept = sweep(&process).expect("swept");
    let read = bytes_read() - before;
    // Other tests lock files, too, and everything else that is read has some kilobytes.
    assert!(read < 2 * text + (64 << 10), "{read} bytes, of locks of {text}");
    assert_eq!((swept.in_use.len(), swept.more_in_use), (16, 84));
    assert!(swept.in_use.iter().all(|(_, user)| *user == Some(std::process::id())), "{:?}", swept.in_use);
}

/// Bytes that this thread has read of files.
fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").expect("the kernel counts them");
    let count = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    count.and_then(|count| count.parse().ok()).expect("a number")
}

/// As many as are looked at in a directory had the names of Remora's files, and belonged to somebody else.
#[test]
fn files_of_another_user_hid_those_that_an_interrupted_run_had_left() {
    let made = MadeUp::core_clr();
    let process = made.find();
    for number in 0..3000 {
        let other = made.in_root("scratch").join(format!("libremora_agent-{number:016x}.so"));
        std::fs::write(&other, "").expect("written");
        std::os::unix::fs::chown(&other, Some(4_000_000), None).expect("given away");
    }
    let left = "libremora_agent-0123456789abcdef.so";
    made.write("scratch", left, b"left");
    let swept = sweep(&process).expect("swept");
    assert_eq!((swept.removed, swept.failed), (vec![TargetPath::from("/scratch").join(left)], Vec::new()));
}

/// A process that ran a set-user-ID program at that moment got the library into a directory that only root can write.
#[test]
fn a_set_user_id_program_does_not_make_a_directory_of_roots_a_place() {
    let made = MadeUp::core_clr();
    std::fs::set_permissions(made.in_root("scratch"), PermissionsExt::from_mode(0o755)).expect("set");
    let user = 4_000_000;
    let ids = |real, effective| {
        format!("Uid:\t{real}\t{effective}\t{effective}\t{effective}\nGid:\t{user}\t{user}\t{user}\t{user}\n")
    };
    made.set("status", ids(0, 0).replace(&user.to_string(), "0").as_bytes());
    assert!(place_library(&made.find(), b"library").is_ok(), "root's own process");
    made.set("status", ids(user, 0).as_bytes());
    assert!(place_library(&made.find(), b"library").is_err(), "a program that a user has started");
}

/// The same, if that program calls `setuid(0)`, and the process executed it since it was found.
#[test]
fn a_set_user_id_program_that_a_process_executes_after_it_was_found_makes_no_directory_of_roots_a_place() {
    let made = MadeUp::core_clr();
    std::fs::set_permissions(made.in_root("scratch"), PermissionsExt::from_mode(0o755)).expect("set");
    made.user(USER);
    let process = made.find();
    made.user(0);
    assert!(place_library(&process, b"library").is_err() && place_socket(&process).is_err());
    made.user(USER + 1);
    let error = place_library(&process, b"library").expect_err("another user's rights");
    assert!(error.to_string().contains("has become another user"), "{error}");
    assert_eq!(made.names_in("scratch"), Vec::<String>::new());
}

#[test]
fn a_library_in_memory_needs_a_target_that_may_look_at_us() {
    let made = MadeUp::core_clr();
    let process = made.find();
    let who = target_rights(&process).expect("read");
    assert!(in_memory(&process, &who, b"x", LIBRARY_SUFFIX).is_err(), "its /proc is empty");
}

/// A process on musl.
fn on_musl() -> MadeUp {
    let made = MadeUp::core_clr();
    let maps = [&made.read("maps")[..], b"7f20-7f30 r-xp 00000000 08:01 43 /lib/ld-musl-x86_64.so.1\n"].concat();
    made.set("maps", &maps);
    made
}

/// Each attach left one more library mapped in a process on musl.
#[test]
fn on_musl_the_next_attach_gets_the_same_file_until_somebody_deletes_it() {
    let made = on_musl();
    let process = made.find();
    let inode = |placed: &Placed| std::fs::metadata(&placed.host_path).expect("there").ino();
    let first = place_library(&process, b"library").expect("placed");
    assert!(first.is_reusable());
    let (path, file, mapped) = (first.target_path.clone(), inode(&first), first.mapped_name.clone());
    assert!(mapped.ends_with(MUSL_SUFFIX) && is_ours(OsStr::new(&mapped)).is_some(), "{mapped}");
    assert_eq!(path, TargetPath::from("/scratch").join(&mapped));
    // Two at a time share it, and a sweep leaves it alone.
    let second = place_library(&process, b"library").expect("placed");
    assert_eq!((&second.target_path, inode(&second)), (&path, file));
    assert_eq!(sweep(&process).expect("swept").in_use, [(path.clone(), Some(std::process::id()))]);
    assert_eq!(
        (first.keep(), second.keep()),
        (made.in_root("scratch").join(&mapped), made.in_root("scratch").join(&mapped))
    );
    let third = place_library(&process, b"library").expect("placed");
    assert_eq!((third.target_path.clone(), inode(&third)), (path.clone(), file));
    let other = place_library(&process, b"another version").expect("placed");
    assert_ne!(other.target_path, path);
    drop(other);
    third.keep();
    assert_eq!(sweep(&process).expect("swept").removed, [path]);
    // A library that was not kept is not reused.
    drop(place_library(&process, b"library").expect("placed"));
    assert_eq!(made.names_in("scratch"), Vec::<String>::new());
}

#[test]
fn on_musl_only_a_file_with_our_bytes_that_no_third_user_can_change_is_used_again() {
    assert!(rustix::process::geteuid().is_root(), "this test acts as several users");
    let made = on_musl();
    let process = made.find();
    let path = place_library(&process, b"library").expect("placed").keep();
    let elsewhere = made.in_root("elsewhere");
    let put = |content: &[u8], mode, owner| {
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, content).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        std::os::unix::fs::chown(&path, Some(owner), None).expect("set");
    };
    let spoilt: [(&str, &dyn Fn()); 6] = [
        ("other bytes", &|| put(b"liBrary", 0o555, 0)),
        ("more bytes", &|| put(b"library and more", 0o555, 0)),
        ("others can write to it", &|| put(b"library", 0o557, 0)),
        ("it is a third user's", &|| put(b"library", 0o555, USER)),
        ("it is a link", &|| {
            put(b"library", 0o555, 0);
            std::fs::rename(&path, &elsewhere).expect("moved");
            std::os::unix::fs::symlink("/elsewhere", &path).expect("linked");
        }),
        ("it is a pipe", &|| {
            std::fs::remove_file(&path).expect("removed");
            let node = (rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o555));
            rustix::fs::mknodat(rustix::fs::CWD, &path, node.0, node.1, 0).expect("made");
        }),
    ];
    for (what, spoil) in spoilt {
        spoil();
        let placed = place_library(&process, b"library").expect("placed");
        assert!(!placed.is_reusable() && placed.host_path != path, "{what}");
        assert_eq!(std::fs::read(&placed.host_path).expect("readable"), b"library", "{what}");
    }
    put(b"library", 0o555, 0);
    assert_eq!(place_library(&process, b"library").expect("placed").host_path, path, "nothing was wrong with it");
}
