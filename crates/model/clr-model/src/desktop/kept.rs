//! What a target leaves for its user: its event log, and what profilers wrote to its channel.
//!
//! Each is a file in the directory of the sockets. It is written before anything goes on, so it is whole if the target crashes, or if the
//! process that watches over it is killed. It begins with a line that says what is lost: even a full disk has room for that.
//! A profiler in the target may have changed these files. So a reader follows no link, waits for no pipe, and reads a bounded part.

use super::place::open_regular;
use super::{LogLine, Place};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes of text in a file. When it is full, its older half goes.
const MOST_TEXT: usize = 1 << 18;
/// Most bytes that are added at a time.
pub(super) const LARGEST_PIECE: usize = MOST_TEXT / 4;
/// Bytes of the line before the text.
const HEAD: usize = 128;

/// A file that this process writes. See the module documentation.
#[derive(Debug)]
pub(super) struct KeptFile {
    file: File,
    /// Of the text.
    length: usize,
    has_failed: bool,
}

/// The lines of a kept file.
#[derive(Debug, PartialEq, Eq)]
pub struct KeptLines<T> {
    /// Oldest first.
    pub lines: Vec<T>,
    /// Why some are not among them.
    pub lost: Option<String>,
}

impl KeptFile {
    /// Creates the file.
    pub(super) fn create(path: &Path) -> io::Result<KeptFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let kept = KeptFile { file, length: 0, has_failed: false };
        kept.say("")?;
        Ok(kept)
    }

    /// Adds a text. What cannot be written is lost, and the file says so.
    pub(super) fn add(&mut self, text: &[u8]) {
        let added = self.make_room_for(text).and_then(|()| self.file.write_all_at(text, self.end()));
        match added {
            Ok(()) => self.length += text.len(),
            Err(error) => {
                self.has_failed = true;
                // If that fails, too, nothing else can be done.
                let _ = self.file.set_len(self.end());
                let _ = self.say(&error.to_string());
            }
        }
    }

    fn make_room_for(&mut self, text: &[u8]) -> io::Result<()> {
        if self.length + text.len() <= MOST_TEXT {
            return Ok(());
        }
        if !self.has_failed {
            self.say("only the newest part is kept")?;
        }
        let mut newer = vec![0; MOST_TEXT / 2];
        let from = self.end() - newer.len() as u64;
        self.file.read_exact_at(&mut newer, from)?;
        let end_of_a_part = newer.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.file.write_all_at(&newer[end_of_a_part..], HEAD as u64)?;
        self.length = newer.len() - end_of_a_part;
        self.file.set_len(self.end())
    }

    fn end(&self) -> u64 {
        (HEAD + self.length) as u64
    }

    /// Notes what is lost.
    fn say(&self, lost: &str) -> io::Result<()> {
        let mut head = [b' '; HEAD];
        head.iter_mut().zip(lost.bytes()).for_each(|(to, from)| *to = from);
        head[HEAD - 1] = b'\n';
        self.file.write_all_at(&head, 0)
    }
}

impl Place {
    /// A target's event log.
    pub fn event_log(&self, name: &str) -> KeptLines<LogLine> {
        let text = read(&self.event_log_file(name));
        let entries: Vec<Option<LogLine>> = text.lines.iter().map(|line| serde_json::from_str(line).ok()).collect();
        // The last one may be half written.
        let is_foreign = entries.iter().rev().skip(1).any(Option::is_none);
        let lost = text.lost.or_else(|| is_foreign.then(|| "something else has changed the file".to_owned()));
        KeptLines { lines: entries.into_iter().flatten().collect(), lost }
    }

    /// What profilers wrote to a target's channel.
    pub fn channel_text(&self, name: &str) -> KeptLines<String> {
        read(&self.channel_text_file(name))
    }
}

fn read(path: &Path) -> KeptLines<String> {
    let content = content(path).unwrap_or_else(|error| (format!("the file cannot be read: {error}"), String::new()));
    let (lost, text) = content;
    KeptLines { lines: text.lines().map(str::to_owned).collect(), lost: (!lost.is_empty()).then_some(lost) }
}

/// The first line, and the text behind it.
fn content(path: &Path) -> io::Result<(String, String)> {
    let mut content = Vec::new();
    open_regular(path)?.take((HEAD + MOST_TEXT) as u64).read_to_end(&mut content)?;
    let Some((head, text)) = content.split_at_checked(HEAD) else { return Err(ErrorKind::UnexpectedEof.into()) };
    Ok((String::from_utf8_lossy(head).trim().to_owned(), String::from_utf8_lossy(text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A folder of its own for each test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("kept-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("created");
            Folder(folder)
        }

        fn file(&self) -> PathBuf {
            self.0.join("file")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_that_is_full_keeps_its_newest_lines_and_says_so() {
        let folder = Folder::new("full");
        let mut kept = KeptFile::create(&folder.file()).expect("created");
        let last = MOST_TEXT / 5;
        (0..=last).for_each(|number| kept.add(format!("{number}\n").as_bytes()));
        let KeptLines { lines, lost } = read(&folder.file());
        let numbers: Vec<usize> = lines.iter().map(|line| line.parse().expect("a whole line")).collect();
        assert!(numbers.is_sorted() && numbers.last() == Some(&last), "{:?} to {:?}", numbers.first(), numbers.last());
        assert!(numbers[0] > 0 && numbers.len() == last + 1 - numbers[0], "{} from {}", numbers.len(), numbers[0]);
        assert_eq!(lost.as_deref(), Some("only the newest part is kept"));
        assert!(std::fs::metadata(folder.file()).expect("facts").len() <= (HEAD + MOST_TEXT) as u64);
    }

    #[test]
    fn an_entry_that_is_half_written_is_not_shown_and_a_foreign_one_is_reported() {
        let folder = Folder::new("half");
        let place = Place::under(&folder.0).expect("its owner's alone");
        let mut kept = KeptFile::create(&place.event_log_file("plain")).expect("created");
        let entry =
            r#"{"level":"Error","source":".NET Runtime","event_id":1022,"runtime":"v4.0.30319","text":"It failed."}"#;
        kept.add(format!("{entry}\n{}", &entry[..20]).as_bytes());
        let log = place.event_log("plain");
        assert_eq!((log.lines.len(), log.lost), (1, None));
        kept.add(format!("\n{entry}\n").as_bytes());
        let log = place.event_log("plain");
        assert_eq!((log.lines.len(), log.lost.as_deref()), (2, Some("something else has changed the file")));
    }

    #[test]
    fn a_file_that_a_profiler_has_changed_is_read_with_a_bound_and_no_link_or_pipe_is_followed() {
        let folder = Folder::new("changed");
        let lost = || read(&folder.file()).lost.unwrap_or_default();
        assert!(lost().contains("No such file"), "{}", lost());
        let mut kept = KeptFile::create(&folder.file()).expect("created");
        kept.add(b"a line\nthe beginning of \xFF");
        assert_eq!(read(&folder.file()).lines, ["a line", "the beginning of \u{FFFD}"]);
        kept.file.set_len(1 << 30).expect("set");
        assert!(read(&folder.file()).lines.concat().chars().count() <= MOST_TEXT);
        kept.file.set_len(1).expect("set");
        assert!(lost().contains("cannot be read"), "{}", lost());
        std::fs::rename(folder.file(), folder.0.join("elsewhere")).expect("renamed");
        std::os::unix::fs::symlink(folder.0.join("elsewhere"), folder.file()).expect("linked");
        assert!(lost().contains("symbolic links"), "{}", lost());
        std::fs::remove_file(folder.file()).expect("removed");
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.file(), rustix::fs::Mode::RUSR).expect("made");
        assert!(lost().contains("no regular file"), "{}", lost());
    }
}
