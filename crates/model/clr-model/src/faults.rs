//! A profiler's faults: actions that would crash or corrupt a real process (contract MOD-01), and duties that it neglected.
//!
//! The model answers like the runtime as far as possible, so that the schedule continues, and records the finding.

use crate::lab::monitor;
use crate::mutation;
use crate::schedule;
use std::any::Any;
use std::sync::Mutex;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The clause that it breaks.
    pub clause: &'static str,
    /// Its description.
    pub what: String,
    /// The virtual time, nanoseconds.
    pub time: u64,
}

/// Records findings.
#[derive(Debug, Default)]
pub struct Faults {
    findings: Mutex<Vec<Finding>>,
}

impl Faults {
    /// Records a finding once.
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

    /// Records a panic of the model itself.
    pub fn model_panicked(&self, slot: &str, payload: &(dyn Any + Send)) {
        self.report("MODEL", format!("the model panicked in {slot}: {}", schedule::in_words(payload)));
    }

    /// All findings in order.
    pub fn findings(&self) -> Vec<Finding> {
        self.findings.lock().expect("no panic while locked").clone()
    }
}
