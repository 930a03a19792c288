//! HRESULTs with their names in the field and a meaning to act on.
//!
//! An unknown code is passed through and shown as a number, never refused: newer runtimes know more codes than this table.

use core::fmt;

/// The result of a call: zero or positive is success, negative a failure.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HResult(pub i32);

/// One line of [`HRESULTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HResultFacts {
    /// The code.
    pub code: HResult,
    /// Its name in the field.
    pub name: &'static str,
    /// Its meaning, as a sentence.
    pub meaning: &'static str,
}

macro_rules! hresults {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        impl HResult {
            $(#[doc = $meaning] pub const $name: HResult = HResult($code as u32 as i32);)*
        }

        /// Every code with a name here, ordered by code.
        pub const HRESULTS: &[HResultFacts] = &[
            $(HResultFacts { code: HResult::$name, name: stringify!($name), meaning: $meaning },)*
        ];
    };
}

hresults! {
    S_OK = 0x0000_0000, "It worked.";
    S_FALSE = 0x0000_0001, "It worked, and there was less, or nothing, to give.";
    E_NOTIMPL = 0x8000_4001, "The runtime does not implement this call here.";
    E_NOINTERFACE = 0x8000_4002, "The object does not have the interface asked for.";
    E_POINTER = 0x8000_4003, "A pointer that must lead somewhere is null.";
    E_ABORT = 0x8000_4004, "The call was broken off.";
    E_FAIL = 0x8000_4005, "It failed, and the runtime does not say why; after attach, often a change of an immutable flag.";
    E_UNEXPECTED = 0x8000_FFFF, "The runtime met a state that it does not expect.";
    CLASS_E_NOAGGREGATION = 0x8004_0110, "The class cannot be part of another object.";
    CLASS_E_CLASSNOTAVAILABLE = 0x8004_0111, "The library does not make objects of this class: the CLSID is not one of its own.";
    REGDB_E_CLASSNOTREG = 0x8004_0154, "The class is not registered: give the library's path, or register it.";
    E_ACCESSDENIED = 0x8007_0005, "Access denied: another user's process, or a file that may not be read.";
    E_HANDLE = 0x8007_0006, "A handle that is not valid.";
    E_OUTOFMEMORY = 0x8007_000E, "The process is out of memory.";
    E_INVALIDARG = 0x8007_0057, "An argument is not allowed; from a notification-only profiler, a flag outside its set.";
    ERROR_MOD_NOT_FOUND = 0x8007_007E, "The library could not be loaded: missing, unreadable, on a noexec mount, or for another libc or architecture.";
    ERROR_BAD_EXE_FORMAT = 0x8007_00C1, "The file is no library, or one for another architecture.";
    ERROR_ENVVAR_NOT_FOUND = 0x8007_00CB, "There is no environment variable of that name.";
    ERROR_TIMEOUT = 0x8007_05B4, "It took too long; it may still succeed later.";
    CLDB_E_RECORD_NOTFOUND = 0x8013_1130, "The metadata has no such record: the class is not nested, say.";
    CORPROF_E_FUNCTION_NOT_COMPILED = 0x8013_1350, "The function has no native code yet.";
    CORPROF_E_DATAINCOMPLETE = 0x8013_1351, "The id is not fully loaded yet.";
    CORPROF_E_FUNCTION_NOT_IL = 0x8013_1354, "The method has no IL.";
    CORPROF_E_NOT_MANAGED_THREAD = 0x8013_1355, "The thread has never run managed code.";
    CORPROF_E_CALL_ONLY_FROM_INIT = 0x8013_1356, "The call works during initialisation only.";
    CORPROF_E_NOT_YET_AVAILABLE = 0x8013_135B, "Not available yet: the runtime is still starting.";
    CORPROF_E_TYPE_IS_PARAMETERIZED = 0x8013_135C, "The type is generic, and this call does not take those.";
    CORPROF_E_FUNCTION_IS_PARAMETERIZED = 0x8013_135D, "The function is generic, and this call does not take those.";
    CORPROF_E_STACKSNAPSHOT_INVALID_TGT_THREAD = 0x8013_135E, "The thread whose stack was asked for cannot be walked.";
    CORPROF_E_STACKSNAPSHOT_UNMANAGED_CTX = 0x8013_135F, "The thread runs native code; the walk has no managed frame to begin at.";
    CORPROF_E_STACKSNAPSHOT_UNSAFE = 0x8013_1360, "Walking the stack here could deadlock or corrupt; try again later.";
    CORPROF_E_STACKSNAPSHOT_ABORTED = 0x8013_1361, "The callback of the walk asked to stop.";
    CORPROF_E_LITERALS_HAVE_NO_ADDRESS = 0x8013_1362, "The static field is a literal and has no address.";
    CORPROF_E_UNSUPPORTED_CALL_SEQUENCE = 0x8013_1363, "The call is not allowed at this moment or on this thread.";
    CORPROF_E_ASYNCHRONOUS_UNSAFE = 0x8013_1364, "An asynchronous call at an unsafe moment, such as while the runtime holds a lock; try again later.";
    CORPROF_E_CLASSID_IS_ARRAY = 0x8013_1365, "The class is an array; this call does not take those.";
    CORPROF_E_CLASSID_IS_COMPOSITE = 0x8013_1366, "The class is made of another one (a pointer or reference); this call does not take those.";
    CORPROF_E_PROFILER_DETACHING = 0x8013_1367, "The profiler is detaching: the runtime takes no more calls from it.";
    CORPROF_E_PROFILER_NOT_ATTACHABLE = 0x8013_1368, "The profiler cannot be attached to a running process.";
    CORPROF_E_UNRECOGNIZED_PIPE_MSG_FORMAT = 0x8013_1369, "The attach message is not in a format that the runtime knows.";
    CORPROF_E_PROFILER_ALREADY_ACTIVE = 0x8013_136A, "Another profiler is already loaded, or every slot is taken.";
    CORPROF_E_PROFILEE_INCOMPATIBLE_WITH_TRIGGER = 0x8013_136B, "The runtime's version does not fit the attaching process.";
    CORPROF_E_IPC_FAILED = 0x8013_136C, "The connection broke during attach; the process is often just exiting.";
    CORPROF_E_PROFILEE_PROCESS_NOT_FOUND = 0x8013_136D, "There is no such process.";
    CORPROF_E_CALLBACK3_REQUIRED = 0x8013_136E, "The profiler must have ICorProfilerCallback3 for this.";
    CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER = 0x8013_136F, "Only a profiler loaded with the process may do this, not an attached one.";
    CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT = 0x8013_1370, "Detach refused: code was changed, hooks were set or ReJIT was enabled, which cannot be undone; the profiler stays.";
    CORPROF_E_RUNTIME_UNINITIALIZED = 0x8013_1371, "The runtime has not finished starting, or is shutting down; try again.";
    CORPROF_E_IMMUTABLE_FLAGS_SET = 0x8013_1372, "Detach refused: flags are set that can never be cleared; the profiler stays.";
    CORPROF_E_PROFILER_NOT_YET_INITIALIZED = 0x8013_1373, "The profiler's own initialisation is not over yet; try again after it.";
    CORPROF_E_INCONSISTENT_WITH_FLAGS = 0x8013_1374, "The call does not fit the event mask: a flag is missing, or must be cleared first.";
    CORPROF_E_PROFILER_CANCEL_ACTIVATION = 0x8013_1375, "The profiler asked not to be loaded.";
    CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE = 0x8013_1376, "Concurrent GC is on, and with it MONITOR_GC cannot be set now.";
    CORPROF_E_DEBUGGING_DISABLED = 0x8013_1378, "The runtime's debugging support is switched off.";
    CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC = 0x8013_1379, "A background collection did not end within the attach time-out.";
    CORPROF_E_MODULE_IS_DYNAMIC = 0x8013_137A, "The module was made at run time; this call does not take those.";
    CORPROF_E_CALLBACK4_REQUIRED = 0x8013_137B, "The profiler must have ICorProfilerCallback4 for this.";
    CORPROF_E_REJIT_NOT_ENABLED = 0x8013_137C, "ReJIT is not enabled in the event mask, or is switched off for attach.";
    CORPROF_E_ACTIVE_REJIT_REQUEST_NOT_FOUND = 0x8013_137D, "There is no ReJIT request to take back.";
    CORPROF_E_FUNCTION_IS_COLLECTIBLE = 0x8013_137E, "The function can be unloaded; this call does not take those.";
    CORPROF_E_REJIT_REQUIRES_DISABLE_NGEN = 0x8013_137F, "ReJIT needs precompiled images to be off.";
    CORPROF_E_CALLBACK6_REQUIRED = 0x8013_1380, "The profiler must have ICorProfilerCallback6 for this.";
    CORPROF_E_RUNTIME_SUSPEND_REQUIRED = 0x8013_1381, "The runtime must be suspended for this.";
    CORPROF_E_CALLBACK7_REQUIRED = 0x8013_1382, "The profiler must have ICorProfilerCallback7 for this.";
    CORPROF_E_REJIT_INLINING_DISABLED = 0x8013_1383, "The runtime does not track inlined methods, so they cannot be replaced.";
    DS_IPC_E_BAD_ENCODING = 0x8013_1384, "The runtime could not decode the diagnostics message.";
    DS_IPC_E_UNKNOWN_COMMAND = 0x8013_1385, "The runtime is too old to know this diagnostics command.";
    DS_IPC_E_UNKNOWN_MAGIC = 0x8013_1386, "The diagnostics protocol's version is unknown to the runtime.";
    DS_IPC_E_UNKNOWN_ERROR = 0x8013_1387, "The runtime's diagnostics server failed without saying why.";
    CORPROF_E_SUSPENSION_IN_PROGRESS = 0x8013_1388, "The runtime is being suspended by someone else; try again.";
    CORPROF_E_NOT_GC_OBJECT = 0x8013_1389, "The object is not on the collected heap.";
    CORPROF_E_MODULE_IS_ENC = 0x8013_138A, "The module is open for edit-and-continue.";
    DS_IPC_E_NOTSUPPORTED = 0x8013_1515, "This runtime does not have the feature: Mono and NativeAOT cannot be attached to.";
    INFO2_REQUIRED = 0xA052_0002, "The runtime is older than this call, which came with ICorProfilerInfo2.";
    INFO3_REQUIRED = 0xA052_0003, "The runtime is older than this call, which came with ICorProfilerInfo3.";
    INFO4_REQUIRED = 0xA052_0004, "The runtime is older than this call, which came with ICorProfilerInfo4.";
    INFO5_REQUIRED = 0xA052_0005, "The runtime is older than this call, which came with ICorProfilerInfo5.";
    INFO6_REQUIRED = 0xA052_0006, "The runtime is older than this call, which came with ICorProfilerInfo6.";
    INFO7_REQUIRED = 0xA052_0007, "The runtime is older than this call, which came with ICorProfilerInfo7.";
    INFO8_REQUIRED = 0xA052_0008, "The runtime is older than this call, which came with ICorProfilerInfo8 (.NET Core 2.0).";
    INFO9_REQUIRED = 0xA052_0009, "The runtime is older than this call, which came with ICorProfilerInfo9 (.NET Core 2.1).";
    INFO10_REQUIRED = 0xA052_000A, "The runtime is older than this call, which came with ICorProfilerInfo10 (.NET Core 3.0).";
    INFO11_REQUIRED = 0xA052_000B, "The runtime is older than this call, which came with ICorProfilerInfo11 (.NET Core 3.1).";
    INFO12_REQUIRED = 0xA052_000C, "The runtime is older than this call, which came with ICorProfilerInfo12 (.NET 5).";
    INFO13_REQUIRED = 0xA052_000D, "The runtime is older than this call, which came with ICorProfilerInfo13 (.NET 7).";
    INFO14_REQUIRED = 0xA052_000E, "The runtime is older than this call, which came with ICorProfilerInfo14 (.NET 8).";
    INFO15_REQUIRED = 0xA052_000F, "The runtime is older than this call, which came with ICorProfilerInfo15 (.NET 9).";
}

impl HResult {
    /// This crate's own code for a call that needs `ICorProfilerInfo{version}` on a runtime without it.
    /// It is a customer code, which the runtime itself never returns.
    pub const fn info_required(version: u8) -> HResult {
        HResult((0xA052_0000 | version as u32) as i32)
    }

    /// Whether the call succeeded.
    pub const fn is_success(self) -> bool {
        self.0 >= 0
    }

    /// Its name in the field, if it has one.
    pub fn name(self) -> Option<&'static str> {
        self.facts().map(|facts| facts.name)
    }

    /// Its meaning, as a sentence.
    pub fn meaning(self) -> &'static str {
        match self.facts() {
            Some(facts) => facts.meaning,
            None if self.is_success() => "It worked, with a code that is not known here.",
            None => "It failed with a code that is not known here: the runtime may be newer than this program.",
        }
    }

    /// `Ok` for every success, `S_FALSE` included.
    pub const fn ok(self) -> Result<(), HResult> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }

    fn facts(self) -> Option<&'static HResultFacts> {
        HRESULTS.iter().find(|facts| facts.code == self)
    }
}

impl From<Result<(), HResult>> for HResult {
    fn from(result: Result<(), HResult>) -> HResult {
        match result {
            Ok(()) => HResult::S_OK,
            Err(code) => code,
        }
    }
}

impl From<HResult> for Result<(), HResult> {
    fn from(code: HResult) -> Result<(), HResult> {
        code.ok()
    }
}

impl fmt::Display for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} (0x{:08X})", self.0),
            None => write!(f, "0x{:08X}", self.0),
        }
    }
}

impl fmt::Debug for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for HResult {}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;
    use std::collections::HashSet;

    #[test]
    fn att_07_the_refusal_of_a_second_profiler_is_named() {
        let code = HResult(0x8013_136A_u32 as i32);
        assert_eq!(code, HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
        holds!(ATT_07 rem, code.to_string() == "CORPROF_E_PROFILER_ALREADY_ACTIVE (0x8013136A)");
        assert_eq!(code.meaning(), "Another profiler is already loaded, or every slot is taken.");
    }

    #[test]
    fn the_table_is_in_the_order_of_codes() {
        assert!(HRESULTS.is_sorted_by_key(|facts| facts.code.0 as u32));
    }

    #[test]
    fn no_code_and_no_name_stands_for_two_things() {
        let codes: HashSet<i32> = HRESULTS.iter().map(|facts| facts.code.0).collect();
        let names: HashSet<&str> = HRESULTS.iter().map(|facts| facts.name).collect();
        assert_eq!((codes.len(), names.len()), (HRESULTS.len(), HRESULTS.len()));
        for facts in HRESULTS {
            assert!(facts.meaning.ends_with('.'), "{}: {:?} is no sentence", facts.name, facts.meaning);
        }
    }

    #[test]
    fn an_unknown_code_is_carried() {
        let code = HResult(0x8765_4321_u32 as i32);
        assert_eq!((code.to_string().as_str(), code.name(), code.ok()), ("0x87654321", None, Err(code)));
        assert_eq!(HResult(7).ok(), Ok(()));
        assert_eq!(Result::from(HResult::S_FALSE), Ok(()));
        assert_eq!(HResult::from(Err(HResult::E_FAIL)), HResult::E_FAIL);
    }

    #[test]
    fn a_missing_interface_is_named() {
        for version in 2..=15u8 {
            let name = HResult::info_required(version).name();
            assert_eq!(name, Some(format!("INFO{version}_REQUIRED").as_str()));
        }
    }
}
