//! The channel of a profiler's vendor: a socket that the profiler connects to, and that asks it to detach by hanging up.
//!
//! A trigger cannot detach a profiler: only the profiler itself can request that (seed 001). So every product has such a channel. This one
//! suits the examples of `corprof`.

use super::PAUSE;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

/// Connections at a time. Others are closed at once.
const MOST_CONNECTIONS: usize = 16;
/// Bytes that are kept of what profilers write. The rest is dropped.
const MOST_TEXT: usize = 1 << 18;

/// See the module documentation.
#[derive(Clone)]
pub(super) struct Channel(Arc<Inner>);

struct Inner {
    listener: UnixListener,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    text: Vec<u8>,
    /// The connections that have not been ended here, each with a number.
    open: Vec<(usize, UnixStream)>,
    accepted: usize,
}

impl Channel {
    /// Listens at a path.
    pub(super) fn listen(path: &Path) -> io::Result<Channel> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let channel = Channel(Arc::new(Inner { listener, state: Mutex::default() }));
        let accepting = channel.clone();
        std::thread::Builder::new().spawn(move || {
            loop {
                let mut ready = [PollFd::new(&accepting.0.listener, PollFlags::IN)];
                // Interrupted by a signal: there is only nothing to accept.
                let _ = poll(&mut ready, None);
                if !accepting.accept_all(&mut accepting.lock()) {
                    std::thread::sleep(PAUSE);
                }
            }
        })?;
        Ok(channel)
    }

    /// The lines so far, and the connected profilers.
    pub(super) fn lines(&self) -> (Vec<String>, usize) {
        let mut state = self.lock();
        self.accept_all(&mut state);
        let lines = String::from_utf8_lossy(&state.text).lines().map(str::to_owned).collect();
        (lines, state.open.len())
    }

    /// Hangs up. What the profilers still write is read. Returns the number of connections.
    pub(super) fn hang_up(&self) -> usize {
        let mut state = self.lock();
        // A profiler that has just attached has connected, and may still wait to be accepted.
        self.accept_all(&mut state);
        let ended = std::mem::take(&mut state.open);
        for (_, stream) in &ended {
            // A profiler that has already gone needs no end.
            let _ = stream.shutdown(Shutdown::Write);
        }
        ended.len()
    }

    /// False if the system cannot accept one, as with too many open files: the listener stays readable.
    fn accept_all(&self, state: &mut State) -> bool {
        loop {
            match self.0.listener.accept() {
                Ok((stream, _)) => self.begin(state, stream),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Reads a connection on a thread of its own.
    fn begin(&self, state: &mut State, stream: UnixStream) {
        let readable = stream.set_nonblocking(false).and_then(|()| stream.try_clone());
        let (Ok(mut reader), true) = (readable, state.open.len() < MOST_CONNECTIONS) else { return };
        state.accepted += 1;
        let number = state.accepted;
        state.open.push((number, stream));
        let channel = self.clone();
        let reading = std::thread::Builder::new().spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let text = &mut channel.lock().text;
                let room = MOST_TEXT.saturating_sub(text.len());
                text.extend(&buffer[..count.min(room)]);
            }
            channel.lock().open.retain(|(open, _)| *open != number);
        });
        if reading.is_err() {
            state.open.retain(|(open, _)| *open != number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no panic while locked")
    }
}
