//! `remora model`: targets as processes, and what goes wrong with them.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod command;
#[allow(dead_code, reason = "each test file uses a part of it")]
mod targets;

use command::Ran;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};
use targets::{CLASS, Targets};

#[test]
fn a_profiler_finds_the_variables_of_its_target_by_getenv() {
    let mut targets = Targets::new();
    let library = targets.broken("wants-inherited");
    targets.run(&["plain", "--name", "without"]);
    targets.run(&["plain", "--name", "with", "--env", "REMORA_TEST_OF_THE_LAB=1"]);
    assert_eq!(targets.attach("without", &library).code, 19);
    targets.attach("with", &library).succeeds();
}

#[test]
fn a_target_ends_with_its_standard_input_and_leaves_no_file() {
    let mut targets = Targets::new();
    targets.run(&["plain"]);
    let mut target = targets.running.remove(0);
    drop(target.stdin.take());
    assert!(target.wait().expect("it ends").success());
    assert_eq!(targets.remora(&["ps"]).stderr, "no modelled target runs; start one with `remora model run`\n");
    let place = std::fs::read_dir(targets.directory.path("")).expect("the place").flatten().next().expect("one");
    assert_eq!(place.metadata().expect("facts").permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::read_dir(place.path()).expect("it can be read").count(), 0);
}

#[test]
fn an_ended_target_is_listed_with_its_signal_or_exit_code_until_it_is_stopped() {
    let mut targets = Targets::new();
    let process = targets.run(&["plain"]);
    kill_process(process, Signal::KILL).expect("killed");
    assert_eq!(targets.running.remove(0).wait().expect("it ends").code(), Some(10));
    targets.run(&["two-runtimes", "--name", "other"]);
    targets.attach("other", &targets.broken("exits-on-load")).fails(10);
    let listed = targets.remora(&["ps"]).succeeds();
    let rows: Vec<&str> = listed.lines().skip(1).collect();
    assert!(rows.len() == 2 && rows[0].contains("no: it ended with exit code "), "{listed}");
    assert!(rows[1].ends_with("no: it ended by SIGKILL"), "{listed}");
    let message = targets.attach("plain", "/nowhere.so").fails(10);
    assert!(message.starts_with("remora: the modelled target plain ended by SIGKILL; "), "{message}");
    assert_eq!(targets.remora(&["stop", "plain"]).succeeds(), "plain ended by SIGKILL\n");
    targets.remora(&["stop"]).succeeds();
    assert_eq!(targets.remora(&["ps"]).succeeds(), "");
    assert_eq!(targets.files(), 0);
}

/// The exit of the process calls it, also if the library is unloaded before.
const CRASHES_AT_EXIT: &str = "on_exit((void (*)(int, void *))abort, 0);";

#[test]
fn a_target_that_crashes_while_it_ends_has_not_ended_as_asked() {
    for asks_by_signal in [true, false] {
        let mut targets = Targets::new();
        targets.run(&["plain"]);
        targets.attach("plain", &targets.written_in_c(CRASHES_AT_EXIT)).fails(19);
        if asks_by_signal {
            kill_process(Pid::from_child(&targets.running[0]), Signal::TERM).expect("asked");
        } else {
            assert_eq!(targets.remora(&["stop"]).succeeds(), "plain ended by SIGABRT\n");
        }
        assert_eq!(targets.running.remove(0).wait().expect("it ends").code(), Some(10));
        if asks_by_signal {
            let listed = targets.remora(&["ps"]).succeeds();
            assert!(listed.contains("no: it ended by SIGABRT"), "{listed}");
        }
    }
}

#[test]
fn a_target_that_must_be_killed_says_so() {
    let mut targets = Targets::new();
    targets.run(&["plain"]);
    targets.attach("plain", &targets.written_in_c("on_exit((void (*)(int, void *))pause, 0);")).fails(19);
    drop(targets.running[0].stdin.take());
    assert_eq!(targets.running.remove(0).wait().expect("it ends").code(), Some(10));
    let ended = "plain ended by SIGKILL: it did not end by itself, and was killed\n";
    assert_eq!(targets.remora(&["stop"]).succeeds(), ended);
}

#[test]
fn the_name_of_an_ended_target_is_free() {
    let mut targets = Targets::new();
    for _ in 0..2 {
        let process = targets.run(&["plain"]);
        kill_process(process, Signal::KILL).expect("killed");
        targets.running.remove(0).wait().expect("it ends");
    }
    targets.run(&["plain"]);
    let listed = targets.remora(&["ps"]).succeeds();
    assert!(!listed.contains("ended"), "{listed}");
}

#[test]
fn a_target_ends_with_the_process_that_watches_over_it() {
    for is_replaced in [false, true] {
        ends_with_its_watcher(is_replaced);
    }
}

fn ends_with_its_watcher(is_replaced: bool) {
    let mut targets = Targets::new();
    let process = targets.run(&["plain"]);
    let target = pidfd_open(process, PidfdFlags::empty()).expect("it runs");
    if is_replaced {
        targets.attach("plain", &targets.written_in_c(BECOMES_ANOTHER)).fails(15);
    }
    let mut watcher = targets.running.remove(0);
    watcher.kill().expect("killed");
    watcher.wait().expect("it ends");
    assert!(ends_within(&target, 30));
    let listed = targets.remora(&["ps"]).succeeds();
    assert!(listed.contains("no: it ended in an unknown way: the process that watched over it was killed"), "{listed}");
    targets.remora(&["stop"]).succeeds();
    assert_eq!(targets.files(), 0);
}

/// The process leaves its parent, its session and its group, and ignores SIGTERM and SIGHUP.
const DAEMON: &str = r#"
    pid_t child = fork();
    if (child == 0) {
        setsid();
        pid_t daemon = fork();
        if (daemon == 0) {
            execlp("sh", "sh", "-c", "trap '' TERM HUP; while :; do sleep 1000; done", (char *)0);
            _exit(1);
        }
        FILE *file = fopen(getenv("NUMBER"), "w");
        fprintf(file, "%d", daemon);
        fclose(file);
        _exit(0);
    }
    waitpid(child, 0, 0);"#;

#[test]
fn what_a_profiler_has_started_ends_with_its_target() {
    for end in ["stop", "crash", "ends with its input"] {
        let mut targets = Targets::new();
        let file = targets.directory.path("number");
        let process = targets.run(&["plain", "--env", &format!("NUMBER={file}")]);
        targets.attach("plain", &targets.written_in_c(DAEMON)).fails(19);
        let daemon = std::fs::read_to_string(&file).expect("a number").parse().ok().and_then(Pid::from_raw);
        let daemon = pidfd_open(daemon.expect("a number"), PidfdFlags::empty()).expect("it runs");
        match end {
            "stop" => assert_eq!(targets.remora(&["stop"]).succeeds(), "plain has ended\n"),
            "crash" => kill_process(process, Signal::ABORT).expect("killed"),
            _ => {}
        }
        let mut watcher = targets.running.remove(0);
        drop(watcher.stdin.take());
        watcher.wait().expect("it ends");
        assert!(ends_within(&daemon, 0), "{end}");
    }
}

/// The process runs another program.
const BECOMES_ANOTHER: &str = "execlp(\"sleep\", \"sleep\", \"1000\", (char *)0);";

#[test]
fn a_target_whose_program_a_profiler_has_replaced_is_listed_and_can_be_stopped() {
    let mut targets = Targets::new();
    let process = targets.run(&["plain"]);
    let target = pidfd_open(process, PidfdFlags::empty()).expect("it runs");
    let library = targets.written_in_c(BECOMES_ANOTHER);
    let message = targets.attach("plain", &library).fails(15);
    assert!(message.starts_with("remora: the modelled target plain did not answer: "), "{message}");
    let listed = targets.remora(&["ps"]).succeeds();
    assert!(listed.contains("a profiler has replaced its program (exec)"), "{listed}");
    targets.remora(&["stop"]).succeeds();
    assert!(ends_within(&target, 0));
    assert_eq!(targets.files(), 0);
}

/// Two containers may share the directory. Numbers of one's processes mean nothing in the other.
#[test]
fn a_target_in_another_pid_namespace_is_listed_and_can_be_stopped() {
    if !command::is_root() {
        eprintln!("skipped: a PID namespace needs root");
        return;
    }
    let mut targets = Targets::new();
    let directory = targets.directory.path("");
    let elsewhere = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", env!("CARGO_BIN_EXE_remora"), "model"]);
        command.args(args).env("XDG_RUNTIME_DIR", &directory);
        command
    };
    targets.begin(elsewhere(&["run", "plain"]));
    let listed = Ran::of(&mut elsewhere(&["ps", "--json"])).succeeds();
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let row = &listed["runtimes"][0];
    assert_eq!((&row["process_id"], &row["attachable"]), (&serde_json::Value::Null, &true.into()));
    // From now on only the process that watches over it answers.
    targets.attach("plain", &targets.written_in_c(BECOMES_ANOTHER)).fails(15);
    assert_eq!(Ran::of(&mut elsewhere(&["stop"])).succeeds(), "plain has ended\n");
    assert!(targets.running[0].wait().expect("it ends").success());
    assert_eq!(targets.files(), 0);
}

#[test]
fn a_target_ends_whose_watching_process_is_stopped() {
    let mut targets = Targets::new();
    targets.run(&["plain"]);
    kill_process(Pid::from_child(&targets.running[0]), Signal::STOP).expect("stopped");
    assert_eq!(targets.remora(&["stop"]).succeeds(), "plain has ended\n");
    assert!(targets.running[0].wait().expect("it ends").success());
}

/// Not the number is looked at, which another process may have.
fn ends_within(process: &OwnedFd, seconds: i64) -> bool {
    let patience = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience)) == Ok(1)
}

/// With one process there is no target, with two none of its threads.
#[test]
fn a_target_that_cannot_start_is_not_listed() {
    if !command::is_root() {
        eprintln!("skipped: another user's limits need root");
        return;
    }
    let targets = Targets::new();
    let open = targets.directory.path("");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).expect("set");
    let program = targets.directory.path("remora");
    std::fs::copy(env!("CARGO_BIN_EXE_remora"), &program).expect("copied");
    for processes in ["--nproc=1", "--nproc=2"] {
        let mut command = Command::new("setpriv");
        // Processes of nobody else count.
        command.args(["--reuid=61234", "--regid=61234", "--clear-groups", "prlimit", processes, &program]);
        let message = Ran::of(command.args(["model", "run", "plain"]).env("XDG_RUNTIME_DIR", &open)).fails(2);
        assert!(message.contains("cannot be started") && message.contains("`ulimit -u`"), "{message}");
        assert!(!message.contains("XDG_RUNTIME_DIR"), "{message}");
        assert_eq!(targets.files(), 0, "{processes}");
    }
}

#[test]
fn of_several_targets_one_must_be_named() {
    let mut targets = Targets::new();
    assert_eq!(
        targets.remora(&["log"]).fails(10),
        "remora: no modelled target runs; start one with `remora model run`"
    );
    targets.run(&["plain"]);
    targets.run(&["plain", "--name", "other"]);
    assert_eq!(targets.remora(&["log"]).fails(2), "remora: which target? other, plain run; give the name of one");
    assert_eq!(
        targets.remora(&["log", "third"]).fails(10),
        "remora: no modelled target is called \"third\"; there are other, plain"
    );
    assert_eq!(
        targets.remora(&["run", "plain"]).fails(2),
        "remora: a modelled target plain runs already; stop it with `remora model stop plain`, or give --name another name"
    );
    targets.remora(&["stop", "other"]).succeeds();
    targets.remora(&["log"]).succeeds();
}

#[test]
fn an_unknown_scenario_name_runtime_or_file_is_refused() {
    let mut targets = Targets::new();
    let message = targets.remora(&["run", "plian"]).fails(2);
    assert!(message.starts_with("remora: there is no scenario \"plian\": there are plain, "), "{message}");
    let message = targets.remora(&["run", "plain", "--name", "../up"]).fails(2);
    assert!(message.contains("small letters, digits and hyphens"), "{message}");
    let config = targets.directory.path("app.config");
    std::fs::write(&config, "<a><runtime><gcConcurrent enabled=\"perhaps\"/></runtime></a>").expect("written");
    let message = targets.remora(&["run", "plain", "--config", &config]).fails(2);
    assert!(message.contains("enabled of <gcConcurrent> must be"), "{message}");
    let message = targets.remora(&["run", "plain", "--config", "/nowhere"]).fails(30);
    assert!(message.contains("/nowhere cannot be read"), "{message}");
    targets.run(&["plain"]);
    let attach = ["attach", "--clsid", CLASS, "--runtime"];
    let message = targets.remora(&[&attach[..], &["v2.0.50727"]].concat()).fails(2);
    assert!(message.contains("has not loaded the runtime v2.0.50727: it has v4.0.30319"), "{message}");
    let message = targets.remora(&[&attach[..], &["4"]].concat()).fails(2);
    assert!(message.contains("written like v4.0.30319"), "{message}");
}

#[test]
fn client_data_is_a_text_or_a_file_and_bounded() {
    let mut targets = Targets::new();
    targets.run(&["plain"]);
    let library = targets.broken("wants-client-data");
    let attach =
        |data: &str| targets.remora(&["attach", "--clsid", CLASS, "--library", &library, "--client-data", data]);
    // This profiler refuses all data but these bytes, which are no text.
    let message = attach("{channel}").fails(19);
    assert!(message.contains("E_INVALIDARG"), "{message}");
    let file = targets.directory.path("data");
    std::fs::write(&file, vec![b'x'; 65_537]).expect("written");
    let message = attach(&format!("@{file}")).fails(2);
    assert!(message.contains("more than 65536 bytes"), "{message}");
    std::fs::write(&file, [0xFF, 0, 0xFE]).expect("written");
    attach(&format!("@{file}")).succeeds();
}

/// It waited for a writer, or read without an end.
#[test]
fn client_data_and_configurations_of_pipes_and_devices_are_refused() {
    let mut targets = Targets::new();
    targets.run(&["plain"]);
    for file in ["/dev/zero", "/proc"] {
        let data = format!("@{file}");
        let attached =
            targets.remora(&["attach", "plain", "--clsid", CLASS, "--library", "x.so", "--client-data", &data]);
        let message = attached.fails(2);
        assert!(message.contains("it is no regular file"), "{message}");
    }
    let message = targets.remora(&["run", "plain", "--name", "other", "--config", "/dev/zero"]).fails(30);
    assert!(message.contains("it is no regular file"), "{message}");
}

#[test]
fn a_stopped_target_is_reported_within_the_time_out_and_can_be_ended() {
    let mut targets = Targets::new();
    let process = targets.run(&["plain"]);
    kill_process(process, Signal::STOP).expect("stopped");
    let stopped = format!("it is stopped (SIGSTOP; `kill -CONT {process}` lets it go on)");
    let begun = Instant::now();
    let attach = ["attach", "--clsid", CLASS, "--library", "/nowhere.so", "--timeout", "500ms"];
    let message = targets.remora(&attach).fails(15);
    let took = begun.elapsed();
    assert!(message.starts_with(&format!("remora: the modelled target plain did not answer: {stopped}")), "{message}");
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(9), "{took:?}");
    assert!(targets.remora(&["ps"]).succeeds().contains(&stopped));
    let message = targets.remora(&["tell", "plain", "collect"]).fails(15);
    assert!(message.contains(&stopped), "{message}");
    targets.remora(&["stop", "plain"]).succeeds();
    targets.running[0].wait().expect("it has ended");
}

#[test]
fn a_profiler_that_ends_the_target_is_reported() {
    let mut targets = Targets::new();
    targets.run(&["plain"]);
    let message = targets.attach("plain", &targets.broken("exits-on-load")).fails(10);
    assert!(message.starts_with("remora: the modelled target plain ended with exit code "), "{message}");
    assert!(message.contains("`remora lab`"), "{message}");
}

#[test]
fn a_profiler_without_a_channel_cannot_be_detached_from_outside() {
    let mut targets = Targets::new();
    targets.run(&["plain"]);
    targets.attach("plain", &targets.broken("stays")).succeeds();
    let message = targets.remora(&["detach"]).fails(19);
    assert!(message.contains("no profiler in plain is connected to its channel"), "{message}");
    let message = targets.remora(&["channel", "--until", "anything", "--wait", "10ms"]).fails(15);
    assert!(message.contains("no profiler has written \"anything\""), "{message}");
}

#[test]
fn a_profiler_for_version_2_is_not_attached() {
    let mut targets = Targets::new();
    targets.run(&["plain"]);
    let message = targets.attach("plain", &targets.broken("is-too-old")).fails(19);
    assert!(message.contains("CORPROF_E_PROFILER_NOT_ATTACHABLE"), "{message}");
}

#[test]
fn lists_and_logs_are_json_on_request() {
    let mut targets = Targets::new();
    targets.run(&["other-user"]);
    let shown: serde_json::Value = serde_json::from_str(&targets.remora(&["ps", "--json"]).succeeds()).expect("JSON");
    assert_eq!(shown["runtimes"][0]["attachable"], false);
    assert_eq!(shown["runtimes"][0]["reason"], "access is denied");
    let attach = ["attach", "--clsid", CLASS, "--library", "/nowhere.so", "--trigger", "debug-privilege"];
    targets.remora(&attach).fails(16);
    let shown: serde_json::Value = serde_json::from_str(&targets.remora(&["log", "--json"]).succeeds()).expect("JSON");
    let entry = &shown["entries"][0];
    assert_eq!((&entry["level"], &entry["event_id"]), (&"Error".into(), &1022.into()));
}

#[test]
fn the_list_of_targets_has_their_processes() {
    let mut targets = Targets::new();
    let process = targets.run(&["plain"]).as_raw_nonzero().get();
    let listed = targets.remora(&["ps"]).succeeds();
    let row: Vec<&str> = listed.lines().last().expect("a target").split_whitespace().collect();
    assert_eq!(row[..3], ["plain", &process.to_string(), "v4.0.30319"]);
    let listed: serde_json::Value = serde_json::from_str(&targets.remora(&["ps", "--json"]).succeeds()).expect("JSON");
    assert_eq!(listed["runtimes"][0]["process_id"], process);
}

#[test]
fn a_directory_that_others_can_enter_is_refused() {
    let targets = Targets::new();
    targets.remora(&["ps"]).succeeds();
    let place = std::fs::read_dir(targets.directory.path("")).expect("the place").flatten().next().expect("one");
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).expect("set");
    let message = targets.remora(&["ps"]).fails(2);
    assert!(message.contains("is not yours alone (mode 0700); set XDG_RUNTIME_DIR to "), "{message}");
}

#[test]
fn a_target_needs_no_privilege() {
    let targets = Targets::new();
    let open = targets.directory.path("");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).expect("set");
    let program = targets.directory.path("remora");
    std::fs::copy(env!("CARGO_BIN_EXE_remora"), &program).expect("copied");
    let as_nobody = |args: &[&str]| {
        let mut command = if command::is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", &program]);
            command
        } else {
            Command::new(&program)
        };
        Ran::of(command.arg("model").args(args).env("XDG_RUNTIME_DIR", &open))
    };
    as_nobody(&["run", "plain", "--background"]).succeeds();
    let listed = as_nobody(&["ps"]).succeeds();
    as_nobody(&["stop"]).succeeds();
    assert!(listed.contains("v4.0.30319"), "{listed}");
}
