//! The groups of rows, in the order of measurement.

mod attach;
mod bursts;
mod callers;
mod cost;
mod detach;
mod gcdump;
mod heap;
mod heap_tracking;
mod lowest_cost;
mod memory;
mod method_names;
mod model;
mod page;
mod parked;
mod snapshot_command;
mod snapshot_rounds;
mod snapshots;
mod startup;
mod throughput;
mod tracing;
mod truth;
mod view;
mod walk;

use crate::Outcome;
use crate::bench::Bench;
use crate::statistics::Interval;
use crate::table::Row;

/// Rows that are measured together.
pub struct Group {
    /// Its name for `--only`.
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// Measures them.
    pub run: fn(&mut Bench) -> Outcome<Vec<Row>>,
}

/// All of them.
pub const GROUPS: &[Group] = &[
    Group { name: "attach", about: "attach request to first sample", run: attach::measure },
    Group { name: "startup", about: "the start of a program with the agent", run: startup::measure },
    Group { name: "tracing", about: "calls and allocations that are traced", run: tracing::measure },
    Group { name: "throughput", about: "throughput lost while recording", run: throughput::two_threads },
    Group { name: "truth", about: "known shares, and what the samplers say", run: truth::measure },
    Group { name: "bursts", about: "short bursts between waits, and what the samplers say", run: bursts::measure },
    Group { name: "callers", about: "framework methods, each below a method of its own", run: callers::measure },
    Group { name: "sample-cost", about: "sample cost, and the rate that is reached", run: cost::measure },
    Group { name: "parked", about: "waiting threads, and a server under load", run: parked::measure },
    Group { name: "walk", about: "a stack walk in the signal handler", run: walk::measure },
    Group { name: "names", about: "managed frames named", run: method_names::measure },
    Group { name: "threads", about: "500 threads, sampled in wall-clock time", run: throughput::many_threads },
    Group { name: "detach", about: "before and after, and many rounds", run: detach::measure },
    Group { name: "memory", about: "memory in the target", run: memory::measure },
    Group { name: "model", about: "schedules in the model of the runtime", run: model::measure },
    Group { name: "snapshots", about: "heap snapshots beside heap dumps", run: snapshots::measure },
    Group {
        name: "snapshot-rounds",
        about: "one heap snapshot after the other of a server",
        run: snapshot_rounds::measure,
    },
    Group {
        name: "heap-tracking",
        about: "what a watch of a heap costs, and what roots do",
        run: heap_tracking::measure,
    },
    Group { name: "page", about: "the page of a large recording", run: page::measure },
    Group { name: "heap", about: "graphs of ten million objects", run: heap::measure },
];

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|group| group.name)
}

/// A fraction as a percentage.
fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

/// A mean and its interval as percentages.
fn percents(interval: &Interval) -> String {
    format!("{:.2} % (95 %: {:.2} to {:.2})", interval.mean * 100.0, interval.low * 100.0, interval.high * 100.0)
}
