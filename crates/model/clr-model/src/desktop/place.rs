//! The directory with the sockets of the targets, and what they leave. Only its owner may enter it, so nobody else reaches a target.

use super::PAUSE;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, open};
use rustix::io::Errno;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Longest name of a target, bytes.
const LONGEST_NAME: usize = 32;
/// Longest path of a Unix socket, bytes, without the final zero (unix(7)).
const LONGEST_PATH: usize = 107;
/// Targets that are listed at most.
const MOST_TARGETS: usize = 1000;
/// The end of a socket's name.
const SOCKET: &str = "socket";
/// The end of the name of a channel for profilers.
const CHANNEL: &str = "channel";
/// The end of the name of the file that the process which watches over a target keeps locked. Its number is in it, later how the target ended.
const WATCH: &str = "watch";
/// The end of the name of the socket of that process.
const WATCHER: &str = "watcher";
/// The end of the name of the file with the event log.
const EVENT_LOG: &str = "log";
/// The end of the name of the file with what profilers wrote to the channel.
const CHANNEL_TEXT: &str = "text";
/// Most bytes that are read of the file that says who watches.
const LONGEST_WATCH: u64 = 4096;
/// The longest time that one of ours keeps the directory locked, and more.
const LOCKED: Duration = Duration::from_secs(2);
/// How a target ended whose watching process was killed.
const UNKNOWN: &str = "in an unknown way: the process that watched over it was killed, too";

/// See the module documentation.
#[derive(Debug, Clone)]
pub struct Place {
    path: PathBuf,
}

/// What is known about a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetState {
    /// A process watches over it.
    Watched(Watcher),
    /// How it ended, as in "ended by SIGSEGV".
    Ended(String),
}

/// The process that watches over a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watcher {
    /// Its number, perhaps from another PID namespace: send it no signal.
    pub process: u32,
    /// When it took the name, nanoseconds since 1970: in two namespaces, numbers can be the same.
    since: u64,
}

impl Watcher {
    fn this() -> Watcher {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Watcher { process: std::process::id(), since: since.as_nanos() as u64 }
    }

    fn parse(text: &str) -> Option<Watcher> {
        let (process, since) = text.split_once(' ')?;
        Some(Watcher { process: process.parse().ok()?, since: since.parse().ok()? })
    }
}

/// Why the directory cannot be used.
#[derive(Debug)]
pub enum PlaceError {
    /// It cannot be created or opened.
    Unusable(PathBuf, Errno),
    /// Somebody else owns it, or others may enter it.
    NotPrivate(PathBuf),
    /// The path is too long for a socket.
    TooLong(PathBuf),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::Unusable(path, error) => {
                write!(out, "the directory {} cannot be used: {error}", path.display())
            }
            PlaceError::NotPrivate(path) => {
                write!(out, "the directory {} is not yours alone (mode 0700)", path.display())
            }
            PlaceError::TooLong(path) => write!(out, "the path {} is too long for a socket", path.display()),
        }
    }
}

impl Place {
    /// The directory of the running user under `base`, created if it is missing.
    ///
    /// # Errors
    /// It is no directory of that user with mode 0700.
    pub fn under(base: &Path) -> Result<Place, PlaceError> {
        let user = rustix::process::geteuid().as_raw();
        let path = base.join(format!("remora-model-{user}"));
        let unusable = |error| PlaceError::Unusable(path.clone(), error);
        match mkdirat(CWD, &path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(unusable(error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let facts = open(&path, flags, Mode::empty()).and_then(fstat).map_err(unusable)?;
        if facts.st_uid != user || facts.st_mode & 0o077 != 0 {
            return Err(PlaceError::NotPrivate(path));
        }
        let place = Place { path };
        let longest = place.file(&"x".repeat(LONGEST_NAME), CHANNEL);
        if longest.as_os_str().len() > LONGEST_PATH { Err(PlaceError::TooLong(place.path)) } else { Ok(place) }
    }

    /// The socket of a target. The name is a valid one.
    pub(super) fn socket(&self, name: &str) -> PathBuf {
        self.file(name, SOCKET)
    }

    /// The socket of a target's channel for profilers.
    pub(super) fn channel(&self, name: &str) -> PathBuf {
        self.file(name, CHANNEL)
    }

    /// The socket of the process that watches over a target.
    pub(super) fn watcher(&self, name: &str) -> PathBuf {
        self.file(name, WATCHER)
    }

    /// The file with a target's event log.
    pub(super) fn event_log_file(&self, name: &str) -> PathBuf {
        self.file(name, EVENT_LOG)
    }

    /// The file with what profilers wrote to a target's channel.
    pub(super) fn channel_text_file(&self, name: &str) -> PathBuf {
        self.file(name, CHANNEL_TEXT)
    }

    /// Takes a name for this process, which will watch over a target, and listens at its socket. `None` if another process does.
    pub(super) fn take(&self, name: &str) -> io::Result<Option<(File, UnixListener)>> {
        let _alone = self.lock()?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(self.file(name, WATCH))?;
        if !lock_if_free(&file)? {
            return Ok(None);
        }
        let listen = || {
            self.remove_all_but_watch(name)?;
            let listener = UnixListener::bind(self.watcher(name))?;
            listener.set_nonblocking(true)?;
            let watcher = Watcher::this();
            rewrite(&file, &format!("{} {}", watcher.process, watcher.since))?;
            Ok(listener)
        };
        let listener = listen().inspect_err(|_: &io::Error| _ = std::fs::remove_file(self.file(name, WATCH)))?;
        Ok(Some((file, listener)))
    }

    /// Notes how a target ended, or that there is nothing to tell. `file` is that of [`Place::take`].
    pub(super) fn give_back(&self, name: &str, file: File, how: Option<&str>) -> io::Result<()> {
        let _alone = self.lock()?;
        // Nothing can be removed from a directory that has become read-only. What stays there does no harm.
        if let Some(how) = how {
            rewrite(&file, how)?;
            let _ = self.remove_sockets(name);
        } else if self.remove_all_but_watch(name).and_then(|()| std::fs::remove_file(self.file(name, WATCH))).is_err() {
            rewrite(&file, "as asked")?;
        }
        // Before the other lock: who finds out that the target has ended finds its name free.
        drop(file);
        Ok(())
    }

    /// Forgets a target that has ended.
    pub(super) fn forget(&self, name: &str) -> io::Result<()> {
        let _alone = self.lock()?;
        if !matches!(self.read(name), Some(TargetState::Ended(_))) {
            return Ok(());
        }
        self.remove_all_but_watch(name)?;
        std::fs::remove_file(self.file(name, WATCH))
    }

    /// What is known about a target. `None` if nothing is.
    pub fn state_of(&self, name: &str) -> Option<TargetState> {
        let _alone = is_name(name).then(|| self.lock().ok()).flatten()?;
        self.read(name)
    }

    /// All targets that are known, by name.
    pub fn targets(&self) -> Vec<(String, TargetState)> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let known = |entry: std::fs::DirEntry| {
            let file = entry.file_name().into_string().ok()?;
            let name = file.strip_suffix(WATCH)?.strip_suffix('.')?;
            Some((name.to_owned(), is_name(name).then(|| self.read(name)).flatten()?))
        };
        let _alone = self.lock();
        let mut targets: Vec<(String, TargetState)> = entries.filter_map(known).take(MOST_TARGETS).collect();
        targets.sort_by(|(one, _), (other, _)| one.cmp(other));
        targets
    }

    /// Until the answer is dropped, nobody else reads or changes these files. A lock on a file itself does not survive its removal.
    ///
    /// Who keeps it for long is stopped, or a profiler in a target: then this goes on without it.
    fn lock(&self) -> io::Result<OwnedFd> {
        let directory = open(&self.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let begun = Instant::now();
        while !lock_if_free(&directory)? && begun.elapsed() < LOCKED {
            std::thread::sleep(PAUSE);
        }
        Ok(directory)
    }

    fn read(&self, name: &str) -> Option<TargetState> {
        let file = open_regular(&self.file(name, WATCH)).ok()?;
        let mut text = Vec::new();
        (&file).take(LONGEST_WATCH).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        match (Watcher::parse(&text), lock_if_free(&file).ok()?) {
            (Some(watcher), false) => Some(TargetState::Watched(watcher)),
            (None, _) if !text.is_empty() => Some(TargetState::Ended(text)),
            _ => Some(TargetState::Ended(UNKNOWN.to_owned())),
        }
    }

    fn remove_sockets(&self, name: &str) -> io::Result<()> {
        self.remove(name, &[WATCHER, SOCKET, CHANNEL])
    }

    fn remove_all_but_watch(&self, name: &str) -> io::Result<()> {
        self.remove_sockets(name)?;
        self.remove(name, &[EVENT_LOG, CHANNEL_TEXT])
    }

    fn remove(&self, name: &str, kinds: &[&str]) -> io::Result<()> {
        kinds.iter().try_for_each(|kind| absent_is_fine(std::fs::remove_file(self.file(name, kind))))
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.path.join(format!("{name}.{kind}"))
    }
}

/// Opens a file that a profiler may have replaced: follows no link, and waits for no pipe.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// Whether the lock was free. The kernel frees it when its owner ends, however that ends.
fn lock_if_free(file: impl AsFd) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// On a full disk there is room for it where the old text was.
fn rewrite(file: &File, text: &str) -> io::Result<()> {
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// A file that is not there needs no removal.
fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Whether a text can be the name of a target: small letters, digits and hyphens, so it leads nowhere else.
pub fn is_name(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    !text.is_empty() && text.len() <= LONGEST_NAME && !text.starts_with('-') && text.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn base(name: &str) -> PathBuf {
        let base = std::env::temp_dir().join(format!("place-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&base).expect("created");
        base
    }

    #[test]
    fn a_lock_that_nobody_gives_back_is_not_waited_for() {
        let base = base("locked");
        let place = Place::under(&base).expect("its owner's alone");
        let _kept = place.lock().expect("locked");
        std::fs::write(place.file("ended", WATCH), "by itself").expect("written");
        assert_eq!(place.state_of("ended"), Some(TargetState::Ended("by itself".to_owned())));
        std::fs::remove_dir_all(base).expect("removed");
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let base = base("open");
        let place = Place::under(&base).expect("its owner's alone");
        std::fs::set_permissions(&place.path, std::fs::Permissions::from_mode(0o750)).expect("set");
        assert!(matches!(Place::under(&base), Err(PlaceError::NotPrivate(_))));
        std::fs::remove_dir_all(base).expect("removed");
    }

    #[test]
    fn other_files_hide_no_target() {
        let base = base("many");
        let place = Place::under(&base).expect("its owner's alone");
        (0..3 * MOST_TARGETS).for_each(|number| _ = File::create(place.socket(&format!("{number}"))).expect("created"));
        (0..50)
            .for_each(|number| std::fs::write(place.file(&format!("{number}"), WATCH), "by itself").expect("written"));
        assert_eq!(place.targets().len(), 50);
        std::fs::remove_dir_all(base).expect("removed");
    }

    #[test]
    fn a_link_is_not_followed() {
        let base = base("link");
        let place = Place::under(&base).expect("its owner's alone");
        std::fs::rename(&place.path, base.join("elsewhere")).expect("renamed");
        std::os::unix::fs::symlink(base.join("elsewhere"), &place.path).expect("linked");
        assert!(matches!(Place::under(&base), Err(PlaceError::Unusable(_, _))));
        std::fs::remove_dir_all(base).expect("removed");
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_refused() {
        let base = base("long");
        let deep = base.join("d".repeat(100));
        std::fs::create_dir_all(&deep).expect("created");
        assert!(matches!(Place::under(&deep), Err(PlaceError::TooLong(_))));
        std::fs::remove_dir_all(base).expect("removed");
    }

    #[test]
    fn a_name_leads_to_no_other_directory() {
        for (name, is_one) in
            [("plain", true), ("two-2", true), ("../x", false), ("", false), ("-x", false), ("A", false)]
        {
            assert_eq!(is_name(name), is_one, "{name}");
        }
        assert!(!is_name(&"x".repeat(LONGEST_NAME + 1)));
    }
}
