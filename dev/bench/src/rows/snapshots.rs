//! Heap snapshots by the command itself: compared with the runtime's own heap dump (`gcdump`), without a GC, of a large heap. Also one in
//! the browser.

use super::gcdump::STOP_OF_PEER;
use super::snapshot_command::{Folder, take, take_as};
use crate::Outcome;
use crate::bench::{Bench, LARGE_HEAP, SNAPSHOT_OBJECTS, SNAPSHOTS};
use crate::gcdump::dump;
use crate::process::resident;
use crate::statistics::middle;
use crate::table::Row;
use remora_e2e::{Runtime, Target};
use serde_json::json;

/// First version that can enumerate its objects without a GC.
const FIRST_AS_IT_IS: u32 = 9;

/// Measures all of it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let folder = Folder::make()?;
    let mut rows = super::gcdump::measure(bench, &folder)?;
    rows.push(as_it_is(bench, &folder)?);
    rows.push(large(bench, &folder)?);
    rows.extend(super::view::measure(bench, &folder)?);
    Ok(rows)
}

/// Without a GC the target pauses for the fork alone, which needs .NET 9 or later.
fn as_it_is(bench: &Bench, folder: &Folder) -> Outcome<Row> {
    let runtime = Runtime::major_is(bench.runtime.major().max(FIRST_AS_IT_IS));
    let mut target = Target::start(&runtime, "stopped", &[&bench.amount(SNAPSHOT_OBJECTS).to_string()]);
    let (mut stops, mut peer_stops) = (Vec::new(), Vec::new());
    for _ in 0..bench.amount(SNAPSHOTS) {
        target.ask_number("gap");
        take_as(target.pid(), folder, &["--no-gc"])?;
        stops.push(target.ask_number("gap") as f64 / 1e6);
        dump(target.pid())?;
        peer_stops.push(target.ask_number("gap") as f64 / 1e6);
    }
    let (stop, peer) = (middle(&stops)?, middle(&peer_stops)?);
    let what = format!(
        "pause for a snapshot with `--no-gc`, {:.1} million linked objects, {}",
        bench.amount(SNAPSHOT_OBJECTS) as f64 / 1e6,
        runtime.name()
    );
    Ok(Row::shown(&what, format!("{:.0} ms", stop * 1e3))
        .beside(format!("{:.0} ms for its heap dump", peer * 1e3))
        .against("a fifth of the dump", stop <= STOP_OF_PEER * peer)
        .numbers(json!({ "stops": stops, "peer_stops": peer_stops })))
}

/// The largest heap that this machine can hold.
fn large(bench: &Bench, folder: &Folder) -> Outcome<Row> {
    let objects = bench.amount(LARGE_HEAP);
    let mut target = bench.start("stopped", &[&objects.to_string()]);
    let before = resident(target.pid());
    let taken = take(target.pid(), folder)?;
    let after = resident(target.pid());
    let (report, bytes) = (&taken.report, taken.file_bytes as f64 / objects as f64);
    let number = |what: &str| report[what].as_u64().unwrap_or(0);
    let there = number("objects") >= objects && target.ask_number("nodes") == objects;
    let measured = format!(
        "complete after {:.1} s; paused {:.0} ms (fork: {:.0} ms); {bytes:.1} bytes an object; the copy cost {:.0} MiB; resident {before:.0} to {after:.0} MiB",
        taken.seconds,
        number("collection_nanoseconds") as f64 / 1e6,
        number("fork_nanoseconds") as f64 / 1e6,
        number("extra_memory_bytes") as f64 / 1048576.0,
    );
    Ok(Row::shown(&format!("a snapshot of {:.0} million linked objects", objects as f64 / 1e6), measured)
        .against("complete", there)
        .numbers(json!({ "seconds": taken.seconds, "objects": number("objects"), "file_bytes": taken.file_bytes })))
}
