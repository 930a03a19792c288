//! Programs that know which share of their time each method takes, and what the samplers say about it.
//!
//! Targets and recorders have no capability here. At first a target and its recorder have two processors for themselves, and as many as
//! there is room for run at a time; then some run all at once, beside a program that keeps every processor busy.

use crate::Outcome;
use crate::arguments::Order;
use crate::bench::{Bench, Sizes};
use crate::peer;
use crate::rights::{Recorded, Rights};
use crate::shares::{self, Shares};
use crate::table::Row;
use remora_e2e::{Start, Target};
use serde_json::json;

/// How far from the truth a share may be, in points of a hundred.
const BAR: f64 = 2.0;
/// How many samples the bar is for.
const SAMPLES: u64 = 8_000;
/// A row with fewer samples a second is not judged. Its thread has a processor only part of the time.
const SLOWEST: u32 = 50;

/// A program with a truth.
struct Program {
    what: &'static str,
    name: &'static str,
    argument: Option<&'static str>,
    methods: &'static [&'static str],
}

const fn shares_of(what: &'static str, period: &'static str) -> Program {
    Program { what, name: "shares", argument: Some(period), methods: &["Alpha", "Beta", "Gamma"] }
}

/// One sampling interval is 1.001 ms at 999 Hz; signals come at most 250 times a second and thread: every 4 ms.
const PROGRAMS: &[Program] = &[
    shares_of("shares in a period of 0.5 ms", "0.5"),
    shares_of("shares in a period of 1.001 ms, the interval", "1.001"),
    shares_of("shares in a period of 2 ms", "2"),
    shares_of("shares in a period of 4 ms, that of the signals", "4"),
    shares_of("shares in a period of 8 ms", "8"),
    Program {
        what: "half in system calls, turns of 1 ms",
        name: "syscalls",
        argument: None,
        methods: &["InSystemCalls", "InManagedCode"],
    },
];

/// These also wait for a processor about half of the time.
const CROWDED: &[Program] = &[
    shares_of("shares in a period of 4 ms, CPUs shared with busy threads", "4"),
    Program {
        what: "half in system calls, CPUs shared with busy threads",
        name: "syscalls",
        argument: None,
        methods: &["InSystemCalls", "InManagedCode"],
    },
];

/// What came out for one program.
struct Answer {
    recorded: Recorded,
    truth: Vec<f64>,
    peer: Option<Shares>,
    peer_truth: Vec<f64>,
    peer_samples: usize,
}

/// Measures all of them.
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
    let sizes = bench.sizes;
    // Errors cross the threads as text.
    let answers: Vec<Result<Answer, String>> = std::thread::scope(|scope| {
        let asked: Vec<_> = programs
            .iter()
            .zip(targets)
            .map(|(program, target)| {
                scope.spawn(move || ask(program, target, sizes).map_err(|error| error.to_string()))
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

fn ask(program: &Program, mut target: Target, sizes: Sizes) -> Outcome<Answer> {
    let methods: Vec<String> = program.methods.iter().map(|&name| name.to_owned()).collect();
    target.ask("reset");
    let seconds = u32::try_from(sizes.samples)? / SLOWEST;
    let order = Order { process_id: target.pid(), samples: sizes.samples, seconds, methods: methods.clone() };
    let recorded = Rights::Unprivileged.have_recorded(&order)?;
    let truth = truth_of(&mut target, &methods)?;
    target.ask("reset");
    let profile = peer::record(target.pid(), sizes.peer_of_truth)?;
    let peer_truth = truth_of(&mut target, &methods)?;
    let peer = shares::of_methods(&profile, &methods);
    let peer_samples = busiest(&profile);
    Ok(Answer { recorded, truth, peer, peer_truth, peer_samples })
}

/// The target's own measurement, in the order of `methods`.
pub(super) fn truth_of(target: &mut Target, methods: &[String]) -> Outcome<Vec<f64>> {
    let answer = target.ask("shares");
    shares::told(&answer, methods).ok_or_else(|| format!("the target's truth is `{answer}`").into())
}

/// Samples of the thread that has most: the others wait.
fn busiest(profile: &remora_profile::Profile) -> usize {
    let mut counts = vec![0; profile.threads().len()];
    profile.samples().iter().for_each(|sample| counts[sample.thread.0 as usize] += 1);
    counts.into_iter().max().unwrap_or(0)
}

fn row(program: &Program, answer: &Answer) -> Row {
    let deviation = |found: &Option<Shares>, truth: &[f64]| {
        found.as_ref().map_or(100.0, |found| shares::largest_deviation(&found.shares, truth))
    };
    let (ours, peer) = (deviation(&answer.recorded.shares, &answer.truth), deviation(&answer.peer, &answer.peer_truth));
    let truth = listed(&answer.truth);
    let delivered = answer.recorded.delivered;
    Row::shown(
        program.what,
        format!("off by {ours:.2} points: {} for {truth}, {delivered} samples", told(&answer.recorded.shares)),
    )
    .beside(format!("off by {peer:.2} points: {}, {} samples", told(&answer.peer), answer.peer_samples))
    .against("2 points or less at 8,000 samples", (delivered >= SAMPLES).then_some(ours <= BAR))
    .numbers(json!({
        "truth": answer.truth, "found": answer.recorded.shares, "deviation_points": ours, "samples": delivered,
        "peer_truth": answer.peer_truth, "peer_found": answer.peer, "peer_deviation_points": peer,
        "peer_samples": answer.peer_samples,
    }))
}

/// A sampler's shares as text.
pub(super) fn told(found: &Option<Shares>) -> String {
    found.as_ref().map_or("none of them seen".to_owned(), |found| {
        format!("{} ({:.1} % elsewhere)", listed(&found.shares), found.elsewhere * 100.0)
    })
}

/// Shares in per cent.
pub(super) fn listed(shares: &[f64]) -> String {
    shares.iter().map(|share| format!("{:.1}", share * 100.0)).collect::<Vec<_>>().join(" / ")
}
