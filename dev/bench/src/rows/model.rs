//! The runtime model: schedules of the agent's whole life in a minute, and the time of `remora lab` for a thousand runs.

use crate::Outcome;
use crate::bench::{self, Bench, SCHEDULES};
use crate::table::Row;
use remora_clr_model::explore::on_all_processors;
use remora_clr_model::scenario::ScheduleSetting;
use serde_json::json;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Required schedules a minute on two CPUs.
const SCHEDULES_BAR: f64 = 100_000.0;
/// Runs of `remora lab`, over all runtime versions.
const RUNS: u64 = 1000;
/// The default number of runtime versions: all of .NET Core.
const VERSIONS: u64 = 5;
/// Time limit for these runs, seconds.
const RUNS_BAR: f64 = 60.0;

/// Measures both.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    Ok(vec![schedules(bench.amount(SCHEDULES))?, lab()?])
}

fn schedules(count: u64) -> Outcome<Row> {
    let begun = Instant::now();
    let exploration = on_all_processors(0..count, ScheduleSetting::default());
    let a_minute = exploration.schedules as f64 / begun.elapsed().as_secs_f64() * 60.0;
    if let Some(failure) = exploration.failure {
        return Err(format!("seed {} breaks the contract: `cargo xtask explore replay {0}`", failure.seed).into());
    }
    Ok(Row::shown("schedules of attach, profiling and detach explored in a minute", format!("{a_minute:.0}"))
        .against("100,000 or more", a_minute >= SCHEDULES_BAR)
        .numbers(json!({ "schedules": exploration.schedules, "a_minute": a_minute })))
}

/// `remora lab` on our own agent.
fn lab() -> Outcome<Row> {
    let mut command = Command::new(bench::path("REMORA_BENCH_COMMAND")?);
    command.args(["lab", "--json", "--seeds", &(RUNS / VERSIONS).to_string()]).stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status()?;
    let seconds = begun.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("`remora lab` ended with {status}").into());
    }
    Ok(Row::shown(&format!("`remora lab` on our own agent, {RUNS} runs"), format!("{seconds:.1} s"))
        .against("60 s or less", seconds <= RUNS_BAR)
        .numbers(json!(seconds)))
}
