//! The full cost of one sample, and the actual number of samples a second of a running thread.
//!
//! The full cost is the target's extra CPU time, compared with the same work without a recording, plus the recorder's CPU time.
//! The agent's own threads and the recorder have clocks. The rest is the signal handler and its effect on the caches.

use crate::Outcome;
use crate::agent::{Agent, HERTZ};
use crate::bench::{BLOCKS_OF_COST, Bench, RATE};
use crate::paired::{SECOND, Work, work, work_alone};
use crate::process::{cpu_time, cpu_time_of, own_time};
use crate::statistics::Interval;
use crate::table::Row;
use fastrand::Rng;
use remora_e2e::Target;
use remora_profile::Event;
use remora_wire::THREAD_NAME;
use serde_json::json;
use std::time::Duration;

/// Frames of each stack, without those of the thread's start.
const DEPTH: &str = "60";
/// Microseconds that a sample may cost.
const BAR: f64 = 10.0;
/// Frequencies whose samples are counted.
const FREQUENCIES: [u32; 4] = [99, 999, 4_999, 9_999];
/// The largest error of the rate of samples, as a part of the requested rate.
const RATE_BAR: f64 = 0.03;
/// The pause before a measurement.
const PAUSE: Duration = Duration::from_millis(100);

/// One turn with a recording and one without, in CPU seconds.
struct Block {
    samples: f64,
    /// The target's extra CPU time, compared with the same work without a recording.
    extra: f64,
    /// The share of the agent's threads in `extra`.
    agent: f64,
    recorder: f64,
}

/// Measures all of it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (threads, frequency) in [("1", HERTZ), ("2", HERTZ), ("1", 4_999)] {
        let mut target = bench.start("deep", &[DEPTH, threads]);
        let blocks = take_turns(bench, &mut target, frequency)?;
        rows.push(cost_row(threads, frequency, &blocks)?);
    }
    rows.extend(super::lowest_cost::measure(bench)?);
    for frequency in FREQUENCIES {
        rows.push(rate_row(bench, frequency)?);
    }
    Ok(rows)
}

fn take_turns(bench: &mut Bench, target: &mut Target, frequency: u32) -> Outcome<Vec<Block>> {
    let mut chance = Rng::with_seed(u64::from(frequency));
    // The extra costs of the first recording are not measured.
    with_recording(bench, target, frequency)?;
    let mut blocks = Vec::new();
    for _ in 0..bench.amount(BLOCKS_OF_COST) {
        let recorded_first = chance.usize(..2) == 0;
        let before = if recorded_first { None } else { Some(work_alone(target, PAUSE)?) };
        let (work, mut block) = with_recording(bench, target, frequency)?;
        let alone = before.map_or_else(|| work_alone(target, PAUSE), Ok)?;
        block.extra = work.used - work.done * alone.used / alone.done;
        blocks.push(block);
    }
    Ok(blocks)
}

fn with_recording(bench: &mut Bench, target: &mut Target, frequency: u32) -> Outcome<(Work, Block)> {
    let process_id = target.pid();
    let mut agent = Agent::attach_at(&bench.library, process_id, Event::Cpu, frequency)?;
    agent.run(PAUSE)?;
    let look = |agent: &Agent| (agent.profile().loss.delivered, cpu_time_of(process_id, THREAD_NAME), own_time());
    let before = look(&agent);
    let work = work(target, || {
        agent.run(SECOND)?;
        // The recorder also writes a file, here to a sink.
        remora_recording::Writer::create(std::io::sink())?.finish(agent.profile())?;
        Ok(())
    })?;
    let after = look(&agent);
    agent.end(&mut bench.account)?;
    let (samples, threads, recorder) = ((after.0 - before.0) as f64, after.1 - before.1, after.2 - before.2);
    Ok((work, Block { samples, extra: 0.0, agent: threads, recorder }))
}

fn cost_row(threads: &str, frequency: u32, blocks: &[Block]) -> Outcome<Row> {
    let samples = blocks.iter().map(|block| block.samples).sum::<f64>();
    if samples == 0.0 {
        return Err("there was no sample".into());
    }
    // For each sample of all blocks, in microseconds.
    let mean = samples / blocks.len() as f64;
    let of = |part: fn(&Block) -> f64| {
        let parts: Vec<f64> = blocks.iter().map(|block| part(block) / mean * 1e6).collect();
        Interval::of(&parts).ok_or("there were no blocks")
    };
    let all = of(|block| block.extra + block.recorder)?;
    let (agent, handler) = (of(|block| block.agent)?, of(|block| block.extra - block.agent)?);
    let recorder = of(|block| block.recorder)?;
    let what = format!("CPU time for each sample of {DEPTH} frames at {frequency} Hz, {threads} busy");
    let measured = format!(
        "{:.1} us (95 %: {:.1} to {:.1}): agent's threads {:.1}, recorder {:.1}, handler and the rest {:.1} ({:.1} to {:.1}); {mean:.0} samples/s",
        all.mean, all.low, all.high, agent.mean, recorder.mean, handler.mean, handler.low, handler.high
    );
    Ok(Row::shown(&what, measured).against("10 us or less", all.mean <= BAR).numbers(json!({
        "all_us": all, "agent_threads_us": agent, "handler_us": handler, "recorder_us": recorder, "samples": samples,
    })))
}

fn rate_row(bench: &mut Bench, frequency: u32) -> Outcome<Row> {
    let target = bench.start("busy", &["1"]);
    let mut agent = Agent::attach_at(&bench.library, target.pid(), Event::Cpu, frequency)?;
    agent.run(PAUSE)?;
    let used = || cpu_time(target.pid()) - cpu_time_of(target.pid(), THREAD_NAME);
    let look = |agent: &Agent| (agent.profile().loss.delivered, used());
    let (samples, used) = look(&agent);
    agent.run(bench.amount(RATE))?;
    let (samples_after, used_after) = look(&agent);
    agent.end(&mut bench.account)?;
    let count = (samples_after - samples) as f64;
    let rate = count / (used_after - used);
    let part = rate / f64::from(frequency);
    // The number of random instants varies.
    let (off, chance) = ((part - 1.0).abs(), 2.0 / count.max(1.0).sqrt());
    Ok(Row::shown(
        &format!("samples for each second of a running thread at {frequency} Hz"),
        format!("{rate:.0}, {:.1} % of what was asked", part * 100.0),
    )
    .against(
        "within 3 %, where the machine allows",
        (off <= RATE_BAR || off > RATE_BAR + chance).then_some(off <= RATE_BAR),
    )
    .numbers(json!({ "frequency": frequency, "rate": rate })))
}
