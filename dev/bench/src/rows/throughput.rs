//! Throughput of a recorded target, compared with the neighbouring seconds.

use super::{percent, percents};
use crate::Outcome;
use crate::agent::HERTZ;
use crate::bench::{BLOCKS, BLOCKS_OF_500, Bench, PEER_EVERY};
use crate::paired::{Costs, Plan, Work, take_turns};
use crate::table::Row;
use remora_profile::Event;
use serde_json::json;

/// Two busy threads, sampled by CPU time.
pub fn two_threads(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let plan = Plan {
        event: Event::Cpu,
        frequency: HERTZ,
        blocks: bench.amount(BLOCKS),
        peer_every: bench.amount(PEER_EVERY),
    };
    let mut target = bench.start("busy", &["2"]);
    let blocks = take_turns(bench, &mut target, plan)?;
    let by_clock = Costs::of(&blocks, Work::by_clock)?;
    let by_cpu = Costs::of(&blocks, Work::by_cpu)?;
    let quotient =
        by_clock.quotient.map_or("the runtime's own sampler cost nothing".to_owned(), |quotient| quotient.text("", 3));
    Ok(vec![
        costs_row(&format!("throughput lost at 999 Hz, two busy threads, {} paired seconds", blocks.len()), &by_clock)
            .against("upper end 1 % or less", by_clock.agent.high <= 0.01),
        Row::shown("that loss as a part of what the runtime's own sampler costs", quotient)
            .against("0.1 or less", by_clock.quotient.is_some_and(|quotient| quotient.mean <= 0.1))
            .numbers(json!(by_clock.quotient)),
        costs_row("operations lost for each second of the target's CPU time", &by_cpu),
    ])
}

/// 500 threads, of them two busy, sampled by wall-clock time.
pub fn many_threads(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let blocks = bench.amount(BLOCKS_OF_500);
    let plan = Plan { event: Event::Wall, frequency: HERTZ, blocks, peer_every: 6 };
    let mut target = bench.start("threads", &["500", "2"]);
    let blocks = take_turns(bench, &mut target, plan)?;
    let costs = Costs::of(&blocks, Work::by_clock)?;
    let by_cpu = Costs::of(&blocks, Work::by_cpu)?;
    let what =
        format!("throughput lost with 500 threads, two of them busy, --event wall, {} paired seconds", blocks.len());
    Ok(vec![
        costs_row(&what, &costs).against("2 % or less", costs.agent.mean <= 0.02),
        costs_row("operations lost for each second of the target's CPU time", &by_cpu),
    ])
}

/// A row of losses, with the peer's.
pub(super) fn costs_row(what: &str, costs: &Costs) -> Row {
    let peer = format!("{}, {} seconds", percents(&costs.peer), costs.peer.count);
    // A single turn has no interval.
    let peer = if costs.peer.count < 2 { percent(costs.peer.mean) } else { peer };
    Row::shown(what, percents(&costs.agent)).beside(peer).numbers(json!(costs))
}
