//! What trigger and target say to each other: one question and one answer for each connection, bounded in size and time.

use crate::machine::Account;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, geteuid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Largest message, bytes. The largest client data as JSON is a third of it.
const LARGEST: usize = 1 << 20;
/// Bytes of the length before each message.
const LENGTH: usize = 4;

/// A question of the trigger. It says as whom it runs, where that matters.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// `OpenProcess`.
    Open(Account),
    /// The loaded runtimes.
    Runtimes(Account),
    /// `AttachProfiler`.
    Attach(Account, AttachMessage),
    /// The profilers of all runtimes.
    Profilers,
    /// Why the last attach failed, where its code does not say it. With the library's path.
    AttachFailure(Option<String>),
    /// Whether an attach waits or is under way.
    Attaching,
    /// End the connections of profilers to the channel, for the process that watches over the target.
    HangUp,
    /// Something happens in the target.
    Act(Action),
    /// The target ends.
    Stop,
}

/// The arguments of `AttachProfiler`, and the release of the interface.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AttachMessage {
    pub(super) version: String,
    pub(super) process: u32,
    pub(super) milliseconds: u32,
    /// The class, in the order of its text.
    pub(super) class: [u8; 16],
    pub(super) path: Option<Vec<u16>>,
    pub(super) client_data: Vec<u8>,
}

/// An event in a target, for `remora model tell`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// The blocked finalizer returns.
    FinalizerReturns,
    /// The process loads its runtimes.
    StartRuntime,
    /// A thread of the application loads a module.
    LoadModule,
    /// A thread of the application collects garbage.
    Collect,
    /// The thread that stays in a callback leaves it.
    ThreadLeaves,
    /// A debugger stops the process.
    DebuggerStops,
    /// The debugger lets it continue.
    DebuggerContinues,
}

/// The answer to a question.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The process's number.
    Opened(u32),
    /// Version, and whether it has the attach interface.
    Runtimes(Vec<(String, bool)>),
    /// The code of a call.
    Code(i32),
    Profilers(Vec<LoadedProfiler>),
    AttachFailure(Option<String>),
    Attaching(bool),
    /// Connections that were ended.
    HungUp(usize),
    Told(Told),
    Stopping,
    /// The question makes no sense.
    Refused,
}

/// The effect of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// It happened.
    Done,
    /// It happened, and the thread stays in a callback of a profiler.
    ThreadStays,
    /// Nothing changed: it was so already.
    Already,
    /// It needs a runtime, and none is loaded.
    NoRuntime,
}

/// A profiler in a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedProfiler {
    /// The runtime.
    pub version: String,
    /// Whether it has requested its detach.
    pub detaching: bool,
    /// Callbacks that have not returned, by name.
    pub callbacks: Vec<String>,
}

/// An entry of the event log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// `Information` or `Error`.
    pub level: String,
    /// The event source.
    pub source: String,
    /// The event id.
    pub event_id: u32,
    /// The runtime's version.
    pub runtime: String,
    /// The text.
    pub text: String,
}

/// The process behind a stream. `None` if it runs in another PID namespace.
///
/// # Errors
/// It belongs to another user.
pub(super) fn peer(stream: &UnixStream) -> io::Result<Option<Pid>> {
    // Not through rustix, whose number of a process is never zero.
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option, answer) = (libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast());
    // SAFETY: the answer is a local of the given length, and the descriptor is open as long as `stream`.
    if unsafe { libc::getsockopt(stream.as_raw_fd(), level, option, answer, &raw mut length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The directory is private already; this rules out a socket that was left open for somebody.
    if peer.uid != geteuid().as_raw() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    Ok(Pid::from_raw(peer.pid))
}

/// Connects, and never waits for that: the queue of a target that accepts nobody may be full (`WouldBlock`).
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Whether somebody listens there.
pub(super) fn is_there(path: &Path) -> bool {
    match connect(path) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// Sends a message.
pub(super) fn send(stream: &mut UnixStream, message: &impl Serialize, patience: Duration) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > LARGEST {
        return Err(io::Error::new(ErrorKind::InvalidData, "the message is too large"));
    }
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(&(text.len() as u32).to_le_bytes())?;
    stream.write_all(&text)
}

/// Receives a message within this time.
pub(super) fn receive<T: DeserializeOwned>(stream: &mut UnixStream, patience: Duration) -> io::Result<T> {
    let deadline = Instant::now() + patience;
    let mut length = [0; LENGTH];
    read_until(stream, &mut length, deadline)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LARGEST {
        return Err(io::Error::new(ErrorKind::InvalidData, "the message is too large"));
    }
    let mut text = vec![0; length];
    read_until(stream, &mut text, deadline)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Waits until there is something to read, at most until the deadline.
pub(super) fn wait_until(stream: &UnixStream, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
        let mut ready = [PollFd::new(stream, PollFlags::IN)];
        match poll(&mut ready, Some(&left)) {
            Ok(0) => return Err(ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Fills the buffer before the deadline, however slowly the bytes come.
fn read_until(stream: &mut UnixStream, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        wait_until(stream, deadline)?;
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => buffer = &mut buffer[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LATE: Duration = Duration::from_secs(30);

    #[test]
    fn a_message_arrives_as_it_was_sent() {
        let (mut here, mut there) = UnixStream::pair().expect("a pair");
        send(&mut here, &vec![1_u8, 2, 3], LATE).expect("sent");
        assert_eq!(receive::<Vec<u8>>(&mut there, LATE).expect("received"), [1, 2, 3]);
    }

    #[test]
    fn a_message_that_claims_to_be_too_large_or_never_comes_is_refused() {
        let (mut here, mut there) = UnixStream::pair().expect("a pair");
        assert_eq!(receive::<u8>(&mut there, SOON).map_err(|error| error.kind()), Err(ErrorKind::TimedOut));
        here.write_all(&u32::MAX.to_le_bytes()).expect("sent");
        assert_eq!(receive::<u8>(&mut there, LATE).map_err(|error| error.kind()), Err(ErrorKind::InvalidData));
        let too_large = "x".repeat(LARGEST);
        assert_eq!(send(&mut here, &too_large, LATE).map_err(|error| error.kind()), Err(ErrorKind::InvalidData));
        drop(here);
        assert_eq!(receive::<u8>(&mut there, LATE).map_err(|error| error.kind()), Err(ErrorKind::UnexpectedEof));
    }
}
