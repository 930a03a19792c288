//! Standard output and standard error: the one place that prints.
//!
//! Nothing but a [`Page`] or a line can be printed, and neither drives the terminal.

use crate::failure::{Failure, Place};
pub(crate) use remora_terminal::{Page, counted, grouped, harmless_json, line, percent, plain, titled};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output has been written to.
static HAS_PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether a result, or a part of one, is on standard output.
pub(crate) fn has_printed() -> bool {
    HAS_PRINTED.load(Ordering::Relaxed)
}

/// The result itself is about to be written to standard output.
pub(crate) fn prints() {
    HAS_PRINTED.store(true, Ordering::Relaxed);
}

/// Writes a page to standard output.
/// A reader that has gone away (`remora report x.remora | head -1`) is no failure: it has seen enough.
pub(crate) fn out(page: &Page) -> Result<(), Failure> {
    prints();
    let mut stdout = io::stdout().lock();
    match stdout.write_all(page.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::output(Place::StandardOutput, error)),
        _ => Ok(()),
    }
}

/// Writes one line to standard error. If nobody listens there, there is nobody to tell.
pub(crate) fn note(line: &str) {
    note_all(&self::line(line));
}

/// Writes a page to standard error.
pub(crate) fn note_all(page: &Page) {
    let _ = io::stderr().lock().write_all(page.as_bytes());
}

/// A line on a terminal that is written over and over; nothing at all where standard error is not a terminal.
#[derive(Debug)]
pub(crate) struct StatusLine {
    terminal: bool,
    shown: bool,
}

impl StatusLine {
    pub(crate) fn new() -> StatusLine {
        StatusLine { terminal: io::stderr().is_terminal(), shown: false }
    }

    /// Whether anyone sees it.
    pub(crate) fn visible(&self) -> bool {
        self.terminal
    }

    /// Shows `text` in place of what was there.
    pub(crate) fn show(&mut self, text: &str) {
        if self.terminal {
            self.shown = true;
            let _ = write!(io::stderr().lock(), "\r\x1b[K{}", plain(text));
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}
