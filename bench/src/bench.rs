//! What every row needs: the library, a runtime, how much to repeat, and the account of all recordings.

use crate::Outcome;
use crate::account::Account;
use crate::arguments::Arguments;
use crate::process;
use remora_e2e::{Runtime, Target};
use std::path::PathBuf;
use std::time::Duration;

/// One run.
pub struct Bench {
    /// The library that is loaded into targets.
    pub library: Vec<u8>,
    /// What targets run on.
    pub runtime: Runtime,
    /// How much is repeated.
    pub sizes: Sizes,
    /// What all recordings took, delivered, lost and left.
    pub account: Account,
}

/// How often and how long things are done.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Attaches in fresh processes, and again in one.
    pub attaches: usize,
    /// Blocks of seconds with and without a recording.
    pub blocks: usize,
    /// Every how many blocks the peer takes its turn.
    pub peer_every: usize,
    /// The same with 500 threads.
    pub blocks_of_500: usize,
    /// Samples of a truth.
    pub samples: u64,
    /// Samples of a program of bursts. After `burst_seconds`, fewer must do.
    pub burst_samples: u64,
    /// See [`Sizes::burst_samples`].
    pub burst_seconds: u32,
    /// How long waiting threads are recorded, and how often.
    pub parked: Duration,
    /// See [`Sizes::parked`].
    pub rounds_of_parked: usize,
    /// Paired seconds of a server under load, for each event.
    pub blocks_of_server: usize,
    /// Paired seconds of the cost of a sample, for each frequency and number of threads.
    pub blocks_of_cost: usize,
    /// How long each frequency is measured.
    pub rate: Duration,
    /// How long the peer records for a truth.
    pub peer_of_truth: Duration,
    /// How long each test program is recorded for its names.
    pub names: Duration,
    /// How long the large programs are.
    pub large: Duration,
    /// Fresh processes whose throughput is compared before and after.
    pub befores: usize,
    /// Attach-detach rounds in one process.
    pub rounds: usize,
    /// Recorders that are killed, for each event.
    pub kills: usize,
    /// Recordings whose memory is measured.
    pub memories: usize,
    /// Schedules that are explored in the model.
    pub schedules: u64,
    /// Heap snapshots, heap dumps and plain collections in turns, and how many objects there are.
    pub snapshots: usize,
    /// See [`Sizes::snapshots`].
    pub snapshot_objects: u64,
    /// Objects of a large heap.
    pub large_heap: u64,
    /// Snapshots of one server.
    pub snapshots_in_a_row: usize,
    /// Objects of the snapshot that is shown in the browser, and how often it is opened.
    pub view_objects: u64,
    /// See [`Sizes::view_objects`].
    pub views: usize,
}

const FULL: Sizes = Sizes {
    attaches: 20,
    blocks: 160,
    peer_every: 4,
    blocks_of_500: 20,
    samples: 8_050,
    burst_samples: 8_000,
    burst_seconds: 16,
    parked: Duration::from_secs(10),
    rounds_of_parked: 3,
    blocks_of_server: 40,
    blocks_of_cost: 24,
    rate: Duration::from_secs(5),
    peer_of_truth: Duration::from_secs(4),
    names: Duration::from_secs(1),
    large: Duration::from_secs(8),
    befores: 8,
    rounds: 200,
    kills: 10,
    memories: 3,
    schedules: 200_000,
    snapshots: 5,
    snapshot_objects: 8_000_000,
    large_heap: 50_000_000,
    snapshots_in_a_row: 100,
    view_objects: 10_000_000,
    views: 5,
};

const QUICK: Sizes = Sizes {
    attaches: 5,
    blocks: 10,
    peer_every: 2,
    blocks_of_500: 4,
    samples: 1_000,
    burst_samples: 1_500,
    burst_seconds: 4,
    parked: Duration::from_secs(3),
    rounds_of_parked: 1,
    blocks_of_server: 5,
    blocks_of_cost: 4,
    rate: Duration::from_secs(2),
    peer_of_truth: Duration::from_secs(2),
    names: Duration::from_millis(500),
    large: Duration::from_secs(3),
    befores: 3,
    rounds: 40,
    kills: 3,
    memories: 1,
    schedules: 20_000,
    snapshots: 1,
    snapshot_objects: 1_000_000,
    large_heap: 2_000_000,
    snapshots_in_a_row: 5,
    view_objects: 1_000_000,
    views: 2,
};

/// The variable that names the library.
pub const LIBRARY: &str = "REMORA_BENCH_LIBRARY";

impl Bench {
    /// Finds everything.
    pub fn prepare(arguments: &Arguments) -> Outcome<Bench> {
        Ok(Bench {
            library: library()?,
            runtime: Runtime::major_is(arguments.runtime),
            sizes: if arguments.quick { QUICK } else { FULL },
            account: Account::default(),
        })
    }

    /// A target of `tests/targets` on the runtime.
    pub fn start(&self, program: &str, arguments: &[&str]) -> Target {
        Target::start(&self.runtime, program, arguments)
    }

    /// Where and on what this is.
    pub fn head(&self, arguments: &Arguments) -> Vec<String> {
        let quick = "a quick run: fewer repetitions than the bars ask for, good only for seeing that it works";
        let mut head = vec![
            format!("{}; {}", process::machine(), process::load()),
            format!("{}; library of {} KiB", self.runtime.name(), self.library.len() / 1024),
        ];
        head.extend(arguments.quick.then(|| quick.to_owned()));
        head
    }
}

/// The library that `cargo xtask bench` has built.
pub fn library() -> Outcome<Vec<u8>> {
    Ok(std::fs::read(path(LIBRARY)?)?)
}

/// A file or folder that `cargo xtask bench` names.
pub fn path(variable: &str) -> Outcome<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    found.ok_or_else(|| format!("{variable} is not set: run this by `cargo xtask bench`").into())
}
