//! Failures of the command: a code, facts, a message, remedies and an exit status.
//!
//! tidy: catalogue
//!
//! `Display` is the message. [`Failure::line`] adds the remedies, [`Failure::json`] has everything as JSON.
//! docs/troubleshooting has a heading for each code, docs/reference/errors.md a row.

mod code;
mod exit_status;
mod json;
mod remedy;

use crate::bounded::takes_too_much;
#[cfg(test)]
use crate::exit::Exit;
pub(crate) use remedy::{Goal, Remedies, in_words};
use remora_attach::{Check, Process, Subject};
use remora_clr_model::machine::AttachError;
use remora_wire::AgentErrorCode;
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
    /// A memory or time limit.
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

/// What `remora model` failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelCause {
    /// The directory of the sockets.
    Directory,
    /// A limit of processes, memory or open files.
    Limits,
    /// This command cannot load libraries.
    StaticBuild,
    /// The message says all.
    Other,
}

/// What a command ended before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// A start of a runtime, which would have loaded the agent.
    Runtime,
    /// An attach to its runtime, if it has one.
    Attach,
}

impl fmt::Display for Before {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Before::Runtime => "a .NET runtime started in it",
            Before::Attach => "Remora could attach to a .NET runtime in it",
        })
    }
}

/// Why the command failed.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Failure {
    /// The flags contradict each other or have impossible values.
    #[error("{0}")]
    Usage(String),
    /// No process was named, and no .NET process runs.
    #[error("no .NET process is running that you may see")]
    NoProcess,
    /// No process was named, or several have the given name.
    #[error("which one? {count} .NET processes fit: {list}")]
    SeveralProcesses {
        /// How many.
        count: usize,
        /// The first ones.
        list: String,
    },
    /// No process was named, and nobody can read the name of the only one before it is attached to.
    #[error("{process} is the only .NET process that can be attached to, but without a terminal it must be named")]
    ProcessNotNamed {
        /// Its id and name.
        process: String,
        /// Its id.
        pid: u32,
    },
    /// Several processes, but none can be attached to.
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
        /// The fixes.
        remedies: Remedies,
    },
    /// Another Remora is recording the process.
    #[strum(serialize = "recording-in-progress")]
    #[error("process {process_id} is being recorded by {holder}")]
    Held {
        /// The process.
        process_id: u32,
        /// The recorder.
        holder: String,
    },
    /// The directory for this user's instance locks belongs to another user.
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
    /// The baseline could not be read: the process is another user's, or has ended.
    #[error(transparent)]
    Snapshot(remora_receipt::Error),
    /// The signal handlers could not be installed.
    #[strum(serialize = "signals-unavailable")]
    #[error("Ctrl-C cannot be caught: {0}")]
    Signals(io::Error),
    /// Ctrl-C before there was anything to stop.
    #[error("interrupted before anything was recorded")]
    Interrupted,
    /// Interrupted again while stopping.
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
    /// The command ended before anything of it was recorded or traced.
    #[error("{name} ended ({status}) before {before}")]
    CommandEnded {
        /// The program.
        name: String,
        /// How.
        status: std::process::ExitStatus,
        /// What did not happen any more.
        before: Before,
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
    /// The command's runtime has started without the agent.
    #[error("the runtime of process {process_id} has started without the agent")]
    NotLoadedAtStart {
        /// The process.
        process_id: u32,
    },
    /// The patterns of a trace match nothing that can be traced.
    #[error("no method to trace matches {0}")]
    NoMethodMatches(String),
    /// The patterns of a trace match more methods than anybody means by accident.
    #[error("{0} methods match, and each would be compiled again")]
    TooManyMethods(u32),
    /// A trace leaves an agent in the process, and nobody agreed to that.
    #[error("nothing was traced: that the agent stays in the process was not confirmed")]
    NotConfirmed,
    /// The runtime did not restore the traced methods.
    #[error("the traced methods may not be restored: {0}")]
    NotRestored(String),
    /// No call was traced; the result was written.
    #[error("nothing was traced: {0}")]
    NothingTraced(String),
    /// The recording ended with the process; recording and result were written.
    #[error("{0}")]
    TargetEnded(String),
    /// The recording ended because the disk was nearly full; it was written.
    #[error("the recording ended early because the disk is full: the recording until then is complete")]
    EndedByFullDisk,
    /// The recording reached its memory or disk limit; it was written.
    #[error("the recording ended early, since {0}: the recording until then is complete")]
    EndedByLimit(String),
    /// The wrapped failure happened, and something of Remora remains in the process; the receipt lists it.
    #[error("{0}, and something of Remora remains in the process")]
    LeftBehind(Box<Failure>),
    /// The wrapped failure of a heap task: no other engine and no other command can take a snapshot.
    #[error("{0}")]
    OfAHeap(Box<Failure>),
    /// The recording could not be written to its output, and is in another file.
    #[error("{failure}")]
    Saved {
        /// What happened.
        failure: Box<Failure>,
        /// Where it is; `None` where its file was removed, and nothing took a copy.
        path: Option<PathBuf>,
    },
    /// A snapshot could not be written to its output, and is in another file.
    #[error("{failure}")]
    Kept {
        /// What happened.
        failure: Box<Failure>,
        /// Where it is; `None` as for [`Failure::Saved`].
        path: Option<PathBuf>,
    },
    /// The heap mirror, updated through GCs, differs from the second snapshot.
    #[strum(serialize = "heap-tracking-lost-events")]
    #[error("heap tracking lost events: {0}; only the totals by type are reliable")]
    NotTrue(String),
    /// No heap was walked.
    #[error("no object was walked: {0}")]
    NoSnapshot(String),
    /// No heap was walked: it could not be stored.
    #[error("no object was walked: the disk is full")]
    NoRoomForASnapshot,
    /// No heap was walked: with `--roots` and `--watch` the runtime counts the young objects.
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
    /// The memory limit is below the minimum that a forked copy needs.
    #[error("there is no room for a copy of the process: it needs {needed} of memory at least, and may use {allowed}")]
    NoRoomForACopy {
        /// With its unit.
        needed: String,
        /// With its unit, and the reason for the limit.
        allowed: String,
        /// What to do; never something the user has already done.
        remedy: &'static str,
    },
    /// A copy that runs out of memory would make the kernel kill the process, too.
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
    /// An unknown format.
    #[error("unknown format {given:?}: there are {known}")]
    UnknownFormat {
        /// The given name.
        given: String,
        /// The known formats.
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
    /// A binary format to a terminal.
    #[error("refusing to write binary data ({format}) to a terminal")]
    BinaryToTerminal {
        /// The format.
        format: String,
    },
    /// The output exists already.
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
    /// The output's directory does not exist.
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
        /// The given path.
        file: PathBuf,
        /// The kind of file.
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
    /// Decoding the file takes too much memory.
    #[error("reading {} takes more than {part} of the free memory (it is not damaged)", .file.display())]
    TooLargeToRead {
        /// The file.
        file: PathBuf,
        /// The share of memory that may be used.
        part: &'static str,
    },
    /// The same for a snapshot that was just taken.
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
    /// A snapshot was given instead of a recording.
    #[error("{} is a heap snapshot, and no recording", .file.display())]
    IsASnapshot {
        /// The file.
        file: PathBuf,
    },
    /// A recording was given instead of a snapshot.
    #[error("{} is a recording, and no heap snapshot", .file.display())]
    IsARecording {
        /// The file.
        file: PathBuf,
    },
    /// The index of a snapshot could not be built or read.
    #[error(transparent)]
    Index(remora_heap_view::Error),
    /// The port for the snapshot's page cannot be opened.
    #[strum(serialize = "port-unavailable")]
    #[error("port {port} of 127.0.0.1 cannot be served: {error}")]
    Port {
        /// The requested port; 0 for any.
        port: u16,
        /// Why not.
        error: io::Error,
    },
    /// A heap snapshot that does not contain the whole heap; its part was shown.
    #[strum(serialize = "heap-incomplete")]
    #[error("{} does not hold all of the heap: what is shown is the part that it has", .file.display())]
    PartOfTheHeap {
        /// The file.
        file: PathBuf,
    },
    /// A snapshot fulfils a condition of `--fail-if`; it was shown.
    #[error("{} meets a condition of --fail-if: {met}", .file.display())]
    ConditionMet {
        /// The file.
        file: PathBuf,
        /// The condition, and the snapshot's value.
        met: String,
    },
    /// Objects of types without names could be those of a condition of `--fail-if`; the snapshot was shown.
    #[error("{} does not decide a condition of --fail-if: {condition}", .file.display())]
    ConditionNotProven {
        /// The file.
        file: PathBuf,
        /// The condition, and the snapshot's value.
        condition: String,
    },
    /// A snapshot too large for readers of the other format.
    #[error(transparent)]
    TooLargeToExport(#[from] remora_heap_export::TooLarge),
    /// A recording too large for a format that repeats what stacks have in common.
    #[strum(serialize = "stacks-too-large")]
    #[error("{0}")]
    StacksTooLarge(remora_export::TooLarge),
    /// A recording that ended early; its part was shown or written.
    #[strum(serialize = "recording-incomplete")]
    #[error("{} is truncated: what could be read, {samples} ({lasted}), is in the output", .file.display())]
    Incomplete {
        /// The file.
        file: PathBuf,
        /// Readable samples, counted.
        samples: String,
        /// The time they cover.
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
    /// No scenario of `remora model run` has this name.
    #[error("there is no scenario {given:?}: there are {known}")]
    NoSuchScenario {
        /// The given name.
        given: String,
        /// The known names.
        known: String,
    },
    /// No modelled target runs.
    #[strum(serialize = "no-model-target")]
    #[error("no modelled target runs")]
    NoTarget,
    /// No modelled target was named, and several run.
    #[error("which target? {list} run")]
    TargetNotNamed {
        /// Their names.
        list: String,
    },
    /// No modelled target has this name, or it has ended.
    #[error("no modelled target is called {name:?}")]
    NoSuchTarget {
        /// The given name.
        name: String,
        /// The names of those that run.
        there: String,
    },
    /// A modelled target of this name runs already.
    #[error("a modelled target {name} runs already")]
    TargetExists {
        /// Its name.
        name: String,
    },
    /// A modelled target ended.
    #[error("the modelled target {name} ended {how}")]
    ModelTargetEnded {
        /// Its name.
        name: String,
        /// As in "by SIGSEGV".
        how: String,
    },
    /// A modelled target is there, and did not answer in time or broke the connection.
    #[error("the modelled target {name} did not answer: {error}")]
    ModelTargetSilent {
        /// Its name.
        name: String,
        /// What was noticed.
        error: String,
    },
    /// The target has not loaded this runtime.
    #[error("the target has not loaded the runtime {runtime}: it has {}", if there.is_empty() { "none" } else { there })]
    NoSuchRuntime {
        /// The given version.
        runtime: String,
        /// The loaded ones.
        there: String,
    },
    /// An attach to a modelled target failed.
    #[strum(serialize = "model-attach-failed")]
    #[error("{}", of_a_modelled_attach(error, why.as_deref()))]
    ModelAttach {
        /// The answer.
        error: AttachError,
        /// Why the target could not open the library.
        why: Option<String>,
    },
    /// No profiler in the target can be asked to detach.
    #[strum(serialize = "profiler-not-connected")]
    #[error("no profiler in {name} is connected to its channel, and nobody else can detach one")]
    NoChannel {
        /// The target.
        name: String,
    },
    /// No profiler wrote the expected text to the channel in time; what it wrote was shown.
    #[strum(serialize = "channel-text-missing")]
    #[error("no profiler has written {text:?} to the channel")]
    NotWritten {
        /// The text.
        text: String,
    },
    /// A profiler is still loaded after its detach request.
    #[strum(serialize = "profiler-not-unloaded")]
    #[error(
        "the profiler in {name} is still loaded: {}",
        match (*is_asked, callbacks.as_str()) {
            (true, _) => format!("a callback has not returned ({callbacks})"),
            (false, "") => "it has not requested its detach".to_owned(),
            (false, _) => format!("it has not requested its detach, and a callback has not returned ({callbacks})"),
        }
    )]
    NotUnloaded {
        /// The target.
        name: String,
        /// Whether it has requested its detach.
        is_asked: bool,
        /// Callbacks that have not returned.
        callbacks: String,
    },
    /// `remora model` itself failed.
    #[strum(serialize = "model-failed")]
    #[error("{message}")]
    Model {
        /// The message.
        message: String,
        /// What to change.
        cause: ModelCause,
    },
    /// The laboratory itself failed.
    #[strum(serialize = "lab-failed")]
    #[error("the lab failed: {0}; what it found until then is in the output")]
    Laboratory(String),
    /// No thread of that name or id in the recording.
    #[error("no thread {asked:?} in the recording: it has {there}")]
    NoThread {
        /// The given name or id.
        asked: String,
        /// The threads in the recording.
        there: String,
    },
}

/// An answer of `AttachProfiler`, with the reason of a library that could not be opened.
fn of_a_modelled_attach(error: &AttachError, why: Option<&str>) -> String {
    let text = match error {
        AttachError::Answered(code) => format!("AttachProfiler answered {code}: {}", uncapitalized(code.meaning())),
        AttachError::AccessDenied => "access is denied (E_ACCESSDENIED)".to_owned(),
        other => uncapitalized(&other.to_string()),
    };
    let text = text.trim_end_matches('.');
    why.map_or_else(|| text.to_owned(), |why| format!("{text} ({why})"))
}

fn uncapitalized(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A command's printed result: not every command has -o.
    StandardOutput,
    /// A file that -o names.
    File(PathBuf),
    /// A file that --receipt names.
    Receipt(PathBuf),
    /// The index of a snapshot, which no flag names.
    Index(PathBuf),
    /// The directory for temporary files, where a recording is kept whose output is no regular file.
    Temporary(PathBuf),
}

impl Place {
    /// The imperative that suggests another destination.
    fn how_to_give(&self) -> &'static str {
        match self {
            Place::StandardOutput => "redirect it to",
            Place::File(_) => "give -o",
            Place::Receipt(_) => "give --receipt",
            Place::Index(_) => "set XDG_CACHE_HOME to",
            Place::Temporary(_) => "set TMPDIR to",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::StandardOutput => out.write_str("standard output"),
            Place::File(path) | Place::Receipt(path) | Place::Index(path) => path.display().fmt(out),
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
    pub(crate) fn no_snapshot(cut: Option<&Cut>, failed: Option<AgentErrorCode>, mut notes: Vec<String>) -> Failure {
        if failed == Some(AgentErrorCode::TooMuchAllocated) {
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
            _ => match error.downcast() {
                Ok(too_large) => Failure::StacksTooLarge(too_large),
                Err(error) => Failure::Output { place, error },
            },
        }
    }

    /// The recording `file` could not be read because of `error`.
    pub(crate) fn recording(file: &Path, error: remora_recording::Error) -> Failure {
        match error {
            remora_recording::Error::Read(error) if takes_too_much(&error) => Failure::too_large(file, "a quarter"),
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

    /// Decoding `file` takes more than this share of the free memory.
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

    /// A precondition that failed.
    pub(crate) fn precondition(process: &Process, check: Check) -> Failure {
        let Check { subject, found, remedies, .. } = check;
        Failure::Precondition { process_id: process.pid, found, subject, remedies: Remedies::Typed(remedies) }
    }

    /// Drops remedies that do not lead to a snapshot.
    pub(crate) fn of_a_heap(self) -> Failure {
        Failure::OfAHeap(Box::new(self))
    }

    /// Whether only the agent is blocked, so that the runtime's own sampler can be tried.
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
