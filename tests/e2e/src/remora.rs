//! The `remora` command as a user runs it: to its end, or running in the background.

use crate::TIMEOUT;
use crate::child_process::{send, wait_for};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// How a run of `remora` ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

impl Finished {
    /// The exit code; -1 if it was killed.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {self}"))
    }

    /// Panics with all output, unless it succeeded.
    #[track_caller]
    pub fn succeeded(self) -> Finished {
        assert!(self.status.success(), "{self}");
        self
    }

    /// Whether it failed with this code and an error that contains each of `words`.
    pub fn has_failed_with(&self, code: i32, words: &[&str]) -> bool {
        self.code() == code && words.iter().all(|word| self.stderr.contains(word))
    }

    /// Panics with all output, unless it failed with this code and an error that contains each of `words`.
    #[track_caller]
    pub fn failed_with(self, code: i32, words: &[&str]) -> Finished {
        assert_eq!(self.code(), code, "{self}");
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in the message: {self}");
        }
        self
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "remora ended with {}\nstdout: {}\nstderr: {}", self.status, self.text(), self.stderr)
    }
}

/// Runs `remora` to its end.
pub fn remora<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Finished {
    Remora::start(arguments).finish()
}

/// A running `remora`. It is killed, by its id, when the value is dropped.
pub struct Remora {
    child: Child,
    stdin: Option<ChildStdin>,
    stderr: Receiver<String>,
    said: String,
    stdout: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Remora {
    /// Starts `remora` with these arguments.
    pub fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Remora {
        let mut command = Remora::command();
        command.args(arguments);
        Remora::spawn(command)
    }

    /// The command, for tests that change its environment, user or folder.
    pub fn command() -> Command {
        Command::new(crate::expected("REMORA_BIN"))
    }

    /// Starts a command that executes `remora`, with captured streams.
    pub fn spawn(mut command: Command) -> Remora {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdin = child.stdin.take();
        let (sender, stderr) = channel();
        if let Some(stream) = child.stderr.take() {
            std::thread::spawn(move || forward_lines(BufReader::new(stream), &sender));
        }
        let stdout = Arc::new(Mutex::new(Vec::new()));
        let reader = child.stdout.take().map(|mut stream| {
            let stdout = Arc::clone(&stdout);
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // A failed read counts as the end: the data so far is checked.
                let _ = std::io::Read::read_to_end(&mut stream, &mut bytes);
                if let Ok(mut all) = stdout.lock() {
                    *all = bytes;
                }
            })
        });
        Remora { child, stdin, stderr, said: String::new(), stdout, reader }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a line of its standard error contains `words`, and returns that line.
    pub fn wait_until_it_says(&mut self, words: &str) -> String {
        let end = Instant::now() + TIMEOUT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.stderr.recv_timeout(left) else {
                panic!("remora never said `{words}`; it said:\n{}", self.said)
            };
            self.said.push_str(&line);
            self.said.push('\n');
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Presses Enter.
    pub fn press_enter(&mut self) {
        self.type_in("\n");
    }

    /// Types on its standard input.
    pub fn type_in(&mut self, text: &str) {
        if let Some(stdin) = &mut self.stdin
            && let Err(error) = std::io::Write::write_all(stdin, text.as_bytes())
        {
            panic!("cannot type {text:?}: {error}");
        }
    }

    /// Closes its standard input, and that of a command that it runs.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal; `Signal::INT` is Ctrl-C.
    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its standard error so far.
    pub fn said_so_far(&mut self) -> &str {
        while let Ok(line) = self.stderr.try_recv() {
            self.said.push_str(&line);
            self.said.push('\n');
        }
        &self.said
    }

    /// Waits until it has ended and returns its output.
    pub fn finish(mut self) -> Finished {
        let status = wait_for(&mut self.child, "remora");
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        while let Ok(line) = self.stderr.recv_timeout(TIMEOUT) {
            self.said.push_str(&line);
            self.said.push('\n');
        }
        let stdout = self.stdout.lock().map(|bytes| bytes.clone()).unwrap_or_default();
        Finished { status, stdout, stderr: std::mem::take(&mut self.said) }
    }
}

impl Drop for Remora {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Forwards each line; a carriage return also ends one, so that changes of a progress line are seen.
fn forward_lines(mut stream: impl BufRead, sender: &std::sync::mpsc::Sender<String>) {
    let mut line = Vec::new();
    while let Ok(bytes) = stream.fill_buf() {
        if bytes.is_empty() {
            break;
        }
        let (end, ended) = match bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            Some(end) => (end, true),
            None => (bytes.len(), false),
        };
        line.extend_from_slice(&bytes[..end]);
        stream.consume(end + usize::from(ended));
        if ended && sender.send(String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned()).is_err() {
            return;
        }
    }
    if !line.is_empty() {
        let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_either_kind_of_line_end() {
        let (sender, receiver) = channel();
        forward_lines(&b"one\rtwo\nlast"[..], &sender);
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["one", "two", "last"]);
    }

    #[test]
    fn what_a_command_says_is_kept_with_its_code() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo 'error: why' >&2; exit 3"]);
        let finished = Remora::spawn(command).finish();
        assert_eq!(finished.text(), "out\n");
        assert!(finished.has_failed_with(3, &["error: why"]));
        assert!(!finished.has_failed_with(3, &["another"]) && !finished.has_failed_with(4, &[]));
        finished.failed_with(3, &["error: why"]);
    }
}
