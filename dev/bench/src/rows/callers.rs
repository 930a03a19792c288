//! Framework methods that use CPU time, each called by a separate method: the share of each caller, compared with its thread's clock.
//!
//! A stack walk that skips a caller counts its time elsewhere.

use super::truth::{Compared, compare};
use crate::arguments::Order;
use crate::bench::{Bench, PEER_OF_TRUTH, SAMPLES};
use crate::rights::Rights;
use crate::shares::Shares;
use crate::table::Row;
use crate::{Outcome, shares};
use remora_e2e::{Start, Target};
use serde_json::json;

/// The largest error of a share, in percentage points.
const BAR: f64 = 1.0;
/// The number of samples that the bar needs: twice the standard deviation of a share of one thirtieth is then 0.4 points.
const ENOUGH: u64 = 8_000;
/// Below this sample rate a row has no verdict.
const SLOWEST: u32 = 150;
/// The number of methods named, those with the largest errors.
const NAMED: usize = 3;

/// Measures it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut command = Rights::Unprivileged.command(&bench.runtime.launcher());
    command.arg(Target::assembly("framework_cpu"));
    let mut target = Start::of(command, "framework_cpu").ready();
    let methods: Vec<String> = target.ask("methods").split(' ').map(str::to_owned).collect();
    let samples = bench.amount(SAMPLES);
    let seconds = u32::try_from(samples)? / SLOWEST;
    let order = Order { process_id: target.pid(), samples, seconds, methods: methods.clone() };
    let compared = compare(&mut target, Rights::Unprivileged, &order, bench.amount(PEER_OF_TRUTH))?;
    let Compared { recorded, truth, peer: found, peer_truth, .. } = compared;
    recorded.enter(&mut bench.account);
    let (ours, theirs) = (parts(&recorded.shares, methods.len()), parts(&found, methods.len()));
    let deviation = shares::largest_deviation(&ours, &truth);
    let peer_deviation = shares::largest_deviation(&theirs, &peer_truth);
    let elsewhere = |found: &Option<Shares>| found.as_ref().map_or(100.0, |found| found.elsewhere * 100.0);
    let enough = recorded.delivered >= ENOUGH || deviation > 2.0 * BAR;
    Ok(vec![
        Row::shown(
            &format!("{} framework methods, each below a method of its own: shares of these", methods.len()),
            format!(
                "off by {deviation:.2} points ({}), {:.1} % below none of them, {} samples",
                worst(&methods, &ours, &truth),
                elsewhere(&recorded.shares),
                recorded.delivered
            ),
        )
        .beside(format!(
            "off by {peer_deviation:.2} points ({}), {:.1} % below none of them",
            worst(&methods, &theirs, &peer_truth),
            elsewhere(&found)
        ))
        .against("1 point or less at 8,000 samples", enough.then_some(deviation <= BAR))
        .numbers(json!({
            "methods": methods, "truth": truth, "found": recorded.shares, "deviation_points": deviation,
            "samples": recorded.delivered, "peer_truth": peer_truth, "peer_found": found,
        })),
    ])
}

/// Shares of all time of the thread. Time below none of the methods belongs to a lost caller.
fn parts(found: &Option<Shares>, count: usize) -> Vec<f64> {
    found
        .as_ref()
        .map_or(vec![0.0; count], |found| found.shares.iter().map(|share| share * (1.0 - found.elsewhere)).collect())
}

fn worst(methods: &[String], found: &[f64], truth: &[f64]) -> String {
    let mut all: Vec<_> = methods.iter().zip(found.iter().zip(truth)).collect();
    let off = |(found, truth): (&f64, &f64)| (found - truth).abs();
    all.sort_by(|this, that| off(that.1).total_cmp(&off(this.1)));
    let named = all
        .iter()
        .take(NAMED)
        .map(|(method, (found, truth))| format!("{method} {:.1} for {:.1}", **found * 100.0, **truth * 100.0));
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_caller_is_named_first() {
        let methods = ["A", "B", "C"].map(str::to_owned);
        let found = Some(Shares { shares: vec![0.5, 0.5, 0.0], elsewhere: 0.2 });
        let found = parts(&found, 3);
        assert_eq!(found, [0.4, 0.4, 0.0]);
        assert_eq!(worst(&methods, &found, &[0.4, 0.35, 0.25]), "C 0.0 for 25.0, B 40.0 for 35.0, A 40.0 for 40.0");
        assert_eq!(parts(&None, 2), [0.0, 0.0]);
    }
}
