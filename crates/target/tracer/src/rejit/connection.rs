//! The agent's end of the socket to the recorder.

use remora_connection::receive_with_descriptor;
use remora_wire::method_trace::{FromTracer, ToTracer};
use remora_wire::{AgentError, Frame};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a message may wait for the recorder to read.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// What came from the recorder.
pub(crate) enum Received {
    Message(ToTracer),
    Nothing,
    HungUp,
}

/// The connection.
pub(crate) struct Connection {
    stream: UnixStream,
    frame: Frame,
    is_over: bool,
    descriptor: Option<OwnedFd>,
}

impl Connection {
    /// Connects. Only who may command the agent, may command it.
    pub(crate) fn to(path: &str) -> Result<Connection, AgentError> {
        let stream = remora_connection::connect(path)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Connection { stream, frame: Frame::default(), is_over: false, descriptor: None })
    }

    /// The descriptor that came with a message.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    /// Sends a message. A recorder that does not read is gone.
    pub(crate) fn send(&mut self, message: &FromTracer) {
        let bytes = message.encode();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() && !self.is_over {
            // SAFETY: the bytes are live for the call. SIGPIPE may be deadly for the application.
            let sent =
                unsafe { libc::send(self.stream.as_raw_fd(), rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL) };
            match usize::try_from(sent) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => self.is_over = true,
            }
        }
    }

    /// The next message, after at most `timeout`.
    pub(crate) fn receive(&mut self, timeout: Duration) -> Received {
        let mut may_wait = true;
        loop {
            match self.frame.take().map(|body| body.map(|body| ToTracer::decode(body.all()))) {
                Ok(Some(Ok(message))) => return Received::Message(message),
                Ok(None) if !self.is_over => {}
                _ => return Received::HungUp,
            }
            if !may_wait {
                return Received::Nothing;
            }
            may_wait = false;
            let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
            let mut poll = libc::pollfd { fd: self.stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one live pollfd.
            if unsafe { libc::poll(&raw mut poll, 1, milliseconds) } == 1 {
                self.read();
            }
        }
    }

    fn read(&mut self) {
        let mut bytes = [0_u8; 4096];
        let (read, descriptor) = receive_with_descriptor(self.stream.as_raw_fd(), &mut bytes);
        if descriptor.is_some() {
            self.descriptor = descriptor;
        }
        match usize::try_from(read) {
            Ok(0) => self.is_over = true,
            Ok(length) => self.frame.push(bytes.get(..length).unwrap_or_default()),
            Err(_) => {
                let error = std::io::Error::last_os_error().kind();
                self.is_over = !matches!(error, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted);
            }
        }
    }
}
