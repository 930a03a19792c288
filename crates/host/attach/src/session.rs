//! An EventPipe stream over the diagnostics socket.
//!
//! The stream ends after [`EventPipeSession::stop`], or when the process ends. The rundown after the stop request (methods and modules, if
//! requested) must still be read, because the runtime writes it before it answers.
//! Dropping the session closes the stream, and the runtime ends its side.

use crate::client::{DEFAULT_TIMEOUT, Deadline, connect, exchange, receive, send};
use crate::codec::{EventPipeConfig, Request, SessionId, StopTracing};
use crate::error::Error;
use crate::hresult::HResult;
use crate::process::Process;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A running session. Reading it gives the bytes of a nettrace file.
#[derive(Debug)]
pub struct EventPipeSession {
    stream: UnixStream,
    id: SessionId,
    process: Process,
    config: EventPipeConfig,
    stopping: Option<UnixStream>,
}

impl EventPipeSession {
    /// Starts a session in the process's runtime. An older runtime may deliver more than requested:
    /// [`Self::config`] has the actual configuration.
    pub fn start(process: &Process, config: &EventPipeConfig) -> Result<EventPipeSession, Error> {
        match (start_as(process, config), config.for_older_runtimes()) {
            (Err(Error::RuntimeRefused(HResult::UNKNOWN_COMMAND)), Some(older)) => start_as(process, &older),
            (started, _) => started,
        }
    }

    /// The actual configuration.
    pub fn config(&self) -> &EventPipeConfig {
        &self.config
    }

    /// Time limit of a read; without one, a read may wait forever. A read that times out fails with `WouldBlock`.
    pub fn wait_at_most(&self, limit: Option<Duration>) -> Result<(), Error> {
        self.stream.set_read_timeout(limit).map_err(|source| Error::Broken { step: "set a time-out", source })
    }

    /// Requests the runtime to end the session, and returns once the request is sent, within `timeout`. Then read until the stream ends,
    /// and call [`Self::finish`]. A process that is stopped at this moment gets the request, too: it may continue soon.
    pub fn stop(&mut self, timeout: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(timeout);
        let mut stream =
            connect(self.process.known_socket()?, deadline).map_err(|error| self.process.explain(error))?;
        send(&mut stream, &Request::StopTracing(StopTracing { session: self.id }), deadline)?;
        self.stopping = Some(stream);
        Ok(())
    }

    /// After [`Self::stop`] and the stream's end: whether the runtime confirms the end of the session within `timeout`.
    pub fn finish(mut self, timeout: Duration) -> Result<(), Error> {
        let Some(mut stream) = self.stopping.take() else { return Ok(()) };
        let ended = SessionId::decode(&receive(&mut stream, Deadline::after(timeout))?)?;
        if ended == self.id {
            return Ok(());
        }
        let why = "it names another session";
        Err(crate::codec::CodecError::BadField { field: "session", why }.into())
    }
}

fn start_as(process: &Process, config: &EventPipeConfig) -> Result<EventPipeSession, Error> {
    let deadline = Deadline::after(DEFAULT_TIMEOUT);
    let request = Request::CollectTracing(config);
    request.encode()?;
    let socket = process.ready_socket()?;
    let start = || {
        let mut stream = connect(socket, deadline)?;
        let payload = exchange(&mut stream, &request, deadline)?;
        let (id, process, config) = (SessionId::decode(&payload)?, process.clone(), config.clone());
        let session = EventPipeSession { stream, id, process, config, stopping: None };
        session.wait_at_most(None)?;
        Ok(session)
    };
    start().map_err(|error| process.explain(error))
}

impl Read for EventPipeSession {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}
