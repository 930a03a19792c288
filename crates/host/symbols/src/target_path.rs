//! A path that a target chose, or that is about its files.
//!
//! The target may be hostile, and may see other files than we do. So such a path is meaningless on the host. It is no [`std::path::Path`],
//! and no conversion turns it into one. `remora-attach` opens it below the target's root, with the rights of the target's user.
//!
//! ```compile_fail,E0277
//! let path = remora_symbols::TargetPath::from("/etc/shadow");
//! std::fs::File::open(path);
//! ```
//! ```compile_fail,E0277
//! let path = remora_symbols::TargetPath::from("/etc/shadow");
//! std::fs::read(&path);
//! ```
//! ```compile_fail,E0277
//! let path = remora_symbols::TargetPath::from("shadow");
//! std::path::Path::new("/etc").join(&path);
//! ```
//! ```compile_fail,E0277
//! let path: std::path::PathBuf = remora_symbols::TargetPath::from("/etc/shadow").into();
//! ```
//! It can be shown, and compared:
//! ```
//! let path = remora_symbols::TargetPath::from("/app/a.dll");
//! assert_eq!((path.to_string().as_str(), path.file_name()), ("/app/a.dll", "a.dll"));
//! ```

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A path in the target's file system. Its text may contain anything: print it only through the terminal page or JSON, which escape it.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetPath(Vec<u8>);

impl TargetPath {
    /// Its bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> TargetPath {
        TargetPath(bytes.into())
    }

    /// A path from a `/proc` file, in which a backslash and three digits stand for the byte that `decode` returns, if any.
    pub fn unescaped(bytes: &[u8], decode: impl Fn(&[u8]) -> Option<u8>) -> TargetPath {
        let (mut path, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
        while let Some((first, behind)) = rest.split_first() {
            let escaped = behind.split_at_checked(3).filter(|_| *first == b'\\');
            let decoded = escaped.and_then(|(digits, behind)| Some((decode(digits)?, behind)));
            let (byte, behind) = decoded.unwrap_or((*first, behind));
            path.push(byte);
            rest = behind;
        }
        TargetPath(path)
    }

    /// As text, if it is UTF-8: for messages to the target, and for comparisons.
    pub fn to_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is absolute.
    pub fn is_absolute(&self) -> bool {
        self.0.starts_with(b"/")
    }

    /// The part after the last slash; empty if it is not UTF-8.
    pub fn file_name(&self) -> &str {
        self.0.rsplit(|byte| *byte == b'/').next().and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// [`TargetPath::file_name`] without its extension; `None` if that is empty.
    pub fn file_stem(&self) -> Option<&str> {
        std::path::Path::new(self.file_name()).file_stem()?.to_str()
    }

    /// The directory that contains it; `None` for the root and for a bare name.
    pub fn parent(&self) -> Option<TargetPath> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/').filter(|_| self.0 != b"/")?;
        Some(TargetPath(self.0[..slash.max(1)].to_vec()))
    }

    /// Appends a name to this directory.
    pub fn join(&self, name: impl AsRef<OsStr>) -> TargetPath {
        let mut joined = self.0.clone();
        if !joined.is_empty() && !joined.ends_with(b"/") {
            joined.push(b'/');
        }
        joined.extend(name.as_ref().as_bytes());
        TargetPath(joined)
    }

    /// The part after `folder`, with its slash; `None` if it is not in that directory.
    pub fn below(&self, folder: &TargetPath) -> Option<TargetPath> {
        let rest = self.0.strip_prefix(folder.0.strip_suffix(b"/").unwrap_or(&folder.0))?;
        match rest {
            [] => Some(TargetPath::from("/")),
            [b'/', ..] => Some(TargetPath(rest.to_vec())),
            _ => None,
        }
    }

    /// Whether its text begins with `text`.
    pub fn starts_with(&self, text: &str) -> bool {
        self.0.starts_with(text.as_bytes())
    }

    /// Its names in order, including `..`, to walk one by one.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = OsString> {
        self.0
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".")
            .map(|name| OsString::from_vec(name.to_vec()))
    }
}

impl<T: Into<OsString>> From<T> for TargetPath {
    fn from(path: T) -> TargetPath {
        TargetPath(path.into().into_vec())
    }
}

impl<T: AsRef<str> + ?Sized> PartialEq<T> for TargetPath {
    fn eq(&self, text: &T) -> bool {
        self.0 == text.as_ref().as_bytes()
    }
}

impl fmt::Display for TargetPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(formatter)
    }
}

impl fmt::Debug for TargetPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_apart_by_its_slashes_alone() {
        for (path, parent, name, names) in [
            ("/a/b.so", Some("/a"), "b.so", &["a", "b.so"][..]),
            ("/b", Some("/"), "b", &["b"]),
            ("/", None, "", &[]),
            ("b", None, "b", &["b"]),
            ("", None, "", &[]),
            ("/a/./../b/", Some("/a/./../b"), "", &["a", "..", "b"]),
        ] {
            let path = TargetPath::from(path);
            let parent = parent.map(TargetPath::from);
            assert_eq!((path.parent(), path.file_name()), (parent, name), "{path}");
            assert_eq!(path.names().collect::<Vec<_>>(), names, "{path}");
        }
    }

    #[test]
    fn a_path_is_below_whole_folders() {
        for (path, folder, expected) in [
            ("/srv/root/lib", "/srv/root", Some("/lib")),
            ("/srv/root", "/srv/root", Some("/")),
            ("/srv/rooted", "/srv/root", None),
            ("/lib", "/", Some("/lib")),
            ("lib", "/", None),
        ] {
            assert_eq!(
                TargetPath::from(path).below(&TargetPath::from(folder)),
                expected.map(TargetPath::from),
                "{path}"
            );
        }
        assert_eq!(TargetPath::from("/a").join("b"), "/a/b");
        assert_eq!(TargetPath::from("/").join("b"), "/b");
        assert_eq!(TargetPath::from_bytes(*b"/\xff").to_string(), "/\u{fffd}");
    }
}
