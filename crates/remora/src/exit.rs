//! Exit statuses of the command. A number keeps its meaning; docs/reference/exit-codes.md explains each.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// The exit status of `remora`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done. `record`: and left nothing in the process.
    Done = 0,
    /// An unexpected error. `lab`: the profiler broke a clause.
    Unexpected = 1,
    /// Invalid flags. `lab`: the laboratory itself failed.
    Usage = 2,
    /// `lab`: the profiler was loaded and did nothing.
    DidNothing = 3,
    /// `lab`: no clause was broken, but a run could not be judged.
    Unjudged = 4,
    /// No such process, or several.
    NoProcess = 10,
    /// Not a .NET process.
    NotDotnet = 11,
    /// A .NET that cannot be attached to: too old, NativeAOT, Mono.
    Unsupported = 12,
    /// Another user's process.
    NoPermission = 13,
    /// Diagnostics are switched off in the process.
    DiagnosticsOff = 14,
    /// The process is stopped, or did not answer in time.
    NoAnswer = 15,
    /// The library cannot be placed or loaded.
    CannotLoad = 16,
    /// The runtime takes only one profiler, and another is attached.
    SlotTaken = 17,
    /// Another Remora is recording the process.
    Held = 18,
    /// The process refused, or closed the connection, for another reason.
    Refused = 19,
    /// The output cannot be written.
    OutputRefused = 20,
    /// The disk is full.
    DiskFull = 21,
    /// The file is missing, cannot be read, or is not a recording.
    NotARecording = 30,
    /// The recording is truncated.
    Truncated = 31,
    /// The recording is damaged.
    Damaged = 32,
    /// The recording is from a newer Remora.
    Newer = 33,
    /// Reading the file takes more memory than allowed.
    TooLargeToRead = 34,
    /// Recorded, but left something in the process.
    Unclean = 40,
    /// Recorded until the process ended or was replaced.
    TargetEnded = 41,
    /// The snapshot does not contain the whole heap.
    PartOfTheHeap = 42,
    /// The snapshot meets a condition of `--fail-if`.
    ConditionMet = 43,
    /// No call of a method was traced.
    NothingTraced = 44,
    /// Interrupted before anything was recorded, or during a `lab` run.
    Interrupted = 130,
}

impl Exit {
    /// A profiler broke a clause.
    pub(crate) const BROKEN: Exit = Exit::Unexpected;
    /// Every status.
    #[cfg(test)]
    pub(crate) const ALL: [Exit; 28] = [
        Exit::Done,
        Exit::Unexpected,
        Exit::Usage,
        Exit::DidNothing,
        Exit::Unjudged,
        Exit::NoProcess,
        Exit::NotDotnet,
        Exit::Unsupported,
        Exit::NoPermission,
        Exit::DiagnosticsOff,
        Exit::NoAnswer,
        Exit::CannotLoad,
        Exit::SlotTaken,
        Exit::Held,
        Exit::Refused,
        Exit::OutputRefused,
        Exit::DiskFull,
        Exit::NotARecording,
        Exit::Truncated,
        Exit::Damaged,
        Exit::Newer,
        Exit::TooLargeToRead,
        Exit::Unclean,
        Exit::TargetEnded,
        Exit::PartOfTheHeap,
        Exit::ConditionMet,
        Exit::NothingTraced,
        Exit::Interrupted,
    ];

    /// The number.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

/// As shells report a process that a signal ended.
const SIGNALLED: i32 = 128;

/// The exit code after a command that has ended by itself: the command's own, unless there is something to report.
pub(crate) fn of_command(own: Exit, status: Option<ExitStatus>) -> ExitCode {
    let code = status.and_then(|status| status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal)));
    match (own, code.and_then(|code| u8::try_from(code).ok())) {
        (Exit::Done, Some(code)) => ExitCode::from(code),
        _ => own.into(),
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_its_exit_code_and_signal_unless_remora_has_something_to_report() {
        let ended = |raw| Some(ExitStatus::from_raw(raw));
        // Of wait(2): the exit code is in the second byte, the signal in the first.
        for (own, status, expected) in [
            (Exit::Done, ended(0), 0),
            (Exit::Done, ended(7 << 8), 7),
            (Exit::Done, ended(255 << 8), 255),
            (Exit::Done, ended(9), 137),
            (Exit::Done, None, 0),
            (Exit::Unclean, ended(7 << 8), 40),
        ] {
            assert_eq!(of_command(own, status), ExitCode::from(expected), "{own:?} {status:?}");
        }
    }

    /// The page has a row for each status, and no others.
    #[test]
    fn the_page_of_exit_codes_is_complete() {
        let page = include_str!("../../../docs/reference/exit-codes.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(' ')?.0.parse().ok());
        let documented: Vec<u8> = rows.collect();
        assert_eq!(documented, Exit::ALL.map(Exit::code));
    }
}
