//! Starts a command and records it, as soon as a runtime in it or in one of its children can be attached to.
//!
//! The command starts as from a shell, with an unchanged environment. The time before the attach is not recorded; its length is reported.
//! With `--from-start`, variables make its runtime load the agent. The agent removes them, so that children do not inherit them.
//! Rejected: `DOTNET_DiagnosticPorts`. A process that starts before the agent could remove it would wait for a recorder that has ended.
//!
//! The command stays in our process group, so it can read the terminal: Ctrl-C ends the recording and the command, as in a shell.
//! If the recording ends otherwise (its duration, a signal to us alone), the command continues.

use crate::console::note;
use crate::exit::Exit;
use crate::failure::{Before, Failure};
use crate::stop::Stop;
use remora_terminal::duration::show;

use remora_attach::{Placed, Process, descendants, find};
use remora_collector::Startup;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout for a runtime to start in the command.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for finding out why none can be attached to.
const TIMEOUT_OF_A_REASON: Duration = Duration::from_secs(10);
/// Time between two searches for a runtime.
const INTERVAL: Duration = Duration::from_millis(3);
/// Wait for an agent between two checks of the command.
const AGENT_INTERVAL: Duration = Duration::from_millis(50);
/// How long a mapped runtime may take until its agent connects: it loads the agent at its start.
const LOADING_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the command to end after its recorded process. (The command may be another process, and continue.)
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two checks whether the command has ended.
const ENDING_INTERVAL: Duration = Duration::from_millis(5);

/// The destination of the command's standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Printing {
    /// Our standard output.
    ToOutput,
    /// Our standard error: standard output is for the recording, the receipt or JSON.
    ToError,
}

impl Printing {
    fn stdio(self) -> io::Result<Stdio> {
        match self {
            Printing::ToOutput => Ok(Stdio::inherit()),
            Printing::ToError => io::stderr().as_fd().try_clone_to_owned().map(Stdio::from),
        }
    }
}

/// What a command that runs on after a failure does without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    Recording,
    Trace,
}

/// The started command.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    child: process::Child,
    started: Instant,
    /// The library's file, if the recorded process is a child of the command. The command's next .NET process gets the variables, too, and
    /// only the agent can set them back there.
    for_others: Option<Placed>,
    /// Whether the recorded process is a child of the command: a script, which may have more to do.
    is_script: bool,
    /// What it must not end before.
    before: Before,
}

impl Child {
    /// Starts `command`, if there is one, with these variables added to its environment.
    pub(crate) fn start(
        command: &[OsString],
        printing: Printing,
        variables: &[(&str, OsString)],
    ) -> Result<Option<Child>, Failure> {
        let Some((program, args)) = command.split_first() else {
            return Ok(None);
        };
        let name = program.to_string_lossy().into_owned();
        let started = Instant::now();
        let variables = variables.iter().map(|(name, value)| (name, value));
        let child =
            printing.stdio().and_then(|stdout| Command::new(program).args(args).envs(variables).stdout(stdout).spawn());
        let child = child.map_err(|error| Failure::Command { name: name.clone(), error })?;
        Ok(Some(Child { name, child, started, for_others: None, is_script: false, before: Before::Runtime }))
    }

    /// Waits for a runtime in it that can be attached to.
    pub(crate) fn process(&mut self, stop: &mut Stop) -> Result<Process, Failure> {
        let deadline = Instant::now() + TIMEOUT;
        self.before = Before::Attach;
        while Instant::now() < deadline {
            if stop.wish().is_some() {
                return Err(Failure::Interrupted);
            }
            let attachable = self.runtimes(stop, deadline).find(|process| process.attachable.is_ok());
            if let Some(process) = attachable {
                self.is_script = process.pid != self.child.id();
                return Ok(process);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.ended(status));
            }
            std::thread::sleep(INTERVAL);
        }
        // Its precondition reports why it cannot be attached to.
        if let Some(process) = self.runtimes(stop, Instant::now() + TIMEOUT_OF_A_REASON).next() {
            return Ok(process);
        }
        Err(Failure::NoRuntime { name: self.name.clone(), process_id: self.child.id(), seconds: TIMEOUT.as_secs() })
    }

    /// Waits for the process whose runtime has loaded the agent. It waits for the agent to begin.
    pub(crate) fn process_of(&mut self, startup: &mut Startup, stop: &mut Stop) -> Result<Process, Failure> {
        let deadline = Instant::now() + TIMEOUT;
        // The first process with a runtime, and when it was seen.
        let mut begun: Option<(u32, Instant)> = None;
        while Instant::now() < deadline {
            if stop.wish().is_some() {
                return Err(Failure::Interrupted);
            }
            if let Some(process_id) = startup.process(AGENT_INTERVAL)? {
                self.is_script = process_id != self.child.id();
                self.for_others = self.is_script.then(|| startup.split_library());
                return Ok(find(process_id)?);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(match begun {
                    Some((process_id, _)) => Failure::NotLoadedAtStart { process_id },
                    None => self.ended(status),
                });
            }
            if let Some(process) = self.runtimes(stop, deadline).find(|process| !process.runtimes.is_empty()) {
                let (process_id, since) = *begun.get_or_insert((process.pid, Instant::now()));
                if since.elapsed() > LOADING_TIMEOUT {
                    return Err(Failure::NotLoadedAtStart { process_id });
                }
            }
        }
        Err(Failure::NoRuntime { name: self.name.clone(), process_id: self.child.id(), seconds: TIMEOUT.as_secs() })
    }

    /// The processes with a runtime among the command and its descendants, in that order.
    fn runtimes(&self, stop: &Stop, deadline: Instant) -> impl Iterator<Item = Process> {
        let command = self.child.id();
        let candidates = std::iter::once(command).chain(descendants(command));
        // Each may keep its reader waiting.
        let in_time = move |_: &u32| !stop.is_signalled() && Instant::now() < deadline;
        candidates.take_while(in_time).filter_map(|candidate| find(candidate).ok())
    }

    /// The message about the unrecorded time before the recording, which starts now.
    pub(crate) fn unrecorded(&self) -> String {
        unrecorded_note(self.started.elapsed())
    }

    /// Its name in messages.
    pub(crate) fn label(&self) -> String {
        format!("{} (process {})", self.name, self.child.id())
    }

    /// The failure before anything was recorded or traced. Reports whether the command runs on without that, and how to stop it.
    pub(crate) fn without_us(&mut self, failure: Failure, missed: Missed, is_signalled: impl Fn() -> bool) -> Failure {
        let is_gone = failure.exit() == Exit::NoProcess;
        // Ctrl-C goes to the command, too.
        let patience = if is_gone || is_signalled() { COMMAND_TIMEOUT } else { Duration::ZERO };
        match self.status_within(patience) {
            Some(status) if is_gone && self.before == Before::Attach => self.ended(status),
            Some(_) => failure,
            None => {
                let how = if missed == Missed::Trace { "untraced" } else { "unrecorded" };
                note(&format!("{} runs on {how}; stop it with: kill {}", self.label(), self.child.id()));
                failure
            }
        }
    }

    fn ended(&self, status: process::ExitStatus) -> Failure {
        Failure::CommandEnded { name: self.name.clone(), status, before: self.before }
    }

    /// Its exit status after its recorded process has ended. Waits for a script, whose next .NET process needs the library's file.
    pub(crate) fn status_after_its_process(&mut self, is_hurried: impl Fn() -> bool) -> Option<process::ExitStatus> {
        let mut status = self.status_within(COMMAND_TIMEOUT);
        if status.is_none() && self.is_script && !is_hurried() {
            note(&format!(
                "the .NET process of {} has ended; waiting for the rest; Ctrl-C does not wait",
                self.label()
            ));
            while status.is_none() && !is_hurried() {
                status = self.status_within(AGENT_INTERVAL);
            }
        }
        status
    }

    /// Its exit status, if it ends within `timeout`.
    pub(crate) fn status_within(&mut self, timeout: Duration) -> Option<process::ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            let status = self.child.try_wait().ok().flatten();
            if status.is_some() || Instant::now() >= deadline {
                return status;
            }
            std::thread::sleep(ENDING_INTERVAL);
        }
    }
}

fn unrecorded_note(time: Duration) -> String {
    format!(
        "the recording began {} after the command was started: it misses everything before",
        show(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ended_before_the_attach_is_named_with_the_way_to_record_it_from_its_start() {
        let gone = || Failure::Attach(remora_attach::Error::Changed { pid: 7, what: "has ended" });
        for (before, code) in [(Before::Attach, "command-ended"), (Before::Runtime, gone().code())] {
            let command = ["sh", "-c", "exit 3"].map(OsString::from);
            let mut child = Child::start(&command, Printing::ToError, &[]).expect("it starts").expect("a command");
            child.before = before;
            let failure = child.without_us(gone(), Missed::Recording, || false);
            assert_eq!((failure.code(), failure.exit()), (code, Exit::NoProcess));
            assert_eq!(failure.line().contains("--from-start"), before == Before::Attach, "{}", failure.line());
        }
    }

    #[test]
    fn how_long_a_command_ran_before_its_recording_is_reported() {
        let text = unrecorded_note(Duration::from_millis(85));
        assert!(text.starts_with("the recording began 85"), "{text}");
    }
}
