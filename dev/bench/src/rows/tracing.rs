//! What a trace costs for each call and each allocated object, and what it loses of its recorded calls.
//!
//! A trace from the start cannot be switched off. So two processes of the same program work in turns: one alone, and one that is traced.
//! Probes by ReJIT come and go in one process.

use super::percent;
use super::snapshot_command::{COMMAND, Folder};
use crate::Outcome;
use crate::bench::{self, Bench, PACED_SECONDS, TRACED_CALLS, TURNS};
use crate::statistics::{Interval, median};
use crate::table::Row;
use fastrand::Rng;
use remora_e2e::{Remora, Start, Target};
use serde_json::{Value, json};
use std::process::Command;

/// The program that is traced.
const PROGRAM: &str = "called";
/// Its method for the cost of a call.
const STEP: &str = "Called.Step";
/// Its method that is called at a rate.
const PACED: &str = "Called.Paced";
/// Calls a second of that.
const RATE: u64 = 1000;
/// The share of recorded calls that may be lost.
const MOST_LOST: f64 = 0.005;

/// Measures all of it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let hooks = from_start(bench, "a pair of hooks (`trace -- COMMAND`), for each call", "calls", "calls")?;
    let objects = from_start(bench, "`--event alloc-exact`, for each object", "alloc-exact", "objects")?;
    let probes = probes(bench)?;
    Ok(vec![hooks, probes, objects, lost(bench, "arguments", &["--arguments"])?, lost(bench, "no arguments", &[])?])
}

/// Two processes in turns: alone, and traced from the start.
fn from_start(bench: &Bench, what: &str, event: &str, question: &str) -> Outcome<Row> {
    let folder = Folder::make()?;
    let mut command = Command::new(bench::path(COMMAND)?);
    command.args(["trace", "--event", event, "--force", "-o"]).arg(folder.path("traced.calls.json"));
    command.arg("--").arg(bench.runtime.launcher()).arg(Target::assembly(PROGRAM));
    let mut alone = bench.start(PROGRAM, &[]);
    let mut traced = Start::of(command, "a traced program").ready();
    let count = bench.amount(TRACED_CALLS);
    let mut chance = Rng::with_seed(count);
    let mut turns = Vec::new();
    for _ in 0..=bench.amount(TURNS) {
        let mut both = [0.0; 2];
        let mut order = [0, 1];
        chance.shuffle(&mut order);
        for which in order {
            let target = if which == 0 { &mut alone } else { &mut traced };
            both[which] = nanoseconds(target, question, count);
        }
        turns.push(both);
    }
    if !traced.quit().success() {
        return Err("the traced program failed".into());
    }
    // In the first one, the JIT has not optimized yet.
    row(what, &turns[1..], Value::Null)
}

/// One process in turns: alone, and with probes.
fn probes(bench: &Bench) -> Outcome<Row> {
    let mut target = bench.start(PROGRAM, &[]);
    let count = bench.amount(TRACED_CALLS);
    nanoseconds(&mut target, "calls", count);
    let (mut turns, mut own) = (Vec::new(), Vec::new());
    for _ in 0..bench.amount(TURNS) {
        let alone = nanoseconds(&mut target, "calls", count);
        let trace = begun(&target, STEP, &["--most-calls", "1000000000"])?;
        // The JIT has not optimized the new body yet.
        nanoseconds(&mut target, "calls", count);
        turns.push([alone, nanoseconds(&mut target, "calls", count)]);
        let result = ended(trace);
        if result["methods"][0]["calls"] != json!(2 * count) {
            return Err(format!("{count} calls, twice, and the trace has {}", result["methods"][0]).into());
        }
        own.push(result["probe_cost_picoseconds"].as_f64().unwrap_or(0.0) / 1e3);
        // The same for the old one.
        nanoseconds(&mut target, "calls", count);
    }
    let says = median(&own).unwrap_or(0.0);
    let row = row("a pair of probes (`trace -p`), for each call", &turns, json!({ "says": own }))?;
    Ok(Row { measured: format!("{}; the trace says at least {says:.0} ns", row.measured), ..row })
}

/// Recorded calls, and those that the program made.
fn lost(bench: &Bench, what: &str, arguments: &[&str]) -> Outcome<Row> {
    let mut target = bench.start(PROGRAM, &[]);
    // With a limit, every call is recorded.
    let trace = begun(&target, PACED, &[&["--limit", "1000000"], arguments].concat())?;
    let own = target.ask_number(&format!("pace {RATE} {}", bench.amount(PACED_SECONDS)));
    let result = ended(trace);
    let recorded = result["calls_recorded"].as_u64().ok_or("no number of recorded calls")?;
    let share = own.saturating_sub(recorded) as f64 / own as f64;
    let what = format!("recorded calls that are lost, at {RATE} calls a second, {what}");
    let numbers = json!({ "called": own, "recorded": recorded, "not_recorded": result["calls_not_recorded"] });
    Ok(Row::shown(&what, format!("{}, {} of {own}", percent(share), own.saturating_sub(recorded)))
        .against("under 0.5 %", share < MOST_LOST)
        .numbers(numbers))
}

fn begun(target: &Target, method: &str, more: &[&str]) -> Outcome<Remora> {
    let mut command = Command::new(bench::path(COMMAND)?);
    command.args(["trace", "-p", &target.pid().to_string(), "--yes", "--json", "-m", method]).args(more);
    let mut trace = Remora::spawn(command);
    trace.wait_until_it_says("tracing ");
    Ok(trace)
}

fn ended(mut trace: Remora) -> Value {
    trace.press_enter();
    trace.finish().succeeded().json()
}

/// What each of so many took.
fn nanoseconds(target: &mut Target, question: &str, count: u64) -> f64 {
    target.ask_number(&format!("{question} {count}")) as f64 / count as f64
}

/// The difference within the turns.
fn row(what: &str, turns: &[[f64; 2]], more: Value) -> Outcome<Row> {
    let differences: Vec<f64> = turns.iter().map(|[alone, traced]| traced - alone).collect();
    let difference = Interval::of(&differences).ok_or("nothing was measured")?;
    let medians = [0, 1].map(|which| median(&turns.iter().map(|turn| turn[which]).collect::<Vec<_>>()).unwrap_or(0.0));
    let measured = format!("{}, from {:.1} to {:.1} ns", difference.text(" ns", 1), medians[0], medians[1]);
    Ok(Row::shown(what, measured).numbers(json!({ "turns_ns": turns, "more": more })))
}
