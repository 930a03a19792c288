//! How much longer a program takes to start if its runtime loads the agent.

use super::snapshot_command::{COMMAND, Folder};
use crate::Outcome;
use crate::bench::{self, Bench, STARTS};
use crate::statistics::{Interval, median};
use crate::table::Row;
use remora_e2e::Target;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Measures starts with and without, in turns.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let folder = Folder::make()?;
    let (mut alone, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..bench.amount(STARTS) {
        alone.push(milliseconds_to_ready(&mut program(Command::new(bench.runtime.launcher())))?);
        let mut remora = Command::new(bench::path(COMMAND)?);
        remora.args(["record", "--from-start", "--force", "-o"]).arg(folder.path("start.remora"));
        remora.arg("--").arg(bench.runtime.launcher());
        recorded.push(milliseconds_to_ready(&mut program(remora))?);
    }
    let more: Vec<f64> = recorded.iter().zip(&alone).map(|(recorded, alone)| recorded - alone).collect();
    let more = Interval::of(&more).ok_or("no start")?;
    let medians = [&alone, &recorded].map(|times| median(times).unwrap_or(0.0));
    let measured = format!("{}, from {:.1} to {:.1} ms", more.text(" ms", 1), medians[0], medians[1]);
    let numbers = json!({ "alone_ms": alone, "recorded_ms": recorded });
    Ok(vec![Row::shown("a program starts later with `record --from-start`", measured).numbers(numbers)])
}

fn program(mut command: Command) -> Command {
    command.arg(Target::assembly("idle")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// From the start of a command to the first line of its program. Then the program ends with its input.
fn milliseconds_to_ready(command: &mut Command) -> Outcome<f64> {
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().ok_or("no output")?;
    BufReader::new(output).read_line(&mut line)?;
    let taken = begun.elapsed().as_secs_f64() * 1e3;
    drop(child.stdin.take());
    let status = child.wait()?;
    match line.trim_end() {
        "ready" if status.success() => Ok(taken),
        other => Err(format!("the program said `{other}` and ended with {status}").into()),
    }
}
