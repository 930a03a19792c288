//! The differences between the runtimes, as one table. A row is a fact, a column is a runtime, and each row ends with its source.
//!
//! Sources:
//! - *seed*: one of the five founding documents.
//! - *source*: dotnet/runtime (or dotnet/coreclr for 3.1), with the file.
//! - *live*: a test in `tests/conformance` or `tests/e2e` that shows it on that version (see docs/authors/contract-findings.md).
//!
//! No test ran on 6. Its cells come from its source, or, where a row says so, are assumed equal to another version with the same value.
//! No test ran on 11 either. Its cells are those of 10, but for what its public sources change (docs/design/appendix/0008-model.md).

use remora_clr_abi::slot_lists::{CORE_REFUSES, DESKTOP_REFUSES};

/// The runtime that the model simulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuntimeVersion {
    /// CLR 4 of the .NET Framework on Windows, as the founding documents describe it.
    Desktop4,
    /// .NET Core 3.1.
    Core3,
    /// .NET 6.
    Core6,
    /// .NET 8.
    Core8,
    /// .NET 9.
    Core9,
    /// .NET 10.
    Core10,
    /// .NET 11, as far as its public sources describe it.
    Core11,
}

/// Where a runtime logs attaches, detaches and failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// The application event log of Windows.
    EventLog,
    /// `ProfilerMessage` events.
    Events,
    /// Nowhere.
    None,
}

use Log::{EventLog, Events, None as NoLog};

macro_rules! differences {
    ($($(#[doc = $doc:literal])+ $name:ident : $type:ty = [$desktop:expr, $three:expr, $six:expr, $eight:expr, $nine:expr, $ten:expr, $eleven:expr] $source:literal;)+) => {
        /// The behaviour of one runtime: one field per row of the table.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Differences { $($(#[doc = $doc])+ #[doc = concat!(" Source: ", $source)] pub $name: $type,)+ }

        const COLUMNS: [Differences; 7] = [
            Differences { $($name: $desktop,)+ },
            Differences { $($name: $three,)+ },
            Differences { $($name: $six,)+ },
            Differences { $($name: $eight,)+ },
            Differences { $($name: $nine,)+ },
            Differences { $($name: $ten,)+ },
            Differences { $($name: $eleven,)+ },
        ];

        /// Name, source and seven values of each row, as text.
        pub fn rows() -> Vec<(&'static str, &'static str, [String; 7])> {
            vec![$((stringify!($name), $source, COLUMNS.each_ref().map(|column| format!("{:?}", column.$name))),)+]
        }
    };
}

differences! {
    // desktop4, 3.1, 6, 8, 9, 10, 11
    /// Its name for `--runtime-version`.
    name: &'static str = ["desktop4", "core3.1", "core6", "core8", "core9", "core10", "core11"] "ours";
    /// The newest ICorProfilerInfo.
    info_version: u8 = [3, 11, 12, 14, 15, 15, 15] "source: corprof.idl of each version";
    /// Mask bits that an attached profiler may set.
    allowable: u32 = [0x1001_02FE, 0x1005_02FE, 0x1005_02FE, 0x1005_02FE, 0x1005_02FE, 0x1065_02FE, 0x1065_02FE] "seed 004; source: corprof.idl, COR_PRF_ALLOWABLE_AFTER_ATTACH; live: att_12";
    /// The same for the high half.
    allowable_high: u32 = [0, 0x76, 0xF6, 0xF6, 0xF6, 0xF6, 0xF6] "source: corprof.idl, COR_PRF_HIGH_ALLOWABLE_AFTER_ATTACH; live: att_12";
    /// Bits that only a profiler in Initialize may change, and that forbid its detach.
    immutable: u32 = [0xEEFC_CC00, 0xEEF8_CC00, 0xEEF8_CC00, 0xEEF8_CC00, 0xEEF8_CC00, 0xEE98_CC00, 0xEE98_CC00] "seed 000; source: corprof.idl, COR_PRF_MONITOR_IMMUTABLE; live: att_12, det_02";
    /// The same for the high half.
    immutable_high: u32 = [0, 0x8, 0x8, 0x8, 0x8, 0x8, 0x8] "source: corprof.idl, COR_PRF_HIGH_MONITOR_IMMUTABLE";
    /// Whether an immutable bit of an attached profiler is answered with E_FAIL, instead of the code for calls not allowed after attach.
    immutable_is_plain_failure: bool = [false, true, true, true, true, true, true] "source: eetoprofinterfaceimpl.cpp, SetEventMask; live: att_12";
    /// Whether notification-only profilers may run beside the main one.
    notification_profilers: bool = [false, false, true, true, true, true, true] "source: profilinghelper.cpp (6 and later); live: sbs_03";
    /// Whether a refused attach has loaded the library and made its object, and leaks both.
    refused_attach_leaks: bool = [false, false, true, true, true, true, true] "source: profilinghelper.cpp, LoadProfiler; live: att_07";
    /// Whether an attach during a detach waits for its end, instead of being refused.
    attach_waits_for_detach: bool = [false, false, true, true, true, true, true] "source: profdetach.cpp, ExecuteEvacuationLoop; live: det_11";
    /// Whether an attach waits while a profiler gets its last callback and is released and freed.
    attach_waits_for_unload: bool = [false, true, true, true, true, true, true] "source: profdetach.cpp, UnloadProfiler (the lock of the status); live: det_23";
    /// Whether the runtime miscounts the detach of a main profiler as one of a notification-only profiler.
    main_departure_is_miscounted: bool = [false, false, true, true, true, true, true] "source: profilepriv.inl, DeRegisterProfilerInfo; live: det_18";
    /// Whether the detach thread ends with the detach. The next attach that needs one makes a new one.
    detach_thread_ends: bool = [false, true, false, false, false, false, false] "live: det_14 (6 and the desktop assumed: the seeds do not say)";
    /// Minimum sleep before a detach is checked again, milliseconds.
    shortest_sleep: u64 = [0, 300, 300, 300, 300, 300, 300] "source: profdetach.cpp, kdwDefaultMinSleepMs; live: det_09";
    /// Maximum sleep before a detach is checked again, milliseconds.
    longest_sleep: u64 = [600_000, 600_000, 5_000, 5_000, 5_000, 5_000, 5_000] "seed 000; source: profdetach.cpp, kdwDefaultMaxSleepMs; live: det_09 (6 assumed)";
    /// Sleep after twice the expected time has passed, milliseconds.
    steady_sleep: u64 = [600_000, 600_000, 5_000, 5_000, 5_000, 5_000, 5_000] "seed 000; source: profdetach.cpp";
    /// Whether the detach thread, woken by two requests at once, unloads only the profiler that asked last. The other one stays detaching
    /// for good: each later request is served first.
    queued_detach_is_left_behind: bool = [false, false, true, true, false, false, false] "source: profdetach.cpp, ExecuteEvacuationLoop; dotnet/runtime pull request 99075 corrects it for 9 (servicing of 8 unknown)";
    /// Whether a detach request waits while another profiler is evacuated and unloaded.
    request_waits_for_detach: bool = [false, false, true, true, true, true, true] "source: profdetach.cpp, RequestProfilerDetach (the lock of the status)";
    /// The expected time for an argument of 0, milliseconds. The desktop's is assumed: the seeds do not say.
    expected_by_default: u64 = [2_500, 2_500, 2_500, 2_500, 2_500, 2_500, 2_500] "source: profdetach.cpp, RequestProfilerDetach; live: det_09";
    /// The answer to a detach request in `Initialize`.
    detach_in_initialize: u32 = [0x8013_1373, 0x8013_1371, 0x8013_1371, 0x8013_1371, 0x8013_1371, 0x8013_1371, 0x8013_1371] "seed 000; live: det_13";
    /// Whether a callback that may not trigger a GC may request the detach.
    detach_in_any_callback: bool = [false, false, false, true, true, true, true] "source: proftoeeinterfaceimpl.inl (3.1); live: det_19 (6 assumed)";
    /// Whether rejit in the mask forbids the detach.
    rejit_forbids_detach: bool = [false, true, true, true, true, true, true] "source: eetoprofinterfaceimpl.cpp, SetModifiedRejitState; live: det_02";
    /// Whether the runtime switches concurrent GC off for a profiler that asks for MONITOR_GC while it attaches. Otherwise it refuses.
    concurrent_is_switched_off_at_attach: bool = [false, true, true, true, true, true, true] "seed 004; source: eetoprofinterfaceimpl.cpp; live: gch_05";
    /// Whether a function ID mapper may be set in Initialize only, like the hooks.
    mapper_only_in_initialize: bool = [true, false, false, false, false, false, false] "seed 003; live: att_17 (6 assumed)";
    /// Whether the runtime leaks the library of a profiler that cannot be attached for lack of ICorProfilerCallback3.
    unattachable_leaks: bool = [false, true, true, true, true, true, true] "live: att_09 (6 assumed)";
    /// Whether every profiler loaded at startup switches concurrent GC off for good, instead of only one that asks for MONITOR_GC.
    any_profiler_at_startup_ends_concurrent: bool = [true, false, false, false, false, false, false] "seed 004; source: profilinghelper.cpp, LoadProfiler";
    /// Whether the unload of an assembly is reported when it begins, too, instead of at its end only.
    assembly_unload_begins: bool = [true, false, true, true, true, true, true] "live: tests/conformance/tests/callbacks.rs (6 and the desktop assumed)";
    /// Whether DoStackSnapshot walks a thread that is neither the calling one nor suspended with all others.
    walks_running_threads: bool = [true, false, false, false, false, false, false] "source: proftoeeinterfaceimpl.cpp, DoStackSnapshot, PLATFORM_SUPPORTS_SAFE_THREADSUSPEND (not on Linux)";
    /// Whether an attached profiler may replace the IL of a method.
    bodies_after_attach: bool = [false, true, true, true, true, true, true] "seed 004; source: proftoeeinterfaceimpl.cpp, SetILFunctionBody";
    /// Whether a profiler for 2.x is refused unless a variable allows it.
    old_profilers_need_a_word: bool = [true, false, false, false, false, false, false] "seed 003; live: cmp_01 (6 assumed)";
    /// Whether a process crashes by a bug of the runtime if a setting forbids every profiler and the environment names one.
    prevented_load_crashes: bool = [false, true, true, true, true, true, true] "live: cmp_01 (6 assumed)";
    /// The largest attach message, bytes; 0 for no limit.
    largest_message: usize = [0, 65_535, 65_535, 65_535, 65_535, 65_535, 65_535] "source: ds-ipc protocol, a 16 bit size; live: att_11";
    /// Whether the runtime answers the attach only after ProfilerAttachComplete has returned.
    answers_after_attach_complete: bool = [false, true, true, true, true, true, true] "seed 001; live: att_20";
    /// The runtime's own version number.
    release: Release = [Release(4, 0, 30319), Release(3, 1, 23), Release(6, 0, 0), Release(8, 0, 4), Release(9, 0, 7), Release(10, 0, 12), Release(11, 0, 0)] "seed 001, the version string; live: the versions that were run (6 assumed)";
    /// The version that GetRuntimeInformation reports, if it is not the runtime's own.
    reported_release: Option<Release> = [None, Some(Release(4, 0, 30319)), None, None, None, None, None] "live: tests/conformance/tests/info_calls.rs (6 assumed)";
    /// Whether its text begins with `v`.
    reported_with_v: bool = [true, true, false, false, false, false, false] "live: tests/conformance/tests/info_calls.rs (6 assumed)";
    /// The newest ICorProfilerCallback that the runtime asks for.
    callback_version: u8 = [3, 9, 11, 11, 11, 11, 11] "seed 001; source: eetoprofinterfaceimpl.cpp, CreateProfiler";
    /// The methods of Info that an attached profiler may not call.
    refused_after_attach: &'static [&'static str] = [DESKTOP_REFUSES, CORE_REFUSES, CORE_REFUSES, CORE_REFUSES, CORE_REFUSES, CORE_REFUSES, CORE_REFUSES] "seed 004; source: proftoeeinterfaceimpl.cpp, kP2EEAllowableAfterAttach; live: att_13";
    /// Whether the trigger gets E_NOTIMPL from InitializeForAttach as the code for a profiler that cannot be attached.
    notimpl_is_not_attachable: bool = [false, true, true, true, true, true, true] "seed 001; source: profilinghelper.cpp";
    /// Whether each attach begins on the finalizer thread.
    finalizer_begins_attaches: bool = [true, false, false, false, false, false, false] "seed 001; source: ds-profiler-protocol.c";
    /// Whether the request's time-out bounds the trigger's wait. Elsewhere it bounds only the wait for a background GC.
    time_out_bounds_the_wait: bool = [true, false, false, false, false, false, false] "seed 001; source: ds-profiler-protocol.c, attachTimeout";
    /// Whether a detach waits for callbacks on the attach thread.
    attach_thread_is_counted: bool = [true, false, false, false, false, false, false] "seed 000; source: eetoprofinterfaceimpl.cpp, EvacuationCounterHolder; live: det_07";
    /// Maximum of notification-only profilers at once.
    notification_slots: usize = [0, 0, 32, 32, 32, 32, 32] "source: profilepriv.h, MAX_NOTIFICATION_PROFILERS";
    /// Prefixes of the variables for other settings; the first that is set wins.
    settings_prefixes: &'static [&'static str] = [&[], &["COMPlus"], &["DOTNET", "COMPlus"], &["DOTNET", "COMPlus"], &["DOTNET", "COMPlus"], &["DOTNET", "COMPlus"], &["DOTNET", "COMPlus"]] "source: clrconfig.cpp (DOTNET since 6)";
    /// Prefix of the variables that load a profiler at startup.
    startup_prefix: &'static str = ["COR", "CORECLR", "CORECLR", "CORECLR", "CORECLR", "CORECLR", "DOTNET"] "seed 004; source: clrconfignames.h; live: att_17; 11: dotnet/runtime pull request 121646";
    /// An older prefix of them that still works. That the newer one wins is assumed.
    older_startup_prefix: Option<&'static str> = [None, None, None, None, None, None, Some("CORECLR")] "source: dotnet/runtime pull request 121646 (clrconfigvalues.h)";
    /// Whether a class without a path is looked up in the registry.
    registry_knows_classes: bool = [true, false, false, false, false, false, false] "seed 003; source: profilinghelper.cpp";
    /// The variable that allows a profiler for 2.x.
    opt_in_variable: &'static str = ["COMPLUS_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting"] "seed 003 and the .NET Framework's page on profiler compatibility settings; source: clrconfignames.h";
    /// Whether EventPipeStartSession makes its calling thread known to the runtime.
    session_adopts_thread: bool = [false, false, false, true, true, true, true] "live: tests/conformance/tests/info_calls.rs (6 assumed)";
    /// Number of better bodies that an often called method gets in turn. Since 8 the first of two is instrumented.
    better_bodies: usize = [0, 1, 1, 2, 2, 2, 2] "live: tests/conformance/tests/tiers.rs (6 assumed)";
    /// Whether GetReJITIDs refuses a list without room. Others answer with the required room.
    versions_need_room: bool = [true, true, false, false, false, false, false] "live: tests/conformance/tests/info_calls.rs (6 assumed; the desktop's Info has no such method)";
    /// Whether a metadata name that does not fit is truncated. Otherwise only its final zero is written.
    names_are_written_as_they_fit: bool = [true, false, false, true, true, true, true] "source: pal/src/locale/unicode.cpp, MultiByteToWideChar; live: tests/conformance/tests/metadata.rs (6 assumed)";
    /// The answer to a search for assemblies by name, which finds none (E_NOTIMPL, or COR_E_NOTSUPPORTED). The desktop's results are not
    /// modelled.
    assemblies_are_not_found: u32 = [0x8000_4001, 0x8013_1515, 0x8013_1515, 0x8013_1515, 0x8013_1515, 0x8000_4001, 0x8000_4001] "source: md/compiler/assemblymd.cpp, FEATURE_METADATA_IN_VM; live: tests/conformance/tests/metadata.rs (6 assumed)";
    /// Whether GetObjectGeneration asks the GC, and answers CORPROF_E_NOT_GC_OBJECT for an address outside the heap. Otherwise it compares
    /// with the ranges of the last reported GC, and answers E_FAIL.
    generation_is_of_gc: bool = [false, false, false, true, true, true, true] "live: tests/conformance/tests/info_calls.rs (6 and the desktop assumed)";
    /// Whether Info still answers after Shutdown. Otherwise it refuses every call with CORPROF_E_RUNTIME_UNINITIALIZED.
    answers_at_exit: bool = [false, true, true, true, true, true, true] "live: .NET 8 and 10 (3.1, 6 and 9 assumed; the desktop assumed otherwise)";
    /// The answer for a library that the process may not read.
    unreadable_library: u32 = [0x8007_0005, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E] "system error code 5 of Windows; live: att_06";
    /// The answer for a library of another architecture, or for a file that is not a library.
    foreign_library: u32 = [0x8007_00C1, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E] "system error code 193 of Windows; live: att_06";
    /// Where the runtime logs profilers.
    log: Log = [EventLog, NoLog, Events, Events, Events, Events, Events] "seed 001; live: att_15 (6 assumed)";
}

/// Major, minor and build number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u16, pub u16, pub u16);

impl std::fmt::Display for Release {
    /// The version string of the hosting interfaces.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "v{}.{}.{}", self.0, self.1, self.2)
    }
}

impl RuntimeVersion {
    /// All runtimes.
    pub const ALL: [RuntimeVersion; 7] = [
        RuntimeVersion::Desktop4,
        RuntimeVersion::Core3,
        RuntimeVersion::Core6,
        RuntimeVersion::Core8,
        RuntimeVersion::Core9,
        RuntimeVersion::Core10,
        RuntimeVersion::Core11,
    ];

    /// Its column of the table.
    pub fn differences(self) -> &'static Differences {
        static TABLE: [Differences; 7] = COLUMNS;
        &TABLE[self as usize]
    }

    /// A runtime by its name in the table.
    pub fn by_name(name: &str) -> Option<RuntimeVersion> {
        RuntimeVersion::ALL.into_iter().find(|one| one.differences().name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_set_after_attach_is_never_immutable() {
        for one in RuntimeVersion::ALL.map(RuntimeVersion::differences) {
            assert_eq!(one.allowable & one.immutable, 0, "{}", one.name);
            assert_eq!(one.allowable_high & one.immutable_high, 0, "{}", one.name);
        }
    }

    #[test]
    fn what_is_refused_after_attach_is_a_slot_of_info() {
        for one in RuntimeVersion::ALL.map(RuntimeVersion::differences) {
            let is_slot = |name: &&str| remora_clr_abi::INFO_SLOTS.iter().any(|slot| slot.name == *name);
            assert!(one.refused_after_attach.iter().all(is_slot), "{}", one.name);
        }
    }

    #[test]
    fn every_row_names_its_source_and_every_column_its_name() {
        assert!(rows().iter().all(|(_, source, _)| source.len() > 3));
        assert!(RuntimeVersion::ALL.iter().all(|one| RuntimeVersion::by_name(one.differences().name) == Some(*one)));
    }
}
