//! What a run writes to its standard output and standard error. Only the end of it is kept.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, PipeReader, Read};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bytes of standard error that are kept.
const MOST: usize = 2048;
/// Lines of it that are shown.
const MOST_LINES: usize = 12;
/// Bytes of a read.
const READ: usize = 4096;
/// Time between two looks whether the run has ended.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Without a wait.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Reads after the end: what the pipes hold. Who still writes then is not waited for.
const LAST_READS: usize = 64;

/// The output of a run.
#[derive(Debug, Default)]
pub struct Output {
    /// The last lines of standard error.
    pub stderr: String,
    /// Whether it wrote to standard output.
    pub has_stdout: bool,
}

/// Reads the output of a run.
pub struct OutputReader {
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<(bool, Vec<u8>)>>,
}

impl OutputReader {
    /// The reader, and standard output and standard error for the run.
    ///
    /// # Errors
    /// The system has no descriptor, or no thread.
    pub fn begin() -> io::Result<(OutputReader, Stdio, Stdio)> {
        let ((out, for_out), (err, for_err)) = (io::pipe()?, io::pipe()?);
        let has_ended: Arc<AtomicBool> = Arc::default();
        let told = has_ended.clone();
        let thread = std::thread::Builder::new().spawn(move || read(out, err, &told))?;
        Ok((OutputReader { has_ended, thread: Some(thread) }, for_out.into(), for_err.into()))
    }

    /// The run has ended.
    pub fn end(mut self) -> Output {
        self.has_ended.store(true, Ordering::SeqCst);
        let read = self.thread.take().and_then(|thread| thread.join().ok());
        read.map_or_else(Output::default, |(has_stdout, bytes)| Output { stderr: last_lines(&bytes), has_stdout })
    }
}

impl Drop for OutputReader {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }
}

fn read(out: PipeReader, err: PipeReader, has_ended: &AtomicBool) -> (bool, Vec<u8>) {
    let (mut has_stdout, mut kept, mut last_reads) = (false, Vec::new(), 0);
    let mut open = vec![(out, false), (err, true)];
    while !open.is_empty() {
        let is_over = has_ended.load(Ordering::SeqCst);
        let mut polled: Vec<PollFd> = open.iter().map(|(pipe, _)| PollFd::new(pipe, PollFlags::IN)).collect();
        // An interrupted wait is repeated.
        let _ = poll(&mut polled, Some(if is_over { &AT_ONCE } else { &INTERVAL }));
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        if is_over && (!ready.contains(&true) || last_reads == LAST_READS) {
            break;
        }
        last_reads += usize::from(is_over);
        let mut ready = ready.into_iter();
        open.retain_mut(|(pipe, is_err)| {
            if ready.next() != Some(true) {
                return true;
            }
            let mut bytes = [0; READ];
            let count = pipe.read(&mut bytes).unwrap_or(0);
            if *is_err {
                kept.extend_from_slice(&bytes[..count]);
                kept.drain(..kept.len().saturating_sub(MOST));
            } else {
                has_stdout |= count > 0;
            }
            count > 0
        });
    }
    (has_stdout, kept)
}

/// The last lines as text.
fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(MOST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn output_of(script: &str) -> Output {
        let (reader, stdout, stderr) = OutputReader::begin().expect("pipes");
        let mut command = Command::new("sh");
        let status = command.args(["-c", script]).stdout(stdout).stderr(stderr).status().expect("a shell");
        assert!(status.success());
        reader.end()
    }

    #[test]
    fn the_end_of_standard_error_is_kept() {
        let output = output_of("echo first >&2; yes 0123456789 | head -n 20000 >&2; echo last >&2");
        assert!(output.stderr.ends_with("0123456789\nlast"), "{}", output.stderr);
        assert_eq!((output.stderr.lines().count(), output.has_stdout), (MOST_LINES, false));
    }

    #[test]
    fn closed_and_silent_streams_are_empty() {
        let output = output_of("exec 2>&-; echo out");
        assert_eq!((output.stderr.as_str(), output.has_stdout), ("", true));
    }
}
