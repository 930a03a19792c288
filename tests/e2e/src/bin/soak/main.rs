//! `cargo xtask soak`: Remora attached, interrupted and killed at random moments, on many targets under load, for hours.
//!
//! # Purpose
//! Finds what no single test foresees: rare orders and instants, and slow growth.
//!
//! # Design constraints
//! Seed and round number determine a round ([`plan`]), so a fault is printed with the command that repeats it. Instants use the wall
//! clock, so the kernel may hit them or not. The soak runs in a separate mount namespace, with its own `/tmp` and `/run`: every leftover
//! there is ours, and full disks are small ones.
//!
//! # Rejected
//! Continuing after a fault: later rounds would report its consequences.
#![forbid(unsafe_code)]
// The purpose of this program is to print its result.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod fleet;
mod growth;
mod judge;
mod place;
mod plan;
mod round;
mod tally;

use fleet::Seat;
use place::Place;
use plan::Plan;
use remora_e2e::message_of;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tally::Tally;

/// Rounds at a time. Each has one busy target; more would only wait for CPUs.
const LANES: usize = 3;
/// Update interval of the progress line.
const PROGRESS: Duration = Duration::from_millis(500);

/// The parsed arguments.
struct Order {
    until: Instant,
    rounds: u64,
    seed: u64,
    first: u64,
}

/// State shared by the lanes.
struct Shared {
    order: Order,
    stop: Arc<AtomicBool>,
    tally: Mutex<Tally>,
    faults: Mutex<Vec<String>>,
    log: Mutex<File>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(order) = order(&arguments) else {
        eprintln!("usage: cargo xtask soak HOURS [--rounds N] [--seed S] [--first N]");
        return ExitCode::from(2);
    };
    match soak(order) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn order(arguments: &[String]) -> Option<Order> {
    let (hours, rest) = arguments.split_first()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let until = Instant::now() + Duration::try_from_secs_f64(hours.parse::<f64>().ok()? * 3600.0).ok()?;
    let mut order = Order { until, rounds: u64::MAX, seed: now.as_secs(), first: 0 };
    for pair in rest.chunks(2) {
        let [name, value] = pair else { return None };
        let place = match name.as_str() {
            "--rounds" => &mut order.rounds,
            "--seed" => &mut order.seed,
            "--first" => &mut order.first,
            _ => return None,
        };
        *place = value.parse().ok()?;
    }
    Some(order)
}

/// Whether no fault was found.
fn soak(order: Order) -> Result<bool, String> {
    place::take_the_shared_folders()?;
    let folder = PathBuf::from(std::env::var_os("REMORA_SOAK_LOGS").ok_or("REMORA_SOAK_LOGS is not set")?);
    place::make(&folder)?;
    let path = folder.join(format!("soak-{}.log", order.seed));
    let log = File::create(&path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("seed {}, log {}", order.seed, path.display());
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| format!("no signals: {error}"))?;
    }
    let shared = Shared { order, stop, tally: Mutex::default(), faults: Mutex::default(), log: Mutex::new(log) };
    let places = (0..LANES).map(Place::of_lane).collect::<Result<Vec<Place>, String>>()?;
    let begun = Instant::now();
    thread::scope(|scope| {
        let shared = &shared;
        let lanes: Vec<_> =
            places.iter().enumerate().map(|(lane, place)| scope.spawn(move || shared.lane(lane, place))).collect();
        while !lanes.iter().all(|lane| lane.is_finished()) {
            shared.progress(begun);
            thread::sleep(PROGRESS);
        }
    });
    shared.left_in_shared_folders();
    Ok(shared.conclude(&path))
}

impl Shared {
    fn lane(&self, lane: usize, place: &Place) {
        let mut seats = fleet::of_lane(lane, LANES, place);
        let end = self.order.first.saturating_add(self.order.rounds);
        let own = (self.order.first..end).filter(|round| round % LANES as u64 == lane as u64);
        for round in own.take_while(|_| self.goes_on()) {
            let plan = Plan::of(self.order.seed, round);
            let number = (plan.seat % seats.len() as u64) as usize;
            let seat = &mut seats[number];
            if seat.is_full() {
                self.end(seat);
            }
            let begun = Instant::now();
            self.note(&format!("{round}\tbegins\t{}\t{plan:?}", seat.name()));
            let outcome = catch_unwind(AssertUnwindSafe(|| round::run(&plan, seat, place)));
            let (codes, faults) = match &outcome {
                Ok(done) => (done.codes(), done.faults.clone()),
                Err(cause) => (String::new(), vec![message_of(cause.as_ref()).to_owned()]),
            };
            let milliseconds = begun.elapsed().as_millis();
            self.note(&format!("{round}\t{milliseconds} ms\t{codes}"));
            if !faults.is_empty() {
                return self.found(round, &format!("{}\nplan: {plan:#?}", seat.name()), &faults);
            }
            if let Ok(done) = &outcome {
                self.tally().add(&plan, done);
            }
        }
        seats.iter_mut().for_each(|seat| self.end(seat));
    }

    /// Ends the target of a seat, if it has one, and notes how it has changed.
    fn end(&self, seat: &mut Seat) {
        let name = seat.name();
        match catch_unwind(AssertUnwindSafe(|| seat.end())) {
            Ok(Some(ended)) => {
                self.found_in(&name, &ended.faults);
                self.tally().ended.push(ended);
            }
            Ok(None) => {}
            Err(cause) => self.found_in(&name, &[message_of(cause.as_ref()).to_owned()]),
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && Instant::now() < self.order.until
    }

    fn found(&self, round: u64, whose: &str, faults: &[String]) {
        let again = format!("cargo xtask soak 1 --seed {} --first {round} --rounds 1", self.order.seed);
        self.found_in(&format!("round {round}: {whose}\nagain: {again}"), faults);
    }

    /// Records a fault, and ends all lanes.
    fn found_in(&self, whose: &str, faults: &[String]) {
        if !faults.is_empty() {
            let text = format!("{whose}\n  {}", faults.join("\n  "));
            self.note(&format!("FAULT {text}"));
            self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(text);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Checks that nothing of ours is left, whichever lane it came from.
    fn left_in_shared_folders(&self) {
        for folder in place::SHARED {
            // A recording kept because of a full disk is there on purpose: the command has named it.
            let ours = |name: &std::ffi::OsString| {
                let name = name.to_string_lossy();
                name.contains("remora") && !name.contains(".unfinished.")
            };
            let left: Vec<_> = place::names(Path::new(folder)).into_iter().filter(ours).collect();
            if !left.is_empty() {
                self.found_in(&format!("left in {folder}"), &[format!("{left:?}")]);
            }
        }
    }

    fn note(&self, line: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(log, "{line}") {
            eprintln!("cannot write the log: {error}");
        }
    }

    fn progress(&self, begun: Instant) {
        if std::io::stdout().is_terminal() {
            let rounds = self.tally().rounds;
            print!("\r{rounds} rounds, {} s ", begun.elapsed().as_secs());
            // A failed write to the terminal is no reason to end.
            let _ = std::io::stdout().flush();
        }
    }

    fn conclude(&self, log: &Path) -> bool {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let (tally, new_line) = (self.tally(), if std::io::stdout().is_terminal() { "\n" } else { "" });
        println!("{new_line}{}\n{} rounds, {} faults", tally.table(), tally.rounds, faults.len());
        for fault in faults.iter() {
            eprintln!("FAULT {fault}");
        }
        if !faults.is_empty() {
            eprintln!("the log: {}", log.display());
        }
        faults.is_empty()
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
