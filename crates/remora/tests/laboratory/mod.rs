//! Runs the laboratory on profilers with a known fault, and reads its verdicts.

use crate::command::{Directory, Ran, remora};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Runs of each test: one for each kind of profiler life.
pub const SEEDS: &str = "4";

/// The result for one library: exit status and findings.
pub struct LabResult {
    pub code: u8,
    pub findings: Vec<Value>,
    pub runs: u64,
    pub left_out: u64,
    /// Why the laboratory could not check, if it failed.
    pub stderr: String,
}

impl LabResult {
    pub fn of(ran: Ran) -> LabResult {
        let shown: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        let count = |field: &str| shown[field].as_u64().unwrap_or_else(|| panic!("no number in {field}"));
        let findings = shown["findings"].as_array().expect("a list").clone();
        LabResult { code: ran.code, findings, runs: count("runs"), left_out: count("left_out"), stderr: ran.stderr }
    }

    /// Clause and callback of every violation.
    pub fn broken(&self) -> Vec<(&str, &str)> {
        let broken = self.findings.iter().filter(|finding| finding["verdict"] == "broken");
        broken.map(|finding| (text(finding, "clause"), text(finding, "callback"))).collect()
    }

    pub fn verdict(&self, clause: &str) -> &str {
        let of_clause = self.findings.iter().find(|finding| finding["clause"] == clause);
        text(of_clause.unwrap_or_else(|| panic!("no verdict on {clause}")), "verdict")
    }

    /// Only this clause is broken, at least once in this callback.
    pub fn breaks(&self, clause: &str, callback: &str) -> Result<(), String> {
        let is_found = self.broken().contains(&(clause, callback));
        self.right_if(is_found && self.broken().iter().all(|(broken, _)| *broken == clause))
    }

    /// What the laboratory said, unless it is what was expected of a broken profiler.
    pub fn right_if(&self, is_expected: bool) -> Result<(), String> {
        let said = || format!("exit status {}: {:#?}\n{}", self.code, self.findings, self.stderr);
        (is_expected && self.code == 1).then_some(()).ok_or_else(said)
    }

    /// It was open at the detach request, and still after the unload.
    pub fn leaves(&self, what: &str) -> Result<(), String> {
        let said = |clause: &str| {
            let of_clause = self.findings.iter().filter(|finding| finding["clause"] == clause);
            of_clause
                .filter(|finding| finding["verdict"] == "broken")
                .all(|finding| text(finding, "message").contains(what))
        };
        let is_both = self.broken() == [("DET-04", "ModuleUnloadFinished"), ("DET-14", "")];
        let is_one = |finding: &Value| text(finding, "message").ends_with("; it is what DET-04 names");
        let is_called_one = self.findings.iter().any(|finding| finding["clause"] == "DET-14" && is_one(finding));
        self.right_if(is_both && said("DET-04") && said("DET-14") && is_called_one)
    }

    #[track_caller]
    pub fn breaks_only(&self, clauses: &[&str]) {
        let broken: BTreeSet<&str> = self.broken().into_iter().map(|(clause, _)| clause).collect();
        assert_eq!(broken, clauses.iter().copied().collect(), "{:#?}", self.findings);
        assert_eq!(self.code, 1, "{}", self.stderr);
    }

    /// Every run took place, whatever the results of earlier runs.
    #[track_caller]
    pub fn made_all(&self, runs: u64) {
        assert_eq!((self.runs, self.left_out), (runs, 0));
    }

    #[track_caller]
    pub fn is_clean(&self) {
        assert_eq!(self.broken(), [], "{:#?}", self.findings);
        assert_eq!(self.code, 0, "{}", self.stderr);
    }
}

pub fn text<'a>(finding: &'a Value, field: &str) -> &'a str {
    finding[field].as_str().unwrap_or_default()
}

pub fn run_lab(library: &str, more: &[&str]) -> LabResult {
    let args = [&["lab", library, "--seeds", SEEDS, "--json"], more].concat();
    LabResult::of(remora(args))
}

/// The verdicts on a profiler with one fault.
pub fn run_fault(fault: &str) -> LabResult {
    run_fault_with(fault, &["--seeds", SEEDS])
}

pub fn run_fault_with(fault: &str, seeds: &[&str]) -> LabResult {
    let folder = Directory::new();
    let library = folder.path(&format!("{fault}.so"));
    std::fs::copy(broken_profilers(), &library).expect("copied");
    LabResult::of(remora([&["lab", &library, "--json", "--runtime-version", "core8"], seeds].concat()))
}

/// Cargo puts the library beside the programs that depend on it.
pub fn broken_profilers() -> PathBuf {
    let this = std::env::current_exe().expect("this program");
    let beside = this.parent().expect("a folder").join("libremora_broken_profilers.so");
    assert!(beside.exists(), "{} was not built", beside.display());
    beside
}
