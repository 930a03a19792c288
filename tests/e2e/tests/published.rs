//! Programs as others publish them, with their runtime: a folder with a launcher of its own, and one single file.
//!
//! Both are servers that answer a line of JSON by a line of JSON (model context protocol) and end with their standard input.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::read_back::{ReadBack, array, number};
use remora_e2e::{Facts, Recording, Start, Target, processor_time, remora};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Processor time that makes enough samples for a share of frames.
const ENOUGH: Duration = Duration::from_secs(3);

#[test]
fn att_03_det_14_a_self_contained_program_is_recorded() {
    is_recorded("self-contained/dist/azmcp", "9.0.7");
}

#[test]
fn att_03_det_14_a_program_in_a_single_file_is_recorded_and_its_names_are_those_of_csharp() {
    is_recorded("single-file/dist/fabmcp", "10.0.11");
}

fn is_recorded(program: &str, runtime: &str) {
    let mut server = Server::start(program);
    let (id, pid) = (u64::from(server.target.pid()), server.target.pid().to_string());
    let listed = remora(["ps", "--json"]).succeeded().json();
    let row = array(&listed).iter().find(|row| number(&row["process_id"]) == id);
    assert!(row.is_some_and(|row| row["runtime_version"] == runtime), "{listed:#}");
    remora(["check", "-p", &pid]).succeeded();

    let before = Facts::of(server.target.pid());
    let waiting = Recording::of(&server.target, &["--event", "wall"]);
    waiting.is_clean();
    names_are_those_of_csharp(&waiting.finished.json(), &ReadBack::of(&waiting));

    let recording = Recording::begun(&server.target, &["--frequency", "999"]);
    let goal = processor_time(server.target.pid()) + ENOUGH;
    while processor_time(server.target.pid()) < goal {
        server.ask("ping", json!({}));
    }
    let working = recording.stop();
    working.is_clean();
    let read = ReadBack::of(&working);
    names_are_those_of_csharp(&working.finished.json(), &read);
    assert!(
        read.frames.iter().any(|frame| frame.name.starts_with("System.Text.Json.Utf8JsonReader.")),
        "it reads JSON"
    );

    server.ask("ping", json!({}));
    assert_eq!(Facts::of(server.target.pid()).remora(), Vec::<String>::new());
    assert_eq!(Facts::of(server.target.pid()).dispositions, before.dispositions);
    assert!(server.target.wait().success());
}

/// Of the managed frames, 99 of a hundred and more have a name; and methods of the framework show what they take.
#[track_caller]
fn names_are_those_of_csharp(told: &Value, read: &ReadBack) {
    let (all, named) = (number(&told["managed_frames"]), number(&told["managed_frames_named"]));
    assert!(all > 0 && named * 100 >= all * 99, "{named} of {all} managed frames are named");
    // What the runtime makes itself, as for calls of native code, is in no type.
    let in_a_type = |name: &&str| name.contains('.');
    let of_the_framework: Vec<&str> = read
        .frames
        .iter()
        .filter(|frame| frame.file.ends_with("System.Private.CoreLib.dll"))
        .map(|frame| frame.name.as_str())
        .filter(in_a_type)
        .collect();
    // Accessors take nothing.
    let shows = |name: &&&str| {
        name.ends_with(')') || [".get", ".set", ".init", ".add", ".remove"].iter().any(|end| name.ends_with(end))
    };
    let showing = of_the_framework.iter().filter(shows).count();
    assert!(showing > 3 && showing == of_the_framework.len(), "{of_the_framework:#?}");
}

/// One that runs, the number of its last question, and where it runs.
struct Server {
    target: Target,
    asked: u64,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(program: &str) -> Server {
        let published =
            std::env::var_os("REMORA_TEST_PUBLISHED").expect("REMORA_TEST_PUBLISHED is set by `cargo xtask e2e`");
        let path = PathBuf::from(published).join(program);
        // Assemblies of the same names lie where it is started: they are not the ones that it has loaded.
        let folder = remora_e2e::folder();
        for name in ["System.Private.CoreLib.dll", "System.Text.Json.dll"] {
            std::fs::write(folder.path().join(name), "another").unwrap();
        }
        let mut command = Command::new(&path);
        command.current_dir(folder.path());
        // It is to tell nobody that it runs.
        command.args(["server", "start"]).env("AZURE_MCP_COLLECT_TELEMETRY", "false");
        let mut server = Server { target: Start::of(command, program).spawn(), asked: 0, _folder: folder };
        let client = json!({ "name": "test", "version": "1" });
        server.ask("initialize", json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client }));
        server
    }

    fn ask(&mut self, method: &str, parameters: Value) {
        self.asked += 1;
        let question = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters });
        let answer: Value = serde_json::from_str(&self.target.ask(&question.to_string())).unwrap();
        assert_eq!(answer["id"], self.asked, "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
    }
}
