//! Short bursts of known CPU time between waits, and the shares that the samplers measure.
//!
//! A full cross product of lengths, wakers, phases, threads and rights would take hours: each value of each occurs in some row.
//! `perf` is compared where it is installed and permitted.

use super::truth::{Compared, beside_truth, compare, deviation, listed, shares_text};
use crate::Outcome;
use crate::arguments::Order;
use crate::bench::{BURST_SAMPLES, BURST_SECONDS, Bench, PEER_OF_TRUTH};
use crate::perf;
use crate::rights::{Recorded, Rights};
use crate::shares::Shares;
use crate::table::Row;
use clap::ValueEnum as _;
use remora_e2e::{Start, Target};
use serde_json::json;
use std::time::Duration;

/// The largest error of a share, in percentage points.
const BAR: f64 = 2.0;
/// The number of samples that the bar needs.
const SAMPLES: u64 = 4_000;
/// The largest error of the sum of all weights, as a part of the target's CPU time.
const SUM_BAR: f64 = 0.02;

/// A program with bursts, and how it is recorded.
struct Program {
    what: &'static str,
    /// See `tests/targets/bursts.cs`.
    actors: Vec<&'static str>,
    rights: Rights,
    /// Whether another process keeps every CPU busy.
    crowded: bool,
}

/// For each program: its rights, whether another process keeps every CPU busy, its actors, and the row's text.
const PROGRAMS: &str = "\
inherited    | alone   | delay:1:-:1:Alpha*1 sleep:2:-:1:Beta*1              | 1 ms after Task.Delay(1), 1 ms after Thread.Sleep(2); root
unprivileged | alone   | delay:1:-:1:Alpha*1 sleep:2:-:1:Beta*1              | the same; unprivileged
without-perf | alone   | delay:1:-:1:Alpha*1 sleep:2:-:1:Beta*1              | the same; unprivileged, perf_event_open refused
unprivileged | crowded | delay:1:-:1:Alpha*1 sleep:2:-:1:Beta*1              | the same; unprivileged, beside a process that keeps all CPUs busy
unprivileged | alone   | sleep:1:0:1:Alpha*1 sleep:1:2:1:Beta*1              | 1 ms right after a tick, 1 ms from 2 ms after a tick
inherited    | alone   | sleep:1:1:1:Alpha*1 delay:1:3:1:Beta*1              | 1 ms from 1 ms and from 3 ms after a tick
unprivileged | alone   | sleep:1:3.85:2:Alpha*0.3 sleep:1:1.5:2:Beta*0.3     | 0.3 ms across a tick, 0.3 ms between ticks, two threads each
unprivileged | alone   | socket:1:-:2:Alpha*0.3 semaphore:3:-:1:Beta*2       | 0.3 ms after a socket, 2 ms after a SemaphoreSlim
unprivileged | alone   | pool:3:-:1:Alpha*3 delay:6:-:1:Beta*6               | 3 ms as work items of the thread pool, 6 ms after Task.Delay(6)
unprivileged | alone   | delay:5:-:20:Alpha*0.1 sleep:5:-:20:Beta*0.1        | 0.1 ms, 20 threads after Task.Delay(5), 20 after Thread.Sleep(5)
without-perf | alone   | pool:40:-:20:Alpha*1k socket:50:-:20:Beta*1         | 1 ms, half in system calls, 20 work items; 1 ms without, 20 sockets
unprivileged | alone   | semaphore:6:-:2:Alpha*2k sleep:6:-:2:Beta*2         | 2 ms, half in system calls, after a SemaphoreSlim; 2 ms without, after Thread.Sleep; two threads each
unprivileged | alone   | sleep:1:-:1:Alpha*0.1+Beta*0.3+Gamma*1+Delta*6      | 0.1, 0.3, 1 and 6 ms in turns in one thread
inherited    | alone   | delay:1:-:2:Alpha*0.3k+Beta*3+Gamma*1k              | 0.3 ms and 1 ms half in system calls, 3 ms without, in turns, two tasks
unprivileged | crowded | sleep:40:-:20:Alpha*0.3+Beta*3 delay:20:-:2:Gamma*6 | 0.3 and 3 ms in turns in 20 threads, 6 ms in two tasks; all CPUs busy";

fn programs() -> Outcome<Vec<Program>> {
    PROGRAMS.lines().map(|row| Program::of(row).ok_or_else(|| format!("not a program: {row}").into())).collect()
}

impl Program {
    fn of(row: &'static str) -> Option<Program> {
        let mut cells = row.split('|').map(str::trim);
        let rights = Rights::from_str(cells.next()?, false).ok()?;
        let crowded = cells.next()? == "crowded";
        Some(Program { rights, crowded, actors: cells.next()?.split(' ').collect(), what: cells.next()? })
    }

    /// The methods that its actors run: `Alpha` and `Beta` of `sleep:1:-:1:Alpha*0.1+Beta*0.3`.
    fn methods(&self) -> Vec<String> {
        let bursts = self.actors.iter().filter_map(|actor| actor.rsplit(':').next()).flat_map(|all| all.split('+'));
        bursts.filter_map(|burst| Some(burst.split_once('*')?.0.to_owned())).collect()
    }
}

/// A sampler's shares, and the true shares of the same time; or why it did not record.
type Found = Result<(Option<Shares>, Vec<f64>), String>;

/// Measures all programs.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    let mut sums = Vec::new();
    for program in &programs()? {
        let (answer, perf) = ask(bench, program)?;
        answer.recorded.enter(&mut bench.account);
        sums.extend(sum_of(&answer.recorded));
        rows.push(row(program, &answer, &perf));
    }
    rows.push(sums_row(&sums));
    Ok(rows)
}

fn ask(bench: &Bench, program: &Program) -> Outcome<(Compared, Found)> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let _crowd = program.crowded.then(|| bench.start("busy", &[&processors.to_string()]));
    let methods = program.methods();
    let mut target = start(bench, program).ready();
    let (samples, seconds, time) =
        (bench.amount(BURST_SAMPLES), bench.amount(BURST_SECONDS), bench.amount(PEER_OF_TRUTH));
    let order = Order { process_id: target.pid(), samples, seconds, methods: methods.clone() };
    let compared = compare(&mut target, program.rights, &order, time)?;
    drop(target);
    let perf = ask_perf(start(bench, program), time, &methods).map_err(|error| error.to_string());
    Ok((compared, perf))
}

fn start(bench: &Bench, program: &Program) -> Start {
    let mut command = program.rights.command(&bench.runtime.launcher());
    command.arg(Target::assembly("bursts")).args(&program.actors);
    Start::of(command, "bursts")
}

/// Records with `perf`, in a separate process whose runtime is configured for it.
fn ask_perf(mut start: Start, duration: Duration, methods: &[String]) -> Outcome<(Option<Shares>, Vec<f64>)> {
    start.command().envs(perf::NAMES);
    let mut target = start.ready();
    let process_id = target.pid();
    let found = beside_truth(&mut target, methods, || perf::record(process_id, duration, methods));
    drop(target);
    for file in perf::names_of(process_id) {
        // Not every runtime writes both.
        let _ = std::fs::remove_file(file);
    }
    found
}

fn row(program: &Program, answer: &Compared, perf: &Found) -> Row {
    let delivered = answer.recorded.delivered;
    let ours = deviation(&answer.recorded.shares, &answer.truth);
    let chance = chance(&answer.truth, delivered);
    let measured = format!(
        "off by {ours:.2} points: {} for {}, {delivered} samples (by chance up to {chance:.1})",
        shares_text(&answer.recorded.shares),
        listed(&answer.truth)
    );
    Row::shown(program.what, measured)
        .beside(format!("{}; {}", off_by(&answer.peer, &answer.peer_truth), perf_text(perf)))
        .against("2 points or less at 4,000 samples", verdict(ours, chance, delivered))
        .numbers(json!({
            "actors": program.actors, "rights": format!("{:?}", program.rights), "crowded": program.crowded,
            "truth": answer.truth, "found": answer.recorded.shares, "deviation_points": ours, "samples": delivered,
            "weight": answer.recorded.weight, "target_cpu": answer.recorded.target_cpu,
            "peer_found": answer.peer, "peer_truth": answer.peer_truth, "perf": perf,
        }))
}

/// With fewer samples than the bar needs, the result fails only if chance does not explain the deviation.
fn verdict(deviation: f64, chance: f64, samples: u64) -> Option<bool> {
    let enough = samples >= SAMPLES;
    (enough || deviation > BAR + chance).then_some(deviation <= BAR)
}

/// Twice the largest standard deviation of a share, in points.
fn chance(truth: &[f64], samples: u64) -> f64 {
    let widest = truth.iter().map(|share| share * (1.0 - share)).fold(0.0, f64::max);
    200.0 * (widest / samples.max(1) as f64).sqrt()
}

fn off_by(found: &Option<Shares>, truth: &[f64]) -> String {
    format!("off by {:.2} points: {}", deviation(found, truth), shares_text(found))
}

fn perf_text(perf: &Found) -> String {
    match perf {
        Ok((found, truth)) => format!("perf {}", off_by(found, truth)),
        Err(why) => format!("no perf here: {why}"),
    }
}

/// The sum of the weights as a part of the target's CPU time.
fn sum_of(recorded: &Recorded) -> Option<f64> {
    let used = recorded.target_cpu.filter(|used| *used > 0)?;
    Some(recorded.weight as f64 / used as f64)
}

fn sums_row(sums: &[f64]) -> Row {
    let off = |sum: &&f64| (**sum - 1.0).abs();
    let worst = sums.iter().max_by(|this, that| off(this).total_cmp(&off(that)));
    let text = worst.map_or("unknown".to_owned(), |worst| {
        format!("{:.1} % of it in the worst of {} recordings", worst * 100.0, sums.len())
    });
    Row::shown("sum of the weights of these programs, for the CPU time of the target", text)
        .against("within 2 %, or with a reason", worst.map(|worst| off(&worst) <= SUM_BAR))
        .numbers(json!(sums))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_fail_only_what_chance_does_not_explain() {
        assert_eq!(verdict(1.9, 1.6, 4_000), Some(true));
        assert_eq!(verdict(2.1, 1.6, 4_000), Some(false));
        assert_eq!(verdict(3.0, 5.0, 400), None);
        assert_eq!(verdict(50.0, 5.0, 400), Some(false));
        assert!((chance(&[0.5, 0.5], 10_000) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_program_has_the_methods_of_its_actors() {
        let mut counts: Vec<usize> = programs().unwrap().iter().map(|program| program.methods().len()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [&[2; 12][..], &[3, 3, 4]].concat());
    }

    #[test]
    fn each_value_of_each_dimension_occurs() {
        let programs = programs().unwrap();
        let actors: Vec<&str> = programs.iter().flat_map(|program| program.actors.iter().copied()).collect();
        let occurs = |mark: &str| actors.iter().any(|actor| actor.contains(mark));
        for waker in ["delay:", "sleep:", "socket:", "semaphore:", "pool:"] {
            assert!(occurs(waker), "{waker}");
        }
        for length in ["*0.1", "*0.3", "*1", "*2", "*3", "*6"] {
            assert!(
                actors.iter().any(|actor| {
                    actor
                        .rsplit(':')
                        .next()
                        .unwrap()
                        .split('+')
                        .any(|burst| burst.trim_end_matches('k').ends_with(length))
                }),
                "{length}"
            );
        }
        for threads in [":1:", ":2:", ":20:"] {
            assert!(
                actors.iter().any(|actor| actor.rsplit_once(':').unwrap().0.ends_with(threads.trim_end_matches(':'))),
                "{threads}"
            );
        }
        for rights in [Rights::Inherited, Rights::Unprivileged, Rights::WithoutPerf] {
            assert!(programs.iter().any(|program| program.rights == rights), "{rights:?}");
        }
        assert!(programs.iter().any(|program| program.crowded));
    }
}
