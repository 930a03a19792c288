//! Heap snapshots by the command itself: compared with the runtime's own heap dump (`gcdump`), without a GC, of a large heap. Also one in
//! the browser.

use crate::Outcome;
use crate::bench::{self, Bench, LARGE_HEAP, SNAPSHOT_OBJECTS, SNAPSHOTS};
use crate::gcdump::dump;
use crate::process::memory;
use crate::statistics::median;
use crate::table::Row;
use remora_e2e::{Runtime, Target};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The variable with the command's path.
pub(super) const COMMAND: &str = "REMORA_BENCH_COMMAND";
/// Time between two checks for the file.
const LOOK: Duration = Duration::from_millis(1);
/// Timeout for a snapshot.
const PATIENCE: Duration = Duration::from_secs(300);
/// Allowed pause as a fraction of a heap dump's.
pub(super) const STOP_OF_PEER: f64 = 0.2;
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

/// A temporary folder, removed on drop.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn make() -> Outcome<Folder> {
        let path = std::env::temp_dir().join(format!("remora-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    /// The path of `name` in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One snapshot by `remora heap`.
pub(super) struct Taken {
    /// From the command's start to the file, seconds.
    pub(super) seconds: f64,
    pub(super) file_bytes: u64,
    pub(super) report: Value,
}

/// Takes one.
pub(super) fn take(process_id: u32, folder: &Folder) -> Outcome<Taken> {
    take_as(process_id, folder, &[])
}

/// Takes one with further arguments.
pub(super) fn take_as(process_id: u32, folder: &Folder, way: &[&str]) -> Outcome<Taken> {
    let file = folder.0.join("bench.remora-heap");
    let _ = std::fs::remove_file(&file);
    let mut command = Command::new(bench::path(COMMAND)?);
    command.args(["heap", "-p", &process_id.to_string(), "--json", "--top", "1", "-o"]).arg(&file).args(way);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let seconds = until_there(&mut child, &file, begun)?;
    let output = child.wait_with_output()?;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("remora heap: {}: {said} {}", output.status, report["notes"]).into());
    }
    if report["complete"] != true || report["receipt"]["clean"] != true {
        return Err(format!("not complete, or not clean: {}, {}", report["notes"], report["receipt"]["left"]).into());
    }
    Ok(Taken { seconds, file_bytes: std::fs::metadata(&file)?.len(), report })
}

/// Waits for the file, which gets its name when it is complete.
fn until_there(child: &mut Child, file: &Path, begun: Instant) -> Outcome<f64> {
    while !file.exists() {
        if begun.elapsed() > PATIENCE || child.try_wait()?.is_some_and(|status| !status.success()) {
            let _ = child.kill();
            return Err("there is no snapshot".into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// The median of the values.
pub(super) fn middle(values: &[f64]) -> Outcome<f64> {
    median(values).ok_or_else(|| "nothing was measured".into())
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
    let before = resident(&target);
    let taken = take(target.pid(), folder)?;
    let after = resident(&target);
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

/// Resident memory, MiB.
pub(super) fn resident(target: &Target) -> f64 {
    memory(target.pid()).resident as f64 / 1024.0
}
