//! The channel of a profiler's vendor: a socket that the profiler connects to, and that asks it to detach by hanging up.
//!
//! A trigger cannot detach a profiler: only the profiler itself can request that (seed 001). So every product has such a channel. This one
//! suits the examples of `corprof`.

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
#[derive(Clone, Default)]
pub(super) struct Channel(Arc<Mutex<State>>);

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
        let channel = Channel::default();
        let accepting = channel.clone();
        std::thread::Builder::new().spawn(move || {
            listener.incoming().flatten().for_each(|stream| accepting.accept(stream));
        })?;
        Ok(channel)
    }

    /// The lines so far, and the connected profilers.
    pub(super) fn lines(&self) -> (Vec<String>, usize) {
        let state = self.lock();
        let lines = String::from_utf8_lossy(&state.text).lines().map(str::to_owned).collect();
        (lines, state.open.len())
    }

    /// Hangs up. What the profilers still write is read. Returns the number of connections.
    pub(super) fn hang_up(&self) -> usize {
        let ended = std::mem::take(&mut self.lock().open);
        for (_, stream) in &ended {
            // A profiler that has already gone needs no end.
            let _ = stream.shutdown(Shutdown::Write);
        }
        ended.len()
    }

    fn accept(&self, stream: UnixStream) {
        let Ok(mut reader) = stream.try_clone() else { return };
        let number = {
            let mut state = self.lock();
            if state.open.len() >= MOST_CONNECTIONS {
                return;
            }
            state.accepted += 1;
            let number = state.accepted;
            state.open.push((number, stream));
            number
        };
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
            self.lock().open.retain(|(open, _)| *open != number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while locked")
    }
}
