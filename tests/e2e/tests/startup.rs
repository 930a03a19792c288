//! `remora record --from-start -- CMD`: the runtime loads the agent at its start.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::read_back::ReadBack;
use remora_e2e::{Expected, Facts, Kind, Recorded, Remora, Runtime, Target, on_every_runtime, on_runtimes, until};
use remora_holds::holds;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;

/// The largest error of the first method's time: more than six standard deviations of 1,000 samples at random instants.
const TOLERANCE: f64 = 0.15;

/// `remora record FLAGS -- dotnet first_moments.dll`, with these files.
fn recorded(runtime: &Runtime, folder: &std::path::Path, flags: &[&str]) -> Command {
    let mut command = Remora::command();
    command.args(["record", "--json", "--from-start", "--frequency", "999"]).args(flags);
    command.arg("-o").arg(folder.join("recording.remora")).arg("--receipt").arg(folder.join("receipt.json"));
    command.arg("--").arg(runtime.launcher()).arg(Target::assembly("first_moments"));
    command
}

/// The line of the program, which `remora` passes on.
fn said(remora: &mut Remora) -> String {
    remora.wait_until_it_says("ready used=")
}

/// Ends the recording, and then the command: until then its output stays open.
fn end(remora: &mut Remora) {
    remora.signal(Signal::INT);
    remora.wait_until_it_says(" runs on");
    remora.type_in("quit\n");
}

fn field<'a>(said: &'a str, name: &str) -> &'a str {
    let (_, rest) = said.split_once(&format!(" {name}=")).unwrap();
    rest.split(' ').next().unwrap()
}

#[test]
fn att_17_det_03_a_recording_from_the_start_has_the_first_managed_code_and_detaches() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let mut remora = Remora::spawn(recorded(runtime, folder.path(), &[]));
        let said = said(&mut remora);
        let used: f64 = field(&said, "used").parse().unwrap();
        end(&mut remora);
        let recorded = Recorded::of(remora, folder);
        holds!(DET_03 clr rem, recorded.receipt["clean"] == true, "{:#}", recorded.receipt);
        recorded.is_clean();
        let shown = ReadBack::of(&recorded).weight_where(|names| names.contains(&"FirstMoments.First(int)")) as f64;
        holds!(ATT_17 clr rem, (shown / used - 1.0).abs() < TOLERANCE, "{shown} of {used}: {}", recorded.finished);
    });
}

#[test]
fn neither_the_process_nor_its_children_keep_the_variables_of_the_profiler() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let mut remora = Remora::spawn(recorded(runtime, folder.path(), &[]));
        let said = said(&mut remora);
        end(&mut remora);
        remora.finish().succeeded();
        assert_eq!((field(&said, "own"), field(&said, "inherited")), ("", ""), "{said}");
    });
}

#[test]
fn variables_that_had_a_value_before_have_it_again() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let mut command = recorded(runtime, folder.path(), &[]);
        command.env("CORECLR_ENABLE_PROFILING", "0").env("CORECLR_PROFILER", "{another}");
        let mut remora = Remora::spawn(command);
        let said = said(&mut remora);
        end(&mut remora);
        remora.finish().succeeded();
        assert_eq!(field(&said, "own"), "CORECLR_ENABLE_PROFILING,CORECLR_PROFILER", "{said}");
        assert_eq!(field(&said, "inherited"), "CORECLR_ENABLE_PROFILING=0,CORECLR_PROFILER={another}", "{said}");
    });
}

#[test]
fn another_profiler_was_displaced_where_its_switch_was_not_exactly_one() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let folder = remora_e2e::folder();
        let expected = Expected::new(Kind::Main);
        let mut command = recorded(runtime, folder.path(), &[]);
        command.envs(expected.variables()).env("CORECLR_ENABLE_PROFILING", "0x2");
        let mut remora = Remora::spawn(command);
        said(&mut remora);
        expected.arrives();
        end(&mut remora);
        Recorded::of(remora, folder).is_clean();
    });
}

#[test]
fn a_program_that_ends_by_itself_is_recorded_to_its_end_and_keeps_its_exit_code() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let mut remora = Remora::spawn(recorded(runtime, folder.path(), &[]));
        said(&mut remora);
        remora.type_in("quit\n");
        remora.finish().failed_with(7, &["exit status: 7"]);
    });
}

#[test]
fn att_17_the_runtime_loads_the_agent_beside_another_profiler_whose_variables_stay() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let folder = remora_e2e::folder();
        let expected = Expected::new(Kind::Main);
        let mut command = recorded(runtime, folder.path(), &[]);
        command.envs(expected.variables());
        let mut remora = Remora::spawn(command);
        let said = said(&mut remora);
        let mut other = expected.arrives();
        assert_eq!(field(&said, "own"), "CORECLR_ENABLE_PROFILING,CORECLR_PROFILER,CORECLR_PROFILER_PATH", "{said}");
        remora.signal(Signal::INT);
        remora.wait_until_it_says(" runs on");
        assert_eq!(other.collect(), Ok(()), "it goes on");
        remora.type_in("quit\n");
        holds!(ATT_17 clr rem, Recorded::of(remora, folder).is_clean().samples() > 0);
    });
}

#[test]
fn a_runtime_that_loads_no_profiler_is_reported_and_its_program_runs_on() {
    // Older runtimes do not know the switch.
    on_runtimes(&Runtime::from_major(8), |runtime| {
        let folder = remora_e2e::folder();
        let mut command = recorded(runtime, folder.path(), &[]);
        command.env("DOTNET_EnableDiagnostics_Profiler", "0");
        let mut remora = Remora::spawn(command);
        remora.wait_until_it_says("has started without the agent");
        remora.type_in("quit\n");
        remora.finish().failed_with(19, &["DOTNET_EnableDiagnostics_Profiler"]);
    });
}

#[test]
fn a_program_without_a_port_that_ended_was_said_to_have_had_no_runtime() {
    on_runtimes(&Runtime::from_major(8), |runtime| {
        let folder = remora_e2e::folder();
        let mut command = recorded(runtime, folder.path(), &[]);
        command.env("DOTNET_EnableDiagnostics", "0");
        let mut remora = Remora::spawn(command);
        remora.type_in("quit\n");
        remora.finish().failed_with(19, &["has started without the agent"]);
    });
}

#[test]
fn an_environment_without_a_free_place_is_refused_before_the_command_starts() {
    let folder = remora_e2e::folder();
    let mut command = recorded(&Runtime::newest(), folder.path(), &[]);
    command.env("CORECLR_ENABLE_PROFILING", "1").env("CORECLR_NOTIFICATION_PROFILERS", "/opt/a.so={0}");
    let finished = Remora::spawn(command)
        .finish()
        .failed_with(19, &["already has the runtime load other profilers", "unset CORECLR_NOTIFICATION_PROFILERS"]);
    assert!(!finished.stderr.contains("ready used="), "{finished}");
}

#[test]
fn a_program_whose_recorder_is_killed_before_it_begins_starts_without_the_agent() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let remora = Remora::spawn(recorded(runtime, folder.path(), &[]));
        // Its agent waits for a recorder that does not run.
        let mut command = None;
        until("the command has started", || {
            command = child_of(remora.pid());
            command.is_some()
        });
        let command = command.unwrap();
        remora.signal(Signal::STOP);
        until("the library is mapped", || {
            Facts::of(command).maps.iter().any(|mapping| mapping.name.contains("remora_agent"))
        });
        remora.signal(Signal::KILL);
        until("the agent has left", || Facts::of(command).remora().is_empty());
        kill_process(Pid::from_raw(command as i32).unwrap(), Signal::KILL).unwrap();
    });
}

fn child_of(process: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_ascii_whitespace().next()?.parse().ok()
}
