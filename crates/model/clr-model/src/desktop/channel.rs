//! The channel of a profiler's vendor: a socket that the profiler connects to, and that asks it to detach by hanging up.
//!
//! A trigger cannot detach a profiler: only the profiler itself can request that (seed 001). So every product has such a channel. This one
//! suits the examples of `corprof`.
//! It belongs to the process that watches over the target: what a profiler wrote just before it crashed is still read.

use super::kept::{KeptFile, LARGEST_PIECE};
use super::{PAUSE, Place};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// Connections at a time. Others are closed at once.
const MOST_CONNECTIONS: usize = 64;
/// Most pieces that are read of each connection when the target has ended: the buffer of a socket, as an administrator may have set it.
const MOST_LEFT: usize = 1024;

/// See the module documentation.
pub(super) struct Channel {
    listener: UnixListener,
    text: KeptFile,
    connections: Vec<Connection>,
}

struct Connection {
    stream: UnixStream,
    is_hung_up: bool,
}

impl Channel {
    /// The channel of a target with this name.
    pub(super) fn listen(place: &Place, name: &str) -> io::Result<Channel> {
        let text = KeptFile::create(&place.channel_text_file(name))?;
        let listener = UnixListener::bind(place.channel(name))?;
        listener.set_nonblocking(true)?;
        Ok(Channel { listener, text, connections: Vec::new() })
    }

    /// Waits, and reads what profilers write meanwhile.
    pub(super) fn wait(&mut self, longest: Duration) {
        let longest = Timespec::try_from(longest).unwrap_or_default();
        let streams = self.connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN));
        let mut ready: Vec<PollFd<'_>> = streams.chain([PollFd::new(&self.listener, PollFlags::IN)]).collect();
        // Interrupted by a signal: there is only nothing to read.
        let _ = poll(&mut ready, Some(&longest));
        self.accept();
        self.read();
    }

    /// Hangs up. What the profilers still write is read. Returns the number of connections.
    pub(super) fn hang_up(&mut self) -> usize {
        // A profiler that has just attached has connected, and may still wait to be accepted.
        self.accept();
        let open = self.connections.iter_mut().filter(|connection| !connection.is_hung_up);
        let hang_up = |connection: &mut Connection| {
            connection.is_hung_up = true;
            // A profiler that has already gone needs no end.
            let _ = connection.stream.shutdown(Shutdown::Write);
        };
        open.map(hang_up).count()
    }

    /// Reads what profilers have left that have ended.
    pub(super) fn end(mut self) {
        self.accept();
        (0..MOST_LEFT).take_while(|_| self.read()).count();
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.connections.len() < MOST_CONNECTIONS && stream.set_nonblocking(true).is_ok() {
                        self.connections.push(Connection { stream, is_hung_up: false });
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Too many open files, for example: the listener stays readable.
                Err(_) => return std::thread::sleep(PAUSE),
            }
        }
    }

    /// A piece of each connection. False if there is nothing.
    fn read(&mut self) -> bool {
        let mut piece = vec![0; LARGEST_PIECE];
        let mut has_read = false;
        self.connections.retain_mut(|connection| match connection.stream.read(&mut piece) {
            Ok(0) => false,
            Ok(count) => {
                has_read = true;
                self.text.add(&piece[..count]);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        });
        has_read
    }
}
