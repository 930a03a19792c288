//! String characters, in a snapshot that has them: streamed from the file when needed, never all in memory.

use crate::{Content, Error, contents};
use std::io::Read;

/// The characters of one string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// The string's address.
    pub address: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// Number of characters (UTF-16 code units).
    pub characters: u64,
    /// The first characters, little-endian: all, except in a very long string.
    pub utf16: &'a [u8],
}

impl Text<'_> {
    /// Whether these are all of its characters.
    pub fn is_whole(&self) -> bool {
        self.utf16.len() as u64 == self.characters * 2
    }

    /// The stored characters as text; invalid ones are replaced.
    pub fn text(&self) -> String {
        let units = self.utf16.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
        char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

/// Passes every string of a snapshot to `visit`. Reads a truncated file up to its end.
///
/// # Errors
/// See [`crate::read`].
pub fn texts(input: impl Read, mut visit: impl FnMut(Text<'_>)) -> Result<(), Error> {
    contents(input, |content| {
        if let Content::Text(text) = content {
            visit(text);
        }
    })
}
