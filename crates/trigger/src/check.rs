//! Every precondition of recording, found before anything is asked of the target.
//!
//! Reads `/proc` and files only; the one check that asks something is [`check_answer`], which is separate.
//! The runtime gives one and the same code for a missing file, a noexec mount and a wrong libc: here they are told apart.

use crate::attach::ask;
use crate::discovery::find;
use crate::error::{Error, Reason};
use crate::libc_kind::Libc;
use crate::placement::look_for_library_place;
use crate::proc::Status;
use crate::process::Process;
use crate::requirements::{Requirements, Slot};
use crate::runtime::{RuntimeKind, Version, with_elf, with_elf_within};
use crate::windowed::Budget;
use remora_symbols::{MapEntry, TargetPath};
use std::time::Duration;

/// The agent's file in a target starts with this.
const AGENT: &str = "libremora_agent";
/// What every profiler's library exports.
const PROFILER_EXPORT: &str = "DllGetClassObject";
/// Variables that load a profiler at startup.
const PROFILING_SWITCHES: [&str; 3] = ["CORECLR_ENABLE_PROFILING", "COR_ENABLE_PROFILING", "DOTNET_ENABLE_PROFILING"];
/// First version with room for profilers beside the main one.
const FIRST_WITH_ROOM_BESIDE: u32 = 6;
/// Executable libraries looked at for another profiler.
const MOST_LIBRARIES: usize = 512;
/// Queued signals that should be free for a recording, beside those for each thread.
const SIGNALS_WANTED: u64 = 64;
/// Queued signals per thread, at most: the pending one, or the timer that sends it.
const SIGNALS_OF_A_THREAD: u64 = 1;
/// Said where a refusal names no remedy of its own.
const REMEDY_PORT: &str = "start the program again with diagnostics on and TMPDIR where nobody cleans";

/// One precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// Whether recording is possible as far as this goes.
    pub passed: bool,
    /// What was found.
    pub found: String,
    /// What to do about it; with a passed check, something to know.
    pub remedy: Option<String>,
}

impl Check {
    fn passed(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, passed: true, found: found.into(), remedy: None }
    }

    fn failed(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name, passed: false, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn noted(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { passed: true, ..Check::failed(name, found, remedy) }
    }
}

/// Checks the process with this id: that it exists and runs .NET, and then everything else.
pub fn check_pid(pid: u32, requirements: &Requirements) -> Vec<Check> {
    match find(pid) {
        Ok(process) => check(&process, requirements),
        Err(error) => vec![unfound(&error)],
    }
}

/// Why a process was not found, as the one check that there is then.
pub(crate) fn unfound(error: &Error) -> Check {
    let text = error.to_string();
    let (found, remedy) = text.rsplit_once("; ").unwrap_or((text.as_str(), "`remora ps` lists what can be recorded"));
    let name = if matches!(error, Error::NoSuchProcess { .. }) { "process" } else { "runtime" };
    Check::failed(name, found, remedy)
}

/// Checks everything about a process that was found.
pub fn check(process: &Process, requirements: &Requirements) -> Vec<Check> {
    let (maps, hidden) = match process.proc.maps(process.pid) {
        Ok(maps) => (maps, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let Ok(status) = process.proc.status(process.pid) else {
        return vec![unfound(&Error::NoSuchProcess { pid: process.pid })];
    };
    let mut checks = vec![
        Check::passed("process", format!("{} ({})", process.pid, process.name())),
        runtime(process),
        rights(process, &status),
        port(process),
        stopped(process),
    ];
    if let Some(error) = hidden {
        checks.push(Check::failed("mappings", error.to_string(), "run remora as the target's user or as root"));
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

/// Asks the runtime who it is, which is harmless, and says whether it answers in time.
pub fn check_answer(process: &Process, timeout: Duration) -> Check {
    const NAME: &str = "answer";
    match ask(process, timeout) {
        Ok(info) => {
            let version = info.runtime_version.unwrap_or_else(|| "5".to_owned());
            Check::passed(NAME, format!("the runtime answers: .NET {version}, {}", info.architecture))
        }
        // .NET Core 3.1 answers that it does not know the question, which is an answer.
        Err(Error::Refused(_)) => Check::passed(NAME, "the runtime answers"),
        Err(error @ Error::TimedOut { .. }) => Check::failed(
            NAME,
            error.to_string(),
            "another profiler may be detaching (all diagnostics wait for that): try again in a few seconds",
        ),
        Err(error) => Check { name: NAME, ..unfound(&error) },
    }
}

/// The attachability that concerns one check, or that it passes.
fn judged(process: &Process, name: &'static str, concerns: fn(&Reason) -> bool, found: String) -> Check {
    let reasons = process.attachable.as_ref().err().into_iter().chain(process.diagnostics.as_ref().err());
    match reasons.into_iter().find(|reason| concerns(reason)) {
        Some(reason) => {
            let text = reason.to_string();
            let (cause, remedy) = text.split_once("; ").unwrap_or((text.as_str(), REMEDY_PORT));
            Check::failed(name, cause, remedy)
        }
        None => Check::passed(name, found),
    }
}

fn runtime(process: &Process) -> Check {
    let version =
        |version: Option<Version>| version.map_or("of unknown version".to_owned(), |version| version.to_string());
    let all: Vec<String> = process
        .runtimes
        .iter()
        .map(|runtime| match runtime.kind {
            RuntimeKind::CoreClr => format!(".NET {} at {}", version(runtime.version), runtime.file),
            RuntimeKind::NativeAot => "NativeAOT".to_owned(),
            RuntimeKind::Mono => "Mono".to_owned(),
        })
        .collect();
    let concerns = |reason: &Reason| {
        matches!(
            reason,
            Reason::Ended | Reason::NativeAot | Reason::Mono | Reason::TooOld { .. } | Reason::RuntimeNotLoaded
        )
    };
    judged(process, "runtime", concerns, if all.is_empty() { "hidden from you".to_owned() } else { all.join(", ") })
}

fn rights(process: &Process, status: &Status) -> Check {
    const NAME: &str = "rights";
    let owner = process.user.clone().unwrap_or_else(|| process.uid.to_string());
    let viewer = process.proc.viewer();
    if viewer.may_act_for(process.uid) && viewer.uid != status.file_uid && !viewer.takes_rights {
        return Check::failed(
            NAME,
            format!("runs as {owner}, and remora cannot take that user's rights: it lacks CAP_SETUID or CAP_SETGID"),
            "give remora both capabilities (`docker run --cap-add SETUID --cap-add SETGID`), or run it as the target's user",
        );
    }
    judged(process, NAME, |reason| matches!(reason, Reason::NotOwner { .. }), format!("runs as {owner}"))
}

fn port(process: &Process) -> Check {
    let concerns = |reason: &Reason| {
        matches!(
            reason,
            Reason::DiagnosticsDisabled { .. }
                | Reason::SocketDeleted { .. }
                | Reason::SocketStale { .. }
                | Reason::NoSocket { .. }
        )
    };
    let found = process.diagnostics.as_ref().map(|socket| format!("listens on {}", socket.target_path));
    judged(process, "diagnostics port", concerns, found.unwrap_or_else(|_| "not looked for".to_owned()))
}

fn stopped(process: &Process) -> Check {
    match process.stopped_now() {
        None => Check::passed("running", "not stopped, not traced to a halt"),
        Some(reason) => {
            let text = reason.to_string();
            let (found, remedy) = text.split_once("; ").unwrap_or((text.as_str(), "let it go on"));
            Check::failed("running", found, remedy)
        }
    }
}

fn architecture(process: &Process, requirements: &Requirements) -> Check {
    const NAME: &str = "architecture";
    match (process.architecture, requirements.architecture) {
        (Some(theirs), Some(ours)) if theirs != ours => Check::failed(
            NAME,
            format!("the target is {theirs}, the library is {ours}"),
            "the agent cannot be loaded there, and is made for x64 only (arm64 is not supported); use `--engine eventpipe`",
        ),
        (Some(theirs), _) => Check::passed(NAME, theirs.to_string()),
        (None, _) => {
            Check::noted(NAME, "the executable cannot be read", "make sure that it is for this machine's architecture")
        }
    }
}

fn libc(process: &Process, requirements: &Requirements, maps: &[MapEntry]) -> Check {
    const NAME: &str = "libc";
    match (&process.libc, requirements.glibc) {
        (Libc::Glibc { version: Some(theirs), .. }, Some(needed)) if *theirs < needed => Check::failed(
            NAME,
            format!("the target runs on glibc {theirs}, the library needs {needed}"),
            "build remora by `cargo xtask dist`, whose library needs glibc 2.17 only, or use `--engine eventpipe`",
        ),
        (Libc::Musl { file }, _) => musl(process, file, requirements, maps),
        (Libc::Unknown, _) => Check::noted(NAME, "not recognised", "if loading fails, use `--engine eventpipe`"),
        (known, Some(needed)) => Check::passed(NAME, format!("{known}; the library needs {needed}")),
        (known, None) => Check::passed(NAME, known.to_string()),
    }
}

/// musl has no versions: each name that the library needs must be there, in musl itself or in a mapped library that it needs.
fn musl(process: &Process, file: &TargetPath, requirements: &Requirements, maps: &[MapEntry]) -> Check {
    const NAME: &str = "libc";
    let exported = |path: &TargetPath| with_elf(process.proc.open(process.pid, path), |elf| elf.exported_names());
    let Some(mut names) = exported(file) else {
        return Check::noted(NAME, "musl, whose file cannot be read", "if loading fails, use `--engine eventpipe`");
    };
    for library in &requirements.libraries {
        let mapped = maps.iter().find(|mapping| mapping.file_name() == library);
        names.extend(mapped.and_then(|mapping| exported(&mapping.path)).unwrap_or_default());
    }
    // Since 1.2.4 musl's linker gives `open` to a library that asks for `open64`, and exports no such name (ldso/dynlink.c, `get_lfs64`).
    let is_there =
        |name: &str| names.contains(name) || name.strip_suffix("64").is_some_and(|name| names.contains(name));
    let missing: Vec<&str> =
        requirements.names.iter().map(String::as_str).filter(|name| !is_there(name)).take(5).collect();
    if missing.is_empty() {
        return Check::noted(
            NAME,
            "musl",
            "musl never unmaps a library: after detach it stays, inert, and the next attach uses it again",
        );
    }
    let found = format!("the target runs on musl, which lacks {}", missing.join(", "));
    Check::failed(NAME, found, "use `--engine eventpipe`, and report the target's version of musl as a fault of Remora")
}

fn libraries(maps: &[MapEntry], requirements: &Requirements) -> Check {
    const NAME: &str = "libraries";
    let is_mapped = |name: &String| maps.iter().any(|mapping| mapping.file_name() == name);
    let missing: Vec<&str> =
        requirements.libraries.iter().filter(|name| !is_mapped(name)).map(String::as_str).collect();
    if missing.is_empty() {
        return Check::passed(NAME, "nothing beyond what the target has");
    }
    let found = format!("the library needs {}, which the target has not loaded", missing.join(", "));
    let remedy =
        "build remora by `cargo xtask dist`, whose library needs the C library only, or use `--engine eventpipe`";
    Check::failed(NAME, found, remedy)
}

fn directory(process: &Process, requirements: &Requirements) -> Check {
    const NAME: &str = "directory";
    match look_for_library_place(process, requirements.bytes) {
        Ok(path) => Check::passed(NAME, format!("{path} can hold the library")),
        Err(tried) => Check::failed(
            NAME,
            format!("no directory that the target can load a library from: {tried}"),
            "give it a directory without noexec that other users cannot write to, by TMPDIR or a mount; or name one with `--library-directory`; or use `--engine eventpipe`",
        ),
    }
}

fn profiler_slot(process: &Process, requirements: &Requirements, maps: &[MapEntry]) -> Check {
    const NAME: &str = "profiler slot";
    let budget = Budget::new();
    let others = other_profilers(process, maps, &budget);
    let environment = process.proc.environment(process.pid).unwrap_or_default();
    let asked = environment.iter().find(|(key, value)| PROFILING_SWITCHES.contains(&key.as_str()) && value == "1");
    let has_room = process
        .runtime()
        .and_then(|runtime| runtime.version)
        .is_none_or(|version| version.major >= FIRST_WITH_ROOM_BESIDE);
    match (others.is_empty(), has_room && requirements.slot == Slot::Beside) {
        (false, false) => Check::failed(
            NAME,
            format!("taken by {}", others.join(", ")),
            "use `--engine eventpipe`, or start the program without the other profiler",
        ),
        (false, true) => Check::noted(
            NAME,
            format!("{} is loaded", others.join(", ")),
            "Remora attaches beside it; while both are there the other one should not leave first",
        ),
        (true, _) => match asked {
            Some((key, value)) => Check::noted(
                NAME,
                format!("no other profiler is loaded, although {key}={value} is set"),
                "one that detached leaves no sign; if attaching is refused, use `--engine eventpipe`",
            ),
            None if budget.is_used_up() => Check::noted(
                NAME,
                "no other profiler was seen, and not all libraries could be looked at: what they claim is more than is read of them",
                "if attaching is refused, use `--engine eventpipe`",
            ),
            None => Check::passed(NAME, "no other profiler is loaded"),
        },
    }
}

/// Libraries of other profilers that are mapped in `process`, as far as that can be seen.
pub fn loaded_profilers(process: &Process) -> Vec<String> {
    process.proc.maps(process.pid).map(|maps| other_profilers(process, &maps, &Budget::new())).unwrap_or_default()
}

/// Mapped libraries that export what a profiler must export, ours and the runtime's own left out.
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
        let file = process.proc.open(process.pid, path);
        with_elf_within(budget, file, |elf| elf.exports(&[PROFILER_EXPORT])).unwrap_or(false)
    });
    paths.into_iter().map(TargetPath::to_string).collect()
}

fn own_agent(process: &Process, maps: &[MapEntry]) -> Check {
    const NAME: &str = "remora's agent";
    let is_agent = |mapping: &&MapEntry| {
        mapping.file_name().starts_with(AGENT) || mapping.path.starts_with("/memfd:libremora_agent")
    };
    match maps.iter().find(is_agent) {
        None => Check::passed(NAME, "not loaded"),
        Some(mapping) => Check::failed(
            NAME,
            format!("already loaded as {}", mapping.path),
            format!("another recording holds the target; wait for it, or run `remora detach -p {}`", process.pid),
        ),
    }
}

fn signals(status: &Status) -> Check {
    const NAME: &str = "signals";
    let wanted = SIGNALS_WANTED + SIGNALS_OF_A_THREAD * u64::from(status.threads);
    match status.queued_signals {
        Some((used, limit)) if limit.saturating_sub(used) < wanted => Check::failed(
            NAME,
            format!("{used} of {limit} queued signals of its user are in use, and a recording wants {wanted}"),
            "raise RLIMIT_SIGPENDING (`prlimit --sigpending`), or use `--engine eventpipe`",
        ),
        Some((used, limit)) => Check::passed(NAME, format!("{used} of {limit} queued signals in use")),
        None => Check::passed(NAME, "no limit is told"),
    }
}

/// Descriptors that whoever attaches needs in the target for a moment: the runtime's connection and the library's file, the agent's
/// connection, shared memory and event, and what it reads of the process. With fewer the attach fails in some way or other; with none at all
/// .NET 8.0.4 accepts the connection, fails, and ends the process at its next work (seen with a client that did nothing but connect).
const NEEDED_DESCRIPTORS: u64 = 8;
/// Whoever asks the runtime anything needs a connection, and the runtime room beside it.
const NEEDED_BY_ANYBODY: u64 = 4;
/// What is in the agent's way alone.
const FOR_THE_AGENT: &str = "descriptors of the agent";

fn descriptors(process: &Process) -> Check {
    const NAME: &str = "descriptors";
    let Some(limit) = process.proc.read(process.pid, "limits").ok().and_then(|bytes| open_files(&bytes)) else {
        return Check::passed(NAME, "how many there may be cannot be read");
    };
    let Ok(entries) = std::fs::read_dir(process.proc.path(process.pid, "fd")) else {
        return Check::passed(NAME, format!("{limit} at most; how many there are cannot be read"));
    };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    let free = limit - numbers.filter(|number| *number < limit).count() as u64;
    if free >= NEEDED_DESCRIPTORS {
        return Check::passed(NAME, format!("{free} of {limit} are free"));
    }
    let name = if free >= NEEDED_BY_ANYBODY { FOR_THE_AGENT } else { NAME };
    let found = format!(
        "{free} of the {limit} descriptors that the process may have are free, and an attach needs {NEEDED_DESCRIPTORS} for a moment"
    );
    Check::failed(
        name,
        found,
        format!("raise the limit, which needs no restart: prlimit --pid {} --nofile=65536", process.pid),
    )
}

/// The soft limit of open files; `None` where there is none.
fn open_files(limits: &[u8]) -> Option<u64> {
    let limits = String::from_utf8_lossy(limits);
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn confinement(status: &Status) -> Check {
    const NAME: &str = "confinement";
    match (status.seccomp, status.no_new_privileges) {
        (0, 0) => Check::passed(NAME, "none"),
        (0, _) => Check::passed(NAME, "no new privileges, which does not matter here"),
        _ => Check::noted(
            NAME,
            "system calls are filtered (seccomp)",
            "if signals are refused inside, the agent reports it, and `record` uses the runtime's own sampler instead",
        ),
    }
}

#[cfg(test)]
mod tests;
