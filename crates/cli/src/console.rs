//! Standard output and standard error: the one place that prints.
//!
//! Text from a target or a file is shown without its control characters, so that a method's name cannot drive the terminal.

use crate::failure::{Failure, Place};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

/// Writes `text` to standard output.
/// A reader that has gone away (`remora report x.remora | head -1`) is no failure: it has seen enough.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::output(Place::StandardOutput, error)),
        _ => Ok(()),
    }
}

/// Writes one line to standard error. If nobody listens there, there is nobody to tell.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
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
            let _ = write!(io::stderr().lock(), "\r\x1b[K{text}");
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

/// `text` without control characters.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_control() => {
                let _ = write!(plain, "{}", letter.escape_default());
            }
            // What reorders the text around it.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(plain, "{}", letter.escape_unicode());
            }
            letter => plain.push(letter),
        }
    }
    plain
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 sample`, `1,234 samples`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `part` of `whole` as `12.3%`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}%", part as f64 / whole as f64 * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn one_thing_is_not_several() {
        let told = [0, 1, 2000].map(|number| counted(number, "sample"));
        assert_eq!(told, ["0 samples", "1 sample", "2,000 samples"]);
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(plain("A\x1b[2J\rB\u{202e}é"), "A\\u{1b}[2J\\rB\\u{202e}é");
    }
}
