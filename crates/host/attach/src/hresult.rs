//! The error codes of a runtime, their meanings, and the remedies.
//!
//! A code missing from the table is reported as its number, without a guess.
//! The exception are codes of the WIN32 facility: operating system errors translated by the runtime.

use crate::remedy::ProfilerFix as Fix;
use crate::remedy::Remedy::{
    self, AttachNotificationOnly, CheckProcess, FixProfiler, FreeMemory, ReadMessages, RecordFromStart,
    RecordWithoutRoots, Report, TryAgain, TryAgainWhenItRuns, UseCoreClr, UseEventPipe, UseNewerRuntime,
};

/// A result code of the runtime; negative as a signed number means failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HResult(pub u32);

/// A code's name, meaning and remedies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// The code.
    pub code: HResult,
    /// Its name in the runtime's headers.
    pub name: &'static str,
    /// The cause.
    pub meaning: &'static str,
    /// The remedies.
    pub remedies: &'static [Remedy],
}

impl HResult {
    /// No reason is given. Of a runtime that is shutting down, also this one.
    pub const FAIL: HResult = HResult(0x8000_4005);
    /// The target was given no memory, or no thread.
    pub const OUT_OF_MEMORY: HResult = HResult(0x8007_000E);
    /// The runtime itself got no thread.
    pub const NOT_ENOUGH_MEMORY: HResult = HResult(0x8007_0008);
    /// The diagnostics server could not read the request.
    pub const BAD_ENCODING: HResult = HResult(0x8013_1384);
    /// The diagnostics server does not know the command.
    pub const UNKNOWN_COMMAND: HResult = HResult(0x8013_1385);
    /// The runtime was built without this feature.
    pub const NOT_SUPPORTED: HResult = HResult(0x8013_1515);
    /// The runtime has not started yet.
    pub const NOT_YET_AVAILABLE: HResult = HResult(0x8013_135B);
    /// The profiling interface is not initialised, or the process is shutting down.
    pub const RUNTIME_UNINITIALIZED: HResult = HResult(0x8013_1371);
    /// The library could not be loaded.
    pub const MODULE_NOT_FOUND: HResult = HResult(0x8007_007E);
    /// Another main profiler is loaded; the runtime has one slot.
    pub const PROFILER_ALREADY_ACTIVE: HResult = HResult(0x8013_136A);

    /// Whether it means failure.
    pub fn is_failure(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }

    /// Its entry in the table.
    pub fn meaning(self) -> Option<&'static Meaning> {
        TABLE.iter().find(|row| row.code == self)
    }
}

impl std::fmt::Display for HResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.meaning() {
            Some(row) => write!(f, "0x{:08X} {}: {}", self.0, row.name, row.meaning),
            None if self.0 >> 16 == 0x8007 => {
                write!(f, "0x{:08X}: the runtime met operating system error {}", self.0, self.0 & 0xFFFF)
            }
            None => write!(f, "0x{:08X}: a code that this version does not know", self.0),
        }
    }
}

/// All codes with a known meaning.
pub fn table() -> &'static [Meaning] {
    TABLE
}

const fn row(code: u32, name: &'static str, meaning: &'static str, remedies: &'static [Remedy]) -> Meaning {
    Meaning { code: HResult(code), name, meaning, remedies }
}

static TABLE: &[Meaning] = &[
    row(0x8013_1384, "DS_IPC_E_BAD_ENCODING", "the runtime could not read the request", &[Report]),
    row(0x8013_1385, "DS_IPC_E_UNKNOWN_COMMAND", "this runtime is too old for the request", &[UseNewerRuntime]),
    row(0x8013_1386, "DS_IPC_E_UNKNOWN_MAGIC", "the runtime does not know this version of the protocol", &[Report]),
    row(
        0x8013_1515,
        "CORDIAGIPC_E_NOTSUPPORTED",
        "the runtime has no profiling interface, as Mono and NativeAOT have none",
        &[UseEventPipe, UseCoreClr],
    ),
    row(
        0x8013_135B,
        "CORPROF_E_NOT_YET_AVAILABLE",
        "the runtime has not started yet, or waits to be resumed",
        &[TryAgainWhenItRuns, RecordFromStart],
    ),
    row(
        0x8013_1371,
        "CORPROF_E_RUNTIME_UNINITIALIZED",
        "the runtime is starting up or shutting down",
        &[TryAgainWhenItRuns, RecordFromStart],
    ),
    row(
        0x8013_136A,
        "CORPROF_E_PROFILER_ALREADY_ACTIVE",
        "another profiler holds the runtime's place for a main profiler",
        &[AttachNotificationOnly, UseEventPipe],
    ),
    row(
        0x8013_1368,
        "CORPROF_E_PROFILER_NOT_ATTACHABLE",
        "the profiler does not support attaching, or refused it",
        &[FixProfiler(Fix::Attachable)],
    ),
    row(0x8013_1367, "CORPROF_E_PROFILER_DETACHING", "a profiler is leaving this process", &[TryAgain]),
    row(0x8013_1375, "CORPROF_E_PROFILER_CANCEL_ACTIVATION", "the profiler declined to start", &[ReadMessages]),
    row(
        0x8013_1376,
        "CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE",
        "concurrent collection is on and the profiler asked to watch the heap",
        &[RecordWithoutRoots],
    ),
    row(
        0x8013_1379,
        "CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC",
        "a background collection did not end in time",
        &[TryAgain],
    ),
    row(
        0x8013_136F,
        "CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER",
        "the profiler asked for something that only one loaded at startup may have",
        &[FixProfiler(Fix::LoadAtStartup)],
    ),
    row(
        0x8013_136E,
        "CORPROF_E_CALLBACK3_REQUIRED",
        "the profiler lacks ICorProfilerCallback3",
        &[FixProfiler(Fix::Attachable)],
    ),
    row(
        0x8013_1363,
        "CORPROF_E_UNSUPPORTED_CALL_SEQUENCE",
        "the call came at a moment when it is not allowed",
        &[Report],
    ),
    row(
        0x8007_007E,
        "ERROR_MOD_NOT_FOUND",
        "the target could not load the library: the file is missing or unreadable for it, lies on a noexec mount, needs another libc, or the target may map no more memory (`ulimit -v`)",
        &[CheckProcess],
    ),
    row(0x8007_007F, "ERROR_PROC_NOT_FOUND", "the library has no DllGetClassObject", &[FixProfiler(Fix::Path)]),
    row(0x8007_0002, "ERROR_FILE_NOT_FOUND", "the target does not see the library's file", &[CheckProcess]),
    row(0x8007_0003, "ERROR_PATH_NOT_FOUND", "the target does not see the library's directory", &[CheckProcess]),
    row(0x8007_0005, "E_ACCESSDENIED", "the target may not read the library", &[CheckProcess]),
    row(0x8007_000B, "ERROR_BAD_FORMAT", "the library is for another architecture", &[FixProfiler(Fix::Architecture)]),
    row(
        0x8007_00C1,
        "ERROR_BAD_EXE_FORMAT",
        "the library is for another architecture or damaged",
        &[FixProfiler(Fix::Architecture)],
    ),
    row(0x8007_0008, "ERROR_NOT_ENOUGH_MEMORY", "the target was given no memory for it", &[FreeMemory]),
    row(0x8007_000E, "E_OUTOFMEMORY", "the target was given no memory for it", &[FreeMemory]),
    row(0x8007_0057, "E_INVALIDARG", "the runtime did not accept the request's values", &[Report]),
    row(0x8007_05B4, "ERROR_TIMEOUT", "the runtime gave up waiting", &[TryAgain]),
    row(0x8000_4001, "E_NOTIMPL", "the runtime or the profiler does not implement this", &[UseNewerRuntime]),
    row(
        0x8000_4002,
        "E_NOINTERFACE",
        "the profiler lacks an interface that the runtime needs",
        &[FixProfiler(Fix::Runtime)],
    ),
    row(0x8000_4003, "E_POINTER", "a pointer was null", &[Report]),
    row(0x8000_4005, "E_FAIL", "the runtime or the profiler failed without saying why", &[ReadMessages, CheckProcess]),
    row(
        0x8004_0111,
        "CLASS_E_CLASSNOTAVAILABLE",
        "the library does not know the class that was asked for",
        &[FixProfiler(Fix::OwnClassId)],
    ),
    row(0x8004_0154, "REGDB_E_CLASSNOTREG", "the class is not known", &[FixProfiler(Fix::OwnClassId)]),
];
