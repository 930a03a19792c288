//! A place inside the target, as the test uses it: orders, answers, and other processes with its channel.

use crate::TIMEOUT;
use crate::diagnostics::is_readable;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A process that uses the probe through the other end of a channel. It is killed, by its id, when the value is dropped.
pub struct User(Child);

/// A place inside the target. When it is dropped, the callback returns with success.
pub struct Seat {
    stream: BufReader<UnixStream>,
    words: Vec<String>,
}

impl User {
    /// Kills it, so that it cannot send anything.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Seat {
    /// A new seat, after the probe has sent its place.
    pub(super) fn greeted(stream: UnixStream) -> Seat {
        let bounded = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(TIMEOUT)));
        bounded.unwrap_or_else(|error| panic!("cannot bound the wait for the probe: {error}"));
        let mut seat = Seat { stream: BufReader::new(stream), words: Vec::new() };
        let line = seat.read_line("where it is");
        seat.words = line.split_whitespace().map(str::to_owned).collect();
        seat
    }

    /// The callback's name, or `Thread` or `Released`.
    pub fn place(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The kernel's thread id.
    pub fn thread(&self) -> u32 {
        self.word(2).parse().unwrap_or_else(|_| panic!("no thread in {:?}", self.words))
    }

    /// The id that the callback is about, if any.
    pub fn id(&self) -> &str {
        self.word(3)
    }

    /// Length and digest of the client data.
    pub fn data(&self) -> &str {
        self.word(1)
    }

    fn word(&self, from_the_end: usize) -> &str {
        let at = self.words.len().checked_sub(from_the_end);
        at.and_then(|at| self.words.get(at)).unwrap_or_else(|| panic!("too few words in {:?}", self.words))
    }

    /// Sends an order; returns the words of the answer, or the failure's code.
    pub fn ask(&mut self, order: &str) -> Result<Vec<String>, u32> {
        self.begin(order);
        self.answer(order)
    }

    /// Sends an order that must succeed.
    #[track_caller]
    pub fn done(&mut self, order: &str) -> Vec<String> {
        self.ask(order).unwrap_or_else(|code| panic!("`{order}` in {} was refused with {code:#010x}", self.place()))
    }

    /// Sends an order that must fail; returns its code.
    #[track_caller]
    pub fn refused(&mut self, order: &str) -> u32 {
        match self.ask(order) {
            Err(code) => code,
            Ok(words) => panic!("`{order}` in {} was not refused: {words:?}", self.place()),
        }
    }

    /// The number of calls of this callback.
    pub fn count(&mut self, callback: &str) -> u64 {
        let prefix = format!("{callback}=");
        let counts = self.done("counts");
        counts.iter().find_map(|word| word.strip_prefix(&prefix)?.parse().ok()).unwrap_or(0)
    }

    /// The ids in this callback's calls, in order.
    pub fn ids(&mut self, callback: &str) -> Vec<String> {
        let log = self.done("log");
        let shown = log.iter().filter_map(|entry| entry.split_once(':')).filter(|(name, _)| *name == callback);
        shown.map(|(_, id)| id.to_owned()).collect()
    }

    /// Sends an order that may take long in the runtime. [`Seat::answer`] waits for it.
    pub fn begin(&mut self, order: &str) {
        if let Err(error) = self.write(order) {
            panic!("the probe is gone before `{order}`: {error}");
        }
    }

    /// Whether such an order has been answered.
    pub fn is_answered(&self) -> bool {
        is_readable(self.stream.get_ref())
    }

    /// The words of such an order's answer, or the failure's code.
    pub fn answer(&mut self, order: &str) -> Result<Vec<String>, u32> {
        let line = self.read_line(order);
        let mut words = line.split_whitespace();
        let code = words.next().and_then(|word| u32::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        match code.unwrap_or_else(|| panic!("the probe answered `{line}` to `{order}`")) {
            0 => Ok(words.map(str::to_owned).collect()),
            code => Err(code),
        }
    }

    /// Gives this channel to another process; when that ends, the channel closes.
    pub fn hand_over(self) -> User {
        let channel = OwnedFd::from(self.stream.into_inner());
        // It only reads, and nobody writes.
        let child = Command::new("cat").stdin(Stdio::from(channel)).stdout(Stdio::null()).spawn();
        User(child.unwrap_or_else(|error| panic!("cannot start cat: {error}")))
    }

    /// Makes the callback return this code, or the thread end.
    pub fn leave(mut self, code: u32) {
        if let Err(error) = self.write(&format!("return {code:#x}")) {
            panic!("the probe has left {} already: {error}", self.place());
        }
    }

    /// In one write: the target may end after the first of several.
    fn write(&mut self, order: &str) -> std::io::Result<()> {
        self.stream.get_mut().write_all(format!("{order}\n").as_bytes())
    }

    fn read_line(&mut self, about: &str) -> String {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(1..) => line,
            Ok(0) => panic!("the probe is gone before it answered `{about}`"),
            Err(error) => panic!("the probe does not answer `{about}`: {error}"),
        }
    }
}
