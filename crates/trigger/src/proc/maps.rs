//! `/proc/PID/maps`: which files are mapped, and how.
//!
//! Anonymous mappings and lines of an unknown form are left out.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mapping that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Whether it may be executed.
    pub executable: bool,
    /// Inode of the file, 0 when there is none.
    pub inode: u64,
    /// Path in the process's view, without the mark of deletion.
    pub path: PathBuf,
    /// Whether the file has been deleted since.
    pub deleted: bool,
}

impl Mapping {
    /// Name of the file.
    pub fn file_name(&self) -> &str {
        file_name(&self.path)
    }
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Reads `maps`.
pub fn parse_maps(bytes: &[u8]) -> Vec<Mapping> {
    bytes.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let (range, rest) = word(line)?;
    let (permissions, rest) = word(rest)?;
    let (_offset, rest) = word(rest)?;
    let (_device, rest) = word(rest)?;
    let (inode, rest) = word(rest)?;
    let name = rest.trim_ascii_start();
    if name.is_empty() || name[0] == b'[' {
        return None;
    }
    let (name, deleted) = match name.strip_suffix(b" (deleted)") {
        Some(kept) => (kept, true),
        None => (name, false),
    };
    let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        executable: permissions.contains(&b'x'),
        inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
        path: PathBuf::from(OsString::from_vec(unescape_newlines(name))),
        deleted,
    })
}

/// Splits off the first word.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    (end > 0).then(|| line.split_at(end))
}

/// In `maps` only a newline is escaped.
fn unescape_newlines(name: &[u8]) -> Vec<u8> {
    match name.windows(4).any(|four| four == b"\\012") {
        false => name.to_vec(),
        true => String::from_utf8_lossy(name).replace("\\012", "\n").into_bytes(),
    }
}
