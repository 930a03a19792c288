//! What a profiler did that would have crashed or corrupted a real process (contract MOD-01), and what it owed and did not do.
//!
//! The model answers as far as the runtime would, so that the schedule goes on, and writes the finding down.

use crate::lab::monitor;
use crate::mutation;
use crate::schedule;
use std::sync::Mutex;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The clause that it breaks.
    pub clause: &'static str,
    /// What happened, in words.
    pub what: String,
    /// The virtual time, nanoseconds.
    pub time: u64,
}

/// Writes findings down.
#[derive(Debug, Default)]
pub struct Faults {
    findings: Mutex<Vec<Finding>>,
}

impl Faults {
    /// Writes one down, once.
    pub fn report(&self, clause: &'static str, what: impl Into<String>) {
        if schedule::is_stopped() || mutation::is("MOD-01") {
            return;
        }
        let what = what.into();
        schedule::note("here the contract is broken", 0);
        monitor::broken(clause, &what);
        let mut findings = self.findings.lock().expect("no panic while locked");
        if !findings.iter().any(|known| known.clause == clause && known.what == what) {
            findings.push(Finding { clause, what, time: schedule::now() });
        }
    }

    /// All of them, in order.
    pub fn findings(&self) -> Vec<Finding> {
        self.findings.lock().expect("no panic while locked").clone()
    }
}
