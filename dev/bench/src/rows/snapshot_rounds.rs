//! Growth of a server over many snapshots, compared with two others: one that only runs as many GCs, and one left alone. All are fresh
//! processes that run at once.
//!
//! Forced GCs alone make a runtime grow: leftovers of Remora come on top.

use super::percent;
use super::snapshot_command::{Folder, take};
use crate::Outcome;
use crate::bench::{Bench, SNAPSHOTS_IN_A_ROW};
use crate::growth::Growth;
use crate::statistics::median;
use crate::table::Row;
use remora_e2e::{Runtime, Target};
use remora_receipt::{Snapshot, Totals};
use serde_json::json;
use std::path::Path;

/// Clients of each server.
const CLIENTS: &str = "2";

/// One of the servers, and its totals.
struct Server {
    target: Target,
    totals: Vec<Totals>,
}

impl Server {
    fn start(runtime: &Runtime) -> Server {
        Server { target: Target::start(runtime, "aspnet", &[CLIENTS]), totals: Vec::new() }
    }

    fn note(&mut self) -> Outcome<()> {
        self.totals.push(Snapshot::take(Path::new("/proc"), self.target.pid())?.totals());
        Ok(())
    }

    fn growth(&self) -> Outcome<Growth> {
        Growth::over(&self.totals).ok_or_else(|| "too few rounds".into())
    }
}

/// Measures it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let folder = Folder::make()?;
    let runtime = Runtime::with_aspnet();
    let [mut shown, mut collected, mut alone] = [(); 3].map(|()| Server::start(&runtime));
    let mut pauses = Vec::new();
    for _ in 0..bench.amount(SNAPSHOTS_IN_A_ROW) {
        let taken = take(shown.target.pid(), &folder)?;
        pauses.push(taken.report["collection_nanoseconds"].as_u64().unwrap_or(0) as f64 / 1e6);
        collected.target.ask_number("collect");
        for server in [&mut shown, &mut collected, &mut alone] {
            server.note()?;
        }
    }
    let (served, failed) = (shown.target.ask_number("count"), shown.target.ask_number("failed"));
    let [growth, collected, alone] = [shown.growth()?, collected.growth()?, alone.growth()?];
    let middle = median(&pauses).unwrap_or(0.0);
    let measured = format!(
        "{served} requests, {failed} failed ({}); all receipts clean; paused {middle:.0} ms in the median; {}; under as many forced GCs {}; left alone {:+.2} KiB a round",
        percent(failed as f64 / served.max(1) as f64),
        growth.text(),
        collected.text(),
        alone.resident
    );
    let rounds = bench.amount(SNAPSHOTS_IN_A_ROW);
    Ok(vec![
        Row::shown(
            &format!("{rounds} snapshots in a row of an ASP.NET Core server under load, {}", runtime.name()),
            measured,
        )
        .against(
            "no failed request, no growth of ours, all clean",
            served > 0 && failed == 0 && growth.beyond(&collected).is_none(),
        )
        .numbers(json!({ "growth": growth, "collected": collected, "alone": alone, "pauses_ms": pauses })),
    ])
}
