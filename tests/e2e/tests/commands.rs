//! A command started by `remora record -- CMD`, and readers of `remora`'s standard output.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Finished, Remora, Runtime, Start, Target, on_every_runtime};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn what_a_command_prints_stays_out_of_what_others_read() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let output = folder.path().join("a.html");
        let json = ran(runtime, &["--json", "-o", &output.to_string_lossy()]);
        assert_eq!(json.json()["ended"], "target-ended", "{json}");
        let folded = ran(runtime, &["-o", "-", "--format", "folded"]);
        let is_stack = |line: &str| line.rsplit_once(' ').is_some_and(|(_, weight)| weight.parse::<u64>().is_ok());
        assert!(folded.text().lines().all(is_stack), "{folded}");
        for finished in [json, folded] {
            assert_eq!(finished.code(), 0, "{finished}");
            assert!(finished.stderr.lines().any(|line| line == "ready"), "it is passed on: {finished}");
        }
    });
}

/// Records `busy` until it is told to end, with these flags.
fn ran(runtime: &Runtime, flags: &[&str]) -> Finished {
    let mut remora = Remora::spawn(recorded(runtime, flags));
    remora.wait_until_it_says("recording busy (process ");
    remora.type_in("quit\n");
    remora.finish()
}

/// `remora record FLAGS -- dotnet busy.dll 1`.
fn recorded(runtime: &Runtime, flags: &[&str]) -> Command {
    let mut command = Remora::command();
    command.arg("record").args(flags).arg("--").arg(runtime.launcher()).arg(Target::assembly("busy")).arg("1");
    command
}

#[test]
fn ctrl_c_ends_the_recording_and_the_command_and_both_is_said() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let output = folder.path().join("a.remora");
        let mut command = recorded(runtime, &["-o", &output.to_string_lossy()]);
        // As in a shell: the terminal's Ctrl-C goes to the whole group.
        command.process_group(0);
        let mut remora = Remora::spawn(command);
        let shown = remora.wait_until_it_says("recording busy (process ");
        assert!(shown.ends_with("; Ctrl-C ends it and the command"), "{shown}");
        kill_process_group(Pid::from_raw(remora.pid() as i32).unwrap(), Signal::INT).unwrap();
        let finished = remora.finish();
        assert_eq!(finished.code(), 0, "{finished}");
        let last = finished.stderr.lines().last().unwrap_or_default();
        assert!(last.contains(") ended ("), "how the command ended is told: {finished}");
        let pid = last.split_once("(process ").unwrap().1.split_once(')').unwrap().0;
        assert!(!Path::new("/proc").join(pid).exists(), "{finished}");
    });
}

#[test]
fn a_reader_that_has_gone_leaves_nothing_on_the_disk() {
    let target = Start::managed(&Runtime::newest(), "busy").arg("1").ready();
    for (engine, format) in [("agent", "remora"), ("agent", "folded"), ("eventpipe", "folded")] {
        let temporary = remora_e2e::folder();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Remora::command();
        command.args(["record", "-d", "300ms", "-o", "-", "--format", format, "--engine", engine, "-p"]);
        command.arg(target.pid_argument()).env("TMPDIR", temporary.path()).current_dir(temporary.path());
        let child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{engine} {format}: {said}");
        assert!(!said.contains("cannot be written"), "{said}");
        let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{left:?}: {said}");
    }
}
