//! Heap snapshots by the command itself: for how long the program stands, how soon there is a file, how large it is; beside the
//! runtime's own heap dump. At the end a large one in the browser.

use crate::Outcome;
use crate::bench::{self, Bench};
use crate::dump::{Dump, dump};
use crate::process::memory;
use crate::statistics::{Chance, median};
use crate::table::Row;
use remora_e2e::{Runtime, Target};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names the command.
pub(super) const COMMAND: &str = "REMORA_BENCH_COMMAND";
/// Between two looks whether the file is there.
const LOOK: Duration = Duration::from_millis(1);
/// How long one snapshot may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// The stop may be so much of a plain collection's, and so much more for each GiB in memory, seconds.
const STOP_FACTOR: f64 = 1.15;
const STOP_PER_GIBIBYTE: f64 = 0.040;
/// And this part of a heap dump's.
const STOP_OF_PEER: f64 = 0.2;
/// The file must be there within this part of the time that the dump takes to its last byte.
const TIME_OF_PEER: f64 = 1.0 / 3.0;
/// First version that shows its objects without a collection.
const FIRST_AS_IT_IS: u32 = 9;
/// Bytes of the file for each object.
const BYTES_BAR: f64 = 12.0;

/// Measures all of it.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let folder = Folder::make()?;
    let mut rows = Vec::new();
    for state in [State::Computes, State::Waits] {
        rows.extend(beside_the_peer(bench, &folder, state)?);
    }
    rows.push(as_it_is(bench, &folder)?);
    rows.push(large(bench, &folder)?);
    rows.extend(super::view::measure(bench, &folder)?);
    Ok(rows)
}

/// A folder for files that go again.
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
    seconds: f64,
    file_bytes: u64,
    pub(super) told: Value,
}

/// Takes one.
pub(super) fn take(process_id: u32, folder: &Folder) -> Outcome<Taken> {
    take_as(process_id, folder, &[])
}

/// Takes one in some way.
fn take_as(process_id: u32, folder: &Folder, way: &[&str]) -> Outcome<Taken> {
    let file = folder.0.join("bench.remora-heap");
    let _ = std::fs::remove_file(&file);
    let mut command = Command::new(bench::path(COMMAND)?);
    command.args(["heap", "-p", &process_id.to_string(), "--json", "--top", "1", "-o"]).arg(&file).args(way);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let seconds = until_there(&mut child, &file, begun)?;
    let output = child.wait_with_output()?;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("remora heap: {}: {said} {}", output.status, told["notes"]).into());
    }
    if told["complete"] != true || told["receipt"]["clean"] != true {
        return Err(format!("not complete, or not clean: {}, {}", told["notes"], told["receipt"]["left"]).into());
    }
    Ok(Taken { seconds, file_bytes: std::fs::metadata(&file)?.len(), told })
}

/// The file gets its name when it is whole.
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

/// What the program does while it is measured.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// It computes on one processor, where it notices at once that it stands.
    Computes,
    /// It waits, and looks at the clock once in a millisecond: its stops are known to that.
    Waits,
}

impl State {
    fn shown(self) -> &'static str {
        match self {
            State::Computes => "computing on one processor",
            State::Waits => "waiting",
        }
    }
}

/// What was measured in turns on one heap; stops in seconds.
#[derive(Default)]
struct Turns {
    plain: Vec<f64>,
    stops: Vec<f64>,
    seconds: Vec<f64>,
    /// Of these: the program stood for the collection, and for the copy in it.
    stood: Vec<(f64, f64)>,
    bytes_an_object: Vec<f64>,
    peer_stops: Vec<f64>,
    peer: Vec<Dump>,
    gibibytes: f64,
}

fn beside_the_peer(bench: &Bench, folder: &Folder, state: State) -> Outcome<Vec<Row>> {
    let objects = bench.sizes.snapshot_objects.to_string();
    let mut arguments = vec![&*objects];
    arguments.extend((state == State::Waits).then_some("waits"));
    let mut target = bench.start("stopped", &arguments);
    let mut turns = Turns { gibibytes: resident(&target) / 1024.0, ..Turns::default() };
    let mut chance = Chance::new(1);
    for _ in 0..bench.sizes.snapshots {
        let mut order = [0, 1, 2];
        chance.shuffle(&mut order);
        for turn in order {
            turns.take(turn, &mut target, folder)?;
        }
    }
    turns.rows(bench.sizes.snapshot_objects, state)
}

impl Turns {
    fn take(&mut self, turn: usize, target: &mut Target, folder: &Folder) -> Outcome<()> {
        // The first collection behind a copy writes to pages that the kernel still holds for shared, each of which it must then be told
        // of: nobody's turn begins with that.
        target.ask_number("collect");
        target.ask_number("gap");
        let stop = |target: &mut Target| target.ask_number("gap") as f64 / 1e6;
        match turn {
            0 => self.plain.push(target.ask_number("collect") as f64 / 1e6),
            1 => {
                let taken = take(target.pid(), folder)?;
                self.stops.push(stop(target));
                self.seconds.push(taken.seconds);
                let number = |what: &str| taken.told[what].as_u64().unwrap_or(0) as f64;
                self.stood.push((number("collection_nanoseconds") / 1e9, number("fork_nanoseconds") / 1e9));
                let objects = taken.told["objects"].as_u64().ok_or("no count of objects")?;
                self.bytes_an_object.push(taken.file_bytes as f64 / objects as f64);
            }
            _ => {
                self.peer.push(dump(target.pid())?);
                self.peer_stops.push(stop(target));
            }
        }
        Ok(())
    }

    fn rows(&self, objects: u64, state: State) -> Outcome<Vec<Row>> {
        let about = format!("{:.1} million linked objects, {}", objects as f64 / 1e6, state.shown());
        let mut rows = vec![self.stop(&about)?, self.time(&about)?];
        rows.extend((state == State::Computes).then(|| self.size(objects)).transpose()?);
        Ok(rows)
    }

    fn stop(&self, about: &str) -> Outcome<Row> {
        let (plain, stop, peer_stop) = (middle(&self.plain)?, middle(&self.stops)?, middle(&self.peer_stops)?);
        let most = STOP_FACTOR * plain + STOP_PER_GIBIBYTE * self.gibibytes;
        let numbers = json!({ "plain": self.plain, "stops": self.stops, "peer_stops": self.peer_stops,
            "resident_gib": self.gibibytes });
        Ok(Row::shown(
            &format!("the program stands for a snapshot, {about}, {:.2} GiB resident", self.gibibytes),
            format!("{:.0} ms; for a plain forced collection {:.0} ms", stop * 1e3, plain * 1e3),
        )
        .beside(format!("{:.0} ms for its heap dump", peer_stop * 1e3))
        .against(
            &format!("{:.0} ms (1.15 of the collection, and 40 ms a GiB), and a fifth of the dump", most * 1e3),
            stop <= most && stop <= STOP_OF_PEER * peer_stop,
        )
        .numbers(numbers))
    }

    fn time(&self, about: &str) -> Outcome<Row> {
        let of_peer = |what: fn(&Dump) -> f64| self.peer.iter().map(what).collect::<Vec<_>>();
        let (seconds, peer) = (middle(&self.seconds)?, middle(&of_peer(|dump| dump.seconds))?);
        let tool = middle(&of_peer(Dump::as_the_tool))?;
        let stood = middle(&self.stood.iter().map(|(stood, _)| *stood).collect::<Vec<_>>())?;
        let copy = middle(&self.stood.iter().map(|(_, copy)| *copy).collect::<Vec<_>>())?;
        let numbers = json!({ "seconds": self.seconds, "stood": self.stood, "peer_seconds": of_peer(|dump| dump.seconds),
            "peer_types": of_peer(|dump| dump.types), "peer_rundown": of_peer(|dump| dump.rundown) });
        Ok(Row::shown(
            &format!("from the command to its file, {about}"),
            format!(
                "{seconds:.3} s, {:.3} of the dump: collection {:.0} ms, copy {:.0} ms, the rest {:.0} ms",
                seconds / peer,
                (stood - copy) * 1e3,
                copy * 1e3,
                (seconds - stood) * 1e3
            ),
        )
        .beside(format!(
            "{peer:.3} s to the heap's last byte; {tool:.3} s with what its tool asks for before and behind"
        ))
        .against("a third of the dump or less", seconds <= TIME_OF_PEER * peer)
        .numbers(numbers))
    }

    fn size(&self, objects: u64) -> Outcome<Row> {
        let peer_bytes = self.peer.iter().map(|dump| dump.bytes).max().unwrap_or(0) as f64 / objects as f64;
        let bytes = middle(&self.bytes_an_object)?;
        Ok(Row::shown("the file, the same heap, references included", format!("{bytes:.1} bytes an object"))
            .beside(format!("{peer_bytes:.1} bytes an object in the stream"))
            .against("12 bytes or less", bytes <= BYTES_BAR))
    }
}

fn middle(values: &[f64]) -> Outcome<f64> {
    median(values).ok_or_else(|| "nothing was measured".into())
}

/// Without a collection the program stands for the copying alone, which needs .NET 9 or later.
fn as_it_is(bench: &Bench, folder: &Folder) -> Outcome<Row> {
    let runtime = Runtime::major_is(bench.runtime.major().max(FIRST_AS_IT_IS));
    let mut target = Target::start(&runtime, "stopped", &[&bench.sizes.snapshot_objects.to_string()]);
    let (mut stops, mut peer_stops) = (Vec::new(), Vec::new());
    for _ in 0..bench.sizes.snapshots {
        target.ask_number("gap");
        take_as(target.pid(), folder, &["--no-gc"])?;
        stops.push(target.ask_number("gap") as f64 / 1e6);
        dump(target.pid())?;
        peer_stops.push(target.ask_number("gap") as f64 / 1e6);
    }
    let (stop, peer) = (middle(&stops)?, middle(&peer_stops)?);
    let what = format!(
        "the program stands for a snapshot with `--no-gc`, {:.1} million linked objects, {}",
        bench.sizes.snapshot_objects as f64 / 1e6,
        runtime.name()
    );
    Ok(Row::shown(&what, format!("{:.0} ms", stop * 1e3))
        .beside(format!("{:.0} ms for its heap dump", peer * 1e3))
        .against("a fifth of the dump", stop <= STOP_OF_PEER * peer)
        .numbers(json!({ "stops": stops, "peer_stops": peer_stops })))
}

/// A heap as large as this machine bears.
fn large(bench: &Bench, folder: &Folder) -> Outcome<Row> {
    let objects = bench.sizes.large_heap;
    let mut target = bench.start("stopped", &[&objects.to_string()]);
    let before = resident(&target);
    let taken = take(target.pid(), folder)?;
    let after = resident(&target);
    let (told, bytes) = (&taken.told, taken.file_bytes as f64 / objects as f64);
    let number = |what: &str| told[what].as_u64().unwrap_or(0);
    let there = number("objects") >= objects && target.ask_number("nodes") == objects;
    let measured = format!(
        "complete after {:.1} s; stood {:.0} ms, of which {:.0} ms for the copy; {bytes:.1} bytes an object; the copy cost {:.0} MiB; resident {before:.0} to {after:.0} MiB",
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
fn resident(target: &Target) -> f64 {
    memory(target.pid()).resident as f64 / 1024.0
}
