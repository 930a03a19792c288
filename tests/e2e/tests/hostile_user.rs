//! Attacks of another user's process on root: each runs against the whole command as root.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it does not expect")]

mod support;

use remora_e2e::{Finished, Remora, Start, Target, remora};
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{compile, open_folder};

/// Users without other processes: the target's, and another one.
const USER: u32 = 64_201;
/// A user without processes, so that the limit of processes is that of the test.
const OTHER_USER: u32 = 64_203;
const STRANGER: u32 = 64_202;

/// Exit codes: not allowed, nobody answers, another command records it, the target refuses, the output cannot be written, something stays in the target.
const NO_PERMISSION: i32 = 13;
const NO_ANSWER: i32 = 15;
const HELD: i32 = 18;
const REFUSED: i32 = 19;
const OUTPUT_REFUSED: i32 = 20;
const UNCLEAN: i32 = 40;

/// A process of [`USER`] with a behaviour of `src/bin/hostile.rs` that looks like a .NET process.
struct Hostile {
    target: Target,
    folder: tempfile::TempDir,
    /// The library that it maps as its runtime.
    library: PathBuf,
}

impl Hostile {
    /// Only the content of its runtime has the version. `script`, which ends in `exec "$@"`, runs as root before it in a separate mount
    /// namespace; it can use `$FOLDER`.
    fn behind(script: &str, manner: &str, arguments: &[&str]) -> Hostile {
        let folder = open_folder();
        let (own, program) = (folder.path().join("own"), folder.path().join("program"));
        fs::create_dir(&own).unwrap();
        chown(&own, Some(USER), Some(USER)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_hostile"), &program).unwrap();
        let library = compile("old_runtime", &["-shared", "-fPIC"], &own.join("libcoreclr.so"));
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={USER}")).arg(format!("--regid={USER}")).args(["--clear-groups"]);
        command.arg(program).arg(manner).args(arguments);
        let start = Start::of(command, manner).env("LD_PRELOAD", &library).env("TMPDIR", &own);
        let start = if script.is_empty() { start } else { start.env("FOLDER", folder.path()).behind(script) };
        Hostile { target: start.ready(), folder, library }
    }

    fn start(manner: &str) -> Hostile {
        Hostile::behind("", manner, &[])
    }

    /// With a version that can be recorded.
    fn of_today(script: &str, manner: &str, arguments: &[&str]) -> Hostile {
        let hostile = Hostile::behind(script, manner, arguments);
        hostile.replaces_its_library(|path| {
            let old = fs::read(&hostile.library).unwrap();
            let at = old.windows(12).position(|window| window == b"4.6.29719.3 ").unwrap();
            fs::write(path, [&old[..at], b"8.0.424.169 ", &old[at + 12..]].concat()).unwrap();
        });
        hostile
    }

    /// Replaces the file of its mapped library.
    fn replaces_its_library(&self, make: impl FnOnce(&Path)) {
        let other = self.folder.path().join("own/other");
        make(&other);
        fs::rename(other, &self.library).unwrap();
    }

    fn pid(&self) -> String {
        self.target.pid().to_string()
    }

    /// Its row in `remora ps --json`.
    fn row(&self) -> Value {
        let listed = bounded(&["ps", "--json"]).succeeded().json();
        let rows = listed.as_array().unwrap();
        rows.iter().find(|row| row["process_id"] == self.target.pid()).unwrap().clone()
    }

    /// The path of its socket.
    fn socket(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.folder.path().join("own")).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.to_str().unwrap().ends_with("-socket")).unwrap()
    }

    fn remora(&self, arguments: &[&str]) -> Finished {
        remora(arguments.iter().copied().chain(["-p", &self.pid()]))
    }

    fn record(&self) -> Finished {
        let file = self.folder.path().join("out.remora");
        self.remora(&["record", "--engine", "agent", "-d", "1s", "-o", file.to_str().unwrap()])
    }
}

/// A description, and a function that puts the attack at a path.
type Attack<'a> = (&'a str, &'a dyn Fn(&Path));

/// Runs `remora` with limited memory, to its end.
fn bounded(arguments: &[&str]) -> Finished {
    let remora = Remora::command();
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -v 700000 && exec "$0" "$@""#]).arg(remora.get_program()).args(arguments);
    Remora::spawn(command).finish()
}

#[test]
fn the_socket_of_an_attach_is_the_targets_from_the_start_and_is_never_given_away() {
    let hostile = Hostile::of_today("", "refusing", &[]);
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let kinds = WatchFlags::ATTRIB | WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
    inotify::add_watch(&watch, hostile.folder.path().join("own"), kinds).unwrap();
    hostile.record().failed_with(REFUSED, &["the runtime refused"]);
    let mut space = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut space);
    let mut seen = Vec::new();
    while let Ok(event) = reader.next() {
        if event.file_name().is_some_and(|name| name.to_bytes().starts_with(b"remora-")) {
            seen.push(event.events());
        }
    }
    assert_eq!(seen, [ReadFlags::CREATE, ReadFlags::DELETE]);
}

#[test]
fn what_is_under_the_name_of_a_library_is_opened_only_if_it_is_a_file_that_the_targets_user_can_read() {
    let jail = r#"mkdir "$FOLDER/jail" "$FOLDER/outside" && mount --bind / "$FOLDER/jail" &&
                  mount --bind /proc "$FOLDER/jail/proc" &&
                  mount -t tmpfs none "$FOLDER/jail/$FOLDER/outside" && exec chroot "$FOLDER/jail" "$@""#;
    let hostile = Hostile::behind(jail, "refusing", &[]);
    let runtime = fs::read(&hostile.library).unwrap();
    let version = || hostile.row()["runtime_version"].clone();
    assert_eq!(version(), "2.0", "its own file is read");
    let outside = hostile.folder.path().join("outside/libcoreclr.so");
    fs::write(&outside, &runtime).unwrap();
    let attacks: [Attack; 5] = [
        ("a file of root's", &|path| {
            fs::write(path, &runtime).unwrap();
            fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
        }),
        ("a link to a file outside of its root", &|path| symlink(&outside, path).unwrap()),
        ("a link through a magic link", &|path| symlink(Path::new("/proc/1/root").join(&outside), path).unwrap()),
        ("a device without an end", &|path| symlink("/dev/zero", path).unwrap()),
        ("a pipe that nobody writes to", &|path| {
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
    ];
    for (what, attack) in attacks {
        hostile.replaces_its_library(attack);
        assert_eq!(version(), Value::Null, "{what}");
        let checked = hostile.remora(&["check", "--json"]);
        assert!(checked.json()["checks"].is_array(), "{what}: {checked}");
    }
}

#[test]
fn output_does_not_go_where_a_link_of_another_user_leads() {
    let folder = open_folder();
    let [link, recording, ours, theirs] = ["out", "x.remora", "ours", "theirs"].map(|name| folder.path().join(name));
    fs::write(&recording, include_bytes!("../../../crates/host/recording/tests/golden/v1.remora")).unwrap();
    symlink("/dev/null", &link).unwrap();
    let convert = |output: &Path| {
        remora(["convert", "--format", "folded", "-o"].map(Path::new).into_iter().chain([output, &*recording]))
    };
    convert(&link).succeeded();
    lchown(&link, Some(STRANGER), None).unwrap();
    convert(&link).failed_with(OUTPUT_REFUSED, &["out is a link of another user"]);
    // The same for directories in the path.
    let place = folder.path().join("place");
    fs::create_dir(&place).unwrap();
    for link in [&ours, &theirs] {
        symlink(&place, link).unwrap();
    }
    lchown(&theirs, Some(STRANGER), None).unwrap();
    convert(&theirs.join("x.folded")).failed_with(OUTPUT_REFUSED, &["theirs is a link of another user"]);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    convert(&ours.join("x.folded")).succeeded();
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
}

#[test]
fn the_library_does_not_go_where_another_user_can_replace_it() {
    for (owner, mode, is_used) in
        [(USER, 0o700, true), (USER, 0o777, false), (STRANGER, 0o755, false), (0, 0o1777, true), (0, 0o755, false)]
    {
        let hostile = Hostile::of_today("", "refusing", &[]);
        let own = hostile.folder.path().join("own");
        chown(&own, Some(owner), None).unwrap();
        fs::set_permissions(&own, PermissionsExt::from_mode(mode)).unwrap();
        let checked = hostile.remora(&["check"]).text();
        assert_eq!(
            checked.contains(&format!("{} can hold the library", own.display())),
            is_used,
            "{owner} {mode:o}: {checked}"
        );
        hostile.record().failed_with(REFUSED, &["the runtime refused"]);
        let asked = hostile.target.read_line();
        let is_there = asked.starts_with(&format!("asked to load {}/libremora_agent-", own.display()));
        assert_eq!(is_there, is_used, "{owner} {mode:o}: {asked}");
    }
}

/// A `remora` of another user with file capabilities that bypass permissions.
fn capable_row(hostile: &Hostile) -> Value {
    let capabilities = ["dac_override", "dac_read_search", "fowner", "setuid", "setgid", "sys_ptrace"]
        .map(|name| format!("+{name}"))
        .join(",");
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={STRANGER}")).arg(format!("--regid={STRANGER}")).arg("--clear-groups");
    command.arg(format!("--inh-caps={capabilities}")).arg(format!("--ambient-caps={capabilities}"));
    command.arg(Remora::command().get_program()).args(["ps", "--json"]);
    let listed = Remora::spawn(command).finish().succeeded().json();
    listed.as_array().unwrap().iter().find(|row| row["process_id"] == hostile.target.pid()).unwrap().clone()
}

#[test]
fn a_remora_that_ignores_permissions_reads_no_file_of_roots_for_a_target() {
    let hostile = Hostile::start("refusing");
    assert_eq!(capable_row(&hostile)["runtime_version"], "2.0", "its own file is read");
    let runtime = fs::read(&hostile.library).unwrap();
    hostile.replaces_its_library(|path| {
        fs::write(path, &runtime).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    });
    assert_eq!(capable_row(&hostile)["runtime_version"], Value::Null);
}

/// A process maps a library, puts a link to root's file in its place, and waits until `remora` has read its mappings. Then it executes a
/// set-user-ID program that becomes root altogether. The file was read with the rights of that program.
#[test]
fn a_program_that_becomes_root_after_the_mappings_were_read_lends_them_no_rights() {
    let folder = open_folder();
    let [library, secret, program, waits] =
        ["libcoreclr.so", "secret", "program", "waits.so"].map(|name| folder.path().join(name));
    compile("old_runtime", &["-shared", "-fPIC"], &library);
    compile("lent_rights", &["-shared", "-fPIC"], &waits);
    compile("lent_rights", &["-DPROGRAM"], &program);
    fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={USER}")).arg(format!("--regid={USER}")).args(["--clear-groups", "sh", "-c"]);
    command.args([r#"trap 'exec "$0"' USR1; echo ready; while :; do sleep 1 & wait $!; done"#]).arg(&program);
    let target = Start::of(command, "sh").env("LD_PRELOAD", &library).ready();
    let version = |waits: Option<&Path>| {
        let mut command = Remora::command();
        command
            .args(["ps", "--json"])
            .env("LENDER", target.pid().to_string())
            .envs(waits.map(|path| ("LD_PRELOAD", path)));
        let listed = Remora::spawn(command).finish().succeeded().json();
        let rows = listed.as_array().unwrap();
        rows.iter().find(|row| row["process_id"] == target.pid()).map(|row| row["runtime_version"].clone())
    };
    assert_eq!(version(None), Some("2.0".into()), "its own file is read");
    fs::copy(&library, &secret).unwrap();
    fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    fs::remove_file(&library).unwrap();
    symlink(&secret, &library).unwrap();
    assert_eq!(version(None), Some(Value::Null), "its user cannot read it");
    assert_eq!(version(Some(&waits)), Some(Value::Null), "and the program that it became was not meant");
    let status = fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
    assert!(status.contains("Uid:\t0\t0\t0\t0\n"), "it became root meanwhile: {status}");
}

/// The name of its instance lock.
fn lock_name(hostile: &Hostile) -> String {
    let pid = hostile.pid();
    let namespace = std::os::unix::fs::MetadataExt::ino(&fs::metadata(format!("/proc/{pid}/ns/pid")).unwrap());
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap();
    format!("recording-{namespace}-{pid}-{start}")
}

/// Records it with another `/tmp`, where the folder `locks` has the name of that user's.
fn record_beside_locks(hostile: &Hostile, locks: &Path, user: u32) -> Finished {
    let script =
        r#"mount -t tmpfs -o mode=1777 none /tmp && mkdir "$1" && mount --bind "$0" "$1" && shift && exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", script]).arg(locks).arg(format!("/tmp/remora-{user}"));
    command.arg(Remora::command().get_program());
    command.args(["record", "--engine", "agent", "-d", "1s", "-p", &hostile.pid(), "-o"]);
    Remora::spawn({
        command.arg(locks.parent().unwrap().join("out.remora"));
        command
    })
    .finish()
}

#[test]
fn a_lock_that_another_user_holds_in_the_place_of_roots_holds_nobody() {
    let hostile = Hostile::of_today("", "refusing", &[]);
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let locks = folder.path().join("remora-0");
    fs::create_dir(&locks).unwrap();
    let path = locks.join(lock_name(&hostile));
    let lock = fs::File::create(&path).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let record = || record_beside_locks(&hostile, &locks, 0);
    record().failed_with(HELD, &[]);
    chown(&locks, Some(STRANGER), Some(STRANGER)).unwrap();
    record().failed_with(REFUSED, &["the runtime refused"]);
}

/// Another user could keep a user without `/run/user/UID` from recording.
#[test]
fn a_directory_of_another_user_in_the_place_of_ones_own_locks_blocks_no_recording() {
    let hostile = Hostile::of_today("", "refusing", &[]);
    // Not in `/tmp`, since another one is mounted there.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (home, program) = (folder.path().join("home"), folder.path().join("remora"));
    fs::copy(Remora::command().get_program(), &program).unwrap();
    fs::create_dir(&home).unwrap();
    chown(&home, Some(USER), Some(USER)).unwrap();
    let record = |owner: u32, mode: u32| {
        fs::set_permissions(&home, PermissionsExt::from_mode(mode)).unwrap();
        let script =
            r#"mount -t tmpfs -o mode=1777 none /tmp && mkdir -m 700 "$0" && chown "$1" "$0" && shift && exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-ec", script]).arg(format!("/tmp/remora-{USER}")).arg(owner.to_string());
        command.args(["setpriv", &format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
        command.arg(&program).args(["record", "--engine", "agent", "-d", "1s", "-o", "/tmp/out.remora", "-p"]);
        command.arg(hostile.pid()).env("HOME", &home);
        Remora::spawn(command).finish()
    };
    record(USER, 0o755).failed_with(REFUSED, &["the runtime refused"]);
    record(STRANGER, 0o755).failed_with(REFUSED, &["the runtime refused"]);
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "the lock is gone");
    let fix = "set HOME to a directory that only you can write to";
    record(STRANGER, 0o775).failed_with(NO_PERMISSION, &["another user has /tmp/remora-", fix]);
    // Another command of this user has begun while the name was taken, which it is no more.
    let locks = home.join(".remora-lock");
    fs::create_dir(&locks).unwrap();
    let lock = fs::File::create(locks.join(lock_name(&hostile))).unwrap();
    for path in [locks.clone(), locks.join(lock_name(&hostile))] {
        fs::set_permissions(&path, PermissionsExt::from_mode(if path == locks { 0o755 } else { 0o600 })).unwrap();
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    record(USER, 0o755).failed_with(HELD, &[]);
}

/// The user was told of leftovers after ten seconds, and to detach what a recording of root's was using.
#[test]
fn a_recording_by_root_is_reported_to_the_targets_user_at_once_and_one_that_was_killed_is_not() {
    let hostile = Hostile::of_today("", "refusing", &[]);
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (locks, program) = (folder.path().join("locks"), folder.path().join("remora"));
    fs::create_dir(&locks).unwrap();
    fs::set_permissions(&locks, PermissionsExt::from_mode(0o755)).unwrap();
    fs::copy(Remora::command().get_program(), &program).unwrap();
    let path = locks.join(lock_name(&hostile));
    let lock = fs::File::create(&path).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    let as_user = |arguments: &[&str]| {
        let script = r#"mount -t tmpfs -o mode=1777 none /tmp && mkdir /tmp/remora-0 && mount --bind "$0" /tmp/remora-0 && exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-ec", script]).arg(&locks).arg("setpriv");
        command.arg(format!("--reuid={USER}")).arg(format!("--regid={USER}")).arg("--clear-groups").arg(&program);
        command.args(arguments).args(["-p", &hostile.pid()]);
        Remora::spawn(command).finish()
    };
    as_user(&["detach"]).succeeded();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let holder = format!("another user: process {} of root", std::process::id());
    as_user(&["detach"]).failed_with(HELD, &[&holder]);
    as_user(&["record", "-d", "1s", "-o", "/tmp/out.remora"]).failed_with(HELD, &[&holder]);
    as_user(&["heap", "-o", "/tmp/out.remora-heap"]).failed_with(HELD, &[&holder]);
}

/// Root that lacks a capability was told that the socket had been deleted, or to run as root.
#[test]
fn root_without_a_capability_learns_which_one_it_lacks() {
    let hostile = Hostile::of_today("", "refusing", &[]);
    let out = hostile.folder.path().join("out.remora");
    let out = out.to_str().unwrap();
    let closed = format!("cannot open /proc/{}/root: Remora lacks CAP_SYS_PTRACE", hostile.pid());
    let cases = [
        ("-sys_ptrace", &*closed, "--cap-add SYS_PTRACE"),
        ("-dac_override", "Remora lacks CAP_DAC_OVERRIDE", "--cap-add DAC_OVERRIDE"),
        ("-setuid", "Remora lacks CAP_SETUID", "--cap-add SETUID"),
        ("-setgid", "Remora lacks CAP_SETGID", "--cap-add SETGID"),
    ];
    for (capability, cause, remedy) in cases {
        let run = |arguments: &[&str]| {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set", capability, "--inh-caps", capability]);
            command.arg(Remora::command().get_program()).args(arguments).args(["-p", &hostile.pid()]);
            Remora::spawn(command).finish()
        };
        for arguments in [&["detach"][..], &["record", "-d", "1s", "-o", out]] {
            run(arguments).failed_with(NO_PERMISSION, &[cause, remedy, "run remora as the target's user"]);
        }
        let checked = run(&["check", "--json"]);
        assert_eq!(checked.code(), NO_PERMISSION, "{checked}");
        let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
        assert_eq!(checked["code"], "lacks-capability", "{checked:#}");
        let rights = checked["checks"].as_array().unwrap().iter().find(|check| check["name"] == "rights").unwrap();
        assert_eq!((&rights["passed"], rights["found"].as_str().unwrap().contains(cause)), (&Value::Bool(false), true));
    }
}

/// Root was refused, and told that a process which does nothing of that kind records it.
#[test]
fn a_lock_of_the_targets_user_does_not_keep_root_from_recording_and_names_no_holder() {
    let hostile = Hostile::of_today("", "refusing", &[]);
    // Not in `/tmp`, since another one is mounted there.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let locks = folder.path().join("locks");
    fs::create_dir(&locks).unwrap();
    chown(&locks, Some(USER), Some(USER)).unwrap();
    let namespace = std::os::unix::fs::MetadataExt::ino(&fs::metadata("/proc/self/ns/pid").unwrap());
    let innocent = std::process::id();
    let script = r#"umask 077 && echo "$1" > "$0" && exec flock "$0" sh -c 'echo locked && read -r end'"#;
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={USER}")).arg(format!("--regid={USER}")).args(["--clear-groups", "sh", "-ec", script]);
    command.arg(locks.join(lock_name(&hostile))).arg(format!("{innocent} {namespace}"));
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "locked\n");
    let recorded = record_beside_locks(&hostile, &locks, USER);
    assert!(!recorded.stderr.contains(&format!("process {innocent}")), "{recorded}");
    recorded.failed_with(REFUSED, &["the runtime refused", &format!("user {USER} has locked process")]);
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

/// A file of some kilobytes that claims a symbol table of 450 MB.
fn sparse_elf() -> (Vec<u8>, u64) {
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    elf.extend([0_u64, 0, 64].iter().flat_map(|word| word.to_le_bytes()));
    elf.extend([0_u32.to_le_bytes(), [64, 0, 56, 0], [0, 0, 64, 0], [3, 0, 1, 0]].concat());
    let section = |kind: u32, offset: u64, size: u64, link: u32, entry: u64| {
        let words = [0_u64, 0, offset, size].map(u64::to_le_bytes).concat();
        [
            &0_u32.to_le_bytes()[..],
            &kind.to_le_bytes(),
            &words,
            &link.to_le_bytes(),
            &[0; 4],
            &8_u64.to_le_bytes(),
            &entry.to_le_bytes(),
        ]
        .concat()
    };
    let size = 24 * 18_750_000;
    elf.extend([section(0, 0, 0, 0, 0), section(3, 256, 16, 0, 0), section(11, 4096, size, 1, 24)].concat());
    (elf, 4096 + size)
}

#[test]
fn a_process_with_a_sparse_library_or_a_megabyte_of_arguments_spoils_no_list_for_the_others() {
    let arguments = "\u{202e}".repeat(40_000);
    let (sparse, other) = (Hostile::start("refusing"), Hostile::behind("", "refusing", &[&*arguments; 10]));
    sparse.replaces_its_library(|path| {
        let (bytes, length) = sparse_elf();
        fs::write(path, bytes).unwrap();
        fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    });
    let row = sparse.row();
    assert_eq!(
        (&row["runtime_version"], &row["incomplete"]),
        (&Value::Null, &"the tables of its files are too large".into())
    );
    assert_eq!(other.row()["runtime_version"], "2.0");
    let text = bounded(&["ps"]).succeeded().text();
    let all = [&sparse, &other].map(Hostile::pid);
    let shown: Vec<String> = text.lines().map(|line| line.chars().take(120).collect()).collect();
    let is_shown = |pid: &String| shown.iter().any(|line| line.trim_start().starts_with(&format!("{pid} ")));
    assert!(all.iter().all(is_shown), "{all:?}: {shown:#?}");
}

/// Runs a command of another user, who may have so many threads and processes.
fn limited(threads: u32, folder: &Path, arguments: &[&str]) -> Finished {
    let program = folder.join("remora");
    fs::copy(Remora::command().get_program(), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={OTHER_USER}")).arg(format!("--regid={OTHER_USER}")).args(["--clear-groups"]);
    command.args(["prlimit", &format!("--nproc={threads}")]).arg(&program).args(arguments).current_dir(folder);
    Remora::spawn(command).finish()
}

/// Processes whose inspection got no thread were missing from the list.
#[test]
fn regression_a_remora_with_few_threads_listed_some_processes_only() {
    let hostile = Hostile::start("refusing");
    let folder = open_folder();
    let limited = |threads| limited(threads, folder.path(), &["ps", "--json"]);
    limited(1).failed_with(REFUSED, &["cannot start a thread", "raise the limit of threads or memory for remora"]);
    let listed = limited(2).succeeded().json();
    assert!(listed.as_array().unwrap().iter().any(|row| row["process_id"] == hostile.target.pid()), "{listed:#}");
}

#[test]
fn regression_a_report_of_a_snapshot_that_got_no_thread_panicked() {
    const SNAPSHOT: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/host/heap-file/tests/golden/v2.remora-heap");
    let folder = open_folder();
    fs::copy(SNAPSHOT, folder.path().join("a.remora-heap")).unwrap();
    let words = ["heap", "report", "a.remora-heap", "--json"];
    let report = |threads| {
        let report = limited(threads, folder.path(), &words);
        // This snapshot is a part of a heap.
        assert_eq!(report.code(), 42, "{report}");
        report.json()
    };
    assert_eq!(report(1), report(9));
}

/// Whether the output is plain lines without terminal control sequences.
#[track_caller]
fn is_harmless(finished: &Finished) {
    let drives = |letter: char| letter != '\n' && letter.is_control() || letter == '\u{202e}';
    for text in [finished.text(), finished.stderr.clone()] {
        assert!(!text.contains(drives) && !text.contains("\nleft: nothing"), "{text:?}");
    }
}

#[test]
fn nothing_that_a_process_is_called_or_says_drives_the_terminal() {
    let coloured = "\u{1b}[2J\u{1b}]0;mine\u{7}\r\nleft: nothing\u{9b}31m\u{202e}";
    let hostile = Hostile::of_today("", "coloured", &[coloured]);
    let (pid, file) = (hostile.pid(), hostile.folder.path().join("out.remora"));
    for arguments in [&["ps"][..], &["ps", "--json"]] {
        is_harmless(&remora(arguments).succeeded());
    }
    for arguments in [&["check"][..], &["check", "--json"], &["detach"], &["detach", "--json"], &["heap"]] {
        is_harmless(&hostile.remora(arguments));
    }
    let recorded = hostile.record();
    assert_eq!(recorded.code(), UNCLEAN, "{recorded}");
    is_harmless(&recorded);
    let receipt = hostile.folder.path().join("receipt.json");
    let again =
        ["record", "--engine", "agent", "--json", "--force", "-p", &pid, "--receipt", receipt.to_str().unwrap(), "-o"];
    is_harmless(&remora(again.iter().map(Path::new).chain([&*file])));
    for arguments in [&["report"][..], &["report", "--json"]] {
        let reported = remora(arguments.iter().map(Path::new).chain([&*file])).succeeded();
        is_harmless(&reported);
        assert!(reported.text().contains("left: nothing"), "what it said is shown: {reported}");
    }
}

#[test]
fn a_recording_of_an_agent_whose_numbers_are_anything_can_be_read() {
    let hostile = Hostile::of_today("", "scrambled", &[]);
    let recorded = hostile.record();
    assert_eq!(recorded.code(), UNCLEAN, "{recorded}");
    let file = hostile.folder.path().join("out.remora");
    for form in ["html", "folded", "speedscope.json", "pb.gz", "firefox.json.gz"] {
        let made = hostile.folder.path().join(format!("out.{form}"));
        remora([Path::new("convert"), &file, Path::new("-o"), &made]).succeeded();
    }
    remora([Path::new("report"), Path::new("--json"), &file]).succeeded().json();
}

#[test]
fn nothing_is_asked_of_another_users_process_whose_socket_is_mounted_over_the_targets() {
    let victim = Hostile::of_today("", "refusing", &[]);
    let (own, pid) = (victim.folder.path().join("own"), victim.target.pid());
    chown(victim.socket(), Some(0), Some(0)).unwrap();
    // A user who may create a user namespace can do this without root.
    let hostile = Hostile::of_today(r#"exec "$@""#, "refusing", &[]);
    let mut mount = Command::new("nsenter");
    mount.args(["-m", "-t", &hostile.pid(), "mount", "--bind"]).args([victim.socket(), hostile.socket()]);
    assert!(mount.status().unwrap().success());
    let words = [&format!("process {pid} listens on the diagnostics socket"), "nothing was sent to it"];
    hostile.record().failed_with(NO_ANSWER, &words.map(|word| word as &str));
    let sample = ["record", "--engine", "eventpipe", "-d", "1s", "-o", "-", "--format", "folded"];
    hostile.remora(&sample).failed_with(NO_ANSWER, &["nothing was sent to it"]);
    // This request is the first that it has ever received.
    victim.record().failed_with(REFUSED, &["the runtime refused"]);
    assert!(victim.target.read_line().contains(own.to_str().unwrap()));
}
