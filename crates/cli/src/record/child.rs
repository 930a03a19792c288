//! A command that is started to be recorded: its runtime waits for us before it runs anything.
//!
//! It stays in our process group, so that it can read the terminal: Ctrl-C there ends the recording and the command, as in a shell.
//! When the recording ends in another way before the command does (its duration, a signal to us alone), the command runs on.

use crate::duration::show;
use crate::failure::Failure;
use crate::stop::Stop;

use remora_trigger::{Error, Guid, Process, ReversePort, WaitingRuntime, find};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the command may take until a runtime starts in it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long each look for one may take.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two looks whether it has ended.
const ENDING_LOOK: Duration = Duration::from_millis(5);
/// How long a runtime may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Where the command's standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Printing {
    /// Where ours goes.
    ToOutput,
    /// Where our messages go: standard output is for the recording, the receipt or JSON, which others read.
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

/// The command.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    child: process::Child,
    port: ReversePort,
    /// The runtime that is recorded, until it is let go.
    waiting: Option<WaitingRuntime>,
    /// Runtimes that go on; each is connected again, and would knock for ever if the connection were closed.
    going: Vec<WaitingRuntime>,
    /// Runtimes that were let go.
    resumed: Vec<Guid>,
    started: Instant,
    /// How long it had run when it was found, if it did not wait for us.
    late: Option<Duration>,
}

impl Child {
    /// Starts `command`, if there is one.
    pub(crate) fn start(command: &[OsString], printing: Printing) -> Result<Option<Child>, Failure> {
        let Some((program, args)) = command.split_first() else {
            return Ok(None);
        };
        let port = ReversePort::open()?;
        let (variable, value) = port.variable();
        let name = program.to_string_lossy().into_owned();
        let started = Instant::now();
        let child = printing.stdio();
        let child =
            child.and_then(|stdout| Command::new(program).args(args).env(variable, value).stdout(stdout).spawn());
        let child = child.map_err(|error| Failure::Command { name: name.clone(), error })?;
        let (waiting, going, resumed) = (None, Vec::new(), Vec::new());
        Ok(Some(Child { name, child, port, waiting, going, resumed, started, late: None }))
    }

    /// Waits until a runtime has started in it, and waits in turn.
    pub(crate) fn process(&mut self, stop: &mut Stop) -> Result<Process, Failure> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if stop.wish().is_some() {
                return Err(Failure::Interrupted);
            }
            match self.port.accept(LOOK) {
                Ok(waiting) => {
                    let process_id = u32::try_from(waiting.advertisement().pid).unwrap_or(u32::MAX);
                    self.waiting = Some(waiting);
                    return Ok(find(process_id)?);
                }
                Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::CommandEnded { name: self.name.clone(), status });
            }
            // .NET Core 3.1 does not know the port, and simply runs.
            if let Ok(process) = find(self.child.id())
                && process.attachable.is_ok()
                && process.runtime().and_then(|runtime| runtime.version).is_some_and(|version| version.major < 5)
            {
                self.late = Some(self.started.elapsed());
                return Ok(process);
            }
        }
        Err(Failure::NoRuntime { name: self.name.clone(), process_id: self.child.id(), seconds: PATIENCE.as_secs() })
    }

    /// Lets it go on.
    pub(crate) fn resume(&mut self) -> Result<(), Failure> {
        if let Some(waiting) = self.waiting.take() {
            self.resumed.push(waiting.advertisement().cookie);
            waiting.resume(ANSWER)?;
        }
        Ok(())
    }

    /// Lets other runtimes that start under the command go on: they inherit its environment, and are not recorded.
    pub(crate) fn resume_others(&mut self) {
        while let Ok(waiting) = self.port.accept(Duration::ZERO) {
            let cookie = waiting.advertisement().cookie;
            if self.resumed.contains(&cookie) {
                self.going.push(waiting);
            } else if waiting.resume(ANSWER).is_ok() {
                self.resumed.push(cookie);
            }
        }
    }

    /// What is to be told of a command that did not wait to be recorded.
    pub(crate) fn late(&self) -> Option<String> {
        self.late.map(told_late)
    }

    /// As it is told.
    pub(crate) fn label(&self) -> String {
        format!("{} (process {})", self.name, self.child.id())
    }

    /// How it ended, if it has or does so within `patience`.
    pub(crate) fn status_within(&mut self, patience: Duration) -> Option<process::ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            let status = self.child.try_wait().ok().flatten();
            if status.is_some() || Instant::now() >= deadline {
                return status;
            }
            std::thread::sleep(ENDING_LOOK);
        }
    }
}

fn told_late(late: Duration) -> String {
    format!(
        "not recorded from its first instant: .NET Core 3.1 cannot be made to wait for a recorder, and had been starting for {}",
        show(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX))
    )
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that never got as far as being recorded is not left waiting for a recorder that is gone.
        if self.waiting.is_some() {
            let _ = self.resume();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_did_not_wait_is_told_with_how_late_it_was() {
        let told = told_late(Duration::from_millis(85));
        assert!(told.starts_with("not recorded from its first instant") && told.contains("for 85"), "{told}");
    }
}
