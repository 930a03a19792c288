//! Everything that can go wrong between finding a process and having attached to it, each with cause and remedy.

use crate::codec::CodecError;
use crate::hresult::HResult;
use crate::runtime::Version;
use remora_symbols::TargetPath;
use std::path::PathBuf;
use std::time::Duration;

/// Why a process cannot be attached to, as far as can be told from outside without asking it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// It has ended, or ends.
    #[error("the process has ended; nothing can be done")]
    Ended,
    /// It is not CoreCLR: NativeAOT.
    #[error(
        "the program was compiled by NativeAOT, which has no profiling interface; use a native profiler such as perf"
    )]
    NativeAot,
    /// It is not CoreCLR: Mono.
    #[error("the program runs on Mono, which cannot load a CoreCLR profiler; run it on .NET 6 or later")]
    Mono,
    /// Before .NET Core 3.0 there is no diagnostics port.
    #[error(".NET Core {version} has no diagnostics port, which came with 3.0; move the program to .NET 8 or later")]
    TooOld {
        /// The runtime's version.
        version: Version,
    },
    /// The host is there, the runtime is not yet.
    #[error(
        "the process has not loaded the .NET runtime yet; try again in a moment, or profile from the start with `remora record -- CMD`"
    )]
    RuntimeNotLoaded,
    /// It belongs to somebody else.
    #[error("access denied: the process belongs to {owner} and you are user {viewer}; {}", become_owner(owner))]
    NotOwner {
        /// Name or number of its user.
        owner: String,
        /// Our own user id.
        viewer: u32,
    },
    /// Diagnostics were switched off at its start.
    #[error("diagnostics are switched off in it by {variable}; start it again without that")]
    DiagnosticsDisabled {
        /// The variable and its value.
        variable: String,
    },
    /// The runtime listens, but the socket's file is gone.
    #[error(
        "the diagnostics socket {path} was deleted (a cleaner of temporary files does that); start the program again, with TMPDIR set to a directory that nobody cleans"
    )]
    SocketDeleted {
        /// Where it was, in the target's view.
        path: TargetPath,
    },
    /// The file is there, but nobody listens.
    #[error(
        "nobody listens on the diagnostics socket {path}: the process replaced its program or is going down; start the program again"
    )]
    SocketStale {
        /// Where it is, in the target's view.
        path: TargetPath,
    },
    /// No socket, and no sign of why.
    #[error(
        "no diagnostics socket {name} in {searched}; if the program is just starting try again, else look for EnableDiagnostics in its runtimeconfig.json, or start it with `remora record -- CMD`"
    )]
    NoSocket {
        /// Name that it should have.
        name: String,
        /// Directories looked into, in the target's view.
        searched: String,
    },
    /// It is stopped and cannot answer.
    #[error("the process is stopped by {by} and cannot answer; let it go on (`kill -CONT PID`, or leave the debugger)")]
    Stopped {
        /// What stops it.
        by: String,
    },
}

fn shown(listener: Option<u32>) -> String {
    listener.map_or("a process that cannot be seen from here".to_owned(), |pid| format!("process {pid}"))
}

fn become_owner(owner: &str) -> String {
    if owner == "root" { "run remora as root".to_owned() } else { format!("run remora as {owner} or as root") }
}

/// What can go wrong outside the target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing has this process id. Likely cause: it ended, or the id is one of another pid namespace.
    #[error("there is no process {pid}; `remora ps` lists those that can be recorded")]
    NoSuchProcess {
        /// The id asked for.
        pid: u32,
    },
    /// The process shows no sign of a .NET runtime.
    #[error(
        "process {pid} ({name}) has not loaded a .NET runtime; if it will do so later, profile from the start with `remora record -- CMD`"
    )]
    NotDotNet {
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It runs .NET and cannot be attached to.
    #[error("cannot attach to process {pid}: {reason}")]
    NotAttachable {
        /// The process.
        pid: u32,
        /// Why.
        reason: Reason,
    },
    /// The process that was found has ended or replaced its program meanwhile.
    #[error("process {pid} {what} since it was found; look again with `remora ps`")]
    Changed {
        /// The process.
        pid: u32,
        /// What happened to it.
        what: &'static str,
    },
    /// The diagnostics socket could not be reached.
    #[error(
        "cannot connect to the diagnostics socket {path}: {source}; the process may be going down, see `remora check -p PID`"
    )]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Another process listens on the socket that has the target's name. Nothing was sent to it.
    #[error(
        "{} listens on the diagnostics socket {path}, not process {pid}: nothing was sent to it; see what the target has mounted there (`/proc/{pid}/mountinfo`), or start the target again",
        shown(*listener)
    )]
    SocketOfAnother {
        /// The socket.
        path: PathBuf,
        /// The target.
        pid: u32,
        /// Who listens; `None` if it cannot be seen from here.
        listener: Option<u32>,
    },
    /// The runtime did not answer in time. It may still do what was asked, later.
    #[error(
        "the target did not {step} within {after:?}; it may be busy, paused or detaching another profiler, and may still do what was asked later; try again in a few seconds"
    )]
    TimedOut {
        /// What was waited for.
        step: &'static str,
        /// How long.
        after: Duration,
    },
    /// The connection broke. Likely cause: the process ended.
    #[error("the connection to the target broke while waiting for it to {step}: {source}; the process may have ended")]
    Broken {
        /// What was waited for.
        step: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The runtime refused.
    #[error("the runtime refused: {0}")]
    Refused(HResult),
    /// What was sent or received does not follow the protocol.
    #[error("diagnostics protocol: {0}")]
    Protocol(#[source] CodecError),
    /// No directory serves for the library.
    #[error(
        "no directory that the target can load a library from: {tried}; give it a directory without noexec that other users cannot write to, by TMPDIR or a mount, or name one with --library-directory"
    )]
    NoLibraryPlace {
        /// Each directory and what is wrong with it.
        tried: String,
    },
    /// No directory serves for the socket.
    #[error(
        "no directory in which the target can reach a socket: {tried}; give it a writable directory, by TMPDIR or a mount"
    )]
    NoSocketPlace {
        /// Each directory and what is wrong with it.
        tried: String,
    },
    /// The bytes to place are not a library.
    #[error("the library is not an ELF shared object that can be read: {why}; build remora again, or copy it again")]
    BadLibrary {
        /// What is wrong.
        why: String,
    },
    /// A file or directory could not be used.
    #[error("cannot {what} {path}: {source}; check its permissions")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>, source: impl Into<std::io::Error>) -> Error {
        Error::Io { what, path: path.into(), source: source.into() }
    }

    /// Whether the runtime was merely not ready yet, so that asking again makes sense.
    pub fn is_too_early(&self) -> bool {
        matches!(self, Error::Refused(HResult::NOT_YET_AVAILABLE | HResult::RUNTIME_UNINITIALIZED))
    }
}

impl From<CodecError> for Error {
    fn from(error: CodecError) -> Error {
        match error {
            CodecError::Refused(code) => Error::Refused(code),
            other => Error::Protocol(other),
        }
    }
}
