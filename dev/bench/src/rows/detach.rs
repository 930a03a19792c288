//! Changes in a process after a detach: its throughput, and growth over many rounds. Also the time until the agent detaches after its
//! recorder was killed.

use super::percent;
use crate::Outcome;
use crate::agent::Agent;
use crate::bench::{BEFORES, Bench, KILLS, ROUNDS};
use crate::growth::Growth;
use crate::killed;
use crate::paired::{PAUSE, work_alone};
use crate::statistics::{Interval, median};
use crate::table::Row;
use remora_profile::Event;
use remora_receipt::Snapshot;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Length of each recording.
const RECORDING: Duration = Duration::from_millis(30);
/// The time for a fresh program to settle.
const SETTLED: Duration = Duration::from_millis(700);

/// How long the library may stay after its recorder was killed, milliseconds.
const KILLED_BAR: f64 = 2000.0;

/// Measures all of it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = vec![before_and_after(bench)?];
    rows.extend(rounds(bench)?);
    for (name, event) in [("cpu", Event::Cpu), ("wall", Event::Wall)] {
        rows.push(killed(bench, name, event)?);
    }
    Ok(rows)
}

/// Kills the recorder repeatedly, in one busy process.
fn killed(bench: &Bench, name: &str, event: Event) -> Outcome<Row> {
    let target = bench.start("busy", &["2"]);
    std::thread::sleep(SETTLED);
    let mut times = Vec::new();
    for _ in 0..bench.amount(KILLS) {
        times.push(killed::until_unmapped(target.pid(), event)?.as_secs_f64() * 1e3);
    }
    let middle = median(&times).ok_or("nothing was killed")?;
    let longest = times.iter().copied().fold(0.0, f64::max);
    let what = format!("kill -9 of the recorder ({name}) to unmapped, median of {}", times.len());
    Ok(Row::shown(&what, format!("{middle:.0} ms (longest {longest:.0})"))
        .against("2000 ms", middle <= KILLED_BAR)
        .numbers(json!(times)))
}

/// Fresh processes, measured for a second before and a second after their only recording.
fn before_and_after(bench: &mut Bench) -> Outcome<Row> {
    let mut ratios = Vec::new();
    for _ in 0..bench.amount(BEFORES) {
        let mut target = bench.start("busy", &["2"]);
        std::thread::sleep(SETTLED);
        let before = work_alone(&mut target, PAUSE)?;
        record(bench, target.pid())?;
        let after = work_alone(&mut target, PAUSE)?;
        ratios.push((after.by_clock() / before.by_clock(), after.by_cpu() / before.by_cpu()));
    }
    let column = |of: fn(&(f64, f64)) -> f64| ratios.iter().map(of).collect::<Vec<f64>>();
    let by_clock = Interval::of(&column(|ratio| ratio.0)).ok_or("no process")?;
    let by_cpu = Interval::of(&column(|ratio| ratio.1)).ok_or("no process")?;
    let measured = format!("{}; for each second of CPU time {:.4}", by_clock.text("", 4), by_cpu.mean);
    Ok(Row::shown(&format!("throughput after a recording to before, {} processes", ratios.len()), measured)
        .against("0.98 to 1.02", (0.98..=1.02).contains(&by_clock.mean))
        .numbers(json!({ "by_clock": by_clock, "by_cpu": by_cpu, "ratios": ratios })))
}

/// Many rounds in one busy process.
fn rounds(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut target = bench.start("busy", &["2"]);
    std::thread::sleep(SETTLED);
    let before = work_alone(&mut target, PAUSE)?;
    let mut totals = Vec::new();
    for _ in 0..bench.amount(ROUNDS) {
        record(bench, target.pid())?;
        totals.push(Snapshot::take(Path::new("/proc"), target.pid())?.totals());
    }
    let after = work_alone(&mut target, PAUSE)?;
    let growth = Growth::over(&totals).ok_or("too few rounds")?;
    let ratio = after.by_cpu() / before.by_cpu();
    Ok(vec![
        Row::shown(&format!("growth over {} attach-detach rounds under load", totals.len()), growth.text())
            .against("no growth (a page a round of memory)", growth.is_none())
            .numbers(json!({
                "resident_kib_a_round": growth.resident, "threads": growth.threads, "descriptors": growth.descriptors,
                "mappings": growth.mappings, "timers": growth.timers,
                "resident_kib": totals.iter().map(|totals| totals.memory.resident / 1024).collect::<Vec<_>>(),
            })),
        Row::shown("operations for each second of CPU time, after these rounds to before", percent(ratio))
            .numbers(json!(ratio)),
    ])
}

fn record(bench: &mut Bench, process_id: u32) -> Outcome<()> {
    let mut agent = Agent::attach(&bench.library, process_id, Event::Cpu)?;
    agent.run(RECORDING)?;
    agent.end(&mut bench.account).map(drop)
}
