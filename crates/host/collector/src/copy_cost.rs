//! Measures from outside what the forked copy costs while it walks the heap: its private memory.

use remora_attach::Process;
use std::time::{Duration, Instant};

/// The process name of the forked copy (`crates/target/agent/src/snapshot.rs`).
const NAME: &str = "remora-heap";
/// Minimum time between two measurements.
const LEAST: Duration = Duration::from_millis(100);
/// A measurement walks the copy's page tables. The pause after it is this many times as long.
const SHARE: u32 = 20;

/// The measurements of one snapshot.
#[derive(Debug)]
pub(crate) struct CopyCost {
    process: Process,
    /// Process id of the copy in the target's namespace.
    namespaced_pid: Option<u32>,
    next: Instant,
    most: Option<u64>,
    is_hidden: bool,
}

impl CopyCost {
    pub(crate) fn of(process: &Process) -> CopyCost {
        CopyCost { process: process.clone(), namespaced_pid: None, next: Instant::now(), most: None, is_hidden: false }
    }

    /// A copy with this process id, in the target's namespace, has started.
    pub(crate) fn begins(&mut self, namespaced_pid: u32) {
        self.namespaced_pid = Some(namespaced_pid);
        // It has not written to any page yet.
        self.next = Instant::now() + LEAST;
    }

    /// Measures, if the next measurement is due.
    pub(crate) fn look(&mut self) {
        let begun = Instant::now();
        let Some(namespaced_pid) = self.namespaced_pid.filter(|_| begun >= self.next) else { return };
        // Searched each time: the copy may not have its name yet, or may have ended.
        let copy = || self.process.child(NAME, namespaced_pid);
        if let Some(pid) = copy() {
            let now = self.process.private_memory(pid);
            self.is_hidden |= now.is_none() && copy() == Some(pid);
            self.most = self.most.max(now);
        }
        self.next = Instant::now() + LEAST.max(begun.elapsed() * SHARE);
    }

    /// A note, if the copy could not be measured though it existed.
    pub(crate) fn note(&self) -> Option<String> {
        let is_unknown = self.most.is_none() && self.is_hidden;
        is_unknown.then(|| {
            "what the copy of the process cost could not be read, so no limit of memory applied to it (its core size limit is 0: \
             then only root can read it)"
                .to_owned()
        })
    }

    /// The maximum so far, bytes; `None` without a successful measurement.
    pub(crate) fn most(&self) -> Option<u64> {
        self.most
    }
}
