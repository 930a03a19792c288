//! A type whose full name would exhaust memory: `record` and `heap` shorten it, mark that, and stay small.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Remora, Target, on_every_runtime};

/// Address space of the command, KiB. The full name takes several times as much.
const ROOM: &str = "2000000";

/// Runs `remora` with limited memory, to its end.
fn bounded(arguments: &[&str]) -> remora_e2e::Finished {
    let remora = Remora::command();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", r#"ulimit -v "$0" && exec "$@""#, ROOM]).arg(remora.get_program()).args(arguments);
    Remora::spawn(command).finish()
}

#[test]
fn a_type_with_thirty_parameters_six_deep_does_not_fill_the_memory() {
    on_every_runtime(|runtime| {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (profile, snapshot) = (path("wide.folded"), path("wide.remora-heap"));
        let target = Target::start(runtime, "wide", &[]);
        let pid = target.pid().to_string();

        bounded(&["record", "-p", &pid, "-d", "1s", "-o", &profile]).succeeded();
        let stacks = std::fs::read_to_string(&profile).unwrap();
        let name = stacks.split(';').find(|frame| frame.starts_with("Known.Wide<")).unwrap();
        assert!(name.contains('…') && name.len() < 5_000, "{name}");

        bounded(&["heap", "-p", &pid, "-o", &snapshot]).succeeded();
        let report = bounded(&["heap", "report", &snapshot, "--json"]).succeeded().text();
        // Its arguments were identified once for each place where they occur.
        assert!(!report.contains("not all types are named"), "{report}");
        let name = report.split('"').find(|text| text.starts_with("Known.Wide<")).unwrap();
        assert!(name.contains('…') && name.len() < 5_000, "{name}");
    });
}
