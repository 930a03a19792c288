//! Requests to a runtime: process information, and loading a profiler.
//!
//! A stopped target gets no request: it could not answer, and would act on the request when it continues.

use crate::client::{DEFAULT_TIMEOUT, Deadline, connect, exchange, receive_reply, send};
use crate::codec::{AttachProfiler, Guid, ProcessInfo, ProcessInfoVersion, Request};
use crate::error::Error;
use crate::hresult::HResult;
use crate::process::Process;
use remora_symbols::TargetPath;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Pause before the next request to a runtime that is starting.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// The profiler to load into a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// Class id requested from the library's factory.
    pub clsid: Guid,
    /// Path of the library in the target's view.
    pub path: TargetPath,
    /// Passed to `InitializeForAttach`. .NET Core 3.1 reads a request once, so it can refuse more data than the kernel sends in one piece
    /// (experiment: it closes the connection after the first of two parts).
    pub client_data: Vec<u8>,
    /// Time limit for all of it. The runtime gets the same for its wait on a background GC.
    pub timeout: Duration,
}

impl Attach {
    /// With the default timeout and no client data.
    pub fn new(clsid: Guid, path: impl Into<TargetPath>) -> Attach {
        Attach { clsid, path: path.into(), client_data: Vec::new(), timeout: DEFAULT_TIMEOUT }
    }

    /// Calls `send` with the encoded form of the request.
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

/// A request that the runtime has received and not answered yet; the caller may do other work meanwhile.
///
/// As a descriptor it is readable once the answer has arrived, or the connection is closed.
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
    /// Waits for the answer: returns when the runtime reports that the profiler is loaded.
    pub fn answer(mut self) -> Result<(), Error> {
        let reply = receive_reply(&mut self.stream, self.deadline);
        // A runtime that refuses because it is shutting down ends soon.
        let answer = reply.and_then(|reply| Ok(reply.into_attached()?));
        answer.map_err(|error| self.process.explain(error))
    }
}

/// Requests the process to load a profiler, without waiting for the answer.
pub fn begin_attach<'a>(process: &'a Process, attach: &Attach) -> Result<Asked<'a>, Error> {
    attach.with_request(|request| {
        // A request that cannot be encoded fails before anything is sent.
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

/// Requests the process to load a profiler; returns when the runtime reports that it did.
pub fn attach(process: &Process, attach: &Attach) -> Result<(), Error> {
    begin_attach(process, attach)?.answer()
}

/// Like [`attach`], but retries while the runtime is still starting. For applications started for recording.
pub fn attach_when_ready(process: &Process, request: &Attach) -> Result<(), Error> {
    let deadline = Deadline::after(request.timeout);
    loop {
        match attach(process, request) {
            Err(error) if error.is_too_early() && !deadline.is_over() => std::thread::sleep(RETRY_PAUSE),
            other => return other,
        }
    }
}

/// Requests process information, in the newest form that the runtime supports. .NET 5 and later.
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
