//! What the copy of the process costs while it walks: the pages of which there are two by now, looked at from outside.

use remora_trigger::Process;
use std::time::{Duration, Instant};

/// How the copy calls itself (`crates/agent/src/snapshot.rs`).
const NAME: &str = "remora-heap";
/// Least time between two looks.
const LEAST: Duration = Duration::from_millis(100);
/// A look walks the copy's page tables: between two of them is so many times as long as the last one took.
const SHARE: u32 = 20;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct CopyCost {
    process: Process,
    pid: Option<u32>,
    next: Instant,
    most: Option<u64>,
}

impl CopyCost {
    pub(crate) fn of(process: &Process) -> CopyCost {
        CopyCost { process: process.clone(), pid: None, next: Instant::now(), most: None }
    }

    /// There is a copy; its id as the process sees it.
    pub(crate) fn begins(&mut self, namespaced_pid: u32) {
        self.pid = self.process.child(NAME, namespaced_pid);
        self.next = Instant::now();
    }

    /// Looks, if it is time to.
    pub(crate) fn look(&mut self) {
        let begun = Instant::now();
        let Some(pid) = self.pid.filter(|_| begun >= self.next) else { return };
        match self.process.private_memory(pid) {
            Some(bytes) => self.most = self.most.max(Some(bytes)),
            // It has ended, or is not to be looked at.
            None => self.pid = None,
        }
        self.next = Instant::now() + LEAST.max(begun.elapsed() * SHARE);
    }

    /// The most that was seen, bytes; `None` if nothing could be seen.
    pub(crate) fn most(&self) -> Option<u64> {
        self.most
    }
}
