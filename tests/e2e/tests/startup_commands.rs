//! Commands that do not simply start .NET, and recorders that die: `record --from-start` and `trace`, which both have the runtime load their
//! library at its start.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Expected, Facts, Finished, Kind, Remora, Runtime, Target, on_every_runtime, on_runtimes, until};
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The two commands, with the flags that they need.
const BOTH: [&[&str]; 2] = [&["record", "--from-start", "-o", "a.remora"], &["trace", "-o", "a.calls.json"]];

/// `remora … -- COMMAND`, in this folder, where it places its files, too.
fn started<A: AsRef<OsStr>>(flags: &[&str], folder: &Path, command: impl IntoIterator<Item = A>) -> Command {
    let mut remora = Remora::command();
    remora.args(flags).args(["--json", "--"]).args(command).current_dir(folder).env("TMPDIR", folder);
    remora
}

/// `dotnet PROGRAM ARGUMENTS`.
fn dotnet(runtime: &Runtime, program: &[&str]) -> Vec<OsString> {
    let mut command = vec![runtime.launcher().into(), Target::assembly(program[0]).into()];
    command.extend(program[1..].iter().map(Into::into));
    command
}

/// A shell script, with the command as its arguments.
fn script(text: &str, command: Vec<OsString>) -> Vec<OsString> {
    let shell = ["sh", "-c", text, "sh"].map(OsString::from);
    shell.into_iter().chain(command).collect()
}

/// A script that waits for a line first.
fn waiting(command: Vec<OsString>) -> Vec<OsString> {
    script(r#"echo waiting >&2; read line; exec "$@""#, command)
}

/// What Remora has placed in this folder.
fn placed(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    // The results are called `a.…`.
    entries.filter(|path| name(path).contains("remora") && !name(path).starts_with("a.")).collect()
}

/// Checks the line of `first_moments`: it has none of the variables, and neither has its child.
fn has_no_variables(said: &str) {
    assert!(said.ends_with(" own= inherited="), "{said}");
}

/// Of a command with one process.
fn child_of(process: u32) -> u32 {
    *Facts::of(process).children.first().unwrap()
}

/// Its exit code is that of the command, and it says so.
fn ended(remora: Remora, code: i32) -> Finished {
    let finished = remora.finish();
    assert_eq!(finished.code(), code, "{finished}");
    assert!(finished.stderr.contains(&format!("ended (exit status: {code})")), "{finished}");
    finished
}

/// The recorder is dead and collected, so its files have no user.
fn killed(remora: &mut Remora) {
    remora.signal(Signal::KILL);
    until("the recorder has ended", || !remora.is_alive());
}

#[test]
fn regression_a_killed_recorder_left_its_files_to_a_command_that_started_later() {
    on_every_runtime(|runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            let mut remora =
                Remora::spawn(started(flags, folder.path(), waiting(dotnet(runtime, &["first_moments", "0"]))));
            remora.wait_until_it_says("waiting");
            let command = child_of(remora.pid());
            killed(&mut remora);
            assert_eq!(placed(folder.path()).len(), 2, "library and socket");
            remora.type_in("\n");
            has_no_variables(&remora.wait_until_it_says("ready used="));
            assert_eq!(Facts::of(command).remora(), [""; 0], "{flags:?}");
            assert_eq!(placed(folder.path()), [""; 0].map(PathBuf::from), "{flags:?}");
            remora.type_in("quit\n");
        }
    });
}

#[test]
fn regression_a_killed_recorder_left_its_files_if_its_command_had_no_runtime() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            let mut remora = Remora::spawn(started(flags, folder.path(), waiting(vec!["true".into()])));
            remora.wait_until_it_says("waiting");
            killed(&mut remora);
            remora.type_in("\n");
            let left = placed(folder.path());
            assert_eq!(left.len(), 2, "library and socket");
            ended(Remora::spawn(started(flags, folder.path(), dotnet(runtime, &["calls", "exit"]))), 9);
            assert_eq!(placed(folder.path()), [""; 0].map(PathBuf::from), "{flags:?}: {left:?}");
        }
    });
}

#[test]
fn regression_the_second_process_of_a_script_kept_the_variables() {
    on_every_runtime(|runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            // A shell may execute its last command in its own place.
            let command = script(r#""$@"; "$@"; exit $?"#, dotnet(runtime, &["first_moments", "0"]));
            let mut remora = Remora::spawn(started(flags, folder.path(), command));
            let shell = || child_of(remora.pid());
            until("the shell has started", || !Facts::of(remora.pid()).children.is_empty());
            let shell = shell();
            has_no_variables(&remora.wait_until_it_says("ready used="));
            let first = child_of(shell);
            remora.type_in("quit\n");
            has_no_variables(&remora.wait_until_it_says("ready used="));
            let second = child_of(shell);
            assert_ne!(first, second);
            assert_eq!(Facts::of(second).remora(), [""; 0], "{flags:?}");
            remora.wait_until_it_says("waiting for the rest");
            remora.type_in("quit\n");
            let finished = ended(remora, 7);
            assert!(finished.stderr.contains(&format!("(process {first})")), "it says which one: {finished}");
            assert!(!finished.stderr.contains(&format!("(process {second})")), "{finished}");
            assert!(finished.stderr.contains("ended (exit status: 7)"), "{finished}");
            assert_eq!(placed(folder.path()), [""; 0].map(PathBuf::from), "{flags:?}");
        }
    });
}

#[test]
fn of_two_processes_that_start_at_once_one_is_recorded_and_neither_has_the_variables() {
    on_every_runtime(|runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            // The shell gives them no input, so they end.
            let command = script(r#""$@" & "$@" & wait"#, dotnet(runtime, &["first_moments", "0"]));
            let mut remora = Remora::spawn(started(flags, folder.path(), command));
            has_no_variables(&remora.wait_until_it_says("ready used="));
            has_no_variables(&remora.wait_until_it_says("ready used="));
            remora.finish().succeeded();
            assert_eq!(placed(folder.path()), [""; 0].map(PathBuf::from), "{flags:?}");
        }
    });
}

#[test]
fn ctrl_c_does_not_wait_for_the_rest_of_a_script() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            let command = script(r#""$@" </dev/null; read line"#, dotnet(runtime, &["first_moments", "0"]));
            let mut remora = Remora::spawn(started(flags, folder.path(), command));
            remora.wait_until_it_says("waiting for the rest");
            remora.signal(Signal::INT);
            remora.wait_until_it_says(" runs on");
            until("the file is deleted", || placed(folder.path()).is_empty());
            remora.type_in("\n");
            remora.finish().succeeded();
        }
    });
}

#[test]
fn regression_a_script_that_went_on_after_its_recorded_process_lost_its_exit_code() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let folder = remora_e2e::folder();
        let command = script(r#""$@"; read line; exit 3"#, dotnet(runtime, &["first_moments", "0"]));
        let mut remora = Remora::spawn(started(&["record", "-o", "a.remora"], folder.path(), command));
        remora.wait_until_it_says("recording ");
        remora.type_in("quit\n");
        remora.wait_until_it_says("waiting for the rest");
        remora.type_in("\n");
        ended(remora, 3);
    });
}

#[test]
fn ctrl_c_while_the_command_has_no_runtime_ends_the_recorder_and_leaves_nothing() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            let mut remora =
                Remora::spawn(started(flags, folder.path(), waiting(dotnet(runtime, &["first_moments", "0"]))));
            remora.wait_until_it_says("waiting");
            // The terminal would send it to the command, too; here the program runs on.
            remora.signal(Signal::INT);
            until("nothing is left", || placed(folder.path()).is_empty());
            remora.type_in("\nquit\n");
            let finished = remora.finish();
            assert_eq!(finished.code(), 130, "{finished}");
            assert!(finished.stderr.contains("ready used="), "{finished}");
        }
    });
}

#[test]
fn a_recorder_within_another_is_refused_before_its_command_starts() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        for outer in BOTH {
            for inner in BOTH {
                let folder = remora_e2e::folder();
                let mut command = vec![Remora::command().get_program().to_owned()];
                command.extend(inner.iter().map(Into::into));
                command.push("--".into());
                command.extend(dotnet(runtime, &["first_moments", "0"]));
                let finished = Remora::spawn(started(outer, folder.path(), command)).finish().failed_with(
                    10,
                    &["another `remora` has started this one", "unset REMORA_STARTUP", "exit status: 19"],
                );
                assert!(!finished.stderr.contains("ready used="), "{finished}");
                assert_eq!(placed(folder.path()), [""; 0].map(PathBuf::from), "{outer:?} {inner:?}");
            }
        }
    });
}

#[test]
fn the_library_can_lie_in_a_folder_with_any_name() {
    on_every_runtime(|runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            let strange = folder.path().join("a b;c=d");
            std::fs::create_dir(&strange).unwrap();
            let mut command = started(flags, folder.path(), dotnet(runtime, &["calls", "exit"]));
            command.env("TMPDIR", &strange);
            ended(Remora::spawn(command), 9);
        }
    });
}

#[test]
fn beside_another_profiler_a_folder_may_have_spaces_but_no_separators_of_the_list() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let folder = remora_e2e::folder();
        let within = |name: &str| {
            let place = folder.path().join(name);
            std::fs::create_dir(&place).unwrap();
            let expected = Expected::new(Kind::Main);
            let mut command = started(BOTH[0], folder.path(), dotnet(runtime, &["first_moments", "0"]));
            command.envs(expected.variables()).env("TMPDIR", place);
            (expected, Remora::spawn(command))
        };
        for name in ["a;b", "a=b"] {
            let finished = within(name).1.finish().failed_with(16, &["separators", "--library-directory"]);
            assert!(!finished.stderr.contains("ready used="), "{finished}");
        }
        let (expected, mut remora) = within("a b");
        remora.wait_until_it_says("ready used=");
        let _other = expected.arrives();
        remora.type_in("quit\n");
        ended(remora, 7);
    });
}

/// A command that the runtime starts without the agent: it runs as usual, and the recorder says so.
fn starts_without_the_agent(before: &[&str]) {
    on_every_runtime(|runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            // For any user.
            std::fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
            let before = before.iter().map(OsString::from);
            let command = before.chain(dotnet(runtime, &["first_moments", "0"]));
            let mut remora = Remora::spawn(started(flags, folder.path(), command));
            remora.wait_until_it_says("ready used=");
            remora.wait_until_it_says("has started without the agent");
            remora.type_in("quit\n");
            remora.finish().failed_with(19, &["has started without the agent", "give the program itself"]);
            assert_eq!(placed(folder.path()), [""; 0].map(PathBuf::from), "{flags:?}");
        }
    });
}

#[test]
fn a_command_that_sets_its_own_profiler_variables_runs_without_the_agent() {
    starts_without_the_agent(&["env", "CORECLR_ENABLE_PROFILING=0"]);
}

#[test]
fn a_command_that_drops_its_privileges_runs_without_the_agent() {
    starts_without_the_agent(&["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
}

#[test]
fn a_command_that_executes_the_program_in_its_place_is_recorded() {
    on_every_runtime(|runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            let command = script(r#"exec "$@""#, dotnet(runtime, &["calls", "exit"]));
            ended(Remora::spawn(started(flags, folder.path(), command)), 9);
        }
    });
}

/// Runs `brief`, whose shortest way to its end is the first thing that it does.
fn brief(what: &[&str], expected: &str, code: i32) {
    on_every_runtime(|runtime| {
        for flags in BOTH {
            let folder = remora_e2e::folder();
            let command = dotnet(runtime, &[&["brief"], what].concat());
            let finished = ended(Remora::spawn(started(flags, folder.path(), command)), code);
            assert!(finished.stderr.contains(expected), "{expected}: {finished}");
            assert_eq!(placed(folder.path()), [""; 0].map(PathBuf::from), "{flags:?}");
        }
    });
}

#[test]
fn a_program_that_ends_at_once_keeps_its_exit_code() {
    brief(&[], "", 7);
}

#[test]
fn a_program_that_replaces_itself_runs_on_without_the_variables() {
    brief(&["exec"], "replaced: \n", 5);
}

#[test]
fn a_program_that_forks_keeps_its_exit_code_and_that_of_its_child() {
    brief(&["fork"], "forked 3", 7);
}

#[test]
fn a_full_disk_is_reported_before_the_command_starts() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let folder = remora_e2e::folder();
        let small = r#"mount -t tmpfs -o size=1m tmpfs "$0" && cd "$0" && exec "$@""#;
        for flags in [&["record", "--from-start"][..], &["record"], &["trace"], BOTH[1]] {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", small]).arg(folder.path()).arg(Remora::command().get_program());
            command.args(flags).args(["--json", "--"]).args(dotnet(runtime, &["calls", "exit"]));
            let finished = Remora::spawn(command).finish().failed_with(21, &["the disk is full", "free some space"]);
            assert!(!finished.stderr.contains("ended ("), "nothing was started: {finished}");
        }
    });
}

#[test]
fn a_disk_that_fills_during_a_trace_takes_nothing_of_it() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let (disk, kept) = (remora_e2e::folder(), remora_e2e::folder());
        let small = r#"mount -t tmpfs -o size=24m tmpfs "$0"; kept="$1"; shift; "$@"; code=$?; cp "$0"/a.* "$kept"; exit $code"#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", small]).args([disk.path(), kept.path()]);
        command.arg(Remora::command().get_program()).args(["trace", "--json"]);
        for name in ["a.calls.json", "a.html"] {
            command.arg("-o").arg(disk.path().join(name));
        }
        command.arg("--").args(dotnet(runtime, &["calls", "forever"]));
        let mut remora = Remora::spawn(command);
        remora.wait_until_it_says("ready");
        let inside = format!("/proc/{}/root{}", remora.pid(), disk.path().display());
        let mut rest = std::fs::File::create(Path::new(&inside).join("rest")).unwrap();
        while std::io::Write::write_all(&mut rest, &[0; 4096]).is_ok() {}
        remora.type_in("quit\n");
        ended(remora, 7);
        let tree: serde_json::Value =
            serde_json::from_slice(&std::fs::read(kept.path().join("a.calls.json")).unwrap()).unwrap();
        assert!(tree["methods"].as_array().unwrap().iter().any(|method| method["name"] == "Program.Round"));
        assert!(std::fs::read_to_string(kept.path().join("a.html")).unwrap().trim_end().ends_with("</html>"));
    });
}

#[test]
fn the_switch_of_tiers_is_set_for_the_program_alone() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let flags = ["trace", "--event", "alloc-exact", "-o", "a.calls.json"];
        let mut remora = Remora::spawn(started(&flags, folder.path(), dotnet(runtime, &["first_moments", "0"])));
        has_no_variables(&remora.wait_until_it_says("ready used="));
        remora.type_in("quit\n");
        ended(remora, 7);
    });
}
