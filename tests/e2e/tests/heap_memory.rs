//! Snapshots with little memory: in a control group with a limit.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it does not expect")]

mod support;

use remora_e2e::{Finished, MemoryGroup, Remora, Runtime, Start, Target, WaitingCopy, on_every_runtime, remora};
use serde_json::Value;

/// The limit of the group, bytes.
const LIMIT: u64 = 320 << 20;
/// Objects of the target: 176 MB.
const NODES: u64 = 4_000_000;

/// Exit status of a file that takes too much memory.
const TOO_LARGE: i32 = 34;

/// A target that fits into its group only once. Its runtime may use nearly all of the limit.
fn target_in(group: &MemoryGroup, runtime: &Runtime) -> Target {
    let mut start = Start::managed(runtime, "heap").arg(NODES.to_string());
    for prefix in ["COMPlus", "DOTNET"] {
        start =
            start.env(format!("{prefix}_GCHeapHardLimit"), "11000000").env(format!("{prefix}_GCgen0size"), "1000000");
    }
    start.in_group(group).ready()
}

/// A snapshot whose copy is stopped while the target writes to all of its memory, so that the group fills. The command is stopped, too:
/// only the copy itself can end it in time.
fn filled(runtime: &Runtime, arguments: &[&str]) -> Finished {
    let group = MemoryGroup::new(LIMIT);
    let mut target = target_in(&group, runtime);
    let process = target.pid().to_string();
    let command = Remora::start(["heap", "-p", &process].into_iter().chain(arguments.iter().copied()));
    let copy = WaitingCopy::of(&target, &command);
    assert_eq!(target.ask_number("touch"), NODES);
    copy.until_it_has_ended();
    assert_eq!(group.kills(), 0, "the kernel had to end somebody");
    copy.command_goes_on();
    let finished = command.finish();
    assert_eq!(target.ask_number("nodes"), NODES);
    assert!(target.quit().success());
    assert_eq!(group.kills(), 0);
    finished
}

#[test]
fn a_copy_that_fills_its_control_group_ends_itself_before_the_kernel_ends_anybody() {
    on_every_runtime(|runtime| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("part.remora-heap");
        let finished = filled(runtime, &["--json", "-o", file.to_str().unwrap()]);
        assert_eq!(finished.code(), 42, "{finished}");
        assert!(finished.stderr.contains("the copy of the process may not fit"), "{finished}");
        let reported = finished.json();
        assert_eq!(
            (&reported["complete"], &reported["receipt"]["clean"]),
            (&Value::Bool(false), &Value::Bool(true)),
            "{reported:#}"
        );
        let notes = reported["notes"].to_string();
        assert!(
            notes.contains("ended itself, since its control group had") && notes.contains("of 320 MiB left"),
            "{reported:#}"
        );
    });
}

#[test]
fn a_watch_whose_first_copy_fills_the_control_group_ends_with_the_reason() {
    let finished = filled(&Runtime::newest(), &["--watch", "60s"]);
    finished.failed_with(19, &["no object was walked", "ended itself, since its control group had"]);
}

#[test]
fn regression_a_snapshot_that_is_too_large_to_be_shown_is_kept_and_that_is_said() {
    let target = Target::start(&Runtime::newest(), "heap", &["8000000"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("large.remora-heap");
    let (process, file) = (target.pid().to_string(), file.to_str().unwrap());
    // Half of that is less than twelve million objects need.
    let group = MemoryGroup::new(560 << 20);
    let mut command = group.command();
    command.arg(Remora::command().get_program()).args(["heap", "-p", &process, "--json", "-o", file]);
    let finished = Remora::spawn(command).finish();
    assert_eq!(finished.code(), TOO_LARGE, "{finished}");
    assert!(finished.stderr.contains("the snapshot is kept and not shown"), "{finished}");
    assert!(finished.stderr.contains(&format!("`remora heap report {file}` shows it")), "{finished}");
    assert_eq!(finished.json()["receipt"]["clean"], true, "{finished}");
    assert_eq!(group.kills(), 0);
    remora(["heap", "report", file]).succeeded();
}

#[test]
fn a_report_in_any_control_group_is_given_or_refused_before_the_kernel_ends_it() {
    let target = Target::start(&Runtime::newest(), "heap", &["1000000"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("some.remora-heap");
    let (process, file) = (target.pid().to_string(), file.to_str().unwrap());
    remora(["heap", "-p", &process, "-o", file]).succeeded();
    let mut answers = [0; 3];
    // The shares are of what is free: half of it to read the objects, three quarters of the rest for retained sizes.
    for limit in (24..=480).step_by(24) {
        let group = MemoryGroup::new(limit << 20);
        let mut command = group.command();
        command.arg(Remora::command().get_program()).args(["heap", "report", file]);
        let finished = Remora::spawn(command).finish();
        let said = |words| finished.stderr.contains(words);
        let answer = match finished.code() {
            0 => 0,
            TOO_LARGE if said("more than half of the free memory") => 1,
            TOO_LARGE if said("more than three quarters of the free memory") => 2,
            _ => panic!("with {limit} MiB: {finished}"),
        };
        answers[answer] += 1;
        assert_eq!(group.kills(), 0, "with {limit} MiB: {finished}");
    }
    assert!(answers.iter().all(|count| *count > 0), "{answers:?}");
}
