//! Commands that `remora record` and `remora trace` start, and that have no .NET runtime.

#[allow(dead_code, reason = "this test uses a part")]
mod command;

use command::{Directory, remora};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

#[test]
fn a_command_that_runs_on_after_a_failure_is_named_with_the_way_to_stop_it() {
    for (flags, how) in
        [(&["record"][..], "unrecorded"), (&["record", "--from-start"], "unrecorded"), (&["trace"], "untraced")]
    {
        let directory = Directory::new();
        let mut started = Command::new(env!("CARGO_BIN_EXE_remora"))
            .args(flags)
            .args(["--", "sh", "-c", "echo $$; exec sleep 60 >/dev/null 2>&1"])
            .current_dir(directory.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(started.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        let child: i32 = line.trim().parse().expect("its process id");
        // The command does not get it.
        kill_process(Pid::from_child(&started), Signal::TERM).expect("sent");
        let mut stderr = String::new();
        started.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
        let status = started.wait().expect("it ends");
        kill_process(Pid::from_raw(child).expect("not zero"), Signal::KILL).expect("it ran on");
        assert_eq!(status.code(), Some(130), "{flags:?}: {stderr}");
        let expected = format!("sh (process {child}) runs on {how}; stop it with: kill {child}\nremora: interrupted");
        assert!(stderr.contains(&expected), "{flags:?}: {stderr}");
    }
}

#[test]
fn a_command_that_ended_first_is_not_said_to_run_on() {
    let message = remora(["record", "--", "true"]).fails(10);
    assert!(message.contains("before Remora could attach") && message.contains("--from-start"), "{message}");
    let ran = remora(["trace", "--", "true"]);
    assert_eq!(ran.code, 10, "{}", ran.stderr);
    assert!(ran.stderr.contains("before a .NET runtime started in it") && !ran.stderr.contains("runs on"));
    assert!(!ran.stderr.contains("--from-start"), "a trace has no such flag: {}", ran.stderr);
}
