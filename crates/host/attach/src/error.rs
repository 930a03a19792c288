//! Errors from finding a process to attaching to it: codes, facts and remedies.
//! `Display` states the cause; [`Error::remedies`] has the fixes.

use crate::codec::CodecError;
use crate::hresult::HResult;
use crate::proc::{Capability, Proc, is_gone, is_out_of_descriptors};
use crate::remedy::Remedy;
use crate::runtime::Version;
use crate::windowed::Limit;
use remora_symbols::{TargetPath, TargetText};
use std::path::PathBuf;
use std::time::Duration;

/// Why a process cannot be attached to, as far as visible from outside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// It has ended, or is ending.
    #[strum(serialize = "process-ended")]
    #[error("the process has ended")]
    Ended,
    /// It is not CoreCLR: NativeAOT.
    #[error("the program was compiled by NativeAOT, which has no profiling interface")]
    NativeAot,
    /// It is not CoreCLR: Mono.
    #[error("the program runs on Mono, which cannot load a CoreCLR profiler")]
    Mono,
    /// Before .NET Core 3.0 there is no diagnostics port.
    #[error(".NET Core {version} has no diagnostics port, which came with 3.0")]
    TooOld {
        /// The runtime's version.
        version: Version,
    },
    /// The host is loaded, the runtime is not yet.
    #[error("the process has not loaded the .NET runtime yet")]
    RuntimeNotLoaded,
    /// A limit of the examination was reached before it was known whether the process runs .NET.
    #[error("Remora stopped looking at it: {limit}")]
    NotExamined {
        /// The limit.
        limit: Limit,
    },
    /// It belongs to another user.
    #[error("access denied: the process belongs to {owner} and you are user {viewer}")]
    NotOwner {
        /// Name or number of that user.
        owner: String,
        /// Our own user id.
        viewer: u32,
    },
    /// We are root, or its own user, and lack what that takes here.
    #[error("cannot {what}: {}", denied(missing))]
    LacksCapability {
        /// What could not be done.
        what: String,
        /// What is missing for all that an attach needs; empty where we have it, and it does not help.
        missing: Vec<Capability>,
    },
    /// Diagnostics were switched off at its start.
    #[error("diagnostics are switched off in it by {variable}")]
    DiagnosticsDisabled {
        /// The variable and its value.
        variable: String,
    },
    /// Its path, in the target's view.
    #[error("the diagnostics socket {path} was deleted (a cleaner of temporary files does that)")]
    SocketDeleted {
        /// Its path, in the target's view.
        path: TargetPath,
    },
    /// The socket's file exists, but no process listens.
    #[error("no process listens on the diagnostics socket {path}: the process replaced its program or is going down")]
    SocketStale {
        /// Its path, in the target's view.
        path: TargetPath,
    },
    /// No socket, for an unknown reason.
    #[error("no diagnostics socket {name} in {searched}")]
    NoSocket {
        /// The expected name.
        name: String,
        /// Directories searched, in the target's view.
        searched: String,
    },
    /// It is stopped and cannot answer.
    #[strum(serialize = "process-stopped")]
    #[error("the process is stopped by {by} and cannot answer")]
    Stopped {
        /// What stopped it.
        by: String,
    },
}

fn denied(missing: &[Capability]) -> String {
    match missing {
        [] => "a security module or a user namespace denies it".to_owned(),
        missing => {
            let names: Vec<String> = missing.iter().map(|capability| format!("CAP_{capability}")).collect();
            format!("Remora lacks {}", names.join(" and "))
        }
    }
}

fn shown(listener: Option<u32>) -> String {
    listener.map_or("a process that cannot be seen from here".to_owned(), |pid| format!("process {pid}"))
}

impl Reason {
    /// A permanent name, in kebab case.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// Remedies; any of these helps.
    pub fn remedies(&self) -> Vec<Remedy> {
        match self {
            Reason::Ended => vec![Remedy::ListProcesses],
            Reason::NativeAot => vec![Remedy::UseNativeProfiler],
            Reason::Mono => vec![Remedy::UseCoreClr],
            Reason::TooOld { .. } => vec![Remedy::UseNewerRuntime],
            Reason::RuntimeNotLoaded => vec![Remedy::TryAgain, Remedy::RecordFromStart],
            Reason::NotExamined { .. } => vec![Remedy::LookAtTarget],
            Reason::NotOwner { owner, .. } => vec![Remedy::RunAs { user: owner.clone() }],
            Reason::LacksCapability { missing, .. } if missing.is_empty() => vec![Remedy::RunInTargetContext],
            Reason::LacksCapability { missing, .. } => {
                vec![Remedy::AddCapabilities { missing: missing.clone() }, Remedy::RunAsTargetUser]
            }
            Reason::DiagnosticsDisabled { variable } => vec![Remedy::RestartWithout { variable: variable.clone() }],
            Reason::SocketDeleted { .. } => vec![Remedy::RestartWithStableTmpdir],
            Reason::SocketStale { .. } => vec![Remedy::Restart],
            Reason::NoSocket { .. } => {
                vec![Remedy::TryAgainWhenItRuns, Remedy::LookForDiagnosticsSetting, Remedy::RecordFromStart]
            }
            Reason::Stopped { .. } => vec![Remedy::Resume],
        }
    }
}

/// Errors outside the target.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Error {
    /// No process has this id. Likely cause: it ended, or the id is from another pid namespace.
    #[error("there is no process {pid}")]
    NoSuchProcess {
        /// The requested id.
        pid: u32,
    },
    /// The process shows no sign of a .NET runtime.
    #[error("process {pid} ({name}) has not loaded a .NET runtime")]
    NotDotNet {
        /// The process.
        pid: u32,
        /// Its name.
        name: TargetText,
    },
    /// It runs .NET, but cannot be attached to.
    #[error("cannot attach to process {pid}: {reason}")]
    NotAttachable {
        /// The process.
        pid: u32,
        /// The reason.
        reason: Reason,
    },
    /// The process has ended or replaced its program since it was found.
    #[strum(serialize = "process-changed")]
    #[error("process {pid} {what} since it was found")]
    Changed {
        /// The process.
        pid: u32,
        /// The change.
        what: &'static str,
    },
    /// The diagnostics socket could not be reached.
    #[strum(serialize = "connect-failed")]
    #[error("cannot connect to the diagnostics socket {path}: {source} (the process may be going down)")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another process listens on the target's socket. Nothing was sent to it.
    #[error(
        "{} listens on the diagnostics socket {path}, not process {pid}: nothing was sent to it",
        shown(*listener)
    )]
    SocketOfAnother {
        /// The socket.
        path: PathBuf,
        /// The target.
        pid: u32,
        /// The listener; `None` if invisible from here.
        listener: Option<u32>,
    },
    /// The runtime did not answer in time. It may still execute the command later.
    #[error(
        "the target did not {step} within {after:?}: it may be busy, paused or detaching another profiler, and may still answer later"
    )]
    TimedOut {
        /// The awaited step.
        step: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The connection broke. Likely cause: the process ended.
    #[strum(serialize = "connection-broken")]
    #[error("the connection to the target broke while waiting for it to {step}: {source} (the process may have ended)")]
    Broken {
        /// The awaited step.
        step: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The runtime refused.
    #[error("the runtime refused: {0}")]
    RuntimeRefused(HResult),
    /// A message violates the protocol.
    #[strum(serialize = "protocol-error")]
    #[error("diagnostics protocol: {0}")]
    Protocol(#[source] CodecError),
    /// No directory is suitable for the library.
    #[error("no directory that the target can load a library from: {tried}")]
    NoLibraryPlace {
        /// Each directory with its obstacle.
        tried: String,
    },
    /// No directory is suitable for the socket.
    #[error("no directory where the target can reach a socket: {tried}")]
    NoSocketPlace {
        /// Each directory with its obstacle.
        tried: String,
    },
    /// The given bytes are no library.
    #[error("the library is not an ELF shared object that can be read: {why}")]
    BadLibrary {
        /// The error.
        why: String,
    },
    /// A file or directory could not be used.
    #[strum(serialize = "io-failed")]
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The failed operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>, source: impl Into<std::io::Error>) -> Error {
        Error::Io { what, path: path.into(), source: source.into() }
    }

    /// A file of a process in `/proc` could not be read: because it has ended, or for another reason.
    pub(crate) fn unread(proc: &Proc, pid: u32, error: std::io::Error) -> Error {
        if is_gone(&error) { Error::NoSuchProcess { pid } } else { Error::io("read", proc.path(pid, ""), error) }
    }

    /// A name that keeps its meaning, in kebab case.
    pub fn code(&self) -> &'static str {
        match self {
            Error::NotAttachable { reason, .. } => reason.code(),
            other => other.into(),
        }
    }

    /// Remedies; any of these helps.
    pub fn remedies(&self) -> Vec<Remedy> {
        match self {
            Error::NoSuchProcess { .. } | Error::Changed { .. } => vec![Remedy::ListProcesses],
            Error::NotDotNet { .. } => vec![Remedy::ListProcesses, Remedy::RecordFromStart],
            Error::NotAttachable { reason, .. } => reason.remedies(),
            Error::Connect { .. } | Error::Broken { .. } => vec![Remedy::CheckProcess],
            Error::SocketOfAnother { pid, .. } => vec![Remedy::LookAtMounts { pid: *pid }, Remedy::Restart],
            Error::TimedOut { .. } => vec![Remedy::TryAgain],
            Error::RuntimeRefused(code) => code.meaning().map_or(vec![Remedy::Report], |row| row.remedies.to_vec()),
            Error::Protocol(_) => vec![Remedy::Report],
            Error::NoLibraryPlace { .. } => vec![Remedy::GiveLibraryDirectory, Remedy::UseEventPipe],
            Error::NoSocketPlace { .. } => vec![Remedy::GiveSocketDirectory, Remedy::UseEventPipe],
            Error::BadLibrary { .. } => vec![Remedy::ReinstallRemora],
            Error::Io { source, .. } if is_out_of_descriptors(source) => vec![Remedy::RaiseOwnOpenFiles],
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::WouldBlock => {
                vec![Remedy::RaiseOwnThreads]
            }
            Error::Io { .. } => vec![Remedy::CheckPermissions],
        }
    }

    /// Whether the runtime was only not ready yet, so that a retry makes sense.
    pub fn is_too_early(&self) -> bool {
        matches!(self, Error::RuntimeRefused(HResult::NOT_YET_AVAILABLE | HResult::RUNTIME_UNINITIALIZED))
    }
}

impl From<CodecError> for Error {
    fn from(error: CodecError) -> Error {
        match error {
            CodecError::Refused(code) => Error::RuntimeRefused(code),
            other => Error::Protocol(other),
        }
    }
}
