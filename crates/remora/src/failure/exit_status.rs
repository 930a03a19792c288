//! The exit status of each failure.

use super::Failure;
use super::code::of_a_check;
use crate::exit::Exit;
use remora_clr_model::desktop::HResult;
use remora_clr_model::machine::AttachError;

impl Failure {
    /// The exit status.
    pub(crate) fn exit(&self) -> Exit {
        use remora_collector::Error as Collector;
        use remora_recording::Error as Recording;
        match self {
            Failure::NoProcess
            | Failure::SeveralProcesses { .. }
            | Failure::NoneAttachable { .. }
            | Failure::NoSuchName { .. } => Exit::NoProcess,
            Failure::Precondition { subject, .. } => of_a_check(*subject).1,
            Failure::Held { .. } => Exit::Held,
            Failure::LockTaken { .. } => Exit::NoPermission,
            Failure::TooLargeToRead { .. } | Failure::NotShown { .. } => Exit::TooLargeToRead,
            Failure::Attach(error) => attach_exit(error),
            Failure::Collector(error) => match error {
                Collector::Attach(error) => attach_exit(error),
                Collector::NoHello(_) => Exit::NoAnswer,
                Collector::NoPlaceLeft => Exit::SlotTaken,
                Collector::TargetEnded => Exit::NoProcess,
                _ => Exit::Refused,
            },
            Failure::NoSuchScenario { .. }
            | Failure::TargetNotNamed { .. }
            | Failure::TargetExists { .. }
            | Failure::NoSuchRuntime { .. }
            | Failure::Model { .. } => Exit::Usage,
            Failure::NoTarget | Failure::NoSuchTarget { .. } | Failure::ModelTargetEnded { .. } => Exit::NoProcess,
            Failure::ModelAttach { error, .. } => modelled_attach_exit(*error),
            Failure::NoChannel { .. } => Exit::Refused,
            Failure::NotWritten { .. } | Failure::ModelTargetSilent { .. } => Exit::NoAnswer,
            Failure::NotUnloaded { .. } => Exit::Unclean,
            Failure::Snapshot(remora_receipt::Error::Gone { .. }) => Exit::NoProcess,
            Failure::Snapshot(_) => Exit::NoPermission,
            Failure::Signals(_) => Exit::Unexpected,
            Failure::Interrupted | Failure::InterruptedTwice => Exit::Interrupted,
            Failure::Command { .. } | Failure::CommandEnded { .. } => Exit::NoProcess,
            Failure::NoRuntime { .. } => Exit::NotDotnet,
            Failure::NotLoadedAtStart { .. } => Exit::Refused,
            Failure::NoMethodMatches(_) | Failure::TooManyMethods(_) | Failure::NotConfirmed => Exit::Usage,
            Failure::NotRestored(_) => Exit::Unclean,
            Failure::NothingTraced(_) => Exit::NothingTraced,
            Failure::LeftBehind(_) => Exit::Unclean,
            Failure::Saved { failure, .. } | Failure::Kept { failure, .. } => failure.exit(),
            Failure::OfAHeap(failure) => failure.exit(),
            Failure::NoSnapshot(_)
            | Failure::TooMuchMade
            | Failure::NeedsACollection { .. }
            | Failure::NoRoomForACopy { .. }
            | Failure::EndsWithTheCopy { .. } => Exit::Refused,
            Failure::EndedByFullDisk | Failure::NoRoomForASnapshot | Failure::EndedByLimit(_) => Exit::DiskFull,
            Failure::TargetEnded(_) => Exit::TargetEnded,
            Failure::Usage(_)
            | Failure::ProcessNotNamed { .. }
            | Failure::UnknownFormat { .. }
            | Failure::StdoutWithoutFormat { .. }
            | Failure::TablesToStdout => Exit::Usage,
            Failure::NoThread { .. } | Failure::Library { .. } | Failure::Laboratory(_) => Exit::Usage,
            Failure::BinaryToTerminal { .. } | Failure::Exists(_) | Failure::IsDirectory(_) => Exit::OutputRefused,
            Failure::NoDirectory { .. } | Failure::NoReader(_) | Failure::Output { .. } => Exit::OutputRefused,
            Failure::DiskFull { .. } => Exit::DiskFull,
            Failure::Input { .. }
            | Failure::NotAFile { .. }
            | Failure::IsASnapshot { .. }
            | Failure::IsARecording { .. } => Exit::NotARecording,
            Failure::Incomplete { .. } => Exit::Truncated,
            Failure::PartOfTheHeap { .. } | Failure::ConditionNotProven { .. } | Failure::NotTrue(_) => {
                Exit::PartOfTheHeap
            }
            Failure::ConditionMet { .. } => Exit::ConditionMet,
            Failure::TooLargeToExport(_) | Failure::StacksTooLarge(_) => Exit::OutputRefused,
            Failure::HeapFile { error, .. } => heap_file_exit(error),
            Failure::Index(error) => index_exit(error),
            Failure::Port { .. } => Exit::OutputRefused,
            Failure::Recording { error, .. } => match error {
                Recording::Truncated { .. } => Exit::Truncated,
                Recording::Damaged { .. } | Recording::TooLarge { .. } => Exit::Damaged,
                Recording::Newer { .. } => Exit::Newer,
                Recording::Write(_) => Exit::OutputRefused,
                _ => Exit::NotARecording,
            },
        }
    }
}

/// The exit status for a snapshot that cannot be read.
fn heap_file_exit(error: &remora_heap_file::Error) -> Exit {
    use remora_heap_file::Error;
    match error {
        Error::Truncated { .. } => Exit::Truncated,
        Error::Damaged { .. } | Error::Graph(_) => Exit::Damaged,
        Error::Newer { .. } => Exit::Newer,
        Error::Write(_) => Exit::OutputRefused,
        _ => Exit::NotARecording,
    }
}

/// The exit status for a snapshot whose index is unavailable.
fn index_exit(error: &remora_heap_view::Error) -> Exit {
    use remora_heap_view::Error;
    match error {
        Error::Interrupted => Exit::Interrupted,
        Error::Write(_) | Error::TooLarge { .. } => Exit::OutputRefused,
        _ => Exit::Unexpected,
    }
}

/// The exit status for errors of the attaching crates.
fn attach_exit(error: &remora_attach::Error) -> Exit {
    use remora_attach::{Error, HResult, Reason};
    match error {
        Error::NoSuchProcess { .. } | Error::Changed { .. } => Exit::NoProcess,
        Error::NotDotNet { .. } => Exit::NotDotnet,
        Error::NotAttachable { reason, .. } => match reason {
            Reason::Ended => Exit::NoProcess,
            Reason::RuntimeNotLoaded => Exit::NotDotnet,
            Reason::NativeAot | Reason::Mono | Reason::TooOld { .. } => Exit::Unsupported,
            Reason::NotOwner { .. } | Reason::LacksCapability { .. } => Exit::NoPermission,
            Reason::Stopped { .. } | Reason::NotExamined { .. } => Exit::NoAnswer,
            // Diagnostics are off, or the socket is missing for another reason.
            _ => Exit::DiagnosticsOff,
        },
        Error::TimedOut { .. } => Exit::NoAnswer,
        Error::NoLibraryPlace { .. } | Error::NoSocketPlace { .. } | Error::BadLibrary { .. } => Exit::CannotLoad,
        Error::RuntimeRefused(HResult::PROFILER_ALREADY_ACTIVE) => Exit::SlotTaken,
        _ => Exit::Refused,
    }
}

/// An attach to a modelled target that failed.
fn modelled_attach_exit(error: AttachError) -> Exit {
    match error {
        AttachError::NoSuchProcess => Exit::NoProcess,
        AttachError::AccessDenied => Exit::NoPermission,
        AttachError::NoRuntime { .. } | AttachError::NotAttachable(_) => Exit::Unsupported,
        AttachError::GaveUp | AttachError::Answered(HResult::ERROR_TIMEOUT) => Exit::NoAnswer,
        AttachError::Answered(HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE) => Exit::SlotTaken,
        AttachError::Answered(
            HResult::ERROR_MOD_NOT_FOUND
            | HResult::ERROR_BAD_EXE_FORMAT
            | HResult::CLASS_E_CLASSNOTAVAILABLE
            | HResult::REGDB_E_CLASSNOTREG,
        ) => Exit::CannotLoad,
        AttachError::TooLarge { .. } | AttachError::Answered(_) => Exit::Refused,
    }
}
