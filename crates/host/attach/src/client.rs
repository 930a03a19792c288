//! Sends requests to a runtime's socket, with time limits of our own.
//!
//! One command per connection, as the protocol demands. A time limit covers the whole exchange, so that a server that sends byte by byte
//! cannot block us. The runtime may still execute the command later, and the error says so.

use crate::codec::{CodecError, HEADER_SIZE, Header, Reply, Request};
use crate::error::Error;
use crate::socket::{DiagnosticsSocket, peer};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Default time limit for a runtime's answer.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The deadline for all steps of an exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    allowed: Duration,
}

impl Deadline {
    pub(crate) fn after(allowed: Duration) -> Deadline {
        Deadline { at: Instant::now() + allowed, allowed }
    }

    /// The remaining time, at least a little, because zero would mean no limit.
    fn left(self, step: &'static str) -> Result<Duration, Error> {
        let left = self.at.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.passed(step)) } else { Ok(left.max(Duration::from_millis(1))) }
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.at
    }

    fn passed(self, step: &'static str) -> Error {
        Error::TimedOut { step, after: self.allowed }
    }

    fn explain(self, step: &'static str, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.passed(step),
            _ => Error::Broken { step, source },
        }
    }
}

/// Connects to a runtime's socket, and verifies the listener through the kernel. In its own mount namespace a process can mount the socket
/// of another process, even of another user, over its own socket's name. That process would then load a library from a path chosen by the
/// first.
pub(crate) fn connect(socket: &DiagnosticsSocket, deadline: Deadline) -> Result<UnixStream, Error> {
    const STEP: &str = "accept a connection";
    let failed = |errno: Errno| Error::Connect { path: socket.host_path.clone(), source: errno.into() };
    // Connects to the file that was checked, whatever its name refers to now.
    let file = socket.open().map_err(failed)?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(failed)?;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(failed)?;
    // With a full backlog, connect waits as long as the send timeout.
    set_socket_timeout(&fd, Timeout::Send, Some(deadline.left(STEP)?)).map_err(failed)?;
    loop {
        match rustix::net::connect(&fd, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(deadline.passed(STEP)),
            Err(errno) => return Err(failed(errno)),
        }
    }
    match peer(&fd) {
        Some(listener) if listener == socket.listener => Ok(UnixStream::from(fd)),
        listener => Err(Error::SocketOfAnother { path: socket.host_path.clone(), pid: socket.listener, listener }),
    }
}

/// Sends a request and reads its answer.
pub(crate) fn exchange(stream: &mut UnixStream, request: &Request<'_>, deadline: Deadline) -> Result<Vec<u8>, Error> {
    send(stream, request, deadline)?;
    receive(stream, deadline)
}

/// Sends a request.
pub(crate) fn send(stream: &mut UnixStream, request: &Request<'_>, deadline: Deadline) -> Result<(), Error> {
    const STEP: &str = "take the request";
    let message = request.encode()?;
    let mut left = message.as_slice();
    while !left.is_empty() {
        let limit = deadline.left(STEP)?;
        stream.set_write_timeout(Some(limit)).map_err(|source| deadline.explain(STEP, source))?;
        match stream.write(left) {
            Ok(0) => return Err(Error::Broken { step: STEP, source: io::ErrorKind::WriteZero.into() }),
            Ok(written) => left = &left[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(deadline.explain(STEP, error)),
        }
    }
    Ok(())
}

/// Reads an answer and returns the payload of a success.
pub(crate) fn receive(stream: &mut UnixStream, deadline: Deadline) -> Result<Vec<u8>, Error> {
    Ok(receive_reply(stream, deadline)?.into_payload()?)
}

/// Reads an answer.
pub(crate) fn receive_reply(stream: &mut UnixStream, deadline: Deadline) -> Result<Reply, Error> {
    let mut message = vec![0; HEADER_SIZE];
    read_exact(stream, &mut message, deadline)?;
    let size = HEADER_SIZE + Header::decode(&message)?.payload_size();
    message.resize(size, 0);
    read_exact(stream, &mut message[HEADER_SIZE..], deadline)?;
    Ok(Reply::decode(&message)?)
}

/// Fills `buffer` before the deadline.
pub(crate) fn read_exact(stream: &mut UnixStream, buffer: &mut [u8], deadline: Deadline) -> Result<(), Error> {
    const STEP: &str = "answer";
    let wanted = buffer.len();
    let mut filled = 0;
    while filled < wanted {
        let limit = deadline.left(STEP)?;
        stream.set_read_timeout(Some(limit)).map_err(|source| deadline.explain(STEP, source))?;
        match stream.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => {
                return Err(Error::Broken { step: STEP, source: io::ErrorKind::UnexpectedEof.into() });
            }
            Ok(0) => return Err(CodecError::Truncated { need: wanted, have: filled }.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(deadline.explain(STEP, error)),
        }
    }
    Ok(())
}
