//! Remedies for an error or a failed check. The command has their texts.

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
    /// Repeat the command.
    RepeatCommand,
    /// Try again when the application runs.
    TryAgainWhenItRuns,
    /// Start the application with the recorder.
    RecordFromStart,
    /// Use the runtime's own sampler instead of the agent.
    UseEventPipe,
    /// Record without GC roots.
    RecordWithoutRoots,
    /// Wait for the other recording to end, or end it.
    WaitForRecording,
    /// Detach the agent of an earlier recording.
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
    /// Run where the target runs: in its container, user namespace or security profile.
    RunInTargetContext,
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
    /// Restart the application.
    Restart,
    /// Restart the application without this variable.
    RestartWithout {
        /// The variable and its value.
        variable: String,
    },
    /// Restart the application, with TMPDIR in a directory that no job cleans.
    RestartWithStableTmpdir,
    /// Look for a setting that disables diagnostics.
    LookForDiagnosticsSetting,
    /// Move the application to a newer .NET.
    UseNewerRuntime,
    /// Run the application on CoreCLR.
    UseCoreClr,
    /// Use a profiler for native code.
    UseNativeProfiler,
    /// Free memory, or raise the limits of memory or address space.
    FreeMemory,
    /// Raise the limit of file sizes for the recorder.
    RaiseOwnFileSize,
    /// Give the target a directory that it can load a library from, or choose one.
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
    /// Use a build of the recorder whose library needs only an old glibc, and no other library.
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
    /// Raise the recorder's own limits of processes or of memory.
    RaiseOwnThreads,
    /// Start the program without the other profiler.
    RestartWithoutProfiler,
    /// Detach other profilers.
    DetachOthers,
    /// Start the program without one of the profilers that its environment names.
    FreeStartupSlot,
    /// No main profiler in the environment.
    FreeMainSlot,
    /// Only one recorder for a command.
    LeaveOneRecorderOut,
    /// Attach as a notification-only profiler.
    AttachNotificationOnly,
    /// For profiler authors: the profiler's defect.
    FixProfiler(ProfilerFix),
    /// Read the messages of the target or the profiler.
    ReadMessages,
    /// Nothing: the finding is harmless.
    Nothing,
    /// Hint: how musl treats libraries.
    StaysOnMusl,
    /// Hint: the order in which two profilers may detach.
    OthersStay,
    /// Hint: a detached profiler leaves no trace.
    DetachedLeavesNoSign,
    /// Hint: filtered system calls make the recorder use the runtime's own sampler.
    MayFallBack,
    /// Check that the executable is for this machine.
    CheckArchitecture,
}

impl Remedy {
    /// A permanent name, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// What a profiler lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfilerFix {
    /// `ICorProfilerCallback3` and `InitializeForAttach`.
    Attachable,
    /// Loading at startup, or fewer event flags.
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
