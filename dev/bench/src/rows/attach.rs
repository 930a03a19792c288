//! From the attach request to the first sample: in fresh processes, and again in a process with an earlier attach.

use crate::Outcome;
use crate::agent::Agent;
use crate::bench::{ATTACHES, Bench};
use crate::peer::Peer;
use crate::statistics::{largest, median};
use crate::table::Row;
use remora_e2e::Target;
use remora_profile::Event;
use serde_json::json;
use std::time::Duration;

/// Length of a recording: enough for the peer's first sample, too.
const RECORDING: Duration = Duration::from_millis(50);
/// Time for a fresh program to settle: its methods then have their final code.
const SETTLED: Duration = Duration::from_millis(400);
/// Fresh processes for the peer.
const PEERS: usize = 3;

/// Measures both.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let (mut first, mut again, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..bench.amount(ATTACHES) {
        let target = bench.start("busy", &["2"]);
        std::thread::sleep(SETTLED);
        first.push(first_sample(bench, &target)?);
        again.push(first_sample(bench, &target)?);
        if run < PEERS {
            peer.extend(peer_first_sample(&target)?);
        }
    }
    let peer_text = median(&peer).map(|median| format!("median {median:.1} ms of {}", peer.len())).unwrap_or_default();
    let median_of_first = median(&first).ok_or("no attach")?;
    Ok(vec![
        row("attach request to first sample, two busy threads, first attach of a process", &first, &peer)
            .beside(peer_text)
            .against("median 12 ms or less", median_of_first <= 12.0),
        row("the same, second attach", &again, &[]),
    ])
}

fn row(what: &str, milliseconds: &[f64], peer: &[f64]) -> Row {
    let (median, longest) = (median(milliseconds).unwrap_or(0.0), largest(milliseconds).unwrap_or(0.0));
    let measured = format!("median {median:.1} ms, longest {longest:.1} ms, of {}", milliseconds.len());
    Row::shown(what, measured).numbers(json!({ "median_ms": median, "all_ms": milliseconds, "peer_ms": peer }))
}

fn first_sample(bench: &mut Bench, target: &Target) -> Outcome<f64> {
    let mut agent = Agent::attach(&bench.library, target.pid(), Event::Cpu)?;
    agent.run_until(1, Duration::from_secs(10))?;
    agent.run(RECORDING)?;
    let finished = agent.end(&mut bench.account)?;
    Ok(finished.first_sample.ok_or("no sample came")? as f64 / 1e6)
}

fn peer_first_sample(target: &Target) -> Outcome<Option<f64>> {
    let mut peer = Peer::start(target.pid())?;
    peer.run(RECORDING)?;
    Ok(peer.end()?.first_sample()?.map(|time| time.as_secs_f64() * 1e3))
}
