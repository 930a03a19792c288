//! The trigger process, and what its user asks of a target besides.

use super::message::{Action, Answer, LoadedProfiler, LogLine, Question, Told};
use super::remote_host::Remote;
use super::{Place, is_name};
use crate::differences::RuntimeVersion;
use crate::machine::{Account, AttachError, AttachOptions, HostingClient, RuntimeEntry, attach_with};
use corprof::HResult;
use remora_clr_abi::Live;
use rustix::process::Signal;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often [`Client::wait_until_unloaded`] asks.
const INTERVAL: Duration = Duration::from_millis(20);

/// A trigger process for one target.
#[derive(Debug)]
pub struct Client {
    remote: Remote,
    channel: PathBuf,
    live: Live,
}

/// Why a question has no answer.
#[derive(Debug)]
pub enum ClientError {
    /// No target has this name, or it has ended.
    NoTarget,
    /// The target ended, or did not answer in time.
    Broken(io::Error),
}

impl Client {
    /// The names of the targets that run.
    pub fn targets(place: &Place) -> Vec<String> {
        place.names().into_iter().filter(|name| UnixStream::connect(place.socket(name)).is_ok()).collect()
    }

    /// A trigger that runs as this account.
    ///
    /// # Errors
    /// No target with this name runs.
    pub fn of(place: &Place, target: &str, account: Account) -> Result<Client, ClientError> {
        if !is_name(target) || UnixStream::connect(place.socket(target)).is_err() {
            return Err(ClientError::NoTarget);
        }
        let remote = Remote { socket: place.socket(target), account };
        Ok(Client { remote, channel: place.channel(target), live: Live::default() })
    }

    /// The path of the target's channel for profilers.
    pub fn channel_path(&self) -> &std::path::Path {
        &self.channel
    }

    /// The process's number, if the trigger may open it.
    ///
    /// # Errors
    /// As for an attach.
    pub fn process(&self) -> Result<u32, AttachError> {
        self.remote.open().map_err(|code| match code {
            HResult::E_ACCESSDENIED => AttachError::AccessDenied,
            code => AttachError::Answered(code),
        })
    }

    /// The runtimes of the target, through `ICLRMetaHost::EnumerateLoadedRuntimes`.
    ///
    /// # Errors
    /// The trigger lacks the right, or the target ended.
    pub fn runtimes(&self) -> Result<Vec<RuntimeEntry>, AttachError> {
        let process = self.process()?;
        let found = self.host()?.runtimes(process as usize).map_err(AttachError::Answered)?;
        Ok(found.iter().map(|one| RuntimeEntry { what: one.version(), refusal: one.refusal() }).collect())
    }

    /// Attaches a profiler, and waits for the answer.
    ///
    /// # Errors
    /// The answer.
    pub fn attach(&self, options: &AttachOptions) -> Result<(), AttachError> {
        let process = self.process()?;
        let prefix = RuntimeVersion::Desktop4.differences().startup_prefix;
        attach_with(&self.host()?, process as usize, process, options, prefix)
    }

    /// What the code of the last failed attach does not say: why the library with this path could not be opened, or which call of the
    /// profiler failed.
    ///
    /// # Errors
    /// The target ended.
    pub fn attach_failure(&self, path: Option<String>) -> Result<Option<String>, ClientError> {
        match self.ask(&Question::AttachFailure(path))? {
            Answer::AttachFailure(why) => Ok(why),
            _ => Err(unexpected()),
        }
    }

    /// Whether an attach waits, or is under way.
    ///
    /// # Errors
    /// The target ended.
    pub fn is_attaching(&self) -> Result<bool, ClientError> {
        match self.ask(&Question::Attaching)? {
            Answer::Attaching(is_attaching) => Ok(is_attaching),
            _ => Err(unexpected()),
        }
    }

    /// The profilers that are loaded.
    ///
    /// # Errors
    /// The target ended.
    pub fn profilers(&self) -> Result<Vec<LoadedProfiler>, ClientError> {
        match self.ask(&Question::Profilers)? {
            Answer::Profilers(profilers) => Ok(profilers),
            _ => Err(unexpected()),
        }
    }

    /// Waits until no profiler is loaded. Returns those that still are.
    ///
    /// # Errors
    /// The target ended.
    pub fn wait_until_unloaded(&self, patience: Duration) -> Result<Vec<LoadedProfiler>, ClientError> {
        let deadline = Instant::now() + patience;
        loop {
            let left = self.profilers()?;
            if left.is_empty() || Instant::now() >= deadline {
                return Ok(left);
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// The event log.
    ///
    /// # Errors
    /// The target ended.
    pub fn log(&self) -> Result<Vec<LogLine>, ClientError> {
        match self.ask(&Question::Log)? {
            Answer::Log(lines) => Ok(lines),
            _ => Err(unexpected()),
        }
    }

    /// What profilers have written to the channel, and the number of connected ones.
    ///
    /// # Errors
    /// The target ended.
    pub fn channel(&self) -> Result<(Vec<String>, usize), ClientError> {
        match self.ask(&Question::Channel)? {
            Answer::Channel(lines, connected) => Ok((lines, connected)),
            _ => Err(unexpected()),
        }
    }

    /// Hangs up the channel. Returns the number of connections that ended.
    ///
    /// # Errors
    /// The target ended.
    pub fn hang_up(&self) -> Result<usize, ClientError> {
        match self.ask(&Question::HangUp)? {
            Answer::HungUp(count) => Ok(count),
            _ => Err(unexpected()),
        }
    }

    /// Makes something happen in the target.
    ///
    /// # Errors
    /// The target ended.
    pub fn tell(&self, action: Action) -> Result<Told, ClientError> {
        match self.ask(&Question::Act(action))? {
            Answer::Told(told) => Ok(told),
            _ => Err(unexpected()),
        }
    }

    /// The number of the process behind the target's socket, also if it does not answer.
    pub fn peer(&self) -> Option<u32> {
        self.remote.peer().map(|process| process.as_raw_nonzero().get().unsigned_abs())
    }

    /// Whether the target answers within this time.
    pub fn answers_within(&self, patience: Duration) -> bool {
        self.remote.answers_within(patience)
    }

    /// Ends the target, and waits until its socket is gone. One that does not answer gets SIGTERM, also if it is stopped, and after half the
    /// time SIGKILL.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop(&self, patience: Duration) -> Result<(), ClientError> {
        let peer = self.remote.peer();
        match (self.ask(&Question::Stop), peer) {
            (Ok(_), _) => {}
            (Err(_), Some(_)) if self.remote.peer() == peer => self.signal([Signal::TERM, Signal::CONT]),
            (Err(error), _) => return Err(error),
        }
        if self.is_gone_within(patience / 2) {
            return Ok(());
        }
        if peer.is_some() && self.remote.peer() == peer {
            self.signal([Signal::KILL]);
        }
        if self.is_gone_within(patience / 2) { Ok(()) } else { Err(ClientError::Broken(ErrorKind::TimedOut.into())) }
    }

    fn signal<const N: usize>(&self, signals: [Signal; N]) {
        for signal in signals {
            if let Some(process) = self.remote.peer() {
                // An error means that it has ended.
                let _ = rustix::process::kill_process(process, signal);
            }
        }
    }

    fn is_gone_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while UnixStream::connect(&self.remote.socket).is_ok() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(INTERVAL);
        }
        true
    }

    fn ask(&self, question: &Question) -> Result<Answer, ClientError> {
        self.remote.ask(question, Duration::ZERO).map_err(ClientError::Broken)
    }

    fn host(&self) -> Result<HostingClient, AttachError> {
        HostingClient::begin(Arc::new(self.remote.clone()), &self.live).map_err(AttachError::Answered)
    }
}

fn unexpected() -> ClientError {
    ClientError::Broken(io::Error::new(ErrorKind::InvalidData, "the target answered something else"))
}
