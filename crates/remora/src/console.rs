//! Standard output and standard error: the only module that prints.
//!
//! It prints only a [`Page`] or a line, and neither can send control sequences to the terminal.

mod writer;

use crate::failure::{Failure, Place};
use remora_terminal::beginning;
pub(crate) use remora_terminal::{Page, counted, grouped, harmless_json, line, percent, plain, titled};
use rustix::termios::tcgetwinsize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use writer::{Writer, write_at_once};

/// Standard error.
static ERRORS: LazyLock<Writer> = LazyLock::new(|| Writer::to(Arc::new(io::stderr())));

/// Whether standard output has been written to.
static HAS_PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether a result, or a part of one, is on standard output.
pub(crate) fn has_printed() -> bool {
    HAS_PRINTED.load(Ordering::Relaxed)
}

/// Records that a result is about to be written to standard output.
pub(crate) fn prints() {
    HAS_PRINTED.store(true, Ordering::Relaxed);
}

/// Writes a page to standard output.
/// A closed pipe (`remora report x.remora | head -1`) is no failure: the reader has enough.
pub(crate) fn out(page: &Page) -> Result<(), Failure> {
    prints();
    let mut stdout = io::stdout().lock();
    match stdout.write_all(fitted(page, &stdout).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::output(Place::StandardOutput, error)),
        _ => Ok(()),
    }
}

/// Writes one line to standard error, later if its reader does not read now.
pub(crate) fn note(line: &str) {
    note_all(&self::line(line));
}

/// Writes one line to standard error without waiting: neither for another thread that is writing to it, nor for its reader.
pub(crate) fn note_at_once(line: &str) {
    let stderr = io::stderr();
    write_at_once(&stderr, &fitted(&self::line(line), &stderr));
}

/// Writes a page to standard error.
pub(crate) fn note_all(page: &Page) {
    ERRORS.write(fitted(page, &io::stderr()).into_owned());
}

/// Waits until standard error has everything. Before the end of the command only: nothing is in the target then.
pub(crate) fn flush() {
    ERRORS.flush();
}

/// The text of a page, with lines that fit if `out` is a terminal.
fn fitted<'a>(page: &'a Page, out: &impl AsFd) -> Cow<'a, str> {
    width_of(out).map_or(Cow::Borrowed(page), |width| Cow::Owned(page.wrapped(width)))
}

/// Columns of a terminal.
fn width_of(out: &impl AsFd) -> Option<usize> {
    tcgetwinsize(out).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// A line on a terminal that is overwritten in place. Does nothing where standard error is not a terminal.
#[derive(Debug)]
pub(crate) struct StatusLine {
    terminal: bool,
    shown: bool,
}

impl StatusLine {
    pub(crate) fn new() -> StatusLine {
        StatusLine { terminal: io::stderr().is_terminal(), shown: false }
    }

    /// One that shows nothing.
    pub(crate) fn hidden() -> StatusLine {
        StatusLine { terminal: false, shown: false }
    }

    /// Whether the line is visible.
    pub(crate) fn visible(&self) -> bool {
        self.terminal
    }

    /// Replaces the shown text with the beginning of `text`: what goes on in a second row could not be removed.
    pub(crate) fn show(&mut self, text: &str) {
        if self.terminal {
            self.shown = true;
            let width = width_of(&io::stderr()).unwrap_or(usize::MAX);
            ERRORS.write_if_idle(format!("\r\x1b[K{}", beginning(&plain(text), width)));
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            ERRORS.write("\r\x1b[K".to_owned());
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}
