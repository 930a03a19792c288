//! Programs that measure the time share of each of their methods, and the shares that the samplers report.
//!
//! Targets and recorders have no capability here. At first each target and its recorder have two CPUs for themselves, and as many pairs
//! run at once as fit. Then some run all at once, beside a program that keeps every CPU busy.

use crate::Outcome;
use crate::arguments::Order;
use crate::bench::{Bench, PEER_OF_TRUTH, SAMPLES};
use crate::peer;
use crate::rights::{Recorded, Rights};
use crate::shares::{self, Shares};
use crate::table::Row;
use remora_e2e::{Start, Target};
use serde_json::json;
use std::time::Duration;

/// The largest error of a share, in percentage points.
const BAR: f64 = 2.0;
/// The number of samples that the bar needs.
const ENOUGH: u64 = 8_000;
/// Below this sample rate a row has no verdict: its thread has a CPU only part of the time.
const SLOWEST: u32 = 50;

/// A program with known shares.
struct Program {
    what: &'static str,
    name: &'static str,
    argument: Option<&'static str>,
    methods: &'static [&'static str],
}

const fn shares_of(what: &'static str, period: &'static str) -> Program {
    Program { what, name: "shares", argument: Some(period), methods: &["Alpha", "Beta", "Gamma"] }
}

const fn system_calls(what: &'static str) -> Program {
    Program { what, name: "syscalls", argument: None, methods: &["InSystemCalls", "InManagedCode"] }
}

/// One sampling interval is 1.001 ms at 999 Hz; signals arrive at most 250 times a second and thread: every 4 ms.
const PROGRAMS: &[Program] = &[
    shares_of("shares in a period of 0.5 ms", "0.5"),
    shares_of("shares in a period of 1.001 ms, the interval", "1.001"),
    shares_of("shares in a period of 2 ms", "2"),
    shares_of("shares in a period of 4 ms, that of the signals", "4"),
    shares_of("shares in a period of 8 ms", "8"),
    system_calls("half in system calls, turns of 1 ms"),
];

/// These also wait for a CPU about half of the time.
const CROWDED: &[Program] = &[
    shares_of("shares in a period of 4 ms, CPUs shared with busy threads", "4"),
    system_calls("half in system calls, CPUs shared with busy threads"),
];

/// The results of both samplers for one program, each with the program's own measurement of that time.
pub(super) struct Compared {
    pub(super) recorded: Recorded,
    pub(super) truth: Vec<f64>,
    pub(super) peer: Option<Shares>,
    pub(super) peer_truth: Vec<f64>,
    peer_samples: usize,
}

/// Measures all programs.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rows = Vec::new();
    for programs in PROGRAMS.chunks((processors / 2).max(1)) {
        rows.extend(at_once(bench, programs)?);
    }
    let crowd = bench.start("busy", &[&processors.to_string()]);
    rows.extend(at_once(bench, CROWDED)?);
    drop(crowd);
    Ok(rows)
}

fn at_once(bench: &mut Bench, programs: &[Program]) -> Outcome<Vec<Row>> {
    let targets: Vec<Target> = programs.iter().map(|program| start(bench, program)).collect();
    let (samples, peer_time) = (bench.amount(SAMPLES), bench.amount(PEER_OF_TRUTH));
    // Errors cross threads as text.
    let answers: Vec<Result<Compared, String>> = std::thread::scope(|scope| {
        let asked: Vec<_> = programs
            .iter()
            .zip(targets)
            .map(|(program, target)| {
                scope.spawn(move || ask(program, target, samples, peer_time).map_err(|error| error.to_string()))
            })
            .collect();
        let gone = |_| Err("the target misbehaved".to_owned());
        asked.into_iter().map(|thread| thread.join().unwrap_or_else(gone)).collect()
    });
    let mut rows = Vec::new();
    for (program, answer) in programs.iter().zip(answers) {
        let answer = answer?;
        answer.recorded.enter(&mut bench.account);
        rows.push(row(program, &answer));
    }
    Ok(rows)
}

fn start(bench: &Bench, program: &Program) -> Target {
    let mut command = Rights::Unprivileged.command(&bench.runtime.launcher());
    command.arg(Target::assembly(program.name)).args(program.argument);
    Start::of(command, program.name).ready()
}

fn ask(program: &Program, mut target: Target, samples: u64, peer_time: Duration) -> Outcome<Compared> {
    let methods = program.methods.iter().map(|&name| name.to_owned()).collect();
    let seconds = u32::try_from(samples)? / SLOWEST;
    let order = Order { process_id: target.pid(), samples, seconds, methods };
    compare(&mut target, Rights::Unprivileged, &order, peer_time)
}

/// Records a program with both samplers, one after the other.
pub(super) fn compare(target: &mut Target, rights: Rights, order: &Order, peer_time: Duration) -> Outcome<Compared> {
    let Order { process_id, methods, .. } = order;
    let (recorded, truth) = beside_truth(target, methods, || rights.have_recorded(order))?;
    let (profile, peer_truth) = beside_truth(target, methods, || peer::record(*process_id, peer_time))?;
    let peer = shares::of_methods(&profile, methods);
    Ok(Compared { recorded, truth, peer, peer_truth, peer_samples: busiest(&profile) })
}

/// The result of `record`, and the target's own measurement of the same time, in the order of `methods`.
pub(super) fn beside_truth<T>(
    target: &mut Target,
    methods: &[String],
    record: impl FnOnce() -> Outcome<T>,
) -> Outcome<(T, Vec<f64>)> {
    target.ask("reset");
    let found = record()?;
    let answer = target.ask("shares");
    let truth = shares::parse(&answer, methods).ok_or_else(|| format!("the target's truth is `{answer}`"))?;
    Ok((found, truth))
}

/// Samples of the thread that has most: the others wait.
fn busiest(profile: &remora_profile::Profile) -> usize {
    let mut counts = vec![0; profile.threads().len()];
    profile.samples().iter().for_each(|sample| counts[sample.thread.0 as usize] += 1);
    counts.into_iter().max().unwrap_or(0)
}

/// The largest error of a sampler's shares, in percentage points.
pub(super) fn deviation(found: &Option<Shares>, truth: &[f64]) -> f64 {
    found.as_ref().map_or(100.0, |found| shares::largest_deviation(&found.shares, truth))
}

fn row(program: &Program, answer: &Compared) -> Row {
    let (ours, peer) = (deviation(&answer.recorded.shares, &answer.truth), deviation(&answer.peer, &answer.peer_truth));
    let truth = listed(&answer.truth);
    let delivered = answer.recorded.delivered;
    Row::shown(
        program.what,
        format!("off by {ours:.2} points: {} for {truth}, {delivered} samples", shares_text(&answer.recorded.shares)),
    )
    .beside(format!("off by {peer:.2} points: {}, {} samples", shares_text(&answer.peer), answer.peer_samples))
    .against("2 points or less at 8,000 samples", (delivered >= ENOUGH).then_some(ours <= BAR))
    .numbers(json!({
        "truth": answer.truth, "found": answer.recorded.shares, "deviation_points": ours, "samples": delivered,
        "peer_truth": answer.peer_truth, "peer_found": answer.peer, "peer_deviation_points": peer,
        "peer_samples": answer.peer_samples,
    }))
}

/// A sampler's shares as text.
pub(super) fn shares_text(found: &Option<Shares>) -> String {
    found.as_ref().map_or("none of them seen".to_owned(), |found| {
        format!("{} ({:.1} % elsewhere)", listed(&found.shares), found.elsewhere * 100.0)
    })
}

/// Shares as percentages.
pub(super) fn listed(shares: &[f64]) -> String {
    shares.iter().map(|share| format!("{:.1}", share * 100.0)).collect::<Vec<_>>().join(" / ")
}
