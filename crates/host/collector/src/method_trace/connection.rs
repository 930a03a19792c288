//! The host's end of the socket to an agent that traces methods.

use crate::Error;
use remora_wire::Frame;
use remora_wire::method_trace::{FromTracer, ToTracer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    Message(FromTracer),
    Nothing,
    HungUp,
}

/// A connected socket.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    frame: Frame,
    is_over: bool,
}

impl Connection {
    /// Accepts the agent's connection, if it comes in time.
    pub(super) fn accept(listener: &UnixListener, timeout: Duration) -> Result<Option<Connection>, Error> {
        if !is_readable(listener, timeout)? {
            return Ok(None);
        }
        let (stream, _) = listener.accept().map_err(Error::Channel)?;
        stream.set_nonblocking(true).map_err(Error::Channel)?;
        Ok(Some(Connection { stream, frame: Frame::default(), is_over: false }))
    }

    /// The peer's process id in our namespace; `None` if its namespace is not visible from here.
    pub(super) fn peer(&self) -> Option<u32> {
        remora_attach::peer(&self.stream)
    }

    /// The next message; waits at most `timeout` for it.
    pub(super) fn receive(&mut self, timeout: Duration) -> Result<Received, Error> {
        let mut may_wait = true;
        loop {
            match self.frame.take().map(|body| body.map(|body| FromTracer::decode(body.all()))) {
                Ok(Some(Ok(message))) => return Ok(Received::Message(message)),
                Ok(None) if !self.is_over => {}
                _ => return Ok(Received::HungUp),
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => self.is_over = true,
                Ok(length) => self.frame.push(bytes.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !may_wait || !is_readable(&self.stream, timeout)? {
                        return Ok(Received::Nothing);
                    }
                    may_wait = false;
                }
                Err(_) => self.is_over = true,
            }
        }
    }

    /// Sends a message. A failure shows as a hang-up at the next read.
    pub(super) fn send(&mut self, message: &ToTracer) {
        let _ = self.stream.write_all(&message.encode());
    }

    /// Sends a message with a descriptor.
    pub(super) fn send_with(&mut self, message: &ToTracer, descriptor: &OwnedFd) -> Result<(), Error> {
        let bytes = message.encode();
        let descriptors = [descriptor.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&self.stream, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)
            .map(|_| ())
            .map_err(|error| Error::Channel(error.into()))
    }
}

fn is_readable(source: &impl AsFd, timeout: Duration) -> Result<bool, Error> {
    let mut polls = [PollFd::new(source, PollFlags::IN)];
    let time = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 });
    match poll(&mut polls, Some(&time)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(Error::Channel(error.into())),
    }
}
