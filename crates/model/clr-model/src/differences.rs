//! Where the runtimes differ, as one table: each row a fact, each column a runtime, and at its end where it was read or seen.
//!
//! Sources: *seed* is one of the five founding documents; *source* is dotnet/runtime (or dotnet/coreclr for 3.1) with the file;
//! *live* is a test of `tests/conformance` or `tests/e2e` that shows it on that version (see docs/authors/contract-findings.md). 6 was never run: it is read, or, where a row says so, assumed to be as the version that its cell agrees with.

use remora_clr_abi::slot_lists::{CORE_REFUSES, DESKTOP_REFUSES};

/// Which runtime the model is.
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
}

/// Where a runtime writes down that profilers came, went, or could not.
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
    ($($(#[doc = $doc:literal])+ $name:ident : $type:ty = [$desktop:expr, $three:expr, $six:expr, $eight:expr, $nine:expr, $ten:expr] $source:literal;)+) => {
        /// What one runtime does; a row of the table each.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Differences { $($(#[doc = $doc])+ #[doc = concat!(" Source: ", $source)] pub $name: $type,)+ }

        const COLUMNS: [Differences; 6] = [
            Differences { $($name: $desktop,)+ },
            Differences { $($name: $three,)+ },
            Differences { $($name: $six,)+ },
            Differences { $($name: $eight,)+ },
            Differences { $($name: $nine,)+ },
            Differences { $($name: $ten,)+ },
        ];

        /// Name, source and the six values of each row, in words.
        pub fn rows() -> Vec<(&'static str, &'static str, [String; 6])> {
            vec![$((stringify!($name), $source, COLUMNS.each_ref().map(|column| format!("{:?}", column.$name))),)+]
        }
    };
}

differences! {
    // desktop4, 3.1, 6, 8, 9, 10
    /// As `--runtime-version` takes it.
    name: &'static str = ["desktop4", "core3.1", "core6", "core8", "core9", "core10"] "ours";
    /// The newest ICorProfilerInfo.
    info_version: u8 = [3, 11, 12, 14, 15, 15] "source: corprof.idl of each version";
    /// Bits of the mask that an attached profiler may set.
    allowable: u32 = [0x1001_02FE, 0x1005_02FE, 0x1005_02FE, 0x1005_02FE, 0x1005_02FE, 0x1065_02FE] "seed 004; source: corprof.idl, COR_PRF_ALLOWABLE_AFTER_ATTACH; live: att_12";
    /// The same of its high half.
    allowable_high: u32 = [0, 0x76, 0xF6, 0xF6, 0xF6, 0xF6] "source: corprof.idl, COR_PRF_HIGH_ALLOWABLE_AFTER_ATTACH; live: att_12";
    /// Bits that only a profiler in Initialize may change, and that forbid its detach.
    immutable: u32 = [0xEEF8_CC00, 0xEEF8_CC00, 0xEEF8_CC00, 0xEEF8_CC00, 0xEEF8_CC00, 0xEE98_CC00] "seed 000; source: corprof.idl, COR_PRF_MONITOR_IMMUTABLE; live: att_12, det_02";
    /// The same of the high half.
    immutable_high: u32 = [0, 0x8, 0x8, 0x8, 0x8, 0x8] "source: corprof.idl, COR_PRF_HIGH_MONITOR_IMMUTABLE";
    /// Whether an attached profiler that asks for an immutable bit gets E_FAIL instead of the code for what is not for attaching profilers.
    immutable_is_plain_failure: bool = [false, true, true, true, true, true] "source: eetoprofinterfaceimpl.cpp, SetEventMask; live: att_12";
    /// Whether profilers that are only notified may stand beside the main one.
    notification_profilers: bool = [false, false, true, true, true, true] "source: profilinghelper.cpp (6 and later); live: sbs_03";
    /// Whether a refused attach has loaded the library and made its object, and leaks both.
    refused_attach_leaks: bool = [false, false, true, true, true, true] "source: profilinghelper.cpp, LoadProfiler; live: att_07";
    /// Whether an attach that comes during a detach waits for its end, instead of being refused.
    attach_waits_for_detach: bool = [false, false, true, true, true, true] "source: profdetach.cpp, ExecuteEvacuationLoop; live: det_11";
    /// Whether an attach that comes while a profiler is told of its end, released and freed waits for that.
    attach_waits_for_unload: bool = [false, true, true, true, true, true] "source: profdetach.cpp, UnloadProfiler (the lock of the status); live: det_23";
    /// Whether the departure of a main profiler is counted as one of a notification-only profiler.
    main_departure_is_miscounted: bool = [false, false, true, true, true, true] "source: profilepriv.inl, DeRegisterProfilerInfo; live: det_18";
    /// Whether the thread for detaches ends with the detach; each attach that needs one then makes it.
    detach_thread_ends: bool = [false, true, false, false, false, false] "live: det_14 (6 and the desktop assumed: the seeds do not say)";
    /// What is slept before a detach is looked at again, at least, milliseconds.
    shortest_sleep: u64 = [0, 300, 300, 300, 300, 300] "source: profdetach.cpp, kdwDefaultMinSleepMs; live: det_09";
    /// The same, at most.
    longest_sleep: u64 = [600_000, 600_000, 5_000, 5_000, 5_000, 5_000] "seed 000; source: profdetach.cpp, kdwDefaultMaxSleepMs; live: det_09 (6 assumed)";
    /// What is slept once twice the expected time has passed.
    steady_sleep: u64 = [600_000, 600_000, 5_000, 5_000, 5_000, 5_000] "seed 000; source: profdetach.cpp";
    /// What an expected time of 0 stands for, milliseconds. The desktop's is assumed: the seeds do not say.
    expected_by_default: u64 = [2_500, 2_500, 2_500, 2_500, 2_500, 2_500] "source: profdetach.cpp, RequestProfilerDetach; live: det_09";
    /// What a request in `Initialize` is answered.
    detach_in_initialize: u32 = [0x8013_1373, 0x8013_1371, 0x8013_1371, 0x8013_1371, 0x8013_1371, 0x8013_1371] "seed 000; live: det_13";
    /// Whether a callback that may not trigger a collection may ask for the detach.
    detach_in_any_callback: bool = [false, false, false, true, true, true] "source: proftoeeinterfaceimpl.inl (3.1); live: det_19 (6 assumed)";
    /// Whether rejit in the mask forbids the detach.
    rejit_forbids_detach: bool = [false, true, true, true, true, true] "source: eetoprofinterfaceimpl.cpp, SetModifiedRejitState; live: det_02";
    /// Whether concurrent collections are switched off for a profiler that asks for MONITOR_GC while it attaches; refused otherwise.
    concurrent_is_switched_off_at_attach: bool = [false, true, true, true, true, true] "seed 004; source: eetoprofinterfaceimpl.cpp; live: gch_05";
    /// Whether functions that choose what is hooked may be set in Initialize only, as the hooks themselves.
    mapper_only_in_initialize: bool = [true, false, false, false, false, false] "seed 003; live: att_17 (6 assumed)";
    /// Whether the library of a profiler that cannot be attached, since it has no ICorProfilerCallback3, is not given back.
    unattachable_leaks: bool = [false, true, true, true, true, true] "live: att_09 (6 assumed)";
    /// Whether any profiler that is loaded with the process switches concurrent collections off for good, and not only one that asks for MONITOR_GC.
    any_profiler_at_startup_ends_concurrent: bool = [true, false, false, false, false, false] "seed 004; source: profilinghelper.cpp, LoadProfiler";
    /// Whether DoStackSnapshot walks a thread that is neither the running one nor suspended with all others.
    walks_running_threads: bool = [true, false, false, false, false, false] "source: proftoeeinterfaceimpl.cpp, DoStackSnapshot, PLATFORM_SUPPORTS_SAFE_THREADSUSPEND (not on Linux)";
    /// Whether an attached profiler may replace the IL of a method.
    bodies_after_attach: bool = [false, true, true, true, true, true] "seed 004; source: proftoeeinterfaceimpl.cpp, SetILFunctionBody";
    /// Whether a profiler for 2.x is refused unless a variable allows it.
    old_profilers_need_a_word: bool = [true, false, false, false, false, false] "seed 003; live: cmp_01 (6 assumed)";
    /// Whether the setting that forbids every profiler ends a process whose environment names one, by a fault of the runtime's own.
    prevented_load_crashes: bool = [false, true, true, true, true, true] "live: cmp_01 (6 assumed)";
    /// The largest message of an attach, bytes; 0 where there is no such bound.
    largest_message: usize = [0, 65_535, 65_535, 65_535, 65_535, 65_535] "source: ds-ipc protocol, a 16 bit size; live: att_11";
    /// Whether the attach is answered only when ProfilerAttachComplete has returned.
    answers_after_attach_complete: bool = [false, true, true, true, true, true] "seed 001; live: att_20";
    /// What the runtime calls itself.
    release: Release = [Release(4, 0, 30319), Release(3, 1, 23), Release(6, 0, 0), Release(8, 0, 4), Release(9, 0, 7), Release(10, 0, 12)] "seed 001, the version string; live: the versions that were run (6 assumed)";
    /// The newest ICorProfilerCallback that it asks for.
    callback_version: u8 = [3, 9, 11, 11, 11, 11] "seed 001; source: eetoprofinterfaceimpl.cpp, CreateProfiler";
    /// The methods of Info that are refused to an attached profiler.
    refused_after_attach: &'static [&'static str] = [DESKTOP_REFUSES, CORE_REFUSES, CORE_REFUSES, CORE_REFUSES, CORE_REFUSES, CORE_REFUSES] "seed 004; source: proftoeeinterfaceimpl.cpp, kP2EEAllowableAfterAttach; live: att_13";
    /// Whether E_NOTIMPL from InitializeForAttach reaches the trigger as the code for a profiler that cannot be attached.
    notimpl_is_not_attachable: bool = [false, true, true, true, true, true] "seed 001; source: profilinghelper.cpp";
    /// Whether the thread that runs finalizers has to begin each attach.
    finalizer_begins_attaches: bool = [true, false, false, false, false, false] "seed 001; source: ds-profiler-protocol.c";
    /// Whether the time-out of the request bounds how long the trigger waits. Elsewhere it bounds only the wait for a background collection.
    time_out_bounds_the_wait: bool = [true, false, false, false, false, false] "seed 001; source: ds-profiler-protocol.c, attachTimeout";
    /// Whether a detach waits for the callbacks on the thread that attaches.
    attach_thread_is_counted: bool = [true, false, false, false, false, false] "seed 000; source: eetoprofinterfaceimpl.cpp, EvacuationCounterHolder; live: det_07";
    /// Notification-only profilers at once.
    notification_slots: usize = [0, 0, 32, 32, 32, 32] "source: profilepriv.h, MAX_NOTIFICATION_PROFILERS";
    /// What the variables of its other settings begin with; the first that is there counts.
    settings_prefixes: &'static [&'static str] = [&[], &["COMPlus"], &["DOTNET", "COMPlus"], &["DOTNET", "COMPlus"], &["DOTNET", "COMPlus"], &["DOTNET", "COMPlus"]] "source: clrconfig.cpp (DOTNET since 6)";
    /// What the variables that load a profiler at the start begin with.
    startup_prefix: &'static str = ["COR", "CORECLR", "CORECLR", "CORECLR", "CORECLR", "CORECLR"] "seed 004; source: clrconfignames.h; live: att_17";
    /// Whether a class without a path is looked up in the registry.
    registry_knows_classes: bool = [true, false, false, false, false, false] "seed 003; source: profilinghelper.cpp";
    /// The variable by which a user allows a profiler for 2.x.
    opt_in_variable: &'static str = ["COMPLUS_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting", "COMPlus_ProfAPI_ProfilerCompatibilitySetting"] "seed 003 and the .NET Framework's page on profiler compatibility settings; source: clrconfignames.h";
    /// Whether EventPipeStartSession makes the thread that calls it one of the runtime's own.
    session_adopts_thread: bool = [false, false, false, true, true, true] "live: tests/conformance/tests/info_calls.rs (6 assumed)";
    /// Better bodies that a method gets when it is called often, one after the other: since 8 the first of two has probes in it.
    better_bodies: usize = [0, 1, 1, 2, 2, 2] "live: tests/conformance/tests/tiers.rs (6 assumed)";
    /// Whether GetReJITIDs takes no list without room, which others answer with how many there are.
    versions_need_room: bool = [true, true, false, false, false, false] "live: tests/conformance/tests/info_calls.rs (6 assumed; the desktop's Info has no such method)";
    /// Whether a name of metadata for which there is too little room is written as far as it fits, and not left out but for the zero at its end.
    names_are_written_as_they_fit: bool = [true, false, false, true, true, true] "source: pal/src/locale/unicode.cpp, MultiByteToWideChar; live: tests/conformance/tests/metadata.rs (6 assumed)";
    /// What a search for assemblies by their name is answered, which finds none (E_NOTIMPL, or COR_E_NOTSUPPORTED). What the desktop finds is not modelled.
    assemblies_are_not_found: u32 = [0x8000_4001, 0x8013_1515, 0x8013_1515, 0x8013_1515, 0x8013_1515, 0x8000_4001] "source: md/compiler/assemblymd.cpp, FEATURE_METADATA_IN_VM; live: tests/conformance/tests/metadata.rs (6 assumed)";
    /// What is answered for a library that the process may not read.
    unreadable_library: u32 = [0x8007_0005, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E] "system error code 5 of Windows; live: att_06";
    /// What is answered for a library of another architecture, or that is no library.
    foreign_library: u32 = [0x8007_00C1, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E, 0x8007_007E] "system error code 193 of Windows; live: att_06";
    /// Where it is written down.
    log: Log = [EventLog, NoLog, Events, Events, Events, Events] "seed 001; live: att_15 (6 assumed)";
}

/// Major, minor and build number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u16, pub u16, pub u16);

impl std::fmt::Display for Release {
    /// As the version string of the hosting interfaces has it.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "v{}.{}.{}", self.0, self.1, self.2)
    }
}

impl RuntimeVersion {
    /// All of them.
    pub const ALL: [RuntimeVersion; 6] = [
        RuntimeVersion::Desktop4,
        RuntimeVersion::Core3,
        RuntimeVersion::Core6,
        RuntimeVersion::Core8,
        RuntimeVersion::Core9,
        RuntimeVersion::Core10,
    ];

    /// What it does.
    pub fn differences(self) -> &'static Differences {
        static TABLE: [Differences; 6] = COLUMNS;
        &TABLE[self as usize]
    }

    /// By the name that the table gives it.
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
