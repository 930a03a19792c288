//! How a recording or a snapshot is told to end: Enter, Ctrl-C, SIGTERM, SIGHUP. Each ends it properly; a second signal leaves at once.
//! A number before Enter is another wish: a new frequency.

use crate::args::MOST_HERTZ;
use crate::console::note;
use crate::failure::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Whose standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Ours, and the recording ends by itself at some time.
    WithDuration,
    /// Ours, and the recording goes on until somebody ends it.
    Endless,
    /// That of the command which is recorded; or it has no meaning here.
    Unheard,
}

impl Input {
    /// Whether Enter is listened for. On a terminal, unless we are a job in the background, which would be stopped for reading.
    /// In a pipe only if the recording would not end otherwise: who loops over lines wants to keep them.
    fn counts(self) -> bool {
        let stdin = io::stdin();
        match self {
            Input::Unheard => false,
            _ if stdin.is_terminal() => in_foreground(),
            Input::WithDuration => false,
            Input::Endless => rustix::fs::fstat(&stdin)
                .is_ok_and(|stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket)),
        }
    }
}

/// What the user wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// That the recording ends.
    End,
    /// That it goes on at this frequency.
    Frequency(u32),
}

/// Longest line that is looked at.
const LINE: usize = 64;

/// What listens for wishes.
#[derive(Debug)]
pub(crate) struct Stop {
    signalled: Arc<AtomicBool>,
    enter: bool,
    line: Vec<u8>,
}

impl Stop {
    /// Begins to listen to `input` and to signals.
    pub(crate) fn listen(input: Input) -> io::Result<Stop> {
        let signalled = Arc::new(AtomicBool::new(false));
        // Under `nohup` a hang-up is not meant for us.
        let hang_up = if is_ignored(SIGHUP) { None } else { Some(SIGHUP) };
        let signals: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hang_up).collect();
        for signal in &signals {
            flag::register(*signal, Arc::clone(&signalled))?;
        }
        let signals = Signals::new(signals)?;
        thread::Builder::new().name("remora-signals".to_owned()).spawn(move || leave_at_the_second(signals))?;
        Ok(Stop { signalled, enter: input.counts(), line: Vec::new() })
    }

    /// Whether Enter ends the recording.
    pub(crate) fn by_enter(&self) -> bool {
        self.enter
    }

    /// Whether a signal comes that has not come yet: it then means the end that is under way.
    pub(crate) fn hurried(&self) -> impl Fn() -> bool + use<> {
        let signalled = Arc::clone(&self.signalled);
        let has_come = self.is_signalled();
        move || !has_come && signalled.load(Ordering::Relaxed)
    }

    /// Whether a signal has come.
    pub(crate) fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    /// What was wished since the last question.
    pub(crate) fn wish(&mut self) -> Option<Wish> {
        if self.is_signalled() {
            return Some(Wish::End);
        }
        self.read();
        let end = self.line.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.line.drain(..=end).collect();
        Some(meaning(&line))
    }

    /// Takes what has been typed, without waiting.
    fn read(&mut self) {
        if !self.enter {
            return;
        }
        let stdin = io::stdin();
        let mut polls = [PollFd::new(&stdin, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !poll(&mut polls, Some(&now)).is_ok_and(|ready| ready > 0) {
            return;
        }
        let mut bytes = [0; LINE];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(length) if length > 0 => {
                self.line.extend_from_slice(&bytes[..length]);
                // What is longer than a line that means something ends the recording with its end, whatever it says.
                let excess = self.line.len().saturating_sub(2 * LINE);
                self.line.drain(..excess);
            }
            Err(Errno::INTR) => {}
            // A terminal or a pipe that has gone away is not asked again: signals tell.
            _ => self.enter = false,
        }
    }
}

/// Whoever is asked a second time to end is not asked nicely: whatever the other threads are at, this one tells and leaves.
fn leave_at_the_second(mut signals: Signals) {
    if signals.forever().nth(1).is_some() {
        let failure = Failure::InterruptedTwice;
        note(&format!("remora: {}", failure.line()));
        std::process::exit(failure.exit().code().into());
    }
}

/// A number is a frequency; anything else, nothing included, ends the recording.
fn meaning(line: &[u8]) -> Wish {
    let number = std::str::from_utf8(line).ok().and_then(|text| text.trim().parse().ok());
    match number {
        Some(hertz @ 1..=MOST_HERTZ) => Wish::Frequency(hertz),
        _ => Wish::End,
    }
}

/// Whether we were started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, signal)
}

fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn in_foreground() -> bool {
    rustix::termios::tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\tffffffffffffffff\n";
        assert!(ignores(status, SIGHUP));
        assert!(!ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP));
    }

    #[test]
    fn a_number_is_a_frequency_and_anything_else_the_end() {
        assert_eq!(meaning(b"250\n"), Wish::Frequency(250));
        assert_eq!(meaning(b"  1 \r\n"), Wish::Frequency(1));
        for line in [&b"\n"[..], b"q\n", b"0\n", b"10001\n", b"-5\n", b"\xff\n", b"99 99\n"] {
            assert_eq!(meaning(line), Wish::End, "{line:?}");
        }
    }
}
