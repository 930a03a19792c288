//! `remora model`: what a target leaves for its user when it has ended, and what a command leaves that fails.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod command;
#[allow(dead_code, reason = "each test file uses a part of it")]
mod targets;

use command::Ran;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::File;
use std::process::{Command, Stdio};
use targets::{CLASS, Targets};

/// Starts a target whose profilers find the path of its channel in a variable.
fn with_channel(targets: &mut Targets) -> rustix::process::Pid {
    let user = rustix::process::geteuid().as_raw();
    let channel = targets.directory.path(&format!("remora-model-{user}/plain.channel"));
    targets.run(&["plain", "--env", &format!("CHANNEL={channel}")])
}

/// Writes to the channel.
fn writes(text: &str) -> String {
    format!(
        r#"struct sockaddr_un address = {{ .sun_family = AF_UNIX }};
        snprintf(address.sun_path, sizeof address.sun_path, "%s", getenv("CHANNEL"));
        int channel = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(channel, (struct sockaddr *)&address, sizeof address) != 0) return 1;
        char text[] = "{text}";
        write(channel, text, sizeof text - 1);"#
    )
}

#[test]
fn the_event_log_of_a_crashed_target_stays_until_it_is_stopped() {
    let mut targets = Targets::new();
    targets.run(&["plain"]);
    targets.attach("plain", &targets.broken("crashes")).succeeds();
    let message = targets.remora(&["tell", "plain", "load-module"]).fails(10);
    assert!(message.contains("ended by SIGSEGV"), "{message}");
    let log = targets.remora(&["log"]);
    assert_eq!(log.stderr, "plain ended by SIGSEGV\n");
    assert!(log.succeeds().contains("Information  .NET Runtime  1022   v4.0.30319  A profiler was attached."));
    let log: serde_json::Value = serde_json::from_str(&targets.remora(&["log", "--json"]).succeeds()).expect("JSON");
    assert_eq!((&log["ended"], &log["lost"]), (&"by SIGSEGV".into(), &serde_json::Value::Null));
    assert_eq!(log["entries"].as_array().map(Vec::len), Some(1));
    targets.remora(&["stop"]).succeeds();
    assert_eq!(targets.files(), 0);
}

/// Nobody has read it before the crash.
#[test]
fn what_a_profiler_wrote_to_its_channel_before_it_crashed_stays_until_the_next_target() {
    let mut targets = Targets::new();
    with_channel(&mut targets);
    let library = targets.written_in_c(&(writes(r"one\n\033[2Jtwo\nthree") + "abort();"));
    targets.attach("plain", &library).fails(10);
    let lines = "one\n\\u{1b}[2Jtwo\nthree\n";
    let channel = targets.remora(&["channel", "--until", "three"]);
    assert_eq!((channel.code, channel.stdout.as_str()), (0, lines), "{}", channel.stderr);
    assert_eq!(channel.stderr, "plain ended by SIGABRT\n");
    let channel = targets.remora(&["channel", "--until", "four"]);
    assert_eq!((channel.code, channel.stdout.as_str()), (10, lines), "{}", channel.stderr);
    assert!(channel.stderr.starts_with("remora: the modelled target plain ended by SIGABRT"), "{}", channel.stderr);
    targets.run(&["plain"]);
    let channel = targets.remora(&["channel"]);
    assert_eq!((channel.code, channel.stdout.as_str(), channel.stderr.as_str()), (0, "", ""));
}

#[test]
fn log_and_channel_stay_if_the_process_that_watches_over_the_target_is_killed() {
    let mut targets = Targets::new();
    let target = with_channel(&mut targets);
    let target = pidfd_open(target, PidfdFlags::empty()).expect("it runs");
    targets.attach("plain", &targets.written_in_c(&writes(r"a line\n"))).fails(19);
    targets.remora(&["channel", "--until", "a line"]).succeeds();
    let mut watcher = targets.running.remove(0);
    watcher.kill().expect("killed");
    watcher.wait().expect("it ends");
    poll(&mut [PollFd::new(&target, PollFlags::IN)], None).expect("it ends");
    for (command, shown) in [("log", "A profiler could not be loaded"), ("channel", "a line\n")] {
        let left = targets.remora(&[command]);
        assert!(left.stderr.starts_with("plain ended in an unknown way: "), "{}", left.stderr);
        let left = left.succeeds();
        assert!(left.contains(shown), "{command}: {left}");
    }
    targets.remora(&["stop"]).succeeds();
    assert_eq!(targets.files(), 0);
}

#[test]
fn a_stopped_target_hides_neither_log_nor_channel() {
    let mut targets = Targets::new();
    let process = targets.run(&["plain"]);
    targets.attach("plain", "/nowhere.so").fails(16);
    kill_process(process, Signal::STOP).expect("stopped");
    assert!(targets.remora(&["log"]).succeeds().contains("A profiler could not be loaded"));
    targets.remora(&["channel"]).succeeds();
}

/// Its first page has room for some entries. `$1` is the command, `$2` a class.
const ON_A_FULL_DISK: &str = r#"
    mount -t tmpfs -o size=64k tmpfs "$XDG_RUNTIME_DIR" || exit
    "$1" model run plain --background
    cat /dev/zero 2>/dev/null >"$XDG_RUNTIME_DIR/full"
    for _ in $(seq 40); do "$1" model attach plain --clsid "$2" --library /nowhere.so 2>/dev/null; done
    "$1" model log --json
    "$1" model log
    "$1" model ps >&2
    "$1" model stop"#;

#[test]
fn a_full_disk_loses_entries_and_stops_no_target() {
    let targets = Targets::new();
    let mut command = Command::new("unshare");
    command.arg(if command::is_root() { "--mount" } else { "-rm" });
    command.args(["sh", "-c", ON_A_FULL_DISK, "sh", env!("CARGO_BIN_EXE_remora"), CLASS]);
    let ran = Ran::of(command.env("XDG_RUNTIME_DIR", targets.directory.path("")));
    let lost = "No space left on device (os error 28)";
    assert!(ran.stderr.contains(&format!("some of what plain wrote is lost: {lost}\n")), "{}", ran.stderr);
    // In the list it runs.
    assert!(ran.stderr.lines().last().is_some_and(|row| row.ends_with("yes")), "{}", ran.stderr);
    let shown = ran.succeeds();
    assert!(shown.contains(&format!("\"lost\": \"{lost}\"")), "{shown}");
    assert!(shown.contains("A profiler could not be loaded") && shown.ends_with("plain has ended\n"), "{shown}");
}

#[test]
fn a_target_ends_if_nobody_can_be_told_that_it_runs() {
    let targets = Targets::new();
    for how in [&["--background"][..], &[]] {
        let mut command = targets.command(&[&["run", "plain"], how].concat());
        let full = File::options().write(true).open("/dev/full").expect("there is one");
        let child = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).spawn().expect("it starts");
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("standard output"), "{said}");
        assert_eq!(targets.files(), 0, "{how:?}");
    }
}
