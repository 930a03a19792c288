//! Targets in all kinds of namespaces and installations: attach, record, and leave nothing in any namespace.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it does not expect")]

mod support;

use remora_e2e::{Remora, Runtime, Start, Target, native, on_every_runtime, remora};
use remora_holds::holds;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use support::{AS_NOBODY, Watched, behind, compile, ended_when_busy, names, open_folder};

#[test]
fn att_06_a_private_mount_namespace() {
    on_every_runtime(|runtime| {
        let script = "mount -t tmpfs tmpfs /tmp; export TMPDIR=/tmp; exec \"$@\"";
        let mut target = Watched::behind(script, runtime, |start| start);
        let private = format!("/proc/{}/root/tmp", target.pid);
        let before = names(Path::new(&private));
        holds!(ATT_06 clr rem, target.is_recorded(&[]) > 0);
        assert_eq!(names(Path::new(&private)), before);
        assert!(row(&target)["container"].as_str().is_some_and(|text| text.contains("mnt")), "{}", row(&target));
        target.goes_on();
    });
}

/// No directory can have the library; the runtime has one for its socket.
const ALL_READ_ONLY: &str = "mount -o remount,bind,ro / && mount -t tmpfs -o noexec tmpfs /tmp && \
    for each in /var/tmp /dev/shm /dev; do mount -o bind,ro $each $each && mount -o remount,bind,ro $each || exit 1; done && \
    export TMPDIR=/tmp && exec \"$@\"";

/// A library loaded from our own memory has no file, and is recognised by its name like any other: while active, and when it stays.
#[test]
fn att_06_det_14_a_library_from_memory_is_seen_in_the_process() {
    on_every_runtime(|runtime| {
        let mut target = Watched::behind(ALL_READ_ONLY, runtime, |start| start);
        holds!(ATT_06 clr rem, target.is_recorded(&[]) > 0);
        let folder = open_folder();
        let (process, file) = (target.pid.to_string(), folder.path().join("roots.remora-heap").display().to_string());
        let shown = remora(["heap", "-p", &process, "--roots", "--json", "-o", &file]).succeeded().json();
        let allowed = shown["receipt"]["allowed"].as_array().unwrap();
        let mapped: Vec<&str> = allowed
            .iter()
            .filter(|left| left["kind"] == "mapping")
            .map(|left| left["what"].as_str().unwrap())
            .collect();
        assert_eq!(mapped.len(), usize::from(runtime.major() >= 6), "{shown:#}");
        assert!(mapped.iter().all(|what| what.starts_with("/memfd:libremora_agent-")), "{mapped:?}");
        let stays = remora(["detach", "-p", &process, "--json"]).succeeded().json()["stays"].clone();
        holds!(DET_14 rem, stays.as_array().map(Vec::len) == Some(mapped.len()), "{stays:#}");
        target.goes_on();
    });
}

#[test]
fn att_06_a_pid_namespace() {
    on_every_runtime(|runtime| {
        let script = "exec unshare -p -f --mount-proc --kill-child \"$@\"";
        let mut target = Watched::behind(script, runtime, |start| start);
        assert_ne!(target.pid, target.target.pid(), "it is the child of what was put before it");
        let row = row(&target);
        assert_eq!(row["namespaced_process_id"], 1, "{row}");
        holds!(ATT_06 clr rem, target.is_recorded(&[]) > 0);
        target.is_recorded(&["--event", "wall"]);
        target.goes_on();
    });
}

/// In a script, another process may be the only one tomorrow.
#[test]
fn without_a_terminal_the_only_process_is_recorded_if_that_is_asked_for() {
    let mut target =
        Watched::behind("exec unshare -p -f --mount-proc --kill-child \"$@\"", &Runtime::newest(), |start| start);
    let folder = open_folder();
    let file = folder.path().join("x.folded").display().to_string();
    // In the target's namespaces no other process is visible.
    let beside = format!("exec nsenter -t {} -p -m \"$@\"", target.pid);
    let run = |arguments: &[&str]| Remora::spawn(behind(&beside, arguments)).finish();
    let heap = folder.path().join("x.remora-heap").display().to_string();
    let unnamed = "1 busy is the only .NET process that can be attached to";
    for refused in
        [["record", "-d", "300ms", "-o", &file].as_slice(), &["heap", "-o", &heap], &["heap", "--watch", "300ms"]]
    {
        run(refused).failed_with(2, &[unnamed, "add -p 1, -n NAME or --yes"]);
    }
    assert!(names(folder.path()).is_empty(), "nothing was begun");
    run(&["check"]).succeeded();
    let recorded = run(&["record", "-d", "300ms", "-o", &file, "--yes"]).succeeded();
    assert!(recorded.stderr.contains("the only .NET process that can be attached to: 1 busy"), "{recorded}");
    assert!(fs::metadata(&file).is_ok_and(|file| file.len() > 0));
    target.goes_on();
}

/// Binds the target's folders under `$NEW_ROOT`, which gets a separate `/tmp`, and enters it.
const CHROOT: &str = "for each in /usr /lib /lib64 /proc /dev $BOUND; do mkdir -p $NEW_ROOT$each; \
    mount --rbind $each $NEW_ROOT$each; done; mkdir -m 1777 $NEW_ROOT/tmp; export TMPDIR=/tmp; exec chroot $NEW_ROOT \"$@\"";

#[test]
fn att_06_a_chroot() {
    on_every_runtime(|runtime| {
        let root = open_folder();
        let program = Target::assembly("busy");
        let bound = [runtime.root(), program.parent().unwrap()];
        let bound = bound.map(|path| path.to_string_lossy().into_owned()).join(" ");
        let mut target =
            Watched::behind(CHROOT, runtime, |start| start.env("NEW_ROOT", root.path()).env("BOUND", bound));
        let before = names(&root.path().join("tmp"));
        assert!(!before.is_empty(), "the runtime's own sockets are there");
        holds!(ATT_06 clr rem, target.is_recorded(&[]) > 0);
        assert_eq!(names(&root.path().join("tmp")), before);
        assert!(row(&target)["container"].as_str().is_some_and(|text| text.contains("root")), "{}", row(&target));
        target.goes_on();
    });
}

#[test]
fn att_02_temporary_files_elsewhere() {
    on_every_runtime(|runtime| {
        let elsewhere = tempfile::Builder::new().prefix("a b ").tempdir_in("/var/tmp").unwrap();
        let mut target = Watched::busy(runtime, |start| start.env("TMPDIR", elsewhere.path()));
        let before = names(elsewhere.path());
        assert!(before.iter().any(|name| name.to_string_lossy().starts_with("dotnet-diagnostic-")), "{before:?}");
        holds!(ATT_02 clr rem, target.is_recorded(&[]) > 0);
        assert_eq!(names(elsewhere.path()), before);
        target.goes_on();
    });
}

/// Once, such a process seemed to have ended: its line in /proc is not UTF-8.
#[test]
fn a_process_whose_name_is_no_text_is_recorded() {
    let runtime = Runtime::newest();
    let folder = open_folder();
    let link = folder.path().join(OsStr::from_bytes(b"a) \xff("));
    symlink(runtime.launcher(), &link).unwrap();
    let mut command = Command::new(&link);
    command.arg(Target::assembly("busy")).arg("1");
    let mut target = Watched::start(Start::of(command, "busy by a name that is no text"), |start| start);
    let name = fs::read(format!("/proc/{}/comm", target.pid)).unwrap();
    assert_eq!(name, b"a) \xff(\n");
    target.is_recorded(&[]);
    target.is_recorded(&["--engine", "eventpipe"]);
    target.goes_on();
}

#[test]
fn att_05_att_06_another_users_process() {
    on_every_runtime(|runtime| {
        let script = format!("exec {AS_NOBODY} \"$@\"");
        let mut target = Watched::behind(&script, runtime, |start| start);
        let row = row(&target);
        assert_eq!((&row["user_id"], &row["user"]), (&65534.into(), &"nobody".into()));
        holds!([ATT_05 ATT_06] clr rem, target.is_recorded(&[]) > 0);
        target.goes_on();
    });
}

#[test]
fn att_05_a_user_records_a_process_of_its_own() {
    let runtime = Runtime::newest();
    let script = format!("exec {AS_NOBODY} \"$@\"");
    let mut target = Watched::behind(&script, &runtime, |start| start);
    let folder = open_folder();
    let copy = folder.path().join("remora");
    fs::copy(remora_e2e::Remora::command().get_program(), &copy).unwrap();
    let mut command = Command::new("setpriv");
    command.args(AS_NOBODY.split(' ').skip(1)).arg(copy).args(["record", "-p", &target.pid.to_string()]);
    command.arg("-o").arg(folder.path().join("own.remora")).current_dir(folder.path());
    ended_when_busy(command, target.pid).succeeded();
    holds!(ATT_05 rem, support::samples_in(&folder.path().join("own.remora")) > 0);
    target.is_untouched();
    target.goes_on();
}

#[test]
fn att_03_a_runtime_inside_another_program() {
    on_every_runtime(|runtime| {
        let mut command = Command::new(native("host"));
        let resolver = runtime.root().join("host/fxr").join(runtime.version_text()).join("libhostfxr.so");
        command.arg(resolver).arg(runtime.root()).arg(Target::assembly("busy")).arg("1");
        let mut target = Watched::start(Start::of(command, "busy inside another program"), |start| start);
        holds!(ATT_03 clr rem, row(&target)["runtime_version"] == runtime.version_text());
        target.is_recorded(&[]);
        target.goes_on();
    });
}

#[test]
fn att_03_a_program_with_a_runtime_of_its_own() {
    let folder = open_folder();
    let program = compile("self_contained", &[], &folder.path().join("program"));
    on_every_runtime(|runtime| {
        let own = folder.path().join(runtime.version_text());
        fs::create_dir(&own).unwrap();
        for name in names(&runtime.core_folder()) {
            let (from, to) = (runtime.core_folder().join(&name), own.join(&name));
            // The kernel reports the real path of a mapped file: only a copy hides the installed runtime.
            match name.to_string_lossy().ends_with(".so") {
                true => drop(fs::copy(from, to).unwrap()),
                false => symlink(from, to).unwrap(),
            }
        }
        let mut command = Command::new(&program);
        command.arg(&own).arg(Target::assembly("busy")).arg("1");
        let mut target = Watched::start(Start::of(command, "busy with a runtime of its own"), |start| start);
        let row = row(&target);
        let version = row["runtime_version"].as_str().unwrap_or_default();
        // The file's content lacks the servicing release on 3.1.
        holds!(
            ATT_03 clr rem, version == runtime.version_text() || (runtime.major() == 3 && version == "3.1"), "{row}"
        );
        assert_eq!(row["runtimes"][0]["file"], own.join("libcoreclr.so").to_string_lossy().as_ref());
        target.is_recorded(&[]);
        target.goes_on();
    });
}

#[test]
fn att_03_several_runtimes_are_distinguished() {
    let targets: Vec<(Runtime, Watched)> = Runtime::all()
        .into_iter()
        .map(|runtime| {
            let target = Watched::busy(&runtime, |start| start);
            (runtime, target)
        })
        .collect();
    for (runtime, target) in &targets {
        let row = row(target);
        holds!(ATT_03 rem, row["runtime_version"] == runtime.version_text());
        assert_eq!(row["runtimes"].as_array().map(Vec::len), Some(1), "{row}");
        assert_eq!(row["runtimes"][0]["kind"], "coreclr");
        let file = runtime.core_folder().join("libcoreclr.so").canonicalize().unwrap();
        assert_eq!(row["runtimes"][0]["file"], file.to_string_lossy().as_ref());
    }
    let listed = remora(["ps"]).succeeded().text();
    for (runtime, target) in &targets {
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(&target.pid.to_string()));
        assert!(line.is_some_and(|line| line.contains(&runtime.name()) && line.contains(" yes ")), "{listed}");
    }
}

#[test]
fn sockets_of_processes_that_have_gone_are_ignored_and_kept() {
    on_every_runtime(|runtime| {
        let mut target = Watched::busy(runtime, |start| start);
        // Sockets of an earlier process with the same id, and of no process: files without a listener, and one with a stranger.
        let name = |time: &str| format!("dotnet-diagnostic-{}-{time}-socket", target.pid);
        drop(UnixListener::bind(target.temporary.path().join(name("1"))).unwrap());
        drop(UnixListener::bind(target.temporary.path().join("dotnet-diagnostic-4194304-5-socket")).unwrap());
        let _stranger = UnixListener::bind(target.temporary.path().join(name("2"))).unwrap();
        fs::write(target.temporary.path().join(name("99999999999")), "no socket").unwrap();
        target.look();
        target.is_recorded(&[]);
        let checked = check(&target);
        assert_eq!(checked["recordable"], true, "{checked:#}");
        target.goes_on();
    });
}

#[test]
fn what_ps_tells_programs() {
    let target = Watched::busy(&Runtime::newest(), |start| start);
    let row = row(&target);
    type Kind = fn(&Value) -> bool;
    let optional_text: Kind = |value| value.is_null() || value.is_string();
    let fields: &[(&str, Kind)] = &[
        ("process_id", Value::is_u64),
        ("namespaced_process_id", Value::is_u64),
        ("user", optional_text),
        ("user_id", Value::is_u64),
        ("name", Value::is_string),
        ("entry_assembly", optional_text),
        ("executable", optional_text),
        ("command_line", |value| value.as_array().is_some_and(|words| words.iter().all(Value::is_string))),
        ("runtimes", Value::is_array),
        ("runtime_version", optional_text),
        ("architecture", optional_text),
        ("libc", Value::is_string),
        ("container", optional_text),
        ("attachable", Value::is_boolean),
        ("reason", optional_text),
    ];
    for (field, is_right) in fields {
        assert!(row.get(field).is_some_and(is_right), "`{field}` in {row:#}");
    }
    assert_eq!((&row["name"], &row["entry_assembly"]), (&"busy".into(), &"busy".into()));
    assert_eq!((&row["attachable"], &row["reason"]), (&true.into(), &Value::Null));
    assert_eq!((&row["architecture"], &row["container"]), (&"x64".into(), &Value::Null));
    assert!(row["libc"].as_str().is_some_and(|text| text.starts_with("glibc 2.")), "{row:#}");
}

#[test]
fn what_check_tells_programs() {
    on_every_runtime(|runtime| {
        let mut target = Watched::busy(runtime, |start| start);
        let verdict = check(&target);
        assert_eq!((&verdict["process_id"], &verdict["recordable"]), (&target.pid.into(), &true.into()));
        let checks = verdict["checks"].as_array().unwrap();
        for check in checks {
            assert!(check["name"].is_string() && check["found"].is_string(), "{check}");
            assert_eq!(check["passed"], true, "{check}");
            assert!(check["remedy"].is_null() || check["remedy"].is_string(), "{check}");
        }
        let shown: Vec<&str> = checks.iter().filter_map(|check| check["name"].as_str()).collect();
        let expected = [
            "process",
            "runtime",
            "rights",
            "diagnostics port",
            "running",
            "architecture",
            "libc",
            "libraries",
            "directory",
            "profiler slot",
            "remora's agent",
            "signals",
            "confinement",
            "descriptors",
            "answer",
        ];
        assert_eq!(shown, expected);
        target.is_untouched();
    });
}

/// The target's row in `remora ps --json`.
fn row(target: &Watched) -> Value {
    let listed = remora(["ps", "--json"]).succeeded().json();
    let rows = listed.as_array().unwrap_or_else(|| panic!("not a list: {listed}"));
    let row = rows.iter().find(|row| row["process_id"] == target.pid);
    row.unwrap_or_else(|| panic!("process {} is not in {listed:#}", target.pid)).clone()
}

/// The output of `remora check --json` for the target.
fn check(target: &Watched) -> Value {
    remora(["check", "--json", "-p", &target.pid.to_string()]).succeeded().json()
}
