//! Asking a runtime who it is, and to load a profiler.
//!
//! A stopped target is not asked, because it could not answer and would act on the request when it goes on.

use crate::client::{DEFAULT_TIMEOUT, Deadline, connect, exchange, receive_reply, send};
use crate::codec::{AttachProfiler, Guid, ProcessInfo, ProcessInfoVersion, Request};
use crate::error::Error;
use crate::hresult::HResult;
use crate::process::Process;
use remora_symbols::TargetPath;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Pause before a runtime that is just starting is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// What to load into a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// Class that the library's factory is asked for.
    pub clsid: Guid,
    /// Path of the library in the target's view.
    pub path: TargetPath,
    /// Handed to `InitializeForAttach`.
    pub client_data: Vec<u8>,
    /// How long all of it may take. The runtime gets the same for its wait on a background collection.
    pub timeout: Duration,
}

impl Attach {
    /// With the default time-out and no client data.
    pub fn new(clsid: Guid, path: impl Into<TargetPath>) -> Attach {
        Attach { clsid, path: path.into(), client_data: Vec::new(), timeout: DEFAULT_TIMEOUT }
    }

    /// Calls `send` with the request in the form of the protocol.
    pub(crate) fn with_request<T>(&self, send: impl FnOnce(&Request<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let path = self.path.to_str().ok_or_else(|| {
            Error::io("send the path, which is not UTF-8:", self.path.to_string(), std::io::ErrorKind::InvalidInput)
        })?;
        let request = AttachProfiler {
            timeout_milliseconds: u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX),
            clsid: self.clsid,
            path,
            client_data: &self.client_data,
        };
        send(&Request::AttachProfiler(&request))
    }
}

/// A request that a runtime has, and has not answered yet: the caller may see to something else meanwhile.
///
/// As a descriptor it can be read from when the answer is there, or never will be.
#[derive(Debug)]
pub struct Asked<'a> {
    process: &'a Process,
    stream: UnixStream,
    deadline: Deadline,
}

impl AsFd for Asked<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Asked<'_> {
    /// Waits for the answer: returns when the runtime has said that the profiler is loaded.
    pub fn answer(mut self) -> Result<(), Error> {
        let reply = receive_reply(&mut self.stream, self.deadline);
        // One that refuses since it is going down has ended soon.
        let answer = reply.and_then(|reply| Ok(reply.into_attached()?));
        answer.map_err(|error| self.process.explain(error))
    }
}

/// Asks the process to load a profiler, and does not wait for the answer.
pub fn begin_attach<'a>(process: &'a Process, attach: &Attach) -> Result<Asked<'a>, Error> {
    attach.with_request(|request| {
        // A request that cannot be sent is refused before anybody is asked.
        request.encode()?;
        let socket = process.ready_socket()?;
        let deadline = Deadline::after(attach.timeout);
        let sent = connect(socket, deadline).and_then(|mut stream| {
            send(&mut stream, request, deadline)?;
            Ok(stream)
        });
        let stream = sent.map_err(|error| process.explain(error))?;
        Ok(Asked { process, stream, deadline })
    })
}

/// Asks the process to load a profiler; returns when the runtime has said that it did.
pub fn attach(process: &Process, attach: &Attach) -> Result<(), Error> {
    begin_attach(process, attach)?.answer()
}

/// Like [`attach`], but asks again while the runtime is still starting. For programs that were started for recording.
pub fn attach_when_ready(process: &Process, request: &Attach) -> Result<(), Error> {
    let deadline = Deadline::after(request.timeout);
    loop {
        match attach(process, request) {
            Err(error) if error.is_too_early() && !deadline.is_over() => std::thread::sleep(RETRY_PAUSE),
            other => return other,
        }
    }
}

/// Asks the process who it is; the newest question that it understands. .NET 5 and later.
pub fn ask(process: &Process, timeout: Duration) -> Result<ProcessInfo, Error> {
    let deadline = Deadline::after(timeout);
    let mut version = ProcessInfoVersion::Three;
    loop {
        let socket = process.ready_socket()?;
        let answer = connect(socket, deadline)
            .and_then(|mut stream| exchange(&mut stream, &Request::ProcessInfo(version), deadline));
        match (answer, version.older()) {
            (Ok(payload), _) => return Ok(ProcessInfo::decode(version, &payload)?),
            (Err(Error::RuntimeRefused(HResult::UNKNOWN_COMMAND)), Some(older)) => version = older,
            (Err(error), _) => return Err(process.explain(error)),
        }
    }
}
