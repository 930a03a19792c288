//! What a process writes to its standard output and standard error: a run of the laboratory, or a target. Only the end of it is kept.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::process::Stdio;
use std::thread::JoinHandle;

/// Bytes of standard error that are kept.
const MOST: usize = 2048;
/// Lines of it that are shown.
const MOST_LINES: usize = 12;
/// Bytes of a read.
const READ: usize = 4096;
/// Reads after the end: what the pipes hold. Who still writes then is not waited for.
const LAST_READS: usize = 64;

/// The output of a process.
#[derive(Debug, Default)]
pub struct Output {
    /// The last lines of standard error.
    pub stderr: String,
    /// Whether it wrote to standard output.
    pub has_stdout: bool,
}

/// Reads the output of a process.
pub struct OutputReader {
    /// Closed when the process has ended.
    goes_on: PipeWriter,
    thread: JoinHandle<(bool, Vec<u8>)>,
}

impl OutputReader {
    /// The reader, and standard output and standard error for the process.
    ///
    /// # Errors
    /// The system has no descriptor, or no thread.
    pub fn begin() -> io::Result<(OutputReader, Stdio, Stdio)> {
        let ((out, for_out), (err, for_err)) = (io::pipe()?, io::pipe()?);
        let (ended, goes_on) = io::pipe()?;
        let thread = std::thread::Builder::new().spawn(move || read(out, err, &ended))?;
        Ok((OutputReader { goes_on, thread }, for_out.into(), for_err.into()))
    }

    /// The process has ended.
    pub fn end(self) -> Output {
        drop(self.goes_on);
        self.thread
            .join()
            .map_or_else(|_| Output::default(), |(has_stdout, bytes)| Output { stderr: last_lines(&bytes), has_stdout })
    }
}

fn read(out: PipeReader, err: PipeReader, ended: &PipeReader) -> (bool, Vec<u8>) {
    let (mut has_stdout, mut kept, mut last_reads) = (false, Vec::new(), 0);
    let mut open = vec![(out, false), (err, true)];
    while !open.is_empty() {
        let pipes = open.iter().map(|(pipe, _)| pipe).chain([ended]);
        let mut polled: Vec<PollFd> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        // An interrupted wait is repeated.
        let _ = poll(&mut polled, None);
        let mut ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let is_over = ready.pop() == Some(true);
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
