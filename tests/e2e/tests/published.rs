//! Programs published by others with their runtime: a folder with its own launcher, and a single file.
//!
//! Both are servers that answer a line of JSON with a line of JSON (model context protocol) and end with their standard input.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use memchr::memmem;
use remora_e2e::read_back::{ReadBack, array, number};
use remora_e2e::{Facts, Recorded, Recording, Remora, Start, Target, cpu_time, remora};
use remora_holds::holds;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The single file: the variable with its folder, and its name.
const SINGLE_FILE: (&str, &str) = ("REMORA_TEST_SINGLE_FILE", "fabmcp");
/// The folder for extracted files, in the working directory.
const EXTRACTED: &str = "extracted";

/// CPU time that yields enough samples for a share of frames.
const ENOUGH: Duration = Duration::from_secs(3);
/// Minimum questions answered meanwhile: during startup, most of that time goes into the JIT.
const QUESTIONS: u32 = 2000;

#[test]
fn att_03_det_14_a_self_contained_program_is_recorded() {
    is_recorded(&published(("REMORA_TEST_SELF_CONTAINED", "azmcp")), "9.0.7");
}

#[test]
fn att_03_det_14_a_program_in_a_single_file_is_recorded_and_its_names_are_those_of_csharp() {
    is_recorded(&published(SINGLE_FILE), "10.0.11");
}

#[test]
fn att_03_det_14_a_program_that_extracts_itself_is_recorded() {
    let folder = remora_e2e::folder();
    let program = folder.path().join("fabmcp");
    std::fs::write(&program, with_extraction(std::fs::read(published(SINGLE_FILE)).unwrap())).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let ran_in = is_recorded(&program, "10.0.11");
    let mut ids = std::fs::read_dir(ran_in.path().join(EXTRACTED).join("fabmcp")).unwrap().flatten();
    let has_assemblies = |id: std::fs::DirEntry| id.path().join("System.Private.CoreLib.dll").is_file();
    assert!(ids.any(has_assemblies), "its assemblies are files now");
}

#[test]
fn att_17_the_runtime_of_a_published_program_loads_the_agent_at_its_start() {
    for published_as in [("REMORA_TEST_SELF_CONTAINED", "azmcp"), SINGLE_FILE] {
        let folder = remora_e2e::folder();
        let mut command = Remora::command();
        command.args(["record", "--json", "--from-start", "--duration", "2s", "--frequency", "999"]);
        command.arg("-o").arg(folder.path().join("recording.remora"));
        command.arg("--receipt").arg(folder.path().join("receipt.json"));
        command.arg("--").arg(published(published_as)).args(["server", "start"]);
        command.current_dir(folder.path()).env("AZURE_MCP_COLLECT_TELEMETRY", "false");
        let mut remora = Remora::spawn(command);
        remora.wait_until_it_says(" runs on");
        remora.close_input();
        let recorded = Recorded::of(remora, folder);
        recorded.is_clean();
        let read = ReadBack::of(&recorded);
        holds!(
            ATT_17 rem, read.weight_where(|names| names.iter().any(|name| name.contains("Program.Main"))) > 0,
            "its start is there"
        );
    }
}

/// The same single file with the flag `NetcoreApp3CompatMode`: its launcher extracts all files and runs them from there, as .NET Core 3.x
/// does. The flag is the first bit of the flags in the list of files (see `crates/host/symbols/src/bundle.rs`).
fn with_extraction(mut executable: Vec<u8>) -> Vec<u8> {
    let mark = memmem::find(&executable, &remora_symbols::BUNDLE_MARK).unwrap();
    let list = u64::from_le_bytes(executable[mark - 8..mark].try_into().unwrap()) as usize;
    // Two version numbers, the count, the id after its length, two offsets of settings.
    let id = usize::from(executable[list + 12]);
    let flags = list + 13 + id + 32;
    assert_eq!(executable[flags..flags + 8], [0; 8]);
    executable[flags] = 1;
    executable
}

/// Records the program with both engines; returns its working directory.
fn is_recorded(program: &Path, runtime: &str) -> tempfile::TempDir {
    let mut server = Server::start(program);
    let (id, pid) = (u64::from(server.target.pid()), server.target.pid().to_string());
    let listed = remora(["ps", "--json"]).succeeded().json();
    let row = array(&listed).iter().find(|row| number(&row["process_id"]) == id);
    holds!(ATT_03 rem, row.is_some_and(|row| row["runtime_version"] == runtime), "{listed:#}");
    remora(["check", "-p", &pid]).succeeded();

    let before = Facts::of(server.target.pid());
    let waiting = Recording::of(&server.target, &["--event", "wall"]);
    waiting.is_clean();
    names_are_those_of_csharp(&waiting.finished.json(), &ReadBack::of(&waiting));

    let recording = Recording::begun(&server.target, &["--frequency", "999"]);
    let goal = cpu_time(server.target.pid()) + ENOUGH;
    let mut questions = 0;
    while cpu_time(server.target.pid()) < goal || questions < QUESTIONS {
        server.ask("ping", json!({}));
        questions += 1;
    }
    let working = recording.stop();
    working.is_clean();
    let read = ReadBack::of(&working);
    names_are_those_of_csharp(&working.finished.json(), &read);
    assert!(read.frames.iter().any(|frame| frame.name.starts_with("System.Text.Json.")), "it reads and writes JSON");

    server.ask("ping", json!({}));
    holds!(DET_14 rem, Facts::of(server.target.pid()).remora() == Vec::<String>::new());
    assert_eq!(Facts::of(server.target.pid()).dispositions, before.dispositions);
    assert!(server.target.wait().success());
    server.folder
}

/// At least 99 % of the managed frames have a name, and framework methods show their parameters.
#[track_caller]
fn names_are_those_of_csharp(shown: &Value, read: &ReadBack) {
    let (all, named) = (number(&shown["managed_frames"]), number(&shown["managed_frames_named"]));
    assert!(all > 0 && named * 100 >= all * 99, "{named} of {all} managed frames are named");
    // Methods generated at run time have only a name: the runtime's stubs for native calls (`IL_STUB_PInvoke`), and those that reflection
    // compiles for repeated calls (`InvokeStub_Type.Method`).
    let in_a_namespace =
        |name: &&str| ["System.", "Interop.", "Internal.", "Microsoft."].iter().any(|start| name.starts_with(start));
    let of_the_framework: Vec<&str> = read
        .frames
        .iter()
        .filter(|frame| frame.file.ends_with("System.Private.CoreLib.dll"))
        .map(|frame| frame.name.as_str())
        .filter(in_a_namespace)
        .collect();
    // Accessors show no parameters.
    let shows = |name: &&str| {
        name.ends_with(')') || [".get", ".set", ".init", ".add", ".remove"].iter().any(|end| name.ends_with(end))
    };
    let (showing, silent): (Vec<&str>, Vec<&str>) = of_the_framework.iter().partition(|name| shows(name));
    assert!(showing.len() > 3, "{showing:#?}");
    assert_eq!(silent, Vec::<&str>::new(), "of {} these do not show what they take", of_the_framework.len());
}

fn published((variable, program): (&str, &str)) -> PathBuf {
    let folder = std::env::var_os(variable).expect("it is set by `cargo xtask e2e`");
    PathBuf::from(folder).join(program)
}

/// A running server, the number of its last question, and its working directory.
struct Server {
    target: Target,
    asked: u64,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(program: &Path) -> Server {
        // Assemblies with the same names are in the working directory: they are not the loaded ones.
        let folder = remora_e2e::folder();
        for name in ["System.Private.CoreLib.dll", "System.Text.Json.dll"] {
            std::fs::write(folder.path().join(name), "another").unwrap();
        }
        let mut command = Command::new(program);
        command.current_dir(folder.path()).env("DOTNET_BUNDLE_EXTRACT_BASE_DIR", folder.path().join(EXTRACTED));
        // It must not send telemetry.
        command.args(["server", "start"]).env("AZURE_MCP_COLLECT_TELEMETRY", "false");
        let target = Start::of(command, &program.display().to_string()).spawn();
        let mut server = Server { target, asked: 0, folder };
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
