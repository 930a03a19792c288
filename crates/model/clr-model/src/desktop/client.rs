//! The trigger process, and what its user asks of a target besides.

use super::message::{Action, Answer, LoadedProfiler, Question, Told, connect, is_there, peer, send};
use super::remote_host::{self, Remote};
use super::{Place, TRIGGERS, TargetState, is_name};
use crate::differences::RuntimeVersion;
use crate::machine::{Account, AttachError, AttachOptions, HostingClient, RuntimeEntry, attach_with};
use corprof::HResult;
use remora_clr_abi::Live;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often [`Client::wait_until_unloaded`] asks.
const INTERVAL: Duration = Duration::from_millis(20);

/// How long the process that watches over a target may take to read a question.
const PATIENCE: Duration = Duration::from_secs(5);

/// A trigger process for one target.
#[derive(Debug)]
pub struct Client {
    remote: Remote,
    /// The process that watches over the target.
    watcher: Remote,
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
    /// A trigger that runs as this account.
    ///
    /// # Errors
    /// No target with this name runs.
    pub fn of(place: &Place, target: &str, account: Account) -> Result<Client, ClientError> {
        if !is_name(target) || !is_there(&place.socket(target)) {
            return Err(ClientError::NoTarget);
        }
        let remote = Remote::of(place, target, account);
        let watcher = Remote { socket: place.watcher(target), ..remote.clone() };
        Ok(Client { remote, watcher, channel: place.channel(target), live: Live::default() })
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

    /// Hangs up the channel. Returns the number of connections that ended.
    ///
    /// # Errors
    /// The target ended.
    pub fn hang_up(&self) -> Result<usize, ClientError> {
        match self.watcher.ask(&Question::HangUp, Duration::ZERO).map_err(ClientError::Broken)? {
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

    /// Whether somebody listens at the target's socket.
    pub fn is_there(&self) -> bool {
        is_there(&self.remote.socket)
    }

    /// A stopped target then has this time to go on, from now. Otherwise it has none.
    pub fn wait_for_a_stopped_one(&mut self, patience: Duration) {
        self.remote.stopped_until = Instant::now().checked_add(patience);
    }

    /// Whether a signal has stopped the target.
    pub fn is_stopped(&self) -> bool {
        self.remote.peer().is_some_and(remote_host::is_stopped)
    }

    /// Whether the target answers within this time.
    pub fn answers_within(&self, patience: Duration) -> bool {
        self.remote.answers_within(patience)
    }

    fn ask(&self, question: &Question) -> Result<Answer, ClientError> {
        self.remote.ask(question, Duration::ZERO).map_err(ClientError::Broken)
    }

    fn host(&self) -> Result<HostingClient, AttachError> {
        HostingClient::begin(Arc::new(self.remote.clone()), &self.live).map_err(AttachError::Answered)
    }
}

/// Ends a target and everything that it has started, and forgets it. If it does not end by itself, the process that watches over it ends
/// it. Returns how it ended, if there is more to say.
///
/// # Errors
/// There is no such target, or it does not end.
pub fn stop(place: &Place, name: &str, patience: Duration) -> Result<Option<String>, ClientError> {
    let watcher = match place.state_of(name) {
        None => return Err(ClientError::NoTarget),
        Some(TargetState::Ended(_)) => None,
        Some(TargetState::Watched(watcher)) => Some(watcher),
    };
    if let Some(watcher) = watcher {
        let goes_on = || place.state_of(name) == Some(TargetState::Watched(watcher));
        let ends_itself = Remote::of(place, name, TRIGGERS[0].1).ask(&Question::Stop, Duration::ZERO).is_ok();
        if !(ends_itself && is_over_within(patience / 2, goes_on)) {
            end_by_watcher(place, name, goes_on).map_err(ClientError::Broken)?;
            if !is_over_within(patience / 2, goes_on) {
                return Err(ClientError::Broken(ErrorKind::TimedOut.into()));
            }
        }
    }
    let Some(TargetState::Ended(how)) = place.state_of(name) else { return Ok(None) };
    place.forget(name).map_err(ClientError::Broken)?;
    Ok(Some(how))
}

/// Asks the process that watches over a target to end it.
fn end_by_watcher(place: &Place, name: &str, goes_on: impl Fn() -> bool) -> io::Result<()> {
    let mut stream = match connect(&place.watcher(name)) {
        Err(_) if !goes_on() => return Ok(()),
        stream => stream?,
    };
    let process = peer(&stream)?.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
    // It keeps its file locked until it ends. So these are its socket and its descriptor, and not those of a later process.
    if goes_on() {
        // An error means that it has ended.
        let _ = send(&mut stream, &Question::Stop, PATIENCE);
        // A terminal stops it together with its target.
        let _ = process.map(|process| pidfd_send_signal(process, Signal::CONT));
    }
    Ok(())
}

fn is_over_within(patience: Duration, goes_on: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while goes_on() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(INTERVAL);
    }
    true
}

fn unexpected() -> ClientError {
    ClientError::Broken(io::Error::new(ErrorKind::InvalidData, "the target answered something else"))
}
