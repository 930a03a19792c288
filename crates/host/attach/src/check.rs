//! Checks every precondition of recording before any request to the target.
//!
//! Reads only `/proc` and files. Only [`check_answer`], which is separate, sends a request.
//! The runtime returns the same code for a missing file, a noexec mount and a wrong libc; these checks distinguish them.

use crate::attach::ask;
use crate::discovery::find;
use crate::error::{Error, Reason};
use crate::libc_kind::Libc;
use crate::placement::look_for_library_place;
use crate::proc::{Status, read_while_it_answers};
use crate::process::Process;
use crate::remedy::Remedy;
use crate::requirements::{Requirements, Slot};
use crate::runtime::{Runtime, RuntimeKind, Version, with_elf};
use crate::windowed::Budget;
use remora_symbols::{MapEntry, TargetPath, TargetText};
use std::path::Path;
use std::time::Duration;

/// Start of the agent's file name in a target.
const AGENT: &str = "libremora_agent";
/// The export of every profiler library.
const PROFILER_EXPORT: &str = "DllGetClassObject";
/// The variable that loads the agent at startup, and the start of its file's name.
const OWN_PROFILER: (&str, &str) = ("CORECLR_PROFILER_PATH_64", AGENT);
/// Variables that load a profiler at startup.
const PROFILING_SWITCHES: [&str; 3] = ["CORECLR_ENABLE_PROFILING", "COR_ENABLE_PROFILING", "DOTNET_ENABLE_PROFILING"];
/// First version with slots for notification-only profilers.
const FIRST_WITH_ROOM_BESIDE: u32 = 6;
/// Maximum executable libraries examined for another profiler.
const MOST_LIBRARIES: usize = 512;
/// Queued signals that should be free for a recording, besides those for each thread.
const SIGNALS_WANTED: u64 = 64;
/// Maximum queued signals per thread: the pending one, or the timer that sends it.
const SIGNALS_OF_A_THREAD: u64 = 1;
/// Time limit for the files of one check.
const TIME: Duration = Duration::from_secs(10);
/// The subject of a precondition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Subject {
    /// Whether the process exists.
    Process,
    /// Its runtime.
    Runtime,
    /// The user's permissions.
    Rights,
    /// The diagnostics socket.
    #[strum(serialize = "diagnostics port")]
    DiagnosticsPort,
    /// Whether it is stopped.
    Running,
    /// Its memory mappings.
    Mappings,
    /// Its CPU architecture.
    Architecture,
    /// Its C library.
    Libc,
    /// Other libraries that the agent needs.
    Libraries,
    /// A directory for the agent's library.
    Directory,
    /// Other profilers.
    #[strum(serialize = "profiler slot")]
    ProfilerSlot,
    /// An agent that is already loaded.
    #[strum(serialize = "remora's agent")]
    OwnAgent,
    /// Queued signals.
    Signals,
    /// Filtered system calls.
    Confinement,
    /// Free descriptors for any attach.
    Descriptors,
    /// Free descriptors for the agent.
    #[strum(serialize = "descriptors of the agent")]
    AgentDescriptors,
    /// Free address space for a session of events.
    #[strum(serialize = "address space")]
    AddressSpace,
    /// Whether the runtime answers.
    Answer,
}

impl Subject {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it concerns only the agent, so that the runtime's own sampler works without.
    pub fn concerns_the_agent_only(self) -> bool {
        use Subject::{AgentDescriptors, Architecture, Directory, Libc, Libraries, ProfilerSlot, Signals};
        matches!(self, Architecture | Libc | Libraries | Directory | ProfilerSlot | Signals | AgentDescriptors)
    }

    fn passed(self, found: impl Into<String>) -> Check {
        Check { subject: self, passed: Some(true), found: found.into(), remedies: Vec::new() }
    }

    fn failed(self, found: impl Into<String>, remedies: impl Into<Vec<Remedy>>) -> Check {
        Check { subject: self, passed: Some(false), found: found.into(), remedies: remedies.into() }
    }

    fn noted(self, found: impl Into<String>, remedies: impl Into<Vec<Remedy>>) -> Check {
        Check { passed: Some(true), ..self.failed(found, remedies) }
    }

    fn unknown(self, found: impl Into<String>, remedies: impl Into<Vec<Remedy>>) -> Check {
        Check { passed: None, ..self.failed(found, remedies) }
    }
}

/// One precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// Its subject.
    pub subject: Subject,
    /// Whether recording is possible as far as this goes; `None` if it could not be looked at.
    pub passed: Option<bool>,
    /// What was found.
    pub found: String,
    /// Remedies; for a passed check, hints.
    pub remedies: Vec<Remedy>,
}

impl Check {
    /// Whether recording is not possible.
    pub fn has_failed(&self) -> bool {
        self.passed == Some(false)
    }
}

/// Checks the process with this id: first that it exists and runs .NET, then everything else.
pub fn check_pid(pid: u32, requirements: &Requirements) -> Vec<Check> {
    match find(pid) {
        Ok(process) => check(&process, requirements),
        Err(error) => vec![unfound(&error)],
    }
}

/// The only check of a process that was not found: the cause.
pub(crate) fn unfound(error: &Error) -> Check {
    let missing = matches!(error, Error::NoSuchProcess { .. });
    let subject = if missing { Subject::Process } else { Subject::Runtime };
    subject.failed(error.to_string(), error.remedies())
}

/// Checks everything about a process that was found.
pub fn check(process: &Process, requirements: &Requirements) -> Vec<Check> {
    let (maps, hidden) = match process.proc.maps(process.pid) {
        Ok(maps) => (maps, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let status = match process.proc.status(process.pid) {
        Ok(status) => status,
        Err(error) => return vec![unfound(&Error::unread(&process.proc, process.pid, error))],
    };
    let mut checks = vec![
        Subject::Process.passed(format!("{} ({})", process.pid, process.name())),
        runtime(process),
        rights(process),
        port(process),
        stopped(process),
    ];
    if let Some(error) = hidden {
        checks.push(Subject::Mappings.failed(error.to_string(), [Remedy::RunAsOwner]));
        return checks;
    }
    checks.extend([
        architecture(process, requirements),
        libc(process, requirements, &maps),
        libraries(&maps, requirements),
        directory(process, requirements),
        profiler_slot(process, requirements, &maps),
        own_agent(process, &maps),
        signals(&status),
        confinement(&status),
        descriptors(process),
    ]);
    checks
}

/// Requests process information, which is harmless, and reports whether the runtime answers in time.
pub fn check_answer(process: &Process, timeout: Duration) -> Check {
    match ask(process, timeout) {
        Ok(info) => {
            let version = info.runtime_version.unwrap_or_else(|| "5".into());
            Subject::Answer.passed(format!("the runtime answers: .NET {version}, {}", info.architecture))
        }
        // .NET Core 3.1 answers that it does not know the command, which is an answer.
        Err(Error::RuntimeRefused(_)) => Subject::Answer.passed("the runtime answers"),
        Err(error) => Subject::Answer.failed(error.to_string(), error.remedies()),
    }
}

/// The check that fails for a reason; a stop is checked anew.
fn subject_of(reason: &Reason) -> Option<Subject> {
    match reason {
        Reason::Ended | Reason::NativeAot | Reason::Mono => Some(Subject::Runtime),
        Reason::TooOld { .. } | Reason::RuntimeNotLoaded => Some(Subject::Runtime),
        Reason::NotOwner { .. } | Reason::LacksCapability { .. } => Some(Subject::Rights),
        Reason::DiagnosticsDisabled { .. } | Reason::SocketDeleted { .. } => Some(Subject::DiagnosticsPort),
        Reason::SocketStale { .. } | Reason::NoSocket { .. } => Some(Subject::DiagnosticsPort),
        Reason::NotExamined { .. } | Reason::Stopped { .. } => None,
    }
}

/// The reason that concerns one check, or that it passes; `Err`: what it was not possible to look at.
fn attachable(process: &Process, subject: Subject, found: Result<String, &str>) -> Check {
    let reasons = process.attachable.as_ref().err().into_iter().chain(process.diagnostics.as_ref().err());
    match (reasons.into_iter().find(|reason| subject_of(reason) == Some(subject)), found) {
        (Some(reason), _) => subject.failed(reason.to_string(), reason.remedies()),
        (None, Ok(found)) => subject.passed(found),
        (None, Err(unseen)) => subject.unknown(unseen, []),
    }
}

fn runtime(process: &Process) -> Check {
    let version =
        |version: Option<Version>| version.map_or("of unknown version".to_owned(), |version| version.to_string());
    let shown = |runtime: &Runtime| match runtime.kind {
        RuntimeKind::CoreClr => format!(".NET {} at {}", version(runtime.version), runtime.file),
        RuntimeKind::NativeAot => "NativeAOT".to_owned(),
        RuntimeKind::Mono => "Mono".to_owned(),
    };
    let all: Vec<String> = process.runtimes.iter().map(shown).collect();
    let found = if all.is_empty() { Err("hidden from you") } else { Ok(all.join(", ")) };
    attachable(process, Subject::Runtime, found)
}

fn rights(process: &Process) -> Check {
    let owner = process.user.clone().unwrap_or_else(|| process.uid.to_string());
    attachable(process, Subject::Rights, Ok(format!("runs as {owner}")))
}

fn port(process: &Process) -> Check {
    let found = process.diagnostics.as_ref().map(|socket| format!("listens on {}", socket.target_path));
    attachable(process, Subject::DiagnosticsPort, found.map_err(|_| "not looked for"))
}

fn stopped(process: &Process) -> Check {
    match process.stopped_now() {
        None => Subject::Running.passed("not stopped, not traced to a halt"),
        Some(reason) => Subject::Running.failed(reason.to_string(), reason.remedies()),
    }
}

fn architecture(process: &Process, requirements: &Requirements) -> Check {
    match (process.architecture, requirements.architecture) {
        (Some(theirs), Some(ours)) if theirs != ours => Subject::Architecture.failed(
            format!("the target is {theirs}, the library is {ours}, and only x64 is supported"),
            [Remedy::UseEventPipe],
        ),
        (Some(theirs), _) => Subject::Architecture.passed(theirs.to_string()),
        (None, _) => Subject::Architecture.unknown("the executable cannot be read", [Remedy::CheckArchitecture]),
    }
}

fn libc(process: &Process, requirements: &Requirements, maps: &[MapEntry]) -> Check {
    match (&process.libc, requirements.glibc) {
        (Libc::Glibc { version: Some(theirs), .. }, Some(needed)) if *theirs < needed => Subject::Libc.failed(
            format!("the target runs on glibc {theirs}, the library needs {needed}"),
            [Remedy::UsePortableBuild, Remedy::UseEventPipe],
        ),
        (Libc::Musl { file }, _) => musl(process, file, requirements, maps),
        (Libc::Unknown, _) => Subject::Libc.unknown("not recognised", [Remedy::UseEventPipe]),
        (known, Some(needed)) => Subject::Libc.passed(format!("{known}; the library needs {needed}")),
        (known, None) => Subject::Libc.passed(known.to_string()),
    }
}

/// musl has no symbol versions: each name the library needs must exist, in musl or in a mapped library that it needs.
fn musl(process: &Process, file: &TargetPath, requirements: &Requirements, maps: &[MapEntry]) -> Check {
    // Since 1.2.4 musl's linker resolves `open64` to `open`, and exports no such name (ldso/dynlink.c, `get_lfs64`).
    let names = requirements.names.iter().map(String::as_str);
    let wanted: Vec<&str> = names.clone().chain(names.clone().filter_map(|name| name.strip_suffix("64"))).collect();
    let budget = Budget::new(TIME);
    let exported = |path: &TargetPath| with_elf(&budget, || process.program.open(path), |elf| elf.exported_of(&wanted));
    let Some(mut there) = exported(file) else {
        return Subject::Libc.unknown("musl, whose file cannot be read", [Remedy::UseEventPipe]);
    };
    for library in &requirements.libraries {
        let mapped = maps.iter().find(|mapping| mapping.file_name() == library);
        there.extend(mapped.and_then(|mapping| exported(&mapping.path)).unwrap_or_default());
    }
    let is_there =
        |name: &str| there.contains(name) || name.strip_suffix("64").is_some_and(|name| there.contains(name));
    let missing: Vec<&str> = names.filter(|name| !is_there(name)).take(5).collect();
    if missing.is_empty() {
        return Subject::Libc.noted("musl", [Remedy::StaysOnMusl]);
    }
    let found = format!("the target runs on musl, which lacks {}", missing.join(", "));
    Subject::Libc.failed(found, [Remedy::UseEventPipe, Remedy::Report])
}

fn libraries(maps: &[MapEntry], requirements: &Requirements) -> Check {
    let is_mapped = |name: &String| maps.iter().any(|mapping| mapping.file_name() == name);
    let missing: Vec<&str> =
        requirements.libraries.iter().filter(|name| !is_mapped(name)).map(String::as_str).collect();
    if missing.is_empty() {
        return Subject::Libraries.passed("nothing beyond what the target has");
    }
    let found = format!("the library needs {}, which the target has not loaded", missing.join(", "));
    Subject::Libraries.failed(found, [Remedy::UsePortableBuild, Remedy::UseEventPipe])
}

fn directory(process: &Process, requirements: &Requirements) -> Check {
    match look_for_library_place(process, requirements.bytes) {
        Ok(path) => Subject::Directory.passed(format!("{path} can hold the library")),
        Err(tried) => Subject::Directory.failed(
            format!("no directory that the target can load a library from: {tried}"),
            [Remedy::GiveLibraryDirectory, Remedy::UseEventPipe],
        ),
    }
}

fn profiler_slot(process: &Process, requirements: &Requirements, maps: &[MapEntry]) -> Check {
    let budget = Budget::new(TIME);
    let others = other_profilers(process, maps, &budget);
    let environment = process.proc.environment(process.pid).unwrap_or_default();
    let asked = environment.iter().find(|(key, value)| key.is_one_of(&PROFILING_SWITCHES) && *value == "1");
    // Remora's own variable. The agent has set it back, but the kernel still shows the first environment.
    let is_ours = |(key, value): &(TargetText, TargetText)| {
        *key == OWN_PROFILER.0 && value.as_path().file_name().starts_with(OWN_PROFILER.1)
    };
    let asked = asked.filter(|_| !environment.iter().any(is_ours));
    let has_room = process
        .runtime()
        .and_then(|runtime| runtime.version)
        .is_none_or(|version| version.major >= FIRST_WITH_ROOM_BESIDE);
    let is_beside = has_room && requirements.slot == Slot::Beside;
    if others.is_empty() && maps.iter().any(|mapping| mapping.path.starts_with(TRACER_PAGE)) {
        return match is_beside {
            true => Subject::ProfilerSlot.noted("Remora's own tracer is in it, inert", [Remedy::Nothing]),
            false => Subject::ProfilerSlot.failed(
                "taken by Remora's own tracer, which is inert, and which .NET does not detach",
                [Remedy::UseEventPipe, Remedy::Restart],
            ),
        };
    }
    match (others.is_empty(), is_beside) {
        (false, false) => Subject::ProfilerSlot.failed(format!("taken by {}", others.join(", ")),
            [Remedy::UseEventPipe, Remedy::RestartWithoutProfiler],
        ),
        (false, true) => Subject::ProfilerSlot.noted(format!("{} is loaded", others.join(", ")), [Remedy::OthersStay]),
        (true, _) => match asked {
            Some((key, value)) => Subject::ProfilerSlot.noted(format!("no other profiler is loaded, although {key}={value} is set"),
                [Remedy::DetachedLeavesNoSign],
            ),
            None if budget.reached().is_some() => Subject::ProfilerSlot.unknown("no other profiler was seen, and not all libraries could be looked at: what they claim is more than is read of them",
                [Remedy::UseEventPipe],
            ),
            None => Subject::ProfilerSlot.passed("no other profiler is loaded"),
        },
    }
}

/// The page of a tracer that an earlier trace left.
const TRACER_PAGE: &str = "/memfd:remora-tracer";

/// Libraries of other profilers mapped in `process`, as far as visible.
pub fn loaded_profilers(process: &Process) -> Vec<String> {
    process.proc.maps(process.pid).map(|maps| other_profilers(process, &maps, &Budget::new(TIME))).unwrap_or_default()
}

/// Mapped libraries with a profiler's export, except ours and the runtime's.
fn other_profilers(process: &Process, maps: &[MapEntry], budget: &Budget) -> Vec<String> {
    let runtime_directories: Vec<_> = process.runtimes.iter().filter_map(|runtime| runtime.file.parent()).collect();
    let is_candidate = |mapping: &&MapEntry| {
        let of_runtime = mapping.path.parent().is_some_and(|directory| runtime_directories.contains(&directory))
            && mapping.file_name().starts_with("lib");
        mapping.permissions.execute
            && mapping.path.is_absolute()
            && !mapping.file_name().starts_with(AGENT)
            && !of_runtime
    };
    let mut paths: Vec<&TargetPath> = Vec::new();
    for mapping in maps.iter().filter(is_candidate) {
        if !paths.contains(&&mapping.path) && paths.len() < MOST_LIBRARIES {
            paths.push(&mapping.path);
        }
    }
    paths.retain(|path| {
        let file = || process.program.open(path);
        with_elf(budget, file, |elf| elf.exports(&[PROFILER_EXPORT])).unwrap_or(false)
    });
    paths.into_iter().map(TargetPath::to_string).collect()
}

fn own_agent(process: &Process, maps: &[MapEntry]) -> Check {
    let is_agent = |mapping: &&MapEntry| {
        mapping.file_name().starts_with(AGENT) || mapping.path.starts_with("/memfd:libremora_agent")
    };
    match maps.iter().find(is_agent) {
        None => Subject::OwnAgent.passed("not loaded"),
        Some(mapping) => Subject::OwnAgent.failed(
            format!("already loaded as {}", mapping.path),
            [Remedy::WaitForRecording, Remedy::DetachAgent { pid: process.pid }],
        ),
    }
}

fn signals(status: &Status) -> Check {
    let wanted = SIGNALS_WANTED + SIGNALS_OF_A_THREAD * u64::from(status.threads);
    match status.queued_signals {
        Some((used, limit)) if limit.saturating_sub(used) < wanted => Subject::Signals.failed(
            format!("{used} of {limit} queued signals of its user are in use, and a recording wants {wanted}"),
            [Remedy::RaiseQueuedSignals, Remedy::UseEventPipe],
        ),
        Some((used, limit)) => Subject::Signals.passed(format!("{used} of {limit} queued signals in use")),
        None => Subject::Signals.unknown("no limit is shown", []),
    }
}

/// Descriptors that an attach needs in the target for a moment: three of the agent (connection, shared memory, event), the runtime's
/// connection, the library's file, and files that the agent reads.
/// With fewer, the attach fails in some way. With none, .NET 8.0.4 accepts the connection, fails, and crashes at its next work (seen with a
/// client that only connected).
const NEEDED_DESCRIPTORS: u64 = 8;
/// Any request needs a connection, and the runtime needs further descriptors.
const NEEDED_BY_ANYBODY: u64 = 4;

fn descriptors(process: &Process) -> Check {
    let Some(limit) = soft_limit(process, "Max open files") else {
        return Subject::Descriptors.unknown("how many there may be cannot be read", []);
    };
    let numbers = |folder: &Path| {
        let names = std::fs::read_dir(folder)?.flatten().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| name.to_str()?.parse::<u64>().ok()).collect::<Vec<_>>())
    };
    let Ok(numbers) = read_while_it_answers(&process.proc.path(process.pid, "fd"), numbers) else {
        return Subject::Descriptors.unknown(format!("{limit} at most; how many there are cannot be read"), []);
    };
    let free = limit - numbers.iter().filter(|number| **number < limit).count() as u64;
    if free >= NEEDED_DESCRIPTORS {
        return Subject::Descriptors.passed(format!("{free} of {limit} are free"));
    }
    let subject = if free >= NEEDED_BY_ANYBODY { Subject::AgentDescriptors } else { Subject::Descriptors };
    let found = format!(
        "{free} of the {limit} descriptors that the process may have are free, and an attach needs {NEEDED_DESCRIPTORS} for a moment"
    );
    subject.failed(found, [Remedy::RaiseOpenFiles { pid: process.pid }])
}

/// Address space for a session of events, an estimate: the runtime's buffer of 64 MiB, a thread's stack, code compiled meanwhile.
const NEEDED_ADDRESS_SPACE: u64 = 96 << 20;

/// Whether the process has address space for a session of events. A runtime that gets no memory for it can hang or crash: .NET 8 did both.
pub fn check_address_space(process: &Process) -> Check {
    let Some(limit) = soft_limit(process, "Max address space") else {
        return Subject::AddressSpace.passed("no limit is shown");
    };
    let Some(used) = process.address_space() else {
        return Subject::AddressSpace.unknown("how much is used cannot be read", []);
    };
    let (free, needed) = (limit.saturating_sub(used) >> 20, NEEDED_ADDRESS_SPACE >> 20);
    if free >= needed {
        return Subject::AddressSpace.passed(format!("{free} MiB are free"));
    }
    let found =
        format!("{free} MiB of its address space are free, and the runtime's own sampler may need {needed} MiB");
    Subject::AddressSpace.failed(found, [Remedy::FreeMemory])
}

/// A soft limit of the process; `None` if it has none, or it cannot be read.
fn soft_limit(process: &Process, name: &str) -> Option<u64> {
    let limits = process.proc.read(process.pid, "limits").ok()?;
    let limits = String::from_utf8_lossy(&limits);
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn confinement(status: &Status) -> Check {
    match (status.seccomp, status.no_new_privileges) {
        (0, 0) => Subject::Confinement.passed("none"),
        (0, _) => Subject::Confinement.passed("no new privileges, which does not matter here"),
        _ => Subject::Confinement.noted("system calls are filtered (seccomp)", [Remedy::MayFallBack]),
    }
}

#[cfg(test)]
mod tests;
