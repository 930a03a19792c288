//! A process that runs .NET, as far as visible without a request to it.
//!
//! Reads `/proc` and the files the process has mapped; sends nothing. Unreadable fields stay empty.

use crate::codec::CodecError;
use crate::container::Container;
use crate::elf::Architecture;
use crate::error::{Error, Reason};
use crate::hresult::HResult;
use crate::libc_kind::Libc;
use crate::memory;
use crate::proc::{Capability, Proc, Stat, Status, is_gone, is_out_of_descriptors};
use crate::program::{Fate, Program};
use crate::runtime::{self, Deployment, Runtime, RuntimeKind};
use crate::socket::{self, DiagnosticsSocket};
use crate::survey::Survey;
use crate::windowed::{Budget, Limit};
use remora_symbols::{MapEntry, TargetPath, TargetText};
use std::io::{ErrorKind, Read};
use std::time::Duration;

/// Options of the `dotnet` command with a value.
const HOST_OPTIONS: [&str; 6] =
    ["--fx-version", "--depsfile", "--runtimeconfig", "--additionalprobingpath", "--additional-deps", "--roll-forward"];

/// A process with a .NET runtime, or about to load one; or one not examined completely.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Process {
    /// Its id in our view.
    pub pid: u32,
    /// Its id in its own view; differs inside a pid namespace.
    pub namespaced_pid: u32,
    /// Its effective user id.
    pub uid: u32,
    /// That user's name here, if any.
    pub user: Option<String>,
    /// Clock ticks from boot to its start; together with the id, unique.
    pub start_time: u64,
    /// Its executable in its own view, if readable.
    pub executable: Option<TargetPath>,
    /// Its arguments.
    pub command_line: Vec<TargetText>,
    /// Name of the entry assembly without extension, as far as the command line shows it.
    pub entry_assembly: Option<TargetText>,
    /// Its runtimes; empty if none is loaded yet, or if unreadable.
    pub runtimes: Vec<Runtime>,
    /// Its architecture.
    pub architecture: Option<Architecture>,
    /// Its C library.
    pub libc: Libc,
    /// The container it runs in, if it is not ours.
    pub container: Option<Container>,
    /// Its runtime's socket, or why there is none.
    pub diagnostics: Result<DiagnosticsSocket, Reason>,
    /// The limit that ended the examination of its files; data from file contents may be missing.
    pub limit: Option<Limit>,
    /// Whether it can be attached to now.
    pub attachable: Result<(), Reason>,
    /// The only directory for the library, in the process's view, if the caller has chosen one. It is used even if other users can write to
    /// it: they can then replace the library before the process loads it.
    pub library_directory: Option<TargetPath>,
    pub(crate) proc: Proc,
    pub(crate) program: Program,
}

impl Process {
    /// The runtime that can be profiled, else the first.
    pub fn runtime(&self) -> Option<&Runtime> {
        self.runtimes.iter().find(|runtime| runtime.kind == RuntimeKind::CoreClr).or(self.runtimes.first())
    }

    /// Its name: entry assembly, else executable, else id.
    pub fn name(&self) -> TargetText {
        let file = self.executable.as_ref().map(TargetPath::file_name).filter(|name| !name.is_empty());
        self.entry_assembly.clone().or(file.map(TargetText::from)).unwrap_or_else(|| self.pid.to_string().into())
    }

    /// Its arguments as one text.
    pub fn command_text(&self) -> String {
        TargetText::joined(&self.command_line).within(TargetText::LONGEST)
    }

    /// Its socket, if it is still the same process and can answer now.
    pub(crate) fn ready_socket(&self) -> Result<&DiagnosticsSocket, Error> {
        let not_attachable = |reason| Error::NotAttachable { pid: self.pid, reason };
        self.require_same()?;
        match self.attachable.clone() {
            // It may have continued since; its present state is read below.
            Ok(()) | Err(Reason::Stopped { .. }) => {}
            Err(reason) => return Err(not_attachable(reason)),
        }
        if let Some(reason) = self.stopped_now() {
            return Err(not_attachable(reason));
        }
        self.known_socket()
    }

    /// Its socket, if it is still the same process. A stopped process accepts a connection too, and answers once it continues.
    pub(crate) fn known_socket(&self) -> Result<&DiagnosticsSocket, Error> {
        self.require_same()?;
        self.diagnostics.as_ref().map_err(|reason| Error::NotAttachable { pid: self.pid, reason: reason.clone() })
    }

    /// Free memory: the least of the machine's and of each control group's. `None` if unreadable.
    pub fn memory_room(&self) -> Option<memory::Room> {
        memory::room(&self.proc, self.pid)
    }

    /// The directory of the control group that the kernel kills as a whole, with this process, if a process in it runs out of memory.
    pub fn ends_with_group(&self) -> Option<std::path::PathBuf> {
        memory::ends_with(&self.proc, self.pid)
    }

    /// Its resident memory, bytes.
    pub fn resident_memory(&self) -> Option<u64> {
        memory::resident(&self.proc, self.pid)
    }

    /// Its mapped address space, bytes.
    pub fn address_space(&self) -> Option<u64> {
        memory::mapped(&self.proc, self.pid)
    }

    /// Its child with this id in the child's own namespace. If the kernel lists no children, it must also be called `name`.
    pub fn child(&self, name: &str, namespaced_pid: u32) -> Option<u32> {
        let is_it = |pid: &u32| {
            let status = self.proc.status_without_namespaces(*pid);
            status.is_ok_and(|status| status.namespaced_pid.unwrap_or(*pid) == namespaced_pid)
        };
        // No process can hold back its status or this, but `stat`.
        let is_called_so =
            |pid: &u32| self.proc.read(*pid, "comm").is_ok_and(|comm| comm.trim_ascii_end() == name.as_bytes());
        let listed = self.proc.children(self.pid).into_iter().find(is_it);
        listed.or_else(|| self.proc.pids().ok()?.into_iter().find(|pid| is_it(pid) && is_called_so(pid)))
    }

    /// The private resident memory of process `pid`, bytes: for a child that is a copy of this process, the copy's cost.
    pub fn private_memory(&self, pid: u32) -> Option<u64> {
        memory::private(&self.proc, pid)
    }

    /// Its fate since it was found. A process about to end counts as ended.
    pub fn fate(&self) -> Fate {
        self.program.fate()
    }

    /// The program that it ran when it was found, for opening its files.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Checks that it is still the process that was found, with the same program.
    ///
    /// # Errors
    /// [`Error::Changed`], with the change.
    pub fn require_same(&self) -> Result<(), Error> {
        let what = match self.fate() {
            Fate::Same => return Ok(()),
            Fate::Replaced => "has replaced its program",
            Fate::Ended => "has ended",
        };
        Err(Error::Changed { pid: self.pid, what })
    }

    /// What stops it at this moment.
    pub(crate) fn stopped_now(&self) -> Option<Reason> {
        let stat = self.proc.stat(self.pid).ok()?;
        let status = self.proc.status(self.pid).ok()?;
        stopped(&stat, &status)
    }

    /// Waits a moment for the process to end. A live runtime does not break or refuse a connection, and seldom fails without a reason.
    /// A dying one closes or deletes its sockets before the kernel shows it as ended.
    fn await_end(&self) {
        ends_soon(|| self.require_same().is_err());
    }

    /// A better error for a failed exchange, from the fate of the process.
    pub fn explain(&self, error: Error) -> Error {
        let is_of_one_that_ends = match &error {
            // An answer may also break off in its middle.
            Error::Broken { .. } | Error::Protocol(CodecError::Truncated { .. }) => true,
            // While one thread executes another program, the kernel starts no thread (fs/exec.c, `in_exec`). The library, or the
            // runtime before it, then fails for lack of memory.
            Error::RuntimeRefused(
                HResult::FAIL | HResult::RUNTIME_UNINITIALIZED | HResult::OUT_OF_MEMORY | HResult::NOT_ENOUGH_MEMORY,
            ) => true,
            Error::Connect { source, .. } => {
                matches!(source.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound)
            }
            _ => false,
        };
        if is_of_one_that_ends {
            self.await_end();
        }
        match (self.or_its_end(error), self.stopped_now()) {
            (Error::TimedOut { .. } | Error::Broken { .. } | Error::Connect { .. }, Some(reason)) => {
                Error::NotAttachable { pid: self.pid, reason }
            }
            (error, _) => error,
        }
    }

    /// `error`, unless the process has ended or replaced its program. Then that is the cause of any failure: its directories and its socket
    /// no longer exist.
    pub fn or_its_end(&self, error: Error) -> Error {
        match self.require_same() {
            Ok(()) => error,
            Err(ended) => ended,
        }
    }
}

/// Whether a process ends within a second, by `has_ended`: the kernel shows the end later than its effects.
pub fn ends_soon(has_ended: impl Fn() -> bool) -> bool {
    const CHECKS: usize = 200;
    const PAUSE: Duration = Duration::from_millis(5);
    (0..CHECKS).any(|_| {
        let ended = has_ended();
        if !ended {
            std::thread::sleep(PAUSE);
        }
        ended
    })
}

/// Reads everything about a process, its files for this long. `None`: it shows no sign of .NET.
pub(crate) fn inspect(proc: &Proc, pid: u32, survey: &Survey, time: Duration) -> std::io::Result<Option<Process>> {
    // Before all that is read of its program.
    let (program, stat, status) = Program::with_status(proc, pid)?;
    require_descriptors()?;
    let command_line = proc.command_line(pid)?;
    let (maps, hidden) = match proc.maps(pid) {
        Ok(maps) => (maps, false),
        Err(error) if is_gone(&error) => return Err(error),
        Err(_) => (Vec::new(), true),
    };
    let executable = proc.link_in_view(pid, "exe").ok();
    let environment = proc.environment(pid).unwrap_or_default();
    let budget = Budget::new(time);
    let runtimes = runtime::runtimes(&program, &maps, executable.as_ref(), &budget);
    let mut diagnostics = socket::find(proc, pid, (&stat, &status), (&environment, survey));
    let has_host = runtime::has_host(&maps, executable.as_ref());
    let shows_dotnet = !runtimes.is_empty() || has_host || shows_a_port(&diagnostics);
    if !shows_dotnet && budget.reached().is_none() {
        return Ok(None);
    }
    let owner = survey.users.name(status.effective_uid);
    let owner_name = owner.clone().unwrap_or_else(|| format!("user {}", status.effective_uid));
    let refused = refusal(proc, pid, &status, &owner_name);
    match &refused {
        Some(reason @ Reason::LacksCapability { .. }) if diagnostics.is_err() => diagnostics = Err(reason.clone()),
        _ if diagnostics.is_err() && hidden => {
            diagnostics = Err(Reason::NotOwner { owner: owner_name, viewer: proc.viewer().uid });
        }
        _ => {}
    }
    let mut process = Process {
        pid,
        namespaced_pid: status.namespaced_pid.unwrap_or(pid),
        uid: status.effective_uid,
        user: owner,
        start_time: stat.start_time,
        entry_assembly: entry_assembly(&command_line, executable.as_ref(), &runtimes),
        architecture: architecture(&program),
        libc: Libc::of(&program, &maps, &budget),
        container: Container::of(proc, pid),
        limit: None,
        attachable: Ok(()),
        executable,
        command_line: survey.kept(command_line),
        runtimes,
        diagnostics,
        library_directory: None,
        proc: proc.clone(),
        program,
    };
    process.limit = budget.reached();
    process.attachable = match process.limit {
        Some(limit) if !shows_dotnet => Err(Reason::NotExamined { limit }),
        _ if stat.is_ending() => Err(Reason::Ended),
        _ if matches!(refused, Some(Reason::LacksCapability { .. })) => refused.map_or(Ok(()), Err),
        _ => attachable(&process, (&stat, &status), &maps),
    };
    Ok(Some(process))
}

/// Descriptors that a look at a process and a recording have open at a time, and some more.
const DESCRIPTORS: usize = 32;

/// Without descriptors most of a process could not be read, and would seem not to be there.
///
/// # Errors
/// `EMFILE` or `ENFILE`.
fn require_descriptors() -> std::io::Result<()> {
    let open = |_| std::fs::File::open("/dev/null");
    match (0..DESCRIPTORS).map(open).collect::<std::io::Result<Vec<_>>>() {
        Err(error) if is_out_of_descriptors(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Why we may not look into a process or act for its user, `owner`; `None` if we may.
pub(crate) fn refusal(proc: &Proc, pid: u32, status: &Status, owner: &str) -> Option<Reason> {
    let (viewer, uid) = (proc.viewer(), status.effective_uid);
    let is_privileged = viewer.uid == 0 || viewer.is_capable(Capability::DacOverride);
    if viewer.uid != uid && !is_privileged {
        return Some(Reason::NotOwner { owner: owner.to_owned(), viewer: viewer.uid });
    }
    // The kernel closes it to who lacks a capability that the process has, too, if both are of one user.
    let is_closed = proc.link(pid, "root").is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    let root = || format!("open {}", proc.path(pid, "root").display());
    let needs = [
        (is_closed, Capability::SysPtrace, root()),
        (viewer.uid != uid, Capability::DacOverride, format!("use the diagnostics socket of {owner}")),
        (viewer.uid != status.file_uid, Capability::SetUid, format!("take the rights of {owner}")),
        (viewer.uid != status.file_uid, Capability::SetGid, format!("take the rights of {owner}")),
    ];
    let lacking = needs.into_iter().filter(|(needed, capability, _)| *needed && !viewer.is_capable(*capability));
    let (missing, whats): (Vec<Capability>, Vec<String>) = lacking.map(|(_, missing, what)| (missing, what)).unzip();
    let what = whats.into_iter().next().or_else(|| is_closed.then(root))?;
    Some(Reason::LacksCapability { what, missing })
}

/// A socket, or the mark of one, can only come from a runtime.
fn shows_a_port(diagnostics: &Result<DiagnosticsSocket, Reason>) -> bool {
    matches!(diagnostics, Ok(_) | Err(Reason::SocketDeleted { .. }))
}

/// A process of which only the ids could be read in time. `None`: it has ended.
pub(crate) fn unexamined(proc: &Proc, pid: u32, limit: Limit) -> Option<Process> {
    let (program, status) = Program::unexamined(proc, pid).ok()?;
    let reason = Reason::NotExamined { limit };
    Some(Process {
        pid,
        namespaced_pid: status.namespaced_pid.unwrap_or(pid),
        uid: status.effective_uid,
        user: None,
        start_time: 0,
        entry_assembly: None,
        architecture: None,
        libc: Libc::Unknown,
        container: None,
        limit: Some(limit),
        attachable: Err(reason.clone()),
        executable: None,
        command_line: Vec::new(),
        runtimes: Vec::new(),
        diagnostics: Err(reason),
        library_directory: None,
        proc: proc.clone(),
        program,
    })
}

impl Process {
    /// Our own process, in place of a command that it will start: that one has the same user, root directory and namespaces.
    ///
    /// # Errors
    /// The system's.
    pub fn ourselves() -> Result<Process, Error> {
        let (proc, pid) = (Proc::default(), std::process::id());
        let program = Program::of(&proc, pid).map_err(|error| Error::unread(&proc, pid, error))?;
        let placeholder = unexamined(&proc, pid, Limit::Time);
        let placeholder = placeholder.ok_or_else(|| Error::unread(&proc, pid, ErrorKind::NotFound.into()))?;
        Ok(Process { limit: None, program, ..placeholder })
    }
}

fn attachable(process: &Process, (stat, status): (&Stat, &Status), maps: &[MapEntry]) -> Result<(), Reason> {
    match process.runtime() {
        Some(Runtime { kind: RuntimeKind::NativeAot, .. }) => return Err(Reason::NativeAot),
        Some(Runtime { kind: RuntimeKind::Mono, .. }) => return Err(Reason::Mono),
        Some(Runtime { version: Some(version), .. }) if version.major < 3 => {
            return Err(Reason::TooOld { version: *version });
        }
        // A process that just began to end has no mappings of a runtime any more.
        None if process.require_same().is_err() => return Err(Reason::Ended),
        None if !maps.is_empty() && process.diagnostics.is_err() => return Err(Reason::RuntimeNotLoaded),
        _ => {}
    }
    let viewer = process.proc.viewer();
    let owner = process.diagnostics.as_ref().map_or(process.uid, |socket| socket.owner);
    if !viewer.may_act_for(owner) {
        let owner = process.user.clone().unwrap_or_else(|| format!("user {owner}"));
        return Err(Reason::NotOwner { owner, viewer: viewer.uid });
    }
    if let Err(reason) = &process.diagnostics {
        return Err(reason.clone());
    }
    stopped(stat, status).map_or(Ok(()), Err)
}

fn stopped(stat: &Stat, status: &Status) -> Option<Reason> {
    let by = match (stat.state, status.tracer_pid) {
        ('T', 0) => "a stop signal (SIGSTOP, Ctrl-Z)".to_owned(),
        ('T' | 't', tracer) if tracer != 0 => format!("process {tracer}, which traces it"),
        ('t', _) => "a tracer".to_owned(),
        _ => return None,
    };
    Some(Reason::Stopped { by })
}

fn architecture(program: &Program) -> Option<Architecture> {
    let mut header = [0; 20];
    program.open_executable().ok()?.1.read_exact(&mut header).ok()?;
    Architecture::of_header(&header)
}

fn entry_assembly(
    arguments: &[TargetText],
    executable: Option<&TargetPath>,
    runtimes: &[Runtime],
) -> Option<TargetText> {
    let is_named = |path: &&TargetPath| !path.file_name().is_empty();
    let first = arguments.first().map(TargetText::as_path);
    let program = executable.filter(is_named).or(first.as_ref().filter(is_named))?.file_name();
    if program == "dotnet" {
        let mut left = arguments.iter().skip(1);
        while let Some(argument) = left.next() {
            if argument.is_one_of(&HOST_OPTIONS) {
                left.next();
            } else if argument.ends_with(".dll") || argument.ends_with(".exe") {
                return argument.as_path().file_stem().map(TargetText::from);
            } else if *argument != "exec" && !argument.starts_with("-") {
                return None;
            }
        }
        return None;
    }
    // An application's own host has its name; a program that hosts the runtime for others does not.
    let own_host = runtimes.iter().any(|runtime| {
        let beside = runtime.file.parent() == executable.and_then(TargetPath::parent);
        runtime.deployment == Deployment::SingleFile || (beside && runtime.deployment == Deployment::Private)
    });
    own_host.then(|| program.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_assembly_is_read_from_the_command_line() {
        let cases: [(&[&str], &str, Option<&str>); 6] = [
            (&["dotnet", "/opt/App.Web.dll", "--urls", "x.dll"], "/usr/bin/dotnet", Some("App.Web")),
            (&["dotnet", "exec", "--runtimeconfig", "/a.dll", "b.dll"], "/usr/bin/dotnet", Some("b")),
            (&["dotnet", "--roll-forward", "Major", "b.dll"], "/usr/bin/dotnet", Some("b")),
            (&["dotnet", "run", "x.dll"], "/usr/bin/dotnet", None),
            (&["dotnet"], "/usr/bin/dotnet", None),
            (&["/usr/bin/nginx", "x.dll"], "/usr/bin/nginx", None),
        ];
        for (arguments, executable, expected) in cases {
            let arguments: Vec<TargetText> = arguments.iter().map(|text| (*text).into()).collect();
            let found = entry_assembly(&arguments, Some(&executable.into()), &[]);
            assert_eq!(found, expected.map(TargetText::from), "{arguments:?}");
        }
    }
}
