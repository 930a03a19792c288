//! Shared by all rows: the library, a runtime, the number of repetitions, and the totals of all recordings.

use crate::Outcome;
use crate::account::Account;
use crate::process;
use remora_e2e::{Runtime, Target};
use std::path::PathBuf;
use std::time::Duration;

/// One run.
pub struct Bench {
    /// The library for targets.
    pub library: Vec<u8>,
    /// The runtime of targets.
    pub runtime: Runtime,
    /// Whether this is a quick run.
    pub quick: bool,
    /// The totals of all recordings.
    pub account: Account,
}

/// An amount: in a full run, and in a quick one.
#[derive(Debug, Clone, Copy)]
pub struct Amount<T>(T, T);

/// Attaches in fresh processes, and again in one.
pub const ATTACHES: Amount<usize> = Amount(20, 5);
/// Starts of a program with and without the agent.
pub const STARTS: Amount<usize> = Amount(40, 5);
/// Turns of calls with and without a trace, and calls in each.
pub const TURNS: Amount<usize> = Amount(20, 4);
/// See [`TURNS`].
pub const TRACED_CALLS: Amount<u64> = Amount(5_000_000, 1_000_000);
/// Seconds of calls at a rate, all of which are recorded.
pub const PACED_SECONDS: Amount<u64> = Amount(60, 5);
/// Blocks of seconds with and without a recording.
pub const BLOCKS: Amount<usize> = Amount(160, 10);
/// The peer records in every n-th block.
pub const PEER_EVERY: Amount<usize> = Amount(4, 2);
/// The same with 500 threads.
pub const BLOCKS_OF_500: Amount<usize> = Amount(20, 4);
/// Samples for a program with known shares.
pub const SAMPLES: Amount<u64> = Amount(8_050, 1_000);
/// Samples of a program with bursts. After [`BURST_SECONDS`], fewer are enough.
pub const BURST_SAMPLES: Amount<u64> = Amount(8_000, 1_500);
/// See [`BURST_SAMPLES`].
pub const BURST_SECONDS: Amount<u32> = Amount(16, 4);
/// Duration of a recording of waiting threads, and number of rounds.
pub const PARKED: Amount<Duration> = Amount(Duration::from_secs(10), Duration::from_secs(3));
/// See [`PARKED`].
pub const ROUNDS_OF_PARKED: Amount<usize> = Amount(3, 1);
/// Paired seconds of a server under load, for each event.
pub const BLOCKS_OF_SERVER: Amount<usize> = Amount(40, 5);
/// Paired seconds of the cost of a sample, for each frequency and number of threads.
pub const BLOCKS_OF_COST: Amount<usize> = Amount(24, 4);
/// Duration of the measurement for each frequency.
pub const RATE: Amount<Duration> = Amount(Duration::from_secs(5), Duration::from_secs(2));
/// Duration of the peer's recording for a program with known shares.
pub const PEER_OF_TRUTH: Amount<Duration> = Amount(Duration::from_secs(4), Duration::from_secs(2));
/// Duration of a recording of each test program for method names.
pub const NAMES: Amount<Duration> = Amount(Duration::from_secs(1), Duration::from_millis(500));
/// The same for the large programs.
pub const LARGE: Amount<Duration> = Amount(Duration::from_secs(8), Duration::from_secs(3));
/// Fresh processes whose throughput is compared before and after.
pub const BEFORES: Amount<usize> = Amount(8, 3);
/// Attach-detach rounds in one process.
pub const ROUNDS: Amount<usize> = Amount(200, 40);
/// Recorders that are killed, for each event.
pub const KILLS: Amount<usize> = Amount(10, 3);
/// Recordings whose memory is measured.
pub const MEMORIES: Amount<usize> = Amount(3, 1);
/// Schedules explored in the runtime model.
pub const SCHEDULES: Amount<u64> = Amount(200_000, 20_000);
/// Turns of heap snapshot, heap dump and plain GC, and the number of objects.
pub const SNAPSHOTS: Amount<usize> = Amount(5, 1);
/// See [`SNAPSHOTS`].
pub const SNAPSHOT_OBJECTS: Amount<u64> = Amount(8_000_000, 1_000_000);
/// Objects of a large heap.
pub const LARGE_HEAP: Amount<u64> = Amount(50_000_000, 2_000_000);
/// Snapshots of one server.
pub const SNAPSHOTS_IN_A_ROW: Amount<usize> = Amount(100, 5);
/// Objects of the snapshot in the browser, and how often it is opened.
pub const VIEW_OBJECTS: Amount<u64> = Amount(10_000_000, 1_000_000);
/// See [`VIEW_OBJECTS`].
pub const VIEWS: Amount<usize> = Amount(5, 2);
/// Stacks of a recording whose page has 20 MB.
pub const PAGE_STACKS: Amount<u64> = Amount(192_000, 10_000);

/// The variable with the library's path.
pub const LIBRARY: &str = "REMORA_BENCH_LIBRARY";

impl Bench {
    /// The amount for this run.
    pub fn amount<T: Copy>(&self, amount: Amount<T>) -> T {
        if self.quick { amount.1 } else { amount.0 }
    }

    /// A target of `tests/targets` on the runtime.
    pub fn start(&self, program: &str, arguments: &[&str]) -> Target {
        Target::start(&self.runtime, program, arguments)
    }

    /// Lines about the machine and the run.
    pub fn head(&self) -> Vec<String> {
        let quick = "a quick run: fewer repetitions than the bars ask for, good only for seeing that it works";
        let mut head = vec![
            format!("{}; {}", process::machine(), process::load()),
            format!("{}; library of {} KiB", self.runtime.name(), self.library.len() / 1024),
        ];
        head.extend(self.quick.then(|| quick.to_owned()));
        head
    }
}

/// The library that `cargo xtask bench` built.
pub fn library() -> Outcome<Vec<u8>> {
    Ok(std::fs::read(path(LIBRARY)?)?)
}

/// A file or folder named by `cargo xtask bench`.
pub fn path(variable: &str) -> Outcome<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    found.ok_or_else(|| format!("{variable} is not set: run this by `cargo xtask bench`").into())
}
