//! Bad input: a one-line error with cause and fix, the documented exit code, and an unchanged target.
//!
//! One test for each possible fault of a process, a directory, an output or a recording. The tests beside other profilers cover another
//! profiler in the only slot of .NET Core 3.1.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it does not expect")]

mod support;

use remora_e2e::{
    Facts, Finished, ForeignProfiler, Kind, Remora, Runtime, Start, on_every_runtime, on_runtimes, remora, until,
};
use remora_holds::holds;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{AS_NOBODY, Watched, behind, compile, open_folder, record, refused, remora_behind, samples_in};

/// Exit codes of `remora`, from docs/reference/exit-codes.md.
const USAGE: i32 = 2;
const NO_PROCESS: i32 = 10;
const NOT_DOTNET: i32 = 11;
const UNSUPPORTED: i32 = 12;
const NO_PERMISSION: i32 = 13;
const DIAGNOSTICS_OFF: i32 = 14;
const NO_ANSWER: i32 = 15;
const CANNOT_LOAD: i32 = 16;
const SLOT_TAKEN: i32 = 17;
const REFUSED: i32 = 19;
const OUTPUT_REFUSED: i32 = 20;
const DISK_FULL: i32 = 21;
const NOT_A_RECORDING: i32 = 30;
const TRUNCATED: i32 = 31;
const DAMAGED: i32 = 32;
const NEWER: i32 = 33;

#[test]
fn a_process_that_does_not_exist() {
    // A process that has just ended and was reaped.
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let pid = child.id().to_string();
    let words = [&format!("there is no process {pid}"), "`remora ps`"];
    refused(&record(child.id(), &[]).1, NO_PROCESS, &words);
    refused(&remora(["check", "-p", &pid]), NO_PROCESS, &words);
    refused(&remora(["detach", "-p", &pid]), NO_PROCESS, &words);
    refused(&remora(["record", "-n", "no such program"]), NO_PROCESS, &["no .NET process is called", "`remora ps`"]);
}

/// A process that lives was said to have ended.
#[test]
fn a_remora_without_descriptors_says_so_and_not_that_the_process_has_ended() {
    let target = Start::of(Command::new(remora_e2e::native("burn")), "burn").ready();
    let pid = target.pid().to_string();
    let limited = |limit: u32, arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!(r#"ulimit -n {limit} && exec "$0" "$@""#)]);
        command.arg(Remora::command().get_program()).args(arguments);
        Remora::spawn(command).finish()
    };
    for limit in [5, 6, 8, 10, 12, 16, 24, 32] {
        for command in ["check", "detach", "record"] {
            let words = ["Too many open files", "raise the limit of open files for remora"];
            refused(&limited(limit, &[command, "-p", &pid]), REFUSED, &words);
        }
        refused(&limited(limit, &["ps"]), REFUSED, &["Too many open files"]);
    }
    refused(&limited(64, &["check", "-p", &pid]), NOT_DOTNET, &["has not loaded a .NET runtime"]);
}

#[test]
fn att_04_a_process_that_is_not_dotnet() {
    let mut target = Watched::start(Start::of(Command::new(remora_e2e::native("burn")), "burn"), |start| start);
    let ended = target.is_refused(&[], NOT_DOTNET, &["(burn) has not loaded a .NET runtime"]);
    holds!(ATT_04 rem, ended.stderr.contains("`remora record -- CMD`"), "{ended}");
    refused(&remora(["check", "-p", &target.pid.to_string()]), NOT_DOTNET, &["has not loaded a .NET runtime"]);
    target.is_untouched();
}

/// A C library with that version in it is a stand-in for the runtime of .NET Core 2.
#[test]
fn att_03_a_runtime_that_is_too_old() {
    let folder = open_folder();
    let impostor = compile("impostor", &[], &folder.path().join("old"));
    // An installed runtime has its version in its folder's name, a private one in its file.
    for (place, version) in [("Microsoft.NETCore.App/2.1.30", "2.1.30"), ("private", "2.0")] {
        let place = folder.path().join(place);
        fs::create_dir_all(&place).unwrap();
        let library = compile("old_runtime", &["-shared", "-fPIC"], &place.join("libcoreclr.so"));
        let mut command = Command::new(&impostor);
        command.arg(library);
        let mut target = Watched::start(Start::of(command, "a runtime of .NET Core 2"), |start| start);
        let words = [&format!(".NET Core {version} has no diagnostics port"), "move the application to a newer .NET"];
        let refused = target.is_refused(&[], UNSUPPORTED, &words);
        holds!(ATT_03 rem, refused.code() == UNSUPPORTED);
        target.fails_the_check("runtime", UNSUPPORTED);
    }
}

/// A C program that exports the name by which debuggers find NativeAOT is a stand-in for one that is compiled by it.
#[test]
fn att_03_a_program_compiled_ahead_of_time() {
    let folder = open_folder();
    let program = compile("impostor", &["-rdynamic"], &folder.path().join("ahead"));
    let mut target = Watched::start(Start::of(Command::new(program), "a NativeAOT program"), |start| start);
    let words = ["compiled by NativeAOT", "use a native profiler such as perf"];
    holds!(ATT_03 rem, target.is_refused(&[], UNSUPPORTED, &words).code() == UNSUPPORTED);
    target.fails_the_check("runtime", UNSUPPORTED);
}

#[test]
fn att_05_another_users_process_without_rights() {
    on_every_runtime(|runtime| {
        let mut target = Watched::busy(runtime, |start| start);
        let folder = open_folder();
        let copy = folder.path().join("remora");
        fs::copy(Remora::command().get_program(), &copy).unwrap();
        let as_nobody = |arguments: &[&str]| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&copy).args(arguments);
            command.current_dir(folder.path());
            Remora::spawn(command).finish()
        };
        let pid = target.pid.to_string();
        let words = ["access denied", "belongs to", "run remora as root"];
        let recorded = as_nobody(&["record", "-p", &pid, "-d", "1s", "-o", "x.html"]);
        refused(&recorded, NO_PERMISSION, &words);
        holds!(ATT_05 rem, recorded.code() == NO_PERMISSION);
        assert!(!folder.path().join("x.html").exists());
        refused(&as_nobody(&["detach", "-p", &pid]), NO_PERMISSION, &words);
        let checked = as_nobody(&["check", "-p", &pid]);
        assert_eq!(checked.code(), NO_PERMISSION, "{checked}");
        target.is_untouched();
    });
}

#[test]
fn diagnostics_that_are_switched_off() {
    on_every_runtime(|runtime| {
        // Before .NET 6 the variable has the older prefix only.
        let variable = if runtime.major() < 6 { "COMPlus_EnableDiagnostics" } else { "DOTNET_EnableDiagnostics" };
        let mut target = Watched::busy(runtime, |start| start.env(variable, "0"));
        let words = [&format!("switched off in it by {variable}=0"), "start the program again without"];
        target.is_refused(&[], DIAGNOSTICS_OFF, &words);
        target.fails_the_check("diagnostics port", DIAGNOSTICS_OFF);
    });
}

#[test]
fn att_16_a_process_that_is_stopped_is_recorded_when_it_goes_on() {
    on_every_runtime(|runtime| {
        let mut target = Watched::busy(runtime, |start| start);
        target.target.signal(Signal::STOP);
        until("it is stopped", || target.target.state() == 'T');
        let refused = target.is_refused(&[], NO_ANSWER, &["stopped by a stop signal", "kill -CONT"]);
        holds!(ATT_16 rem, refused.code() == NO_ANSWER);
        target.fails_the_check("running", NO_ANSWER);
        target.target.signal(Signal::CONT);
        until("it goes on", || target.target.state() != 'T');
        holds!(ATT_16 clr rem, target.is_recorded(&[]) > 0);
        target.goes_on();
    });
}

#[test]
fn att_16_a_process_in_a_debugger_is_recorded_when_that_has_gone() {
    let folder = open_folder();
    let tracer = compile("tracer", &[], &folder.path().join("tracer"));
    on_every_runtime(|runtime| {
        let mut target = Watched::busy(runtime, |start| start);
        let mut command = Command::new(&tracer);
        command.arg(target.pid.to_string());
        let mut debugger = Start::of(command, "the debugger").ready();
        let by = format!("stopped by process {}, which traces it", debugger.pid());
        let refused = target.is_refused(&[], NO_ANSWER, &[&by, "leave the debugger"]);
        holds!(ATT_16 rem, refused.code() == NO_ANSWER);
        target.fails_the_check("running", NO_ANSWER);
        assert!(debugger.wait().success());
        until("it goes on", || target.target.state() != 't');
        holds!(ATT_16 clr rem, target.is_recorded(&[]) > 0);
        target.goes_on();
    });
}

#[test]
fn a_process_that_does_not_answer() {
    let folder = open_folder();
    let deaf = compile("deaf", &["-shared", "-fPIC"], &folder.path().join("deaf.so"));
    on_runtimes(&[Runtime::major_is(3), Runtime::newest()], |runtime| {
        let mut target = Watched::busy(runtime, |start| start.env("LD_PRELOAD", &deaf).env("DEAF_AFTER", "0"));
        target.is_refused(&[], NO_ANSWER, &["did not", "within", "try again"]);
        target.fails_the_check("answer", NO_ANSWER);
        target.goes_on();
    });
}

#[test]
fn a_process_that_does_not_answer_the_attach() {
    let folder = open_folder();
    let deaf = compile("deaf", &["-shared", "-fPIC"], &folder.path().join("deaf.so"));
    on_runtimes(&[Runtime::major_is(3), Runtime::newest()], |runtime| {
        // It answers the process info request, and then reads nothing more.
        let mut target = Watched::busy(runtime, |start| start.env("LD_PRELOAD", &deaf).env("DEAF_AFTER", "1"));
        target.is_refused(&[], NO_ANSWER, &["did not", "within", "try again"]);
        target.goes_on();
    });
}

/// Makes every mount read-only, with a noexec folder for sockets, and continues as another user that cannot read our memory.
fn nowhere_to_load_from() -> String {
    format!(
        "for each in $(cut -d ' ' -f 2 /proc/self/mounts); do case $each in /proc*|/sys*) ;; *) \
         mount -o remount,bind,ro $each || true;; esac; done 2> /dev/null; \
         mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp; export TMPDIR=/tmp; exec {AS_NOBODY} \"$@\""
    )
}

#[test]
fn att_06_no_folder_that_the_process_can_execute_from() {
    on_every_runtime(|runtime| {
        let mut target = Watched::behind(&nowhere_to_load_from(), runtime, |start| start);
        let words = [
            "no directory that the target can load a library from",
            "/tmp: mounted noexec",
            "read-only",
            "give it a directory without noexec",
        ];
        let refused = target.is_refused(&["--engine", "agent"], CANNOT_LOAD, &words);
        holds!(ATT_06 rem, refused.code() == CANNOT_LOAD);
        target.leaves_the_sampler_only("directory");
        target.goes_on();
    });
}

#[test]
fn where_the_library_cannot_be_loaded_the_runtimes_own_sampler_is_used_and_it_is_said() {
    let runtime = Runtime::newest();
    let mut target = Watched::behind(&nowhere_to_load_from(), &runtime, |start| start);
    let (_folder, finished) = record(target.pid, &[]);
    assert_eq!(finished.code(), 0, "{finished}");
    for words in ["no directory that the target can load a library from", "using the runtime's own sampler instead"] {
        assert!(finished.stderr.contains(words), "{finished}");
    }
    target.goes_on();
}

/// A mapped file with those versions in it is a stand-in for an old C library.
#[test]
fn att_06_a_c_library_that_is_too_old() {
    let folder = open_folder();
    let script = folder.path().join("versions");
    fs::write(&script, "GLIBC_2.2.5 { global: oldest; };\nGLIBC_2.12 { global: newest; } GLIBC_2.2.5;\n").unwrap();
    let versions = format!("-Wl,--version-script={}", script.display());
    let older = compile("older_libc", &["-shared", "-fPIC", "-DLIBRARY", &versions], &folder.path().join("libc.so.6"));
    let mapper = compile("older_libc", &["-shared", "-fPIC"], &folder.path().join("mapper.so"));
    on_every_runtime(|runtime| {
        let mut target = Watched::busy(runtime, |start| start.env("LD_PRELOAD", &mapper).env("OLDER_LIBC", &older));
        let words = ["the target runs on glibc 2.12, the library needs 2.", "`cargo xtask dist`"];
        let refused = target.is_refused(&["--engine", "agent"], CANNOT_LOAD, &words);
        holds!(ATT_06 rem, refused.code() == CANNOT_LOAD);
        target.leaves_the_sampler_only("libc");
    });
}

#[test]
fn att_07_the_only_profiler_slot_is_taken_from_the_start() {
    on_runtimes(&[Runtime::major_is(3)], |runtime| {
        let temporary = open_folder();
        let start = Start::managed(runtime, "busy").arg("1").env("TMPDIR", temporary.path());
        let (target, mut other) = ForeignProfiler::at_start(start, Kind::Main);
        let before = Facts::of(target.pid());
        let words = ["taken by", "libforeign_profiler.so", "--engine eventpipe"];
        let (_folder, finished) = record(target.pid(), &["--engine", "agent"]);
        refused(&finished, SLOT_TAKEN, &words);
        holds!(ATT_07 rem, finished.code() == SLOT_TAKEN);
        assert_eq!(Facts::of(target.pid()).left_since(&before), Vec::<String>::new());
        assert!(other.counts().attached);
    });
}

#[test]
fn an_output_that_cannot_be_written_is_reported_before_anything_is_asked_of_the_process() {
    let mut target = busy_on_newest();
    let pid = target.pid.to_string();
    let folder = open_folder();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    fs::write(path("there.html"), "mine").unwrap();
    let to = |output: &str| remora(["record", "-p", &pid, "-d", "1s", "-o", output]);
    refused(&to(&path("there.html")), OUTPUT_REFUSED, &["exists and is not overwritten", "--force"]);
    refused(&to(&path("none/x.html")), OUTPUT_REFUSED, &["there is no directory", "create it"]);
    fs::create_dir(path("folder.html")).unwrap();
    refused(&to(&path("folder.html")), OUTPUT_REFUSED, &["is a directory", "give -o the name of a file"]);
    let read_only = format!("mount -t tmpfs -o ro tmpfs {}; exec \"$@\"", folder.path().display());
    let arguments = ["record", "-p", &pid, "-d", "1s", "-o", &path("x.html")];
    refused(&remora_behind(&read_only, arguments), OUTPUT_REFUSED, &["Read-only file system", "give -o another place"]);
    let receipt = ["record", "-p", &pid, "-d", "1s", "-o", &path("x.html"), "--receipt", &path("none/receipt.json")];
    refused(&remora(receipt), OUTPUT_REFUSED, &["there is no directory"]);
    assert_eq!(fs::read(path("there.html")).unwrap(), b"mine");
    assert!(!Path::new(&path("x.html")).exists());
    target.is_untouched();
}

#[test]
fn a_disk_that_is_full_is_reported_before_anything_is_asked_of_the_process() {
    let mut target = busy_on_newest();
    let folder = open_folder();
    let small = format!("mount -t tmpfs -o size=1m tmpfs {}; exec \"$@\"", folder.path().display());
    let output = folder.path().join("x.html").to_string_lossy().into_owned();
    let ran = remora_behind(&small, ["record", "-p", &target.pid.to_string(), "-d", "1s", "-o", &output]);
    refused(&ran, DISK_FULL, &["the disk is full", "16 MiB are needed", "free some space"]);
    target.is_untouched();
}

#[test]
fn a_disk_that_fills_while_recording_takes_nothing_of_what_was_recorded() {
    for name in ["x.remora", "x.html"] {
        let mut target = busy_on_newest();
        let (disk, kept, finished) = fill_while_recording(&target, name);
        assert_eq!(finished.code(), DISK_FULL, "{finished}");
        let last = finished.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("remora: ") && last.contains("the disk is full"), "{finished}");
        assert!(
            (last.contains("the recording until then is complete") || last.contains("what was recorded is in")),
            "{finished}"
        );
        // The command names the recording's file, which is complete. The requested file exists only if it could be written.
        let shown = last.split_once("what was recorded is in ").and_then(|(_, rest)| rest.split_once(": "));
        let whole = match shown {
            Some((path, _)) if Path::new(path).starts_with(disk.path()) => {
                kept.path().join(Path::new(path).file_name().unwrap())
            }
            Some((path, _)) => PathBuf::from(path),
            None => kept.path().join(name),
        };
        if name.ends_with(".remora") || shown.is_some() {
            assert!(samples_in(&whole) > 0, "{finished}");
        } else {
            let page = fs::read_to_string(&whole).unwrap_or_else(|error| panic!("{error}: {finished}"));
            assert!(page.trim_end().ends_with("</html>"), "the page is cut off: {finished}");
        }
        target.is_untouched();
        target.goes_on();
    }
}

/// Records on a small disk that is filled meanwhile; returns its folder, its final content, and the command's output.
fn fill_while_recording(target: &Watched, name: &str) -> (tempfile::TempDir, tempfile::TempDir, Finished) {
    let (disk, kept) = (open_folder(), open_folder());
    let script = format!(
        "mount -t tmpfs -o size=24m tmpfs {disk}; code=0; \"$@\" || code=$?; rm -f {disk}/rest; cp {disk}/* {kept}; exit $code",
        disk = disk.path().display(),
        kept = kept.path().display()
    );
    let output = disk.path().join(name).to_string_lossy().into_owned();
    let pid = target.pid.to_string();
    let remora = Remora::spawn(behind(&script, ["record", "-p", &pid, "-o", &output, "-f", "999"]));
    let inside = PathBuf::from(format!("/proc/{}/root", remora.pid())).join(disk.path().strip_prefix("/").unwrap());
    until("something of the recording is on the disk", || {
        let entries = fs::read_dir(&inside).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).any(|facts| facts.len() > 1024)
    });
    let mut rest = fs::File::create(inside.join("rest")).unwrap();
    let piece = [0; 4096];
    while std::io::Write::write_all(&mut rest, &piece).is_ok() {}
    drop(rest);
    (disk, kept, remora.finish())
}

#[test]
fn a_recording_that_is_truncated_damaged_newer_or_none() {
    let mut target = busy_on_newest();
    let (folder, finished) = record(target.pid, &["-f", "999"]);
    assert_eq!(finished.code(), 0, "{finished}");
    let whole = fs::read(folder.path().join("recording.remora")).unwrap();
    let report = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        remora([Path::new("report"), &path])
    };
    refused(&report("a.remora", &whole[..whole.len() - 1]), TRUNCATED, &["is truncated", "nothing more can be read"]);
    refused(&report("b.remora", &whole[..20]), TRUNCATED, &["truncated", "record again"]);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0x55;
    refused(&report("c.remora", &damaged), DAMAGED, &["damaged at byte", "copy it again"]);
    let mut newer = whole.clone();
    newer[6..8].copy_from_slice(&99_u16.to_le_bytes());
    refused(&report("d.remora", &newer), NEWER, &["a recording of format version 99", "use a newer Remora"]);
    refused(&report("e.remora", b"<html>"), NOT_A_RECORDING, &["not a Remora recording", "give a file that"]);
    refused(&remora(["report", "/nowhere.remora"]), NOT_A_RECORDING, &["cannot be read", "check the name"]);
    target.is_untouched();
}

#[test]
fn an_unknown_format_and_absurd_flags() {
    let mut target = busy_on_newest();
    let pid = target.pid.to_string();
    let cases: &[(&[&str], &str)] = &[
        (&["-o", "x.svg"], "unknown format"),
        (&["-o", "-"], "--format"),
        (&["--format", "xml"], "unknown format"),
        (&["--frequency", "0"], "a whole number from 1 to 10000"),
        (&["--frequency", "10001"], "a whole number from 1 to 10000"),
        (&["--frequency=-1"], "--frequency"),
        (&["--duration=-5s"], "--duration"),
        (&["--duration", "0s"], "must last longer"),
        (&["--duration", "00:00:00:00"], "must last longer"),
        (&["--event", "memory"], "--event"),
        (&["-n", "busy"], "cannot be used with"),
        (&["-p", &pid], "cannot be used multiple times"),
        (&["--", "true"], "cannot both be recorded"),
        (&["--json", "-o", "-", "--format", "folded"], "--json"),
    ];
    for (flags, words) in cases {
        let arguments = ["record", "-p", &pid].into_iter().chain(flags.iter().copied());
        refused(&remora(arguments), USAGE, &[words]);
    }
    refused(&remora(["record", "--process-id=-5"]), USAGE, &["--process-id"]);
    refused(&remora(["record", "-p", "99999999999"]), USAGE, &["--process-id"]);
    target.is_untouched();
}

#[test]
fn a_command_that_cannot_be_started_or_has_no_runtime() {
    refused(&remora(["record", "--", "/no/such/program"]), NO_PROCESS, &["cannot be started", "check the command"]);
    refused(
        &remora(["record", "--", "true"]),
        NO_PROCESS,
        &["ended", "before Remora could attach to a .NET runtime in it", "--from-start", "check the command"],
    );
}

/// Whoever started remora may have ignored SIGCHLD. Then nobody learnt that the command had ended, and a minute passed.
#[test]
fn regression_a_command_that_ended_was_waited_for_where_sigchld_is_ignored() {
    let mut command = Command::new("env");
    command.arg("--ignore-signal=CHLD").arg(Remora::command().get_program()).args(["record", "--", "true"]);
    let words = ["ended", "before Remora could attach to a .NET runtime in it", "check the command"];
    refused(&Remora::spawn(command).finish(), NO_PROCESS, &words);
}

/// The list was empty, and the exit status 0.
#[test]
fn regression_no_process_was_found_where_there_is_no_proc() {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", r#"mount -t tmpfs none /proc && exec "$0" ps"#]);
    command.arg(Remora::command().get_program());
    refused(&Remora::spawn(command).finish(), REFUSED, &["/proc"]);
}

/// The limit of file sizes holds for shared memory, too. The advice was to free memory.
#[test]
fn regression_a_limit_of_file_sizes_was_taken_for_a_lack_of_memory() {
    let mut target = busy_on_newest();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        r#"ulimit -f 1024 && exec "$0" record --engine agent -d 1s -p "$1" --format folded -o /dev/null"#,
    ]);
    command.arg(Remora::command().get_program()).arg(target.pid.to_string());
    let finished = Remora::spawn(command).finish();
    refused(&finished, REFUSED, &["File too large", "ulimit -f unlimited"]);
    target.is_untouched();
}

fn busy_on_newest() -> Watched {
    Watched::busy(&Runtime::newest(), |start| start)
}
