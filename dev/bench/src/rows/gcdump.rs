//! A snapshot's pause, time to the file, and file size. Compared with the runtime's own heap dump of the same heap, and with a plain
//! forced GC.

use super::snapshot_command::{Folder, take};
use crate::Outcome;
use crate::bench::{Bench, SNAPSHOT_OBJECTS, SNAPSHOTS};
use crate::gcdump::{Dump, dump};
use crate::process::resident;
use crate::statistics::middle;
use crate::table::Row;
use fastrand::Rng;
use remora_e2e::{Start, Target};
use serde_json::json;

/// The allowed pause: a multiple of a plain GC's pause, plus seconds for each GiB of resident memory.
const STOP_FACTOR: f64 = 1.15;
const STOP_PER_GIBIBYTE: f64 = 0.040;
/// Allowed pause as a fraction of a heap dump's.
pub(super) const STOP_OF_PEER: f64 = 0.2;
/// The file must be complete within this fraction of the dump's time to its last byte.
const TIME_OF_PEER: f64 = 1.0 / 3.0;
/// Bytes of the file for each object.
const BYTES_BAR: f64 = 12.0;

/// Measures both GC modes, in both states.
pub fn measure(bench: &Bench, folder: &Folder) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for collector in [Collector::Server, Collector::Workstation] {
        for state in [State::Computes, State::Waits] {
            rows.extend(beside_the_peer(bench, folder, collector, state)?);
        }
    }
    Ok(rows)
}

/// The GC mode of the program.
#[derive(Clone, Copy, PartialEq)]
enum Collector {
    /// Server GC, one heap and thread for each CPU: the default of ASP.NET Core.
    Server,
    /// Workstation GC, the default otherwise.
    Workstation,
}

impl Collector {
    fn shown(self) -> &'static str {
        match self {
            Collector::Server => "server GC",
            Collector::Workstation => "workstation GC",
        }
    }
}

/// The program's activity during the measurement.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// It computes on one CPU, and notices a pause at once.
    Computes,
    /// It sleeps, and reads the clock once a millisecond: so precisely it knows its pauses.
    Waits,
}

impl State {
    fn shown(self) -> &'static str {
        match self {
            State::Computes => "computing on one CPU",
            State::Waits => "waiting",
        }
    }
}

/// The measurements in turns on one heap; pauses in seconds.
#[derive(Default)]
struct Turns {
    plain: Vec<f64>,
    stops: Vec<f64>,
    seconds: Vec<f64>,
    /// The GC pause, and the fork within it.
    pauses: Vec<(f64, f64)>,
    bytes_an_object: Vec<f64>,
    peer_stops: Vec<f64>,
    peer: Vec<Dump>,
    gibibytes: f64,
}

fn beside_the_peer(bench: &Bench, folder: &Folder, collector: Collector, state: State) -> Outcome<Vec<Row>> {
    let mut start = Start::managed(&bench.runtime, "stopped").arg(bench.amount(SNAPSHOT_OBJECTS).to_string());
    if state == State::Waits {
        start = start.arg("waits");
    }
    if collector == Collector::Server {
        start = start.env("DOTNET_gcServer", "1").env("COMPlus_gcServer", "1");
    }
    let mut target = start.ready();
    let mut turns = Turns { gibibytes: resident(target.pid()) / 1024.0, ..Turns::default() };
    let mut chance = Rng::with_seed(1);
    for _ in 0..bench.amount(SNAPSHOTS) {
        let mut order = [0, 1, 2];
        chance.shuffle(&mut order);
        for turn in order {
            turns.take(turn, &mut target, folder)?;
        }
    }
    turns.rows(bench.amount(SNAPSHOT_OBJECTS), collector, state)
}

impl Turns {
    fn take(&mut self, turn: usize, target: &mut Target, folder: &Folder) -> Outcome<()> {
        // The first GC after a fork writes to pages that the kernel still treats as shared. Each costs a fault, so that GC runs before
        // the turn.
        target.ask_number("collect");
        target.ask_number("gap");
        let stop = |target: &mut Target| target.ask_number("gap") as f64 / 1e6;
        match turn {
            0 => self.plain.push(target.ask_number("collect") as f64 / 1e6),
            1 => {
                let taken = take(target.pid(), folder)?;
                self.stops.push(stop(target));
                self.seconds.push(taken.seconds);
                let number = |what: &str| taken.report[what].as_u64().unwrap_or(0) as f64;
                self.pauses.push((number("collection_nanoseconds") / 1e9, number("fork_nanoseconds") / 1e9));
                let objects = taken.report["objects"].as_u64().ok_or("no count of objects")?;
                self.bytes_an_object.push(taken.file_bytes as f64 / objects as f64);
            }
            _ => {
                self.peer.push(dump(target.pid())?);
                self.peer_stops.push(stop(target));
            }
        }
        Ok(())
    }

    fn rows(&self, objects: u64, collector: Collector, state: State) -> Outcome<Vec<Row>> {
        let about =
            format!("{:.1} million linked objects, {}, {}", objects as f64 / 1e6, collector.shown(), state.shown());
        let mut rows = vec![self.stop(&about)?, self.time(&about)?];
        let first = collector == Collector::Server && state == State::Computes;
        rows.extend(first.then(|| self.size(objects)).transpose()?);
        Ok(rows)
    }

    fn stop(&self, about: &str) -> Outcome<Row> {
        let (plain, stop, peer_stop) = (middle(&self.plain)?, middle(&self.stops)?, middle(&self.peer_stops)?);
        let most = STOP_FACTOR * plain + STOP_PER_GIBIBYTE * self.gibibytes;
        let numbers = json!({ "plain": self.plain, "stops": self.stops, "peer_stops": self.peer_stops,
            "resident_gib": self.gibibytes });
        Ok(Row::shown(
            &format!("pause for a snapshot, {about}, {:.2} GiB resident", self.gibibytes),
            format!(
                "{:.0} ms, {:.2} of the dump; a plain forced GC {:.0} ms",
                stop * 1e3,
                stop / peer_stop,
                plain * 1e3
            ),
        )
        .beside(format!("{:.0} ms for its heap dump", peer_stop * 1e3))
        .against(
            &format!("{:.0} ms (1.15 of the GC, and 40 ms a GiB), and a fifth of the dump", most * 1e3),
            stop <= most && stop <= STOP_OF_PEER * peer_stop,
        )
        .numbers(numbers))
    }

    fn time(&self, about: &str) -> Outcome<Row> {
        let of_peer = |what: fn(&Dump) -> f64| self.peer.iter().map(what).collect::<Vec<_>>();
        let (seconds, peer) = (middle(&self.seconds)?, middle(&of_peer(|dump| dump.seconds))?);
        let tool = middle(&of_peer(Dump::as_the_tool))?;
        let pauses = middle(&self.pauses.iter().map(|(pauses, _)| *pauses).collect::<Vec<_>>())?;
        let copy = middle(&self.pauses.iter().map(|(_, copy)| *copy).collect::<Vec<_>>())?;
        let numbers = json!({ "seconds": self.seconds, "pauses": self.pauses, "peer_seconds": of_peer(|dump| dump.seconds),
            "peer_types": of_peer(|dump| dump.types), "peer_rundown": of_peer(|dump| dump.rundown) });
        Ok(Row::shown(
            &format!("from the command to its file, {about}"),
            format!(
                "{seconds:.3} s, {:.3} of the dump: GC {:.0} ms, fork {:.0} ms, the rest {:.0} ms",
                seconds / peer,
                (pauses - copy) * 1e3,
                copy * 1e3,
                (seconds - pauses) * 1e3
            ),
        )
        .beside(format!("{peer:.3} s to the heap's last byte; {tool:.3} s with the tool's other requests"))
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
