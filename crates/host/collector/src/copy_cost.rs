//! What the copy of the process costs while it walks: the pages of which there are two by now, looked at from outside.

use remora_attach::Process;
use std::time::{Duration, Instant};

/// How the copy calls itself (`crates/target/agent/src/snapshot.rs`).
const NAME: &str = "remora-heap";
/// Least time between two looks.
const LEAST: Duration = Duration::from_millis(100);
/// A look walks the copy's page tables: between two of them is so many times as long as the last one took.
const SHARE: u32 = 20;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct CopyCost {
    process: Process,
    /// The copy, as the process sees it.
    namespaced_pid: Option<u32>,
    next: Instant,
    most: Option<u64>,
}

impl CopyCost {
    pub(crate) fn of(process: &Process) -> CopyCost {
        CopyCost { process: process.clone(), namespaced_pid: None, next: Instant::now(), most: None }
    }

    /// There is a copy; its id as the process sees it.
    pub(crate) fn begins(&mut self, namespaced_pid: u32) {
        self.namespaced_pid = Some(namespaced_pid);
        // It has written to nothing yet.
        self.next = Instant::now() + LEAST;
    }

    /// Looks, if it is time to.
    pub(crate) fn look(&mut self) {
        let begun = Instant::now();
        let Some(namespaced_pid) = self.namespaced_pid.filter(|_| begun >= self.next) else { return };
        // Looked for each time: it may not have its name yet, and may have ended.
        let pid = self.process.child(NAME, namespaced_pid);
        let now = pid.and_then(|pid| self.process.private_memory(pid));
        self.most = self.most.max(now);
        self.next = Instant::now() + LEAST.max(begun.elapsed() * SHARE);
    }

    /// The most that was seen, bytes; `None` if nothing could be seen.
    pub(crate) fn most(&self) -> Option<u64> {
        self.most
    }
}
