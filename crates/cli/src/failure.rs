//! Every message with which `remora` ends other than well: what happened, why, what to do, on one line.
//!
//! docs/troubleshooting.md has a heading for each. Messages of the crates beneath are shown as they are, with what was being done.

mod advice;

use crate::bounded::takes_too_much;
use crate::exit::Exit;
use remora_wire::TOO_MUCH_MADE;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a snapshot ends before its heap does, as its notes have it.
pub(crate) const FULL_DISK: &str = "the disk is full";

/// Why the command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The flags contradict each other or are absurd.
    #[error("{0}")]
    Usage(String),
    /// No process was named, and there is none.
    #[error(
        "no .NET process is running that you may see; start one, or run remora as root to see those of other users"
    )]
    NoProcess,
    /// No process was named, or by a name that several have.
    #[error("which one? {count} .NET processes fit: {list}; choose one with -p PID")]
    SeveralProcesses {
        /// How many.
        count: usize,
        /// The first ones.
        list: String,
    },
    /// No process has this name.
    #[error("no .NET process is called {name:?}; {hint}")]
    NoSuchName {
        /// The name.
        name: String,
        /// What to try instead.
        hint: String,
    },
    /// A precondition of recording does not hold.
    #[error("cannot record process {process_id}: {found}; {remedy}")]
    Precondition {
        /// The process.
        process_id: u32,
        /// What is wrong.
        found: String,
        /// What to do.
        remedy: String,
        /// The exit status for it.
        exit: Exit,
    },
    /// Somebody else is recording the process.
    #[error("process {process_id} is being recorded by {holder}; wait for that recording to end, or end it")]
    Held {
        /// The process.
        process_id: u32,
        /// Who.
        holder: String,
    },
    /// The directory for this user's locks is another's.
    #[error(
        "cannot lock the recording of process {process_id}: another user has {}; remove it as root, or use a login that has /run/user/UID", path.display()
    )]
    LockTaken {
        /// The process.
        process_id: u32,
        /// The directory.
        path: PathBuf,
    },
    /// The process could not be found or attached to.
    #[error(transparent)]
    Trigger(#[from] remora_trigger::Error),
    /// The agent could not be attached, or the connection to it broke.
    #[error(transparent)]
    Collector(#[from] remora_collector::Error),
    /// What is in the process before the attach could not be read: another user's, or it ended.
    #[error(transparent)]
    Snapshot(remora_receipt::Error),
    /// Signals could not be listened to.
    #[error("Ctrl-C cannot be listened to: {0}; nothing was attached")]
    Signals(io::Error),
    /// Ctrl-C before there was anything to end.
    #[error("interrupted before anything was recorded")]
    Interrupted,
    /// Interrupted once more while an end was under way.
    #[error(
        "interrupted a second time: left without waiting for the end; the agent leaves by itself (`remora detach -p PID` looks), what came until now is in the file with .unfinished in its name"
    )]
    InterruptedTwice,
    /// The command to record did not start.
    #[error("{name} cannot be started: {error}; check the command after `--`")]
    Command {
        /// The program.
        name: String,
        /// Why not.
        error: io::Error,
    },
    /// The command to record ended before a runtime started in it.
    #[error("{name} ended ({status}) before a .NET runtime started in it; check the command after `--`")]
    CommandEnded {
        /// The program.
        name: String,
        /// How.
        status: std::process::ExitStatus,
    },
    /// No runtime started in the command.
    #[error(
        "no .NET runtime started in {name} (process {process_id}) within {seconds} seconds; it runs on, record it with -p once it has one"
    )]
    NoRuntime {
        /// The program.
        name: String,
        /// Its process.
        process_id: u32,
        /// How long was waited.
        seconds: u64,
    },
    /// The recording ended with the process; the recording and the result are as asked for.
    #[error("{0}")]
    TargetEnded(String),
    /// The recording was ended because the disk was nearly full; it was written as asked for.
    #[error(
        "the recording ended early because the disk is full; what was recorded until then is complete, free some space to record longer"
    )]
    EndedByFullDisk,
    /// The recording took as much as it may; it was written as asked for.
    #[error(
        "the recording ended early, since {0}; what was recorded until then is complete, record for a shorter time"
    )]
    EndedByLimit(String),
    /// It ended like this, and something of Remora is in the process; the receipt lists it.
    #[error("{0}; besides, something of Remora is left in the process, the receipt lists it")]
    LeftBehind(Box<Failure>),
    /// The same, where a heap was wanted: no other engine and no other command can tell one.
    #[error("{}", advice::of_a_heap(&.0.to_string()))]
    OfAHeap(Box<Failure>),
    /// What was recorded could not be written as asked for, and is somewhere else.
    #[error("{failure}; what was recorded is in {}: `remora convert {} -o FILE` makes any format from it", .path.display(), .path.display())]
    Saved {
        /// What happened.
        failure: Box<Failure>,
        /// Where it is.
        path: PathBuf,
    },
    /// A snapshot could not be put where it was asked for, and is somewhere else.
    #[error("{failure}; the snapshot is in {}: `remora heap report {}` shows it", .path.display(), .path.display())]
    Kept {
        /// What happened.
        failure: Box<Failure>,
        /// Where it is.
        path: PathBuf,
    },
    /// What was kept true by collections is not what a second snapshot shows.
    #[error(
        "the picture of the heap was not true to the end: {0}; what the snapshots say of types holds, what lies behind the first may not; try a shorter time, or `remora heap diff` of two snapshots"
    )]
    NotTrue(String),
    /// Nothing was walked.
    #[error("no object was walked: {0}; look what limits the process (processes, memory, seccomp), then try again")]
    NoSnapshot(String),
    /// Nothing was walked, since it could not be kept.
    #[error("no object was walked: {FULL_DISK}; free some space, or give -o a place on another disk")]
    NoRoomForASnapshot,
    /// Nothing was walked: with `--roots` and `--watch` the runtime counts what was made of late.
    #[error(
        "no snapshot was taken: the program makes so many objects, or of so many types, that the runtime would take half a second or more to count them, as it does with --roots and --watch; leave --roots out, or in place of a watch take two snapshots and compare them with `remora heap diff`"
    )]
    TooMuchMade,
    /// `--no-gc` with a runtime that is too old for it.
    #[error("{runtime} cannot show its objects without a collection: that came with .NET 9; leave --no-gc out")]
    NeedsACollection {
        /// With its version.
        runtime: String,
    },
    /// Not even the least that a copy of the process needs may be used.
    #[error(
        "there is no room for a copy of the process: it needs {needed} of memory at least, and may use {allowed}; {remedy}"
    )]
    NoRoomForACopy {
        /// With its unit.
        needed: String,
        /// With its unit, and why so much.
        allowed: String,
        /// What to do: not what was done already.
        remedy: &'static str,
    },
    /// A copy that runs out of memory would take the process with it.
    #[error(
        "a snapshot could end the process: its control group {} has memory.oom.group, so the kernel ends all of it when memory runs out; the snapshot may need {most}, and {free} are free; raise the group's limit, or set --max-extra-memory", .group.display()
    )]
    EndsWithTheCopy {
        /// The group's directory.
        group: PathBuf,
        /// With its unit.
        most: String,
        /// With its unit.
        free: String,
    },
    /// A format that there is not.
    #[error(
        "unknown format {given:?}: there are {known}; give -o a file with one of these extensions, or --format with one of these names"
    )]
    UnknownFormat {
        /// What was asked for.
        given: String,
        /// The formats there are.
        known: String,
    },
    /// `-o -` without a format.
    #[error("standard output has no extension that says the format; add --format, for example --format {example}")]
    StdoutWithoutFormat {
        /// A format.
        example: &'static str,
    },
    /// Tables to `-o -`.
    #[error("tables are several files, and standard output is one; give -o a name, FILE.parquet")]
    TablesToStdout,
    /// A format of bytes, and a terminal.
    #[error("{format} is not for terminals: standard output is one; redirect it, or give -o a file")]
    BinaryToTerminal {
        /// The format.
        format: String,
    },
    /// The output is there already.
    #[error("{} exists and is not overwritten; add --force, or {} another name", .0, .0.how_to_give())]
    Exists(Place),
    /// The output is a directory.
    #[error("{} is a directory; {} the name of a file in it", .0, .0.how_to_give())]
    IsDirectory(Place),
    /// The output's directory is not there.
    #[error("{place} cannot be written: there is no directory {}; create it, or {} another place", .directory.display(), .place.how_to_give())]
    NoDirectory {
        /// The output.
        place: Place,
        /// Its directory.
        directory: PathBuf,
    },
    /// The disk is full, or nearly.
    #[error("{place} cannot be written: the disk is full ({why}); free some space, or {} a place on another disk", .place.how_to_give())]
    DiskFull {
        /// What was written.
        place: Place,
        /// How full.
        why: String,
    },
    /// The output cannot be written for another reason.
    #[error("{place} cannot be written: {error}; check its permissions, or {} another place", .place.how_to_give())]
    Output {
        /// What was written.
        place: Place,
        /// Why not.
        error: io::Error,
    },
    /// A recording that cannot be opened.
    #[error("{} cannot be read: {error}; check the name and the permissions", .file.display())]
    Input {
        /// The file.
        file: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A pipe or a device where a snapshot belongs.
    #[error("{} is {kind}, and no file; a snapshot is read more than once: write it into a file first, and give that", .file.display())]
    NotAFile {
        /// What was given.
        file: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A recording that cannot be read.
    #[error("{} cannot be read: {error}", .file.display())]
    Recording {
        /// The file.
        file: PathBuf,
        /// Why not.
        error: remora_recording::Error,
    },
    /// What would be made of a file takes too much memory.
    #[error("reading {} takes more than {part} of the free memory; read it where more is free, it is not damaged", .file.display())]
    TooLargeToRead {
        /// The file.
        file: PathBuf,
        /// Which part may be used.
        part: &'static str,
    },
    /// The same of a snapshot that was just taken.
    #[error("the snapshot is kept and not shown, since reading it takes more than half of the free memory; `remora heap report {}` shows it where more is free", .file.display())]
    NotShown {
        /// The file.
        file: PathBuf,
    },
    /// A heap snapshot that cannot be read.
    #[error("{} cannot be read: {error}", .file.display())]
    HeapFile {
        /// The file.
        file: PathBuf,
        /// Why not.
        error: remora_heap_file::Error,
    },
    /// A snapshot where a recording belongs.
    #[error("{} is a snapshot of a heap, and no recording; `remora heap report {}` shows it, `remora heap --help` has the rest", .file.display(), .file.display())]
    IsASnapshot {
        /// The file.
        file: PathBuf,
    },
    /// A recording where a snapshot belongs.
    #[error("{} is a recording, and no snapshot of a heap; `remora report {}` shows it", .file.display(), .file.display())]
    IsARecording {
        /// The file.
        file: PathBuf,
    },
    /// The index of a snapshot could not be made or read.
    #[error(transparent)]
    Index(remora_heap_view::Error),
    /// The page of a snapshot cannot be served.
    #[error(
        "port {port} of 127.0.0.1 cannot be served: {error}; give another one with --port, or none for any that is free"
    )]
    Port {
        /// Which was asked for; 0 for any.
        port: u16,
        /// Why not.
        error: io::Error,
    },
    /// A heap snapshot that does not hold all of the heap; what there is has been shown.
    #[error("{} does not hold all of the heap: what is shown is the part that it has; take another snapshot, unless the notes say that it would lack the same", .file.display())]
    PartOfTheHeap {
        /// The file.
        file: PathBuf,
    },
    /// A snapshot meets a condition of `--fail-if`; it has been shown.
    #[error("{} meets a condition of --fail-if: {met}; `remora heap show {} TYPE` tells what keeps objects of a type alive", .file.display(), .file.display())]
    ConditionMet {
        /// The file.
        file: PathBuf,
        /// The condition, and what the snapshot has.
        met: String,
    },
    /// A snapshot that the readers of another format cannot hold.
    #[error(transparent)]
    TooLargeToExport(#[from] remora_heap_export::TooLarge),
    /// A recording that ended early; what there is has been shown or written.
    #[error("{} is truncated: what could be read, {samples} ({lasted}), is in the output; nothing more can be had from it", .file.display())]
    Incomplete {
        /// The file.
        file: PathBuf,
        /// Samples that were readable, counted.
        samples: String,
        /// How long they last.
        lasted: String,
    },
    /// A profiler's library that cannot be opened.
    #[error("the library {} cannot be opened: {error}; check the name and the permissions", .file.display())]
    Library {
        /// The file.
        file: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The laboratory could not do its work.
    #[error(
        "the laboratory could not judge: {0}; what it found until then is in the output, run it again and report this if it stays"
    )]
    Laboratory(String),
    /// No thread of that name or id in the recording.
    #[error("no thread {asked:?} in the recording: it has {there}; give --thread one of these, or `all`")]
    NoThread {
        /// What was asked for.
        asked: String,
        /// What there is.
        there: String,
    },
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where a command prints: not every command has -o.
    StandardOutput,
    /// A file that -o names.
    File(PathBuf),
    /// A file that --receipt names.
    Receipt(PathBuf),
}

impl Place {
    fn how_to_give(&self) -> &'static str {
        match self {
            Place::StandardOutput => "redirect it to",
            Place::File(_) => "give -o",
            Place::Receipt(_) => "give --receipt",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::StandardOutput => out.write_str("standard output"),
            Place::File(path) | Place::Receipt(path) => path.display().fmt(out),
        }
    }
}

impl Failure {
    /// Nothing was walked, for these reasons.
    pub(crate) fn no_snapshot(why: &[String]) -> Failure {
        if why.iter().any(|why| why.contains(TOO_MUCH_MADE)) {
            return Failure::TooMuchMade;
        }
        if why.iter().any(|why| why == FULL_DISK) {
            return Failure::NoRoomForASnapshot;
        }
        Failure::NoSnapshot(why.join("; "))
    }

    /// `place` could not be written because of `error`.
    pub(crate) fn output(place: Place, error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Failure::DiskFull { place, why: "no space left".to_owned() }
            }
            io::ErrorKind::FileTooLarge => {
                Failure::DiskFull { place, why: "a file may not grow further, see `ulimit -f`".to_owned() }
            }
            _ => Failure::Output { place, error },
        }
    }

    /// The recording `file` could not be read because of `error`.
    pub(crate) fn recording(file: &Path, error: remora_recording::Error) -> Failure {
        match error {
            remora_recording::Error::Read(error) if takes_too_much(&error) => Failure::too_large(file, "half"),
            error => Failure::Recording { file: file.to_owned(), error },
        }
    }

    /// The snapshot `file` could not be read because of `error`.
    pub(crate) fn heap_file(file: &Path, error: remora_heap_file::Error) -> Failure {
        match error {
            remora_heap_file::Error::Read(error) if takes_too_much(&error) => Failure::too_large(file, "half"),
            error => Failure::HeapFile { file: file.to_owned(), error },
        }
    }

    /// What would be made of `file` takes more than this part of the free memory.
    pub(crate) fn too_large(file: &Path, part: &'static str) -> Failure {
        Failure::TooLargeToRead { file: file.to_owned(), part }
    }

    /// The same, with where what was recorded is instead.
    pub(crate) fn saved_in(self, path: &Path) -> Failure {
        Failure::Saved { failure: Box::new(self), path: path.to_owned() }
    }

    /// The same, with where the snapshot is instead.
    pub(crate) fn kept_in(self, path: &Path) -> Failure {
        Failure::Kept { failure: Box::new(self), path: path.to_owned() }
    }

    /// The same, without advice that does not lead to a heap.
    pub(crate) fn of_a_heap(self) -> Failure {
        let told = self.to_string();
        // Who records is told by a command line, which is no advice whatever it says.
        if self.exit() == Exit::Held || advice::of_a_heap(&told) == told {
            self
        } else {
            Failure::OfAHeap(Box::new(self))
        }
    }

    /// Whether it stands in the agent's way only, so that the runtime's own sampler can be tried.
    pub(crate) fn concerns_the_agent_only(&self) -> bool {
        use remora_collector::Error as Collector;
        use remora_trigger::{Error as Trigger, HResult};
        match self {
            Failure::Collector(Collector::Trigger(error)) => matches!(
                error,
                Trigger::NoLibraryPlace { .. }
                    | Trigger::NoSocketPlace { .. }
                    | Trigger::Refused(HResult::PROFILER_ALREADY_ACTIVE | HResult::MODULE_NOT_FOUND)
            ),
            Failure::Collector(
                Collector::NoPlaceLeft
                | Collector::SharedMemory(_)
                | Collector::Refused(_)
                | Collector::NoMemory(_)
                | Collector::Inert(_)
                | Collector::NoHello(_),
            ) => true,
            _ => false,
        }
    }

    /// The exit status.
    pub(crate) fn exit(&self) -> Exit {
        use remora_collector::Error as Collector;
        use remora_recording::Error as Recording;
        match self {
            Failure::NoProcess | Failure::SeveralProcesses { .. } | Failure::NoSuchName { .. } => Exit::NoProcess,
            Failure::Precondition { exit, .. } => *exit,
            Failure::Held { .. } => Exit::Held,
            Failure::LockTaken { .. } => Exit::NoPermission,
            Failure::Trigger(error) => trigger_exit(error),
            Failure::Collector(error) => match error {
                Collector::Trigger(error) => trigger_exit(error),
                Collector::NoHello(_) => Exit::NoAnswer,
                Collector::NoPlaceLeft => Exit::SlotTaken,
                Collector::TargetEnded => Exit::NoProcess,
                _ => Exit::Refused,
            },
            Failure::Snapshot(remora_receipt::Error::Gone { .. }) => Exit::NoProcess,
            Failure::Snapshot(_) => Exit::NoPermission,
            Failure::Signals(_) => Exit::Unexpected,
            Failure::Interrupted | Failure::InterruptedTwice => Exit::Interrupted,
            Failure::Command { .. } | Failure::CommandEnded { .. } => Exit::NoProcess,
            Failure::NoRuntime { .. } => Exit::NotDotnet,
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
            | Failure::UnknownFormat { .. }
            | Failure::StdoutWithoutFormat { .. }
            | Failure::TablesToStdout => Exit::Usage,
            Failure::NoThread { .. } | Failure::Library { .. } | Failure::Laboratory(_) => Exit::Usage,
            Failure::BinaryToTerminal { .. } | Failure::Exists(_) | Failure::IsDirectory(_) => Exit::OutputRefused,
            Failure::NoDirectory { .. } | Failure::Output { .. } => Exit::OutputRefused,
            Failure::DiskFull { .. } => Exit::DiskFull,
            Failure::Input { .. }
            | Failure::NotAFile { .. }
            | Failure::IsASnapshot { .. }
            | Failure::IsARecording { .. } => Exit::NotARecording,
            Failure::Incomplete { .. } => Exit::Truncated,
            Failure::TooLargeToRead { .. } | Failure::NotShown { .. } => Exit::TooLargeToRead,
            Failure::PartOfTheHeap { .. } | Failure::NotTrue(_) => Exit::PartOfTheHeap,
            Failure::ConditionMet { .. } => Exit::ConditionMet,
            Failure::TooLargeToExport(_) => Exit::OutputRefused,
            Failure::HeapFile { error, .. } => heap_file_exit(error),
            Failure::Index(error) => index_exit(error),
            Failure::Port { .. } => Exit::OutputRefused,
            Failure::Recording { error, .. } => match error {
                Recording::Truncated { .. } => Exit::Truncated,
                Recording::Damaged { .. } | Recording::TooLarge { .. } => Exit::Damaged,
                Recording::Newer { .. } => Exit::Newer,
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
        _ => Exit::NotARecording,
    }
}

/// The exit status for a snapshot whose index cannot be had.
fn index_exit(error: &remora_heap_view::Error) -> Exit {
    use remora_heap_view::Error;
    match error {
        Error::Interrupted => Exit::Interrupted,
        Error::Write(_) | Error::TooLarge { .. } => Exit::OutputRefused,
        _ => Exit::Unexpected,
    }
}

/// The exit status for what the crates that attach report.
fn trigger_exit(error: &remora_trigger::Error) -> Exit {
    use remora_trigger::{Error, HResult, Reason};
    match error {
        Error::NoSuchProcess { .. } | Error::Changed { .. } => Exit::NoProcess,
        Error::NotDotNet { .. } => Exit::NotDotnet,
        Error::NotAttachable { reason, .. } => match reason {
            Reason::Ended => Exit::NoProcess,
            Reason::RuntimeNotLoaded => Exit::NotDotnet,
            Reason::NativeAot | Reason::Mono | Reason::TooOld { .. } => Exit::Unsupported,
            Reason::NotOwner { .. } => Exit::NoPermission,
            Reason::Stopped { .. } => Exit::NoAnswer,
            // Switched off, or the socket is gone for another reason: nobody listens.
            _ => Exit::DiagnosticsOff,
        },
        Error::TimedOut { .. } => Exit::NoAnswer,
        Error::NoLibraryPlace { .. } | Error::NoSocketPlace { .. } | Error::BadLibrary { .. } => Exit::CannotLoad,
        Error::Refused(HResult::PROFILER_ALREADY_ACTIVE) => Exit::SlotTaken,
        _ => Exit::Refused,
    }
}

#[cfg(test)]
mod tests;
