//! The clauses that the laboratory checks, and its verdicts.

use serde::{Deserialize, Serialize};

/// How the library is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadMode {
    /// It is attached: InitializeForAttach.
    #[default]
    Attach,
    /// The runtime loads it before the program starts: Initialize.
    FromStart,
}

impl LoadMode {
    /// The clause that every profiler exercises that is loaded.
    pub fn clause_of_load(self) -> &'static str {
        match self {
            LoadMode::Attach => "ATT-20",
            LoadMode::FromStart => "ATT-17",
        }
    }

    /// The callback with which it begins.
    pub fn first_callback(self) -> &'static str {
        match self {
            LoadMode::Attach => "InitializeForAttach",
            LoadMode::FromStart => "Initialize",
        }
    }
}

/// The verdict on a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The profiler exercised the clause and never broke it.
    Honoured,
    /// The profiler broke it.
    Broken,
    /// The profiler did otherwise, which is harmless in a real process.
    Remark,
    /// The profiler never exercised it.
    NotExercised,
}

/// A verdict in its machine-readable form. A field keeps its name and its sense; new fields may be added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The clause, by its id in the contract.
    pub clause: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The number of runs that broke it in this way.
    pub runs: Option<u64>,
    /// The first of them.
    pub seed: Option<u64>,
    /// The runtime of the first.
    pub runtime_version: Option<String>,
    /// The callback or runtime call that broke it.
    pub callback: Option<String>,
    /// The fault; for a clause that was not broken, its requirement.
    pub message: String,
    /// It was only found where the laboratory delayed a thread for so long, milliseconds of the runtime's time: the shortest of these delays.
    pub preemption_ms: Option<u64>,
    /// If the process died of it, or hung: one such run.
    pub crash: Option<CrashedRun>,
}

impl Finding {
    /// A finding of no particular run.
    pub(super) fn of(clause: &str, verdict: Verdict, message: &str) -> Finding {
        let (clause, message) = (clause.to_owned(), message.to_owned());
        Finding {
            clause,
            verdict,
            message,
            runs: None,
            seed: None,
            runtime_version: None,
            callback: None,
            preemption_ms: None,
            crash: None,
        }
    }
}

/// A run that died, or was ended, in the machine-readable form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CrashedRun {
    /// The run.
    pub seed: u64,
    /// Its runtime.
    pub runtime_version: String,
    /// Where it crashed, innermost frame first: a file, and the offset in it. Empty if it did not crash.
    pub backtrace: Vec<String>,
    /// The last lines of its standard error.
    pub stderr: String,
}

/// Something about the profiler that no clause is about, in the machine-readable form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// What it did.
    pub message: String,
    /// The number of runs in which it did.
    pub runs: u64,
}

/// A call that the model answered with an error, in the machine-readable form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedCall {
    /// The method of Info.
    pub call: String,
    /// The HRESULT: `0x80070057`.
    pub code: String,
    /// Its name, if it has one: `E_INVALIDARG`.
    pub name: Option<&'static str>,
    /// The number of runs with such an answer.
    pub runs: u64,
}

/// A clause that the laboratory checks.
#[derive(Debug, Clone, Copy)]
pub struct Clause {
    /// Its id in the contract.
    pub id: &'static str,
    /// The condition for honouring it.
    pub honoured: &'static str,
    /// The profiler's action that exercises it.
    pub exercise: &'static str,
}

/// Clauses about an attach. The others are also checked from startup.
const ONLY_ATTACHED: [&str; 7] = ["ATT-09", "ATT-10", "ATT-12", "ATT-20", "CAT-02", "DET-12", "DET-18"];
/// Clauses about startup.
const ONLY_FROM_START: [&str; 1] = ["ATT-17"];

/// How the clauses about a detach are exercised.
const DETACH_ASKED: &str = "detach must be asked for";
const ASKED_ON_OWN_THREAD: &str = "a thread of the profiler's own must ask for the detach";
const DETACHED: &str = "detach must be asked for, and come to its end";
const DETACHED_TWICE: &str = "detach must be asked for, and the library be attached again";

impl Clause {
    /// Whether it is checked for a library that is loaded in this way.
    pub fn is_checked(&self, mode: LoadMode) -> bool {
        match mode {
            LoadMode::Attach => !ONLY_FROM_START.contains(&self.id),
            LoadMode::FromStart => !ONLY_ATTACHED.contains(&self.id),
        }
    }

    /// Whether only a detach request exercises it.
    pub fn needs_detach(&self) -> bool {
        [DETACH_ASKED, ASKED_ON_OWN_THREAD, DETACHED, DETACHED_TWICE].contains(&self.exercise)
    }
}

const fn clause(id: &'static str, honoured: &'static str, exercise: &'static str) -> Clause {
    Clause { id, honoured, exercise }
}

/// All clauses.
pub const CLAUSES: [Clause; 23] = [
    clause("ATT-06", "the library is opened and mapped", "the library must be loaded"),
    clause("ATT-09", "the object has ICorProfilerCallback3", "the attach must not be refused"),
    clause("ATT-10", "a profiler that refuses its attach is released and unloaded", "InitializeForAttach must refuse"),
    clause("ATT-12", "only flags that it may set are asked for", "SetEventMask must be called"),
    clause("ATT-17", "class factory, object and Initialize all succeed", "Initialize must succeed"),
    clause(
        "ATT-20",
        "class factory, object, ICorProfilerCallback3, InitializeForAttach and ProfilerAttachComplete all succeed",
        "the attach must succeed",
    ),
    clause("CAT-02", "nothing is enumerated before ProfilerAttachComplete", "something must be enumerated"),
    clause("CAT-09", "no id is used after its unload", "the runtime must be asked about a module or function"),
    clause("DET-02", "nothing is set that forbids the detach which is asked for", DETACH_ASKED),
    clause("DET-04", "every other way in is closed before detach is asked for", DETACH_ASKED),
    clause("DET-05", "a thread that asks holds a reference of its own on the library", ASKED_ON_OWN_THREAD),
    clause("DET-07", "every callback returns", "a callback must have returned"),
    clause("DET-10", "the last Release frees the object", DETACHED),
    clause("DET-12", "it can be attached again after it has gone", DETACHED_TWICE),
    clause(
        "DET-14",
        "after the unload nothing is left: library, threads, timers, signal handlers, children, descriptors",
        DETACHED,
    ),
    clause("DET-17", "the process exits while it is attached", "it must still be attached when the process exits"),
    clause(
        "DET-18",
        "detach is asked for only where the runtime survives it",
        "it must be only notified (LoadAsNotificationOnly), on a runtime since 6",
    ),
    clause("DET-20", "no call into the runtime after the detach was accepted", DETACH_ASKED),
    clause("DET-21", "ProfilerDetachSucceeded returns soon", DETACHED),
    clause(
        "DET-22",
        "no handle, provider, variable of SetEnvironmentVariable or applied metadata is left: no detach takes them back",
        DETACHED,
    ),
    clause(
        "GCH-05",
        "MONITOR_GC is asked for where it is granted, or the refusal is looked at",
        "MONITOR_GC must be asked for",
    ),
    clause("MOD-01", "no run crashes, exits by itself or corrupts the process", "a run must come to its end"),
    clause(
        "RJT-01",
        "each new body is whole, is given once and inside GetReJITParameters, and is requested where that is allowed",
        "ReJIT must be enabled (COR_PRF_ENABLE_REJIT), and a method be given a body",
    ),
];

/// The row of a clause.
pub fn known(id: &str) -> Option<&'static Clause> {
    CLAUSES.iter().find(|clause| clause.id == id)
}
