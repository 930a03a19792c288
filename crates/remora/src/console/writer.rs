//! Writes in a thread of its own: whoever reads standard error may stop reading, and no recording waits for that.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a text is waited for. A reader that reads takes less.
const PATIENCE: Duration = Duration::from_millis(500);

/// A writer. Texts appear in order.
pub(super) struct Writer {
    /// `None` if no thread can be started: then texts are written, and waited for, by whoever has them.
    texts: Option<Sender<String>>,
    unwritten: Arc<Unwritten>,
    out: Arc<Out>,
}

/// What it writes to.
type Out = dyn AsFd + Send + Sync;

/// The number of texts that are not written yet.
#[derive(Default)]
struct Unwritten {
    count: Mutex<usize>,
    written: Condvar,
}

impl Writer {
    /// A writer to this descriptor.
    pub(super) fn to(out: Arc<Out>) -> Writer {
        let unwritten = Arc::<Unwritten>::default();
        let (texts, queue) = mpsc::channel::<String>();
        let (its, its_out) = (Arc::clone(&unwritten), Arc::clone(&out));
        let work = move || {
            for text in queue {
                write(&*its_out, &text);
                its.is_written();
            }
        };
        let thread = thread::Builder::new().name("remora-errors".to_owned()).spawn(work);
        Writer { texts: thread.ok().map(|_| texts), unwritten, out }
    }

    /// Writes a text. If the text or an earlier one finds no reader, it is written later.
    pub(super) fn write(&self, text: String) {
        let is_first = self.unwritten.add() == 0;
        self.send(text);
        if is_first {
            self.unwritten.wait(Some(PATIENCE));
        }
    }

    /// Writes a text that matters only now: not at all behind others.
    pub(super) fn write_if_idle(&self, text: String) {
        if self.unwritten.count() == 0 {
            self.unwritten.add();
            self.send(text);
        }
    }

    /// Waits until all is written.
    pub(super) fn flush(&self) {
        self.unwritten.wait(None);
    }

    fn send(&self, text: String) {
        let unsent = match &self.texts {
            Some(texts) => texts.send(text).err().map(|error| error.0),
            None => Some(text),
        };
        if let Some(text) = unsent {
            write(&*self.out, &text);
            self.unwritten.is_written();
        }
    }
}

impl Unwritten {
    /// Counts one more; returns the number before.
    fn add(&self) -> usize {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        *count - 1
    }

    fn is_written(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_sub(1);
        self.written.notify_all();
    }

    fn count(&self) -> usize {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, timeout: Option<Duration>) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unwritten = |count: &mut usize| *count > 0;
        match timeout {
            Some(timeout) => drop(self.written.wait_timeout_while(count, timeout, is_unwritten)),
            None => drop(self.written.wait_while(count, is_unwritten)),
        }
    }
}

/// Writes all of a text. Ignores errors: there is nowhere else to report them.
fn write(out: &Out, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(out, rest) {
            Ok(0) => return,
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            // Somebody has made the terminal non-blocking.
            Err(Errno::AGAIN) => {
                let mut polls = [PollFd::new(&out, PollFlags::OUT)];
                let _ = poll(&mut polls, None);
            }
            Err(_) => return,
        }
    }
}

/// Writes a short text, if there is room for it now.
pub(super) fn write_at_once(to: &impl AsFd, text: &str) {
    let mut polls = [PollFd::new(to, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut polls, Some(&now)).is_ok_and(|ready| ready > 0) {
        let _ = rustix::io::write(to, text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};
    use std::io::{PipeReader, PipeWriter, Read, Write};

    /// A pipe that is full, and how much is in it.
    fn full_pipe() -> (PipeReader, PipeWriter, usize) {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        fcntl_setfl(&writer, OFlags::NONBLOCK).expect("set");
        let size = std::iter::from_fn(|| writer.write(&[b'x'; 4096]).ok()).sum();
        fcntl_setfl(&writer, OFlags::empty()).expect("set");
        (reader, writer, size)
    }

    #[test]
    fn a_recording_waited_for_whoever_did_not_read_standard_error() {
        let (mut reader, out, size) = full_pipe();
        let writer = Writer::to(Arc::new(out));
        for line in ["one\n", "two\n"] {
            writer.write(line.to_owned());
        }
        writer.write_if_idle("three".to_owned());
        assert_eq!(writer.unwritten.count(), 2, "and nobody waited for them");
        let mut text = vec![0; size + 8];
        reader.read_exact(&mut text).expect("readable");
        assert!(text.ends_with(b"xone\ntwo\n"));
        writer.flush();
        writer.write_if_idle("four".to_owned());
        writer.flush();
        reader.read_exact(&mut text[..4]).expect("readable");
        assert_eq!(&text[..4], b"four");
    }

    #[test]
    fn without_a_thread_a_text_is_written_by_whoever_has_it() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let alone = Writer { texts: None, unwritten: Arc::default(), out: Arc::new(writer) };
        alone.write("text".to_owned());
        alone.flush();
        let mut text = [0; 4];
        reader.read_exact(&mut text).expect("readable");
        assert_eq!(&text, b"text");
    }

    #[test]
    fn a_line_is_written_at_once_or_not_at_all() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        write_at_once(&writer, "a line\n");
        let mut text = [0; 7];
        reader.read_exact(&mut text).expect("it was written");
        assert_eq!(&text, b"a line\n");
        let (mut reader, writer, size) = full_pipe();
        write_at_once(&writer, "a line\n");
        drop(writer);
        assert_eq!(reader.read_to_end(&mut Vec::new()).expect("readable"), size);
    }
}
