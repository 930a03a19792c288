//! The servers of the hosting interfaces in a trigger process. They ask the target, as mscoree does.

use super::Place;
use super::message::{Answer, AttachMessage, Question, connect, peer, receive, send, wait_until};
use crate::lab::proc_file::state;
use crate::machine::Account;
use corprof::HResult;
use remora_clr_abi::Slot;
use remora_clr_abi::metahost::{AttachRequest, Fenced, MetaHost, Profiling, Runtime};
use rustix::process::Pid;
use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a target has for an answer, beside what the question itself takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The target of a trigger, and as whom the trigger runs.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    pub(super) socket: PathBuf,
    pub(super) account: Account,
    /// How long a stopped target has to go on.
    pub(super) stopped_until: Option<Instant>,
}

impl Remote {
    pub(super) fn of(place: &Place, target: &str, account: Account) -> Remote {
        Remote { socket: place.socket(target), account, stopped_until: None }
    }

    /// Asks the target, which fails soon if that is stopped. An answer that takes `longer` by design gets that time in addition.
    pub(super) fn ask(&self, question: &Question, longer: Duration) -> io::Result<Answer> {
        let mut stream = connect(&self.socket)?;
        let peer = peer(&stream)?;
        send(&mut stream, question, PATIENCE)?;
        let is_late = wait_until(&stream, self.stopped_until.unwrap_or_else(Instant::now)).is_err();
        if is_late && peer.is_some_and(is_stopped) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        receive(&mut stream, PATIENCE.saturating_add(longer))
    }

    /// The process behind the socket, from the kernel: it need not answer. `None` if it runs in another PID namespace.
    pub(super) fn peer(&self) -> Option<Pid> {
        let stream = connect(&self.socket).ok()?;
        peer(&stream).ok()?
    }

    /// Whether the target answers within this time, whatever profilers do in it.
    pub(super) fn answers_within(&self, patience: Duration) -> bool {
        let asked = connect(&self.socket).and_then(|mut stream| {
            send(&mut stream, &Question::Attaching, patience)?;
            receive::<Answer>(&mut stream, patience)
        });
        asked.is_ok()
    }

    /// `OpenProcess`: the process's number.
    pub(super) fn open(&self) -> Result<u32, HResult> {
        match self.ask(&Question::Open(self.account), Duration::ZERO) {
            Ok(Answer::Opened(process)) => Ok(process),
            Ok(Answer::Code(code)) => Err(HResult(code)),
            _ => Err(HResult::CORPROF_E_IPC_FAILED),
        }
    }
}

/// Whether a signal has stopped the process.
pub(super) fn is_stopped(process: Pid) -> bool {
    state(process) == Some('T')
}

/// One runtime, and the attach interface of its release.
struct RemoteRuntime {
    remote: Remote,
    version: String,
    is_attachable: bool,
}

impl Fenced for Remote {
    /// The caller gets `E_UNEXPECTED`; the payload says nothing more to it.
    fn panicked(&self, _: Slot, _: Box<dyn Any + Send>) {}
}

impl Fenced for RemoteRuntime {
    fn panicked(&self, _: Slot, _: Box<dyn Any + Send>) {}
}

impl MetaHost for Remote {
    fn loaded_runtimes(&self, _: usize) -> Result<Vec<Arc<dyn Runtime>>, HResult> {
        let found = match self.ask(&Question::Runtimes(self.account), Duration::ZERO) {
            Ok(Answer::Runtimes(found)) => found,
            Ok(Answer::Code(code)) => return Err(HResult(code)),
            _ => return Err(HResult::CORPROF_E_IPC_FAILED),
        };
        let runtime = |(version, is_attachable)| {
            Arc::new(RemoteRuntime { remote: self.clone(), version, is_attachable }) as Arc<dyn Runtime>
        };
        Ok(found.into_iter().map(runtime).collect())
    }
}

impl Runtime for RemoteRuntime {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn profiling(&self) -> Result<Arc<dyn Profiling>, HResult> {
        if !self.is_attachable {
            return Err(HResult::E_NOINTERFACE);
        }
        let (remote, version) = (self.remote.clone(), self.version.clone());
        Ok(Arc::new(RemoteRuntime { remote, version, is_attachable: true }))
    }
}

impl Profiling for RemoteRuntime {
    fn attach_profiler(&self, request: AttachRequest) -> HResult {
        let message = AttachMessage {
            version: self.version.clone(),
            process: request.process,
            milliseconds: request.milliseconds,
            class: request.profiler.to_u128().to_be_bytes(),
            path: request.path,
            client_data: request.client_data,
        };
        let bound = Duration::from_millis(u64::from(request.milliseconds));
        match self.remote.ask(&Question::Attach(self.remote.account, message), bound) {
            Ok(Answer::Code(code)) => HResult(code),
            _ => HResult::CORPROF_E_IPC_FAILED,
        }
    }
}
