//! Memory of a recording in the target, and the size of the library.

use crate::Outcome;
use crate::agent::Agent;
use crate::bench::{Bench, MEMORIES};
use crate::peer::Peer;
use crate::process::memory;
use crate::statistics::{largest, median};
use crate::table::Row;
use remora_e2e::Target;
use remora_profile::Event;
use serde_json::json;
use std::time::Duration;

/// Length of a recording before its memory is read.
const RECORDING: Duration = Duration::from_secs(1);
/// The time for a fresh program to settle.
const SETTLED: Duration = Duration::from_millis(700);
/// Size limit of the library for recordings, KiB, as in `dev/xtask/src/dist.rs`.
const LIBRARY_BAR: usize = 320;
/// Memory limit, MiB.
const MEMORY_BAR: f64 = 16.0;

/// Measures all of it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let kibibytes = bench.library.len().div_ceil(1024);
    let library = Row::shown("the library's file", format!("{kibibytes} KiB"))
        .against("320 KiB or less", kibibytes <= LIBRARY_BAR)
        .numbers(json!(bench.library.len()));
    Ok(vec![
        row(bench, "memory in a target with two busy threads", ("busy", &["2"]), Event::Cpu)?,
        row(bench, "memory in a target with 500 threads, --event wall", ("threads", &["500", "2"]), Event::Wall)?,
        library,
    ])
}

fn row(bench: &mut Bench, what: &str, program: (&str, &[&str]), event: Event) -> Outcome<Row> {
    let (mut grown, mut named, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.amount(MEMORIES) {
        let target = bench.start(program.0, program.1);
        std::thread::sleep(SETTLED);
        let (ours, of_that_named) = by_agent(bench, &target, event)?;
        grown.push(ours);
        named.push(of_that_named);
        peer.push(by_peer(&target)?);
    }
    let most = largest(&grown).ok_or("nothing was measured")?;
    let named = median(&named).unwrap_or(0.0);
    let peer_most = largest(&peer).unwrap_or(0.0);
    Ok(Row::shown(what, format!("{most:.1} MiB more resident at most; library and shared ring {named:.1} resident"))
        .beside(format!("{peer_most:.1} MiB more resident at most"))
        .against("16 MiB or less", most <= MEMORY_BAR)
        .numbers(json!({ "grown_mib": grown, "named_mib": named, "peer_grown_mib": peer })))
}

/// Growth of resident memory while Remora records, and the part in Remora's own mappings; MiB.
fn by_agent(bench: &mut Bench, target: &Target, event: Event) -> Outcome<(f64, f64)> {
    let before = memory(target.pid());
    let mut agent = Agent::attach(&bench.library, target.pid(), event)?;
    agent.run(RECORDING)?;
    let during = memory(target.pid());
    agent.end(&mut bench.account)?;
    Ok((mebibytes(before.resident, during.resident), mebibytes(0, during.named)))
}

/// The same for the runtime's own sampler.
fn by_peer(target: &Target) -> Outcome<f64> {
    let before = memory(target.pid());
    let mut peer = Peer::start(target.pid())?;
    peer.run(RECORDING)?;
    let during = memory(target.pid());
    peer.end()?;
    Ok(mebibytes(before.resident, during.resident))
}

fn mebibytes(before: u64, after: u64) -> f64 {
    (after as f64 - before as f64) / 1024.0
}
