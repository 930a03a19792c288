//! What a user can do about an error or a failed check. The command puts it into words.

use crate::proc::Capability;

/// One thing to do. Of several in a list, any one helps.
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Remedy {
    /// List the processes that can be recorded.
    ListProcesses,
    /// Check the preconditions of the process.
    CheckProcess,
    /// Try again in a few seconds.
    TryAgain,
    /// Give the same command again.
    RepeatCommand,
    /// Try again when the program runs.
    TryAgainWhenItRuns,
    /// Start the program by the recorder.
    RecordFromStart,
    /// Use the runtime's own sampler instead of the agent.
    UseEventPipe,
    /// Record without GC roots.
    RecordWithoutRoots,
    /// Wait for the other recording to end, or end it.
    WaitForRecording,
    /// Have the agent of an earlier recording detached.
    DetachAgent {
        /// The target.
        pid: u32,
    },
    /// Attach once more with any command, before another notification-only profiler attaches.
    AttachOnceMore,
    /// Run as this user, or as root.
    RunAs {
        /// Name or number of the target's user.
        user: String,
    },
    /// Run as the target's user, or as root.
    RunAsOwner,
    /// Run as the target's user, and not as root.
    RunAsTargetUser,
    /// Give the recorder these capabilities.
    AddCapabilities {
        /// Those that it lacks.
        missing: Vec<Capability>,
    },
    /// See what the target has mounted.
    LookAtMounts {
        /// The target.
        pid: u32,
    },
    /// Let the stopped process continue.
    Resume,
    /// Start the program again.
    Restart,
    /// Start the program again without this variable.
    RestartWithout {
        /// The variable and its value.
        variable: String,
    },
    /// Start the program again, with TMPDIR in a directory that nobody cleans.
    RestartWithStableTmpdir,
    /// Look for a setting that switches diagnostics off.
    LookForDiagnosticsSetting,
    /// Move the program to a newer .NET.
    UseNewerRuntime,
    /// Run the program on CoreCLR.
    UseCoreClr,
    /// Use a profiler for native code.
    UseNativeProfiler,
    /// Free memory, or raise the limits of memory or address space.
    FreeMemory,
    /// Give the target a directory that a library can be loaded from, or choose one.
    GiveLibraryDirectory,
    /// Give the target a writable directory.
    GiveSocketDirectory,
    /// Give the target a TMPDIR of its own.
    GiveOwnTmpdir,
    /// Check the permissions of the file.
    CheckPermissions,
    /// Find out whether the target still runs, and why not.
    LookAtTarget,
    /// Build or copy the recorder again.
    ReinstallRemora,
    /// Use a build of the recorder whose library needs an old glibc only, and no other library.
    UsePortableBuild,
    /// Report a defect of Remora.
    Report,
    /// Raise the limit of queued signals.
    RaiseQueuedSignals,
    /// Raise the limit of open files.
    RaiseOpenFiles {
        /// The target.
        pid: u32,
    },
    /// Raise the recorder's own limit of open files.
    RaiseOwnOpenFiles,
    /// Start the program without the other profiler.
    RestartWithoutProfiler,
    /// Have other profilers detached.
    DetachOthers,
    /// Attach as a notification-only profiler.
    AttachNotificationOnly,
    /// For profiler authors: what the profiler needs.
    FixProfiler(ProfilerFix),
    /// Read what the target or the profiler prints.
    ReadMessages,
    /// Nothing need be done: what was found does no harm.
    Nothing,
    /// Good to know: how musl treats libraries.
    StaysOnMusl,
    /// Good to know: in which order two profilers may detach.
    OthersStay,
    /// Good to know: a detached profiler leaves no sign.
    DetachedLeavesNoSign,
    /// Good to know: filtered system calls make the recorder use the runtime's own sampler.
    MayFallBack,
    /// Make sure that the executable is for this machine.
    CheckArchitecture,
}

impl Remedy {
    /// A name that keeps its meaning, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// What a profiler lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfilerFix {
    /// `ICorProfilerCallback3` and `InitializeForAttach`.
    Attachable,
    /// To be loaded at startup, or to ask for less.
    LoadAtStartup,
    /// The library's own class id.
    OwnClassId,
    /// The library for the target's architecture.
    Architecture,
    /// The path of a profiler.
    Path,
    /// Made for this runtime.
    Runtime,
}
