//! Ends a recording or a snapshot: on Enter, Ctrl-C, SIGTERM or SIGHUP. Each ends it properly; a second signal exits at once. A number
//! before Enter sets a new frequency instead, `x` switches the recording of exceptions, `h` shows the heap, and `+PATTERN` traces methods.
//! A trace has lines of its own: `method_trace/controls.rs`.

use crate::args::MOST_HERTZ;
use crate::console::note_at_once;
use crate::failure::Failure;
use remora_terminal::duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Who reads standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// We do, and the recording has a duration.
    WithDuration,
    /// We do, and the recording runs until the user ends it.
    Endless,
    /// The recorded command does; or nobody.
    Unheard,
}

impl Input {
    /// Whether to read Enter. On a terminal: yes, unless we are a background job, which would be stopped for reading. In a pipe: only if
    /// the recording would not end otherwise, so that a shell loop over lines keeps its input.
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

/// A user's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopRequest {
    /// End the recording.
    End,
    /// Continue at this frequency.
    Frequency(u32),
    /// Begin to record exceptions, or end it.
    Exceptions,
    /// Take a snapshot of the heap, and show it.
    Heap,
    /// A line for the trace of methods: `+PATTERN` begins it.
    Trace(String),
    /// End that trace, and show it.
    EndTrace,
}

/// Bytes of the longest line that is parsed.
const LONGEST_LINE: usize = 2048;
/// The beginning of what stands for a longer one: it is no text, so it has no meaning.
const TOO_LONG: u8 = 0xFF;
/// Bytes read at once.
const AT_ONCE: usize = 64;

/// Signals that have arrived, and how many make an end at once.
#[derive(Debug, Default)]
struct Heard {
    count: AtomicUsize,
    waits_for_third: AtomicBool,
}

/// Listens for requests.
#[derive(Debug)]
pub(crate) struct Stop {
    signalled: Arc<AtomicBool>,
    /// Whether an agent can be in the process.
    attaching: Arc<AtomicBool>,
    signals: Arc<Heard>,
    enter: bool,
    line: Vec<u8>,
}

impl Stop {
    /// Starts to listen to `input` and to signals.
    pub(crate) fn listen(input: Input) -> io::Result<Stop> {
        let signalled = Arc::new(AtomicBool::new(false));
        // Under `nohup` SIGHUP is ignored, and stays so.
        let hang_up = if is_ignored(SIGHUP) { None } else { Some(SIGHUP) };
        let signals: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hang_up).collect();
        for signal in &signals {
            flag::register(*signal, Arc::clone(&signalled))?;
        }
        let signals = Signals::new(signals)?;
        let attaching = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(Heard::default());
        let told = (Arc::clone(&attaching), Arc::clone(&heard));
        let listen = move || leave_at_the_second(signals, &told.0, &told.1);
        thread::Builder::new().name("remora-signals".to_owned()).spawn(listen)?;
        Ok(Stop { signalled, attaching, signals: heard, enter: input.counts(), line: Vec::new() })
    }

    /// The attach begins.
    ///
    /// # Errors
    /// [`Failure::Interrupted`]: a signal has arrived before it.
    pub(crate) fn attach_begins(&self) -> Result<(), Failure> {
        if self.is_signalled() {
            return Err(Failure::Interrupted);
        }
        self.attaching.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether Enter ends the recording.
    pub(crate) fn by_enter(&self) -> bool {
        self.enter
    }

    /// Returns a check for a further signal, which then cuts short the end in progress.
    pub(crate) fn hurried(&self) -> impl Fn() -> bool + use<> {
        let signalled = Arc::clone(&self.signalled);
        let has_come = self.is_signalled();
        move || !has_come && signalled.load(Ordering::Relaxed)
    }

    /// Whether a signal has arrived.
    pub(crate) fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    /// Only a third signal exits at once: the second one is for [`Stop::is_signalled_again`].
    pub(crate) fn second_is_heard(&self) {
        self.signals.waits_for_third.store(true, Ordering::Relaxed);
    }

    /// Whether a second signal has arrived.
    pub(crate) fn is_signalled_again(&self) -> bool {
        self.signals.count.load(Ordering::Relaxed) > 1
    }

    /// The next request since the last call.
    pub(crate) fn wish(&mut self) -> Option<StopRequest> {
        if self.is_signalled() {
            return Some(StopRequest::End);
        }
        self.typed().map(|line| meaning(&line))
    }

    /// The next line that was typed, with its newline.
    pub(crate) fn typed(&mut self) -> Option<Vec<u8>> {
        if !self.line.contains(&b'\n') {
            self.read();
        }
        let end = self.line.iter().position(|byte| *byte == b'\n')?;
        Some(self.line.drain(..=end).collect())
    }

    /// Reads typed input without waiting.
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
        let mut bytes = [0; AT_ONCE];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(length) if length > 0 => self.take(&bytes[..length]),
            Err(Errno::INTR) => {}
            // A closed terminal or pipe is not read again: signals still work.
            _ => self.enter = false,
        }
    }

    /// Takes typed bytes. A line that is too long loses all that came before its last bytes.
    fn take(&mut self, bytes: &[u8]) {
        if self.line.len() > LONGEST_LINE {
            self.line = vec![TOO_LONG];
        }
        self.line.extend_from_slice(bytes);
    }
}

/// Exits at the second signal, or the third, whatever the other threads are doing.
fn leave_at_the_second(mut signals: Signals, attaching: &AtomicBool, heard: &Heard) {
    let is_last = |_: &i32| {
        let count = heard.count.fetch_add(1, Ordering::Relaxed) + 1;
        count > 1 + usize::from(heard.waits_for_third.load(Ordering::Relaxed))
    };
    if signals.forever().find(is_last).is_some() {
        let failure = failure_of_the_second(attaching.load(Ordering::Relaxed));
        note_at_once(&format!("remora: {}", failure.line()));
        // Nothing of the others' is waited for: `std::process::exit` would flush standard output.
        signal_hook::low_level::exit(failure.exit().code().into());
    }
}

/// Before the attach there is neither an agent nor an unfinished file.
fn failure_of_the_second(attaching: bool) -> Failure {
    if attaching { Failure::InterruptedTwice } else { Failure::Interrupted }
}

/// A number is a frequency. `x` switches exceptions, `h` shows the heap. A pattern with its sign, a time and `t` are for the trace of methods.
/// Any other line, even an empty one, ends the recording.
fn meaning(line: &[u8]) -> StopRequest {
    let text = std::str::from_utf8(line).unwrap_or_default().trim();
    match text.parse() {
        Ok(hertz @ 1..=MOST_HERTZ) => StopRequest::Frequency(hertz),
        _ if text == "x" => StopRequest::Exceptions,
        _ if text == "h" => StopRequest::Heap,
        _ if text == "t" => StopRequest::EndTrace,
        _ if text.starts_with(['+', '-']) || duration::parse(text).is_ok() => StopRequest::Trace(text.to_owned()),
        _ => StopRequest::End,
    }
}

/// Whether this signal was ignored when we started.
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
    use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open};
    use std::process::{Command, Stdio};

    /// Set in the process of [`regression_the_second_signal_waited_for_a_thread_that_wrote_to_a_full_pipe`] that gets the signals.
    const GETS_SIGNALS: &str = "REMORA_TEST_GETS_SIGNALS";

    /// That process: one thread holds the lock of standard error, as one does that waits in a write.
    #[test]
    fn gets_two_signals_while_standard_error_is_locked() {
        if std::env::var_os(GETS_SIGNALS).is_none() {
            return;
        }
        let _stop = Stop::listen(Input::Unheard).expect("listens");
        let _locked = io::stderr().lock();
        // Two of a kind could arrive as one.
        for signal in [Signal::INT, Signal::TERM] {
            kill_process(getpid(), signal).expect("sent");
        }
        loop {
            thread::park();
        }
    }

    #[test]
    fn regression_the_second_signal_waited_for_a_thread_that_wrote_to_a_full_pipe() {
        let mut child = Command::new(std::env::current_exe().expect("known"))
            .args(["--exact", "--nocapture", "stop::tests::gets_two_signals_while_standard_error_is_locked"])
            .env(GETS_SIGNALS, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("opened");
        let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
        let has_ended = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&patience)).expect("polled") > 0;
        if !has_ended {
            child.kill().expect("killed");
        }
        let status = child.wait().expect("ended");
        let said = io::read_to_string(child.stderr.take().expect("piped")).expect("readable");
        assert_eq!(status.code(), Some(i32::from(Failure::Interrupted.exit().code())), "{said}");
        assert!(said.contains("remora: "), "{said}");
    }

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\tffffffffffffffff\n";
        assert!(ignores(status, SIGHUP));
        assert!(!ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP));
    }

    #[test]
    fn a_second_signal_before_the_attach_names_neither_an_agent_nor_a_file() {
        let stop = |signalled| Stop {
            signalled: Arc::new(AtomicBool::new(signalled)),
            attaching: Arc::default(),
            enter: false,
            line: Vec::new(),
            signals: Arc::default(),
        };
        let second = |stop: &Stop| failure_of_the_second(stop.attaching.load(Ordering::Relaxed)).line();
        let (calm, signalled) = (stop(false), stop(true));
        assert!(!second(&calm).contains("the agent detaches"), "{}", second(&calm));
        assert!(
            matches!(signalled.attach_begins(), Err(Failure::Interrupted)) && !second(&signalled).contains("agent")
        );
        assert!(calm.attach_begins().is_ok() && second(&calm).contains("the agent detaches by itself"));
    }

    /// Once, lines that came together were cut as if they were one.
    #[test]
    fn regression_lines_that_come_together_are_all_taken_and_a_line_without_an_end_is_forgotten() {
        let mut stop = Stop {
            signalled: Arc::default(),
            attaching: Arc::default(),
            enter: false,
            line: Vec::new(),
            signals: Arc::default(),
        };
        let lines = "100\n".repeat(AT_ONCE);
        stop.take(lines.as_bytes());
        assert!((0..AT_ONCE).all(|_| stop.wish() == Some(StopRequest::Frequency(100))));
        assert_eq!(stop.wish(), None);
        (0..LONGEST_LINE).for_each(|_| stop.take(b"1234"));
        assert!(stop.line.len() < LONGEST_LINE + AT_ONCE);
        stop.take(b"\n5\n");
        assert_eq!((stop.wish(), stop.wish()), (Some(StopRequest::End), Some(StopRequest::Frequency(5))));
    }

    #[test]
    fn a_number_is_a_frequency_letters_are_switches_and_anything_else_the_end() {
        assert_eq!(meaning(b"250\n"), StopRequest::Frequency(250));
        assert_eq!(meaning(b"  1 \r\n"), StopRequest::Frequency(1));
        assert_eq!((meaning(b"x\n"), meaning(b" h\n")), (StopRequest::Exceptions, StopRequest::Heap));
        for line in ["+Shop.Pay", "-Shop.*", "50ms", "-5"] {
            assert_eq!(meaning(line.as_bytes()), StopRequest::Trace(line.to_owned()));
        }
        assert_eq!(meaning(b"t\n"), StopRequest::EndTrace);
        for line in [&b"\n"[..], b"q\n", b"0\n", b"10001\n", b"\xff\n", b"99 99\n"] {
            assert_eq!(meaning(line), StopRequest::End, "{line:?}");
        }
    }
}
