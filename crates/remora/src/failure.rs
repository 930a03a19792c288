//! Why `remora` did not do what was asked: a code, facts, a message, remedies and an exit status.
//!
//! `Display` is the message. [`Failure::line`] adds the remedies, [`Failure::json`] has everything for programs.
//! docs/troubleshooting has a heading for each code, docs/reference/errors.md a row.

mod code;
mod exit_status;
mod json;
mod remedy;

use crate::bounded::takes_too_much;
#[cfg(test)]
use crate::exit::Exit;
pub(crate) use remedy::{Goal, Remedies, in_words};
use remora_attach::Subject;
use remora_wire::TOO_MUCH_MADE;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a heap task ended before it was complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The disk is full, or nearly.
    FullDisk,
    /// The user ended it.
    Interrupted,
    /// A limit of memory or time.
    Limit(String),
}

impl fmt::Display for Cut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::FullDisk => out.write_str("the disk is full"),
            Cut::Interrupted => out.write_str("interrupted"),
            Cut::Limit(why) => out.write_str(why),
        }
    }
}

/// Why the command did not do what was asked.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Failure {
    /// The flags contradict each other or are absurd.
    #[error("{0}")]
    Usage(String),
    /// No process was named, and there is none.
    #[error("no .NET process is running that you may see")]
    NoProcess,
    /// No process was named, or by a name that several have.
    #[error("which one? {count} .NET processes fit: {list}")]
    SeveralProcesses {
        /// How many.
        count: usize,
        /// The first ones.
        list: String,
    },
    /// Several processes, and none that can be attached to.
    #[error("{count} .NET processes run, and none can be attached to: {list}")]
    NoneAttachable {
        /// How many.
        count: usize,
        /// The first ones.
        list: String,
    },
    /// No process has this name.
    #[error("no .NET process is called {name:?}")]
    NoSuchName {
        /// The name.
        name: String,
        /// What to try instead.
        hint: String,
    },
    /// A precondition of recording does not hold.
    #[error("cannot record process {process_id}: {found}")]
    Precondition {
        /// The process.
        process_id: u32,
        /// What is wrong.
        found: String,
        /// Which one.
        subject: Subject,
        /// What to do.
        remedies: Remedies,
    },
    /// Somebody else is recording the process.
    #[strum(serialize = "recording-in-progress")]
    #[error("process {process_id} is being recorded by {holder}")]
    Held {
        /// The process.
        process_id: u32,
        /// Who.
        holder: String,
    },
    /// The directory for this user's locks is another's.
    #[error(
        "cannot lock the recording of process {process_id}: another user has {}", path.display()
    )]
    LockTaken {
        /// The process.
        process_id: u32,
        /// The directory.
        path: PathBuf,
    },
    /// The process could not be found or attached to.
    #[error(transparent)]
    Attach(#[from] remora_attach::Error),
    /// The agent could not be attached, or the connection to it broke.
    #[error(transparent)]
    Collector(#[from] remora_collector::Error),
    /// What is in the process before the attach could not be read: another user's, or it ended.
    #[error(transparent)]
    Snapshot(remora_receipt::Error),
    /// Signals could not be listened to.
    #[strum(serialize = "signals-unavailable")]
    #[error("Ctrl-C cannot be caught: {0}")]
    Signals(io::Error),
    /// Ctrl-C before there was anything to end.
    #[error("interrupted before anything was recorded")]
    Interrupted,
    /// Interrupted once more while an end was under way.
    #[error(
        "interrupted a second time: the agent detaches by itself, and what was recorded is in the .unfinished file"
    )]
    InterruptedTwice,
    /// The command to record did not start.
    #[strum(serialize = "command-not-started")]
    #[error("{name} cannot be started: {error}")]
    Command {
        /// The program.
        name: String,
        /// Why not.
        error: io::Error,
    },
    /// The command to record ended before a runtime started in it.
    #[error("{name} ended ({status}) before a .NET runtime started in it")]
    CommandEnded {
        /// The program.
        name: String,
        /// How.
        status: std::process::ExitStatus,
    },
    /// No runtime started in the command.
    #[error("no .NET runtime started in {name} (process {process_id}, which still runs) within {seconds} seconds")]
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
    #[error("the recording ended early because the disk is full: what was recorded until then is complete")]
    EndedByFullDisk,
    /// The recording took as much as it may; it was written as asked for.
    #[error("the recording ended early, since {0}: what was recorded until then is complete")]
    EndedByLimit(String),
    /// It ended like this, and something of Remora is in the process; the receipt lists it.
    #[error("{0}, and something of Remora remains in the process")]
    LeftBehind(Box<Failure>),
    /// The same, where a heap was wanted: no other engine and no other command can take a snapshot.
    #[error("{0}")]
    OfAHeap(Box<Failure>),
    /// What was recorded could not be written as asked for, and is somewhere else.
    #[error("{failure}")]
    Saved {
        /// What happened.
        failure: Box<Failure>,
        /// Where it is; `None` where its file was removed, and nothing took a copy.
        path: Option<PathBuf>,
    },
    /// A snapshot could not be put where it was asked for, and is somewhere else.
    #[error("{failure}")]
    Kept {
        /// What happened.
        failure: Box<Failure>,
        /// Where it is; `None` as for [`Failure::Saved`].
        path: Option<PathBuf>,
    },
    /// What was kept true by collections is not what a second snapshot shows.
    #[strum(serialize = "heap-tracking-lost-events")]
    #[error("heap tracking lost events: {0}; only the totals by type are reliable")]
    NotTrue(String),
    /// Nothing was walked.
    #[error("no object was walked: {0}")]
    NoSnapshot(String),
    /// Nothing was walked, since it could not be kept.
    #[error("no object was walked: the disk is full")]
    NoRoomForASnapshot,
    /// Nothing was walked: with `--roots` and `--watch` the runtime counts what was made of late.
    #[strum(serialize = "too-many-young-objects")]
    #[error(
        "no snapshot was taken: with --roots and --watch the runtime counts young objects, and here that would pause the program for half a second or more"
    )]
    TooMuchMade,
    /// `--no-gc` with a runtime that is too old for it.
    #[error("{runtime} cannot show its objects without a collection: that came with .NET 9")]
    NeedsACollection {
        /// With its version.
        runtime: String,
    },
    /// Not even the least that a copy of the process needs may be used.
    #[error("there is no room for a copy of the process: it needs {needed} of memory at least, and may use {allowed}")]
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
        "a snapshot could end the process: its control group {} has memory.oom.group, so the kernel ends all of it when memory runs out; the snapshot may need {most}, and {free} are free", .group.display()
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
    #[error("unknown format {given:?}: there are {known}")]
    UnknownFormat {
        /// What was asked for.
        given: String,
        /// The formats there are.
        known: String,
    },
    /// `-o -` without a format.
    #[error("standard output has no extension that says the format")]
    StdoutWithoutFormat {
        /// A format.
        example: &'static str,
    },
    /// Tables to `-o -`.
    #[error("tables are several files, and standard output is one")]
    TablesToStdout,
    /// A format of bytes, and a terminal.
    #[error("refusing to write binary data ({format}) to a terminal")]
    BinaryToTerminal {
        /// The format.
        format: String,
    },
    /// The output is there already.
    #[strum(serialize = "output-exists")]
    #[error("{0} exists and is not overwritten")]
    Exists(Place),
    /// The output is a pipe without a reader.
    #[error("{0} is a pipe that nobody reads")]
    NoReader(Place),
    /// The output is a directory, or its name is one of a directory.
    #[strum(serialize = "output-is-directory")]
    #[error("{0} is a directory")]
    IsDirectory(Place),
    /// The output's directory is not there.
    #[strum(serialize = "no-output-directory")]
    #[error("{place} cannot be written: there is no directory {}", .directory.display())]
    NoDirectory {
        /// The output.
        place: Place,
        /// Its directory.
        directory: PathBuf,
    },
    /// The disk is full, or nearly.
    #[error("{place} cannot be written: the disk is full ({why})")]
    DiskFull {
        /// What was written.
        place: Place,
        /// How full.
        why: String,
    },
    /// The output cannot be written for another reason.
    #[strum(serialize = "output-failed")]
    #[error("{place} cannot be written: {error}")]
    Output {
        /// What was written.
        place: Place,
        /// Why not.
        error: io::Error,
    },
    /// A recording that cannot be opened.
    #[strum(serialize = "input-failed")]
    #[error("{} cannot be read: {error}", .file.display())]
    Input {
        /// The file.
        file: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A pipe or a device where a snapshot belongs.
    #[error("{} is {kind}, and no file", .file.display())]
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
    #[error("reading {} takes more than {part} of the free memory (it is not damaged)", .file.display())]
    TooLargeToRead {
        /// The file.
        file: PathBuf,
        /// Which part may be used.
        part: &'static str,
    },
    /// The same of a snapshot that was just taken.
    #[error("the snapshot is kept and not shown, since reading it takes too much of the free memory")]
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
    #[error("{} is a heap snapshot, and no recording", .file.display())]
    IsASnapshot {
        /// The file.
        file: PathBuf,
    },
    /// A recording where a snapshot belongs.
    #[error("{} is a recording, and no heap snapshot", .file.display())]
    IsARecording {
        /// The file.
        file: PathBuf,
    },
    /// The index of a snapshot could not be made or read.
    #[error(transparent)]
    Index(remora_heap_view::Error),
    /// The page of a snapshot cannot be served.
    #[strum(serialize = "port-unavailable")]
    #[error("port {port} of 127.0.0.1 cannot be served: {error}")]
    Port {
        /// Which was asked for; 0 for any.
        port: u16,
        /// Why not.
        error: io::Error,
    },
    /// A heap snapshot that does not hold all of the heap; what there is has been shown.
    #[strum(serialize = "heap-incomplete")]
    #[error("{} does not hold all of the heap: what is shown is the part that it has", .file.display())]
    PartOfTheHeap {
        /// The file.
        file: PathBuf,
    },
    /// A snapshot meets a condition of `--fail-if`; it has been shown.
    #[error("{} meets a condition of --fail-if: {met}", .file.display())]
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
    #[strum(serialize = "recording-incomplete")]
    #[error("{} is truncated: what could be read, {samples} ({lasted}), is in the output", .file.display())]
    Incomplete {
        /// The file.
        file: PathBuf,
        /// Samples that were readable, counted.
        samples: String,
        /// How long they last.
        lasted: String,
    },
    /// A profiler's library that cannot be opened.
    #[strum(serialize = "library-unreadable")]
    #[error("the library {} cannot be opened: {error}", .file.display())]
    Library {
        /// The file.
        file: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The laboratory could not do its work.
    #[strum(serialize = "lab-failed")]
    #[error("the lab failed: {0}; what it found until then is in the output")]
    Laboratory(String),
    /// No thread of that name or id in the recording.
    #[error("no thread {asked:?} in the recording: it has {there}")]
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
    /// The directory for temporary files, where a recording is kept whose output is no regular file.
    Temporary(PathBuf),
}

impl Place {
    /// The imperative that names another place.
    fn how_to_give(&self) -> &'static str {
        match self {
            Place::StandardOutput => "redirect it to",
            Place::File(_) => "give -o",
            Place::Receipt(_) => "give --receipt",
            Place::Temporary(_) => "set TMPDIR to",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::StandardOutput => out.write_str("standard output"),
            Place::File(path) | Place::Receipt(path) => path.display().fmt(out),
            Place::Temporary(path) => write!(out, "the directory for temporary files, {} (TMPDIR),", path.display()),
        }
    }
}

impl Failure {
    /// Message and remedy, on one line.
    pub(crate) fn line(&self) -> String {
        self.remedy().map_or_else(|| self.to_string(), |remedy| format!("{self}; {remedy}"))
    }

    /// Nothing was walked: why it ended early, and what the agent said.
    pub(crate) fn no_snapshot(cut: Option<&Cut>, mut notes: Vec<String>) -> Failure {
        if notes.iter().any(|note| note.contains(TOO_MUCH_MADE)) {
            return Failure::TooMuchMade;
        }
        match cut {
            Some(Cut::FullDisk) => Failure::NoRoomForASnapshot,
            cut => {
                notes.extend(cut.map(Cut::to_string));
                Failure::NoSnapshot(notes.join(", "))
            }
        }
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
    pub(crate) fn saved_in(self, path: Option<PathBuf>) -> Failure {
        Failure::Saved { failure: Box::new(self), path }
    }

    /// The same, with where the snapshot is instead.
    pub(crate) fn kept_in(self, path: Option<PathBuf>) -> Failure {
        Failure::Kept { failure: Box::new(self), path }
    }

    /// The same, without remedies that do not lead to a snapshot.
    pub(crate) fn of_a_heap(self) -> Failure {
        Failure::OfAHeap(Box::new(self))
    }

    /// Whether it stands in the agent's way only, so that the runtime's own sampler can be tried.
    pub(crate) fn concerns_the_agent_only(&self) -> bool {
        use remora_attach::{Error as Attach, HResult};
        use remora_collector::Error as Collector;
        match self {
            Failure::Collector(Collector::Attach(error)) => matches!(
                error,
                Attach::NoLibraryPlace { .. }
                    | Attach::NoSocketPlace { .. }
                    | Attach::RuntimeRefused(HResult::PROFILER_ALREADY_ACTIVE | HResult::MODULE_NOT_FOUND)
            ),
            Failure::Collector(
                Collector::NoPlaceLeft
                | Collector::SharedMemory(_)
                | Collector::AgentRefused(_)
                | Collector::NoMemory(_)
                | Collector::Inert(_)
                | Collector::NoHello(_),
            ) => true,
            _ => false,
        }
    }
}

impl From<remora_heap_report::Error> for Failure {
    fn from(error: remora_heap_report::Error) -> Failure {
        use remora_heap_report::Error;
        match error {
            Error::Open { file, error } => Failure::Input { file, error },
            Error::NotAFile { file, kind } => Failure::NotAFile { file, kind },
            Error::Snapshot { file, error } => Failure::HeapFile { file, error },
            Error::NotThere(what) => Failure::Usage(what),
        }
    }
}

#[cfg(test)]
mod tests;
