//! The directory with the sockets of the targets. Only its owner may enter it, so nobody else reaches a target.

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, open};
use rustix::io::Errno;
use std::fmt;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

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
/// The end of the name of the file that says how a target ended.
const END: &str = "end";
/// Most bytes of that file that are read.
const LONGEST_END: u64 = 4096;

/// See the module documentation.
#[derive(Debug, Clone)]
pub struct Place {
    path: PathBuf,
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

    /// Until the answer is dropped, nobody else starts a target here.
    pub(super) fn lock(&self) -> io::Result<OwnedFd> {
        let directory = open(&self.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        flock(&directory, FlockOperation::LockExclusive)?;
        Ok(directory)
    }

    /// Notes how a target ended, for [`Place::end_of`].
    ///
    /// # Errors
    /// The system's.
    pub fn note_end(&self, name: &str, how: &str) -> io::Result<()> {
        std::fs::write(self.file(name, END), how)
    }

    /// How a target ended that nobody stopped. `None` if it runs, or nobody watched it.
    pub fn end_of(&self, name: &str) -> Option<String> {
        let mut how = Vec::new();
        std::fs::File::open(self.file(name, END)).ok()?.take(LONGEST_END).read_to_end(&mut how).ok()?;
        Some(String::from_utf8_lossy(&how).into_owned())
    }

    /// Forgets how the last target with this name ended.
    pub(super) fn forget_end(&self, name: &str) -> io::Result<()> {
        absent_is_fine(std::fs::remove_file(self.file(name, END)))
    }

    /// The names of all sockets, sorted. Their targets may have ended.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten().take(MOST_TARGETS);
        let name = |entry: std::fs::DirEntry| {
            let file = entry.file_name().into_string().ok()?;
            file.strip_suffix(SOCKET)?.strip_suffix('.').filter(|name| is_name(name)).map(str::to_owned)
        };
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort();
        names
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.path.join(format!("{name}.{kind}"))
    }
}

/// A file that is not there needs no removal.
pub(super) fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
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
    fn a_directory_that_others_may_enter_is_refused() {
        let base = base("open");
        let place = Place::under(&base).expect("its owner's alone");
        std::fs::set_permissions(&place.path, std::fs::Permissions::from_mode(0o750)).expect("set");
        assert!(matches!(Place::under(&base), Err(PlaceError::NotPrivate(_))));
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
