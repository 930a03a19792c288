//! The cost of heap tracking for the target, compared with the same process before and after; and the extra pause of `--roots` in a
//! snapshot.
//!
//! Each process is compared with itself, since processes differ in throughput. The row also shows the runtime's GC figures, since a
//! program that allocates little pays little.

use super::percents;
use super::snapshot_command::{COMMAND, Folder, take_as};
use crate::Outcome;
use crate::bench::{self, BEFORES, Bench, LARGE, SNAPSHOT_OBJECTS, SNAPSHOTS};
use crate::statistics::{Interval, middle};
use crate::table::Row;
use remora_e2e::{Remora, Runtime, Target};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// Extra duration of a watch beyond the measured span: the watch starts only after its first snapshot.
const MARGIN: Duration = Duration::from_secs(1);

/// Measures all of it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let served = Runtime::with_aspnet();
    Ok(vec![
        watched(bench, "a program on one thread that does nothing but allocate", &|| bench.start("gc", &["1"]))?,
        watched(bench, &format!("an ASP.NET Core server under load, {}", served.name()), &|| {
            Target::start(&served, "aspnet", &["2"])
        })?,
        roots(bench)?,
    ])
}

/// One process: its operations a second before, during and after heap tracking, and the report.
struct Run {
    before: f64,
    watched: f64,
    after: f64,
    report: Value,
}

impl Run {
    fn of(mut target: Target, span: Duration) -> Outcome<Run> {
        // Excludes compilation and growth at the start.
        rate(&mut target, MARGIN);
        let before = rate(&mut target, span);
        let mut command = Command::new(bench::path(COMMAND)?);
        let lasts = format!("{}s", (span + MARGIN).as_secs());
        command.args(["heap", "-p", &target.pid().to_string(), "--watch", &lasts, "--json"]);
        let mut watch = Remora::spawn(command);
        watch.wait_until_it_says("watching ");
        let watched = rate(&mut target, span);
        let report = watch.finish().succeeded().json();
        let after = rate(&mut target, span);
        Ok(Run { before, watched, after, report })
    }

    fn loss(&self) -> f64 {
        1.0 - self.watched / ((self.before + self.after) / 2.0)
    }

    /// Nanoseconds of its GCs, the watch's share of that, and allocated objects.
    fn collections(&self) -> [f64; 3] {
        let collections = &self.report["collections"];
        let made = self.report["types"].as_array().into_iter().flatten().filter_map(|row| row["allocated"].as_f64());
        let of = |what: &str| collections[what].as_f64().unwrap_or(0.0);
        [of("nanoseconds"), of("extra_nanoseconds"), made.sum()]
    }
}

/// The program's count for each second.
fn rate(target: &mut Target, span: Duration) -> f64 {
    let (count, begun) = (target.ask_number("count"), Instant::now());
    std::thread::sleep(span);
    let counted = target.ask_number("count") - count;
    counted as f64 / begun.elapsed().as_secs_f64()
}

fn watched(bench: &Bench, about: &str, start: &dyn Fn() -> Target) -> Outcome<Row> {
    let span = bench.amount(LARGE) / 2;
    let runs = (0..bench.amount(BEFORES)).map(|_| Run::of(start(), span)).collect::<Outcome<Vec<Run>>>()?;
    let losses: Vec<f64> = runs.iter().map(Run::loss).collect();
    let loss = Interval::of(&losses).ok_or("nothing was measured")?;
    let sums =
        runs.iter().map(Run::collections).fold([0.0; 3], |sums, one| std::array::from_fn(|at| sums[at] + one[at]));
    let [time, extra, made] = sums;
    let afterwards: Vec<f64> = runs.iter().map(|run| run.after / run.before).collect();
    let measured = format!(
        "{} less work; {:.0} % of GC time for tracking, {:.1} ns for each allocated object; afterwards {:.2} of the work before",
        percents(&loss),
        extra / time.max(1.0) * 100.0,
        extra / made.max(1.0),
        middle(&afterwards)?,
    );
    let numbers =
        json!({ "losses": losses, "afterwards": afterwards, "collections_ns": time, "extra_ns": extra, "made": made });
    Ok(Row::shown(&format!("watched: {about}, {} processes", runs.len()), measured).numbers(numbers))
}

/// The pauses of snapshots with roots and without, in turns.
fn roots(bench: &Bench) -> Outcome<Row> {
    let folder = Folder::make()?;
    let objects = bench.amount(SNAPSHOT_OBJECTS);
    let target = bench.start("stopped", &[&objects.to_string()]);
    let (mut plain, mut seen, mut count) = (Vec::new(), Vec::new(), 0);
    for round in 0..bench.amount(SNAPSHOTS) * 2 {
        let way: &[&str] = if round % 2 == 1 { &["--roots"] } else { &[] };
        let report = take_as(target.pid(), &folder, way)?.report;
        let milliseconds = report["collection_nanoseconds"].as_f64().ok_or("the report has no GC pause")? / 1e6;
        if round % 2 == 1 {
            seen.push(milliseconds);
            count = report["roots"]
                .as_object()
                .into_iter()
                .flat_map(|kinds| kinds.values())
                .filter_map(Value::as_u64)
                .sum();
        } else {
            plain.push(milliseconds);
        }
    }
    let measured = format!(
        "{:.1} ms in the median, {:.1} without; the smallest of {} each {:.1} and {:.1}; {count} roots",
        middle(&seen)?,
        middle(&plain)?,
        plain.len(),
        seen.iter().copied().fold(f64::INFINITY, f64::min),
        plain.iter().copied().fold(f64::INFINITY, f64::min),
    );
    let what = format!("pause for a snapshot with --roots, {:.1} million linked objects", objects as f64 / 1e6);
    Ok(Row::shown(&what, measured).numbers(json!({ "with_ms": seen, "without_ms": plain })))
}
