//! The current step of a command that takes long, on one line of a terminal.

use crate::console::{StatusLine, percent};
use std::io::{Read, Result};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Bytes between two changes of the line.
const OFTEN: u64 = 16 << 20;

/// Shows what is done while it is done, and for how long.
pub(super) fn step<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let mut line = StatusLine::new();
    line.show(&format!("{what} …"));
    if !line.visible() {
        return work();
    }
    // The work's end drops it, even if that is a panic.
    let (end, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut seconds = 0;
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                line.show(&format!("{what} … {seconds} s"));
            }
        });
        let _end = end;
        work()
    })
}

/// A reader that shows how much of its file is read.
pub(super) struct Reading<R> {
    input: R,
    line: StatusLine,
    read: u64,
    shown: u64,
    whole: u64,
}

impl<R: Read> Reading<R> {
    /// Reads `input`, which has `whole` bytes.
    pub(super) fn new(input: R, whole: u64) -> Reading<R> {
        Reading { input, line: StatusLine::new(), read: 0, shown: 0, whole }
    }
}

impl<R: Read> Read for Reading<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        if self.read == 0 || self.read - self.shown >= OFTEN {
            self.shown = self.read;
            self.line.show(&format!("reading the snapshot: {}", percent(self.read, self.whole)));
        }
        let count = self.input.read(into)?;
        self.read += count as u64;
        Ok(count)
    }
}
