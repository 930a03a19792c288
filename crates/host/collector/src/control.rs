//! The host's end of the control channel.

use crate::Error;
use crate::socket::peer_inode;
use remora_wire::{Frame, FromAgent, ToAgent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(FromAgent),
    /// No message at the moment.
    Nothing,
    /// The agent, or the whole target, has ended.
    HungUp,
}

/// A connected channel.
pub struct Control {
    stream: UnixStream,
    frame: Frame,
    hung_up: bool,
}

impl Control {
    /// Waits for the agent to connect; `None` if it has not connected by `deadline`.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn accept(listener: &UnixListener, deadline: Instant) -> Result<Option<Control>, Error> {
        if !wait(listener, deadline.saturating_duration_since(Instant::now()))? {
            return Ok(None);
        }
        let (stream, _) = listener.accept().map_err(Error::Channel)?;
        stream.set_nonblocking(true).map_err(Error::Channel)?;
        Ok(Some(Control { stream, frame: Frame::default(), hung_up: false }))
    }

    /// The peer's process id in our namespace; `None` if its namespace is not visible from here.
    pub fn peer(&self) -> Option<u32> {
        remora_attach::peer(&self.stream)
    }

    /// The inode of the agent's end, if the kernel reports it.
    pub fn peer_inode(&self) -> Option<u64> {
        peer_inode(&self.stream)
    }

    /// Waits at most `timeout` until the channel is readable.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        wait(&self.stream, timeout)
    }

    /// The next message, if it has arrived completely.
    pub fn receive(&mut self) -> Received {
        loop {
            match self.frame.take().map(|body| body.map(|body| FromAgent::decode(body.all()))) {
                Ok(Some(Ok(message))) => return Received::Message(message),
                Ok(None) if self.hung_up => return Received::HungUp,
                Ok(None) => {}
                Ok(Some(Err(_))) | Err(_) => return Received::HungUp,
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => self.hung_up = true,
                Ok(length) => self.frame.push(bytes.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Received::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.hung_up = true,
            }
        }
    }

    /// Waits for the next message until `deadline`; then returns `Nothing`.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn receive_until(&mut self, deadline: Instant) -> Result<Received, Error> {
        loop {
            let received = self.receive();
            let left = deadline.saturating_duration_since(Instant::now());
            if received != Received::Nothing || left.is_zero() {
                return Ok(received);
            }
            self.wait(left)?;
        }
    }

    /// Sends a command. If the socket is full, the agent has stopped reading: do not wait for it.
    pub fn send(&mut self, message: &ToAgent) {
        // A failure shows as a hang-up at the next `receive`.
        let _ = self.stream.write_all(&message.encode());
    }

    /// Sends a command with a descriptor.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn send_with(&mut self, message: &ToAgent, descriptor: &OwnedFd) -> Result<(), Error> {
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

fn wait(source: &impl AsFd, timeout: Duration) -> Result<bool, Error> {
    let mut polls = [PollFd::new(source, PollFlags::IN)];
    let time = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 });
    match poll(&mut polls, Some(&time)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(Error::Channel(error.into())),
    }
}
