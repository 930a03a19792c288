//! The cost of a recording where threads wait: an idle server, parked threads, and a server under load.

use super::throughput::costs_row;
use crate::Outcome;
use crate::agent::{Agent, HERTZ};
use crate::bench::{BLOCKS_OF_SERVER, Bench, PARKED, ROUNDS_OF_PARKED};
use crate::load::Load;
use crate::paired::{Costs, Plan, Work, take_turns};
use crate::peer::Peer;
use crate::process::{cpu_time, own_time};
use crate::statistics::median;
use crate::table::Row;
use remora_e2e::{Runtime, Target};
use remora_profile::Event;
use serde_json::json;
use std::time::Duration;

/// The default frequency for all threads, hertz.
const WALL_HERTZ: u32 = 99;
/// Allowed CPU time of parked threads for each second of a recording, seconds.
const BAR: f64 = 0.01;
/// The fraction of its requests that a server may lose.
const SERVER_BAR: f64 = 0.01;
/// Connections to the server under load.
const CONNECTIONS: usize = 4;
/// Time for a process's server to settle.
const SETTLED: Duration = Duration::from_secs(2);

/// CPU time as a fraction of wall-clock time.
#[derive(Debug, Clone, Copy, serde::Serialize)]
struct Usage {
    /// By the target while it is sampled.
    target: f64,
    /// By the target including attach and detach, to ten milliseconds.
    whole: f64,
    recorder: f64,
}

impl Usage {
    fn beyond(self, alone: Usage) -> Usage {
        Usage { target: self.target - alone.target, whole: self.whole - alone.target, recorder: self.recorder }
    }

    fn median(rounds: &[Usage]) -> Usage {
        let of = |which: fn(&Usage) -> f64| median(&rounds.iter().map(which).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        Usage { target: of(|usage| usage.target), whole: of(|usage| usage.whole), recorder: of(|usage| usage.recorder) }
    }
}

/// Measures all of it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let parked = bench.start("parked", &["200"]);
    let mut rows = waiting(bench, &parked, "200 parked threads")?;
    drop(parked);
    let server = Target::start(&Runtime::with_aspnet(), "aspnet", &["0"]);
    rows.extend(waiting(bench, &server, &format!("an idle server, {} threads", threads_of(&server)))?);
    drop(server);
    for (event, frequency) in [(Event::Cpu, HERTZ), (Event::Wall, WALL_HERTZ)] {
        rows.push(under_load(bench, event, frequency)?);
    }
    Ok(rows)
}

fn waiting(bench: &mut Bench, target: &Target, what: &str) -> Outcome<Vec<Row>> {
    // A first recording of each kind, whose extra costs are not measured.
    let short = Duration::from_millis(100);
    recorded(bench, target, Event::Wall, short)?;
    sampled_by_peer(target, short)?;
    std::thread::sleep(SETTLED);
    let duration = bench.amount(PARKED);
    let (mut wall, mut cpu, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.amount(ROUNDS_OF_PARKED) {
        let alone = usage(target, duration, || {
            std::thread::sleep(duration);
            Ok(())
        })?;
        wall.push(recorded(bench, target, Event::Wall, duration)?.beyond(alone));
        cpu.push(recorded(bench, target, Event::Cpu, duration)?.beyond(alone));
        peer.push(sampled_by_peer(target, duration)?.beyond(alone));
    }
    let peer = Usage::median(&peer);
    Ok([(Event::Wall, wall), (Event::Cpu, cpu)]
        .into_iter()
        .map(|(event, rounds)| {
            let usage = Usage::median(&rounds);
            let what = format!(
                "{what}, -e {} at {WALL_HERTZ} Hz for {} s, median of {}",
                event.name(),
                duration.as_secs(),
                rounds.len()
            );
            let measured = format!(
                "target +{:.2} % of a CPU (with attach and detach {:.2} %), recorder {:.2} %",
                usage.target * 100.0,
                usage.whole * 100.0,
                usage.recorder * 100.0
            );
            Row::shown(&what, measured)
                .beside(format!("target +{:.2} %, reader {:.2} %", peer.target * 100.0, peer.recorder * 100.0))
                .against("target 1 % or less", usage.target <= BAR)
                .numbers(json!({ "rounds": rounds, "peer": peer }))
        })
        .collect())
}

fn recorded(bench: &mut Bench, target: &Target, event: Event, duration: Duration) -> Outcome<Usage> {
    let before = remora_e2e::cpu_time(target.pid());
    let mut agent = Agent::attach_at(&bench.library, target.pid(), event, WALL_HERTZ)?;
    let mut steady = usage(target, duration, || agent.run(duration))?;
    agent.end(&mut bench.account)?;
    let used = remora_e2e::cpu_time(target.pid()).saturating_sub(before);
    steady.whole = used.as_secs_f64() / duration.as_secs_f64();
    Ok(steady)
}

fn sampled_by_peer(target: &Target, duration: Duration) -> Outcome<Usage> {
    let mut peer = Peer::start(target.pid())?;
    let steady = usage(target, duration, || peer.run(duration))?;
    peer.end()?;
    Ok(steady)
}

/// CPU usage during `meanwhile`, which takes `duration`.
fn usage(target: &Target, duration: Duration, meanwhile: impl FnOnce() -> Outcome<()>) -> Outcome<Usage> {
    let look = || (cpu_time(target.pid()), own_time());
    let (before, own_before) = look();
    meanwhile()?;
    let (after, own_after) = look();
    let part = |used: f64| used / duration.as_secs_f64();
    Ok(Usage { target: part(after - before), whole: part(after - before), recorder: part(own_after - own_before) })
}

fn threads_of(target: &Target) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", target.pid())).map_or(0, Iterator::count)
}

fn under_load(bench: &mut Bench, event: Event, frequency: u32) -> Outcome<Row> {
    let mut target = Target::start(&Runtime::with_aspnet(), "aspnet", &["0"]);
    let load = Load::start(u16::try_from(target.ask_number("port"))?, CONNECTIONS)?;
    std::thread::sleep(SETTLED);
    let plan = Plan { event, frequency, blocks: bench.amount(BLOCKS_OF_SERVER), peer_every: 4 };
    let blocks = take_turns(bench, &mut target, plan)?;
    drop(load);
    let costs = Costs::of(&blocks, Work::by_clock)?;
    let requests = blocks.iter().map(|block| block.alone.by_clock()).sum::<f64>() / blocks.len() as f64;
    let what = format!(
        "requests lost by a server of {requests:.0} requests/s, -e {} at {frequency} Hz, {} paired seconds",
        event.name(),
        blocks.len()
    );
    Ok(costs_row(&what, &costs).against("1 % or less", judged(&costs)))
}

/// Whether the bar is met; `None` if the interval includes it.
fn judged(costs: &Costs) -> Option<bool> {
    let clear = costs.agent.high <= SERVER_BAR || costs.agent.low > SERVER_BAR;
    clear.then_some(costs.agent.high <= SERVER_BAR)
}
