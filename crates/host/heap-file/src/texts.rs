//! The characters of strings, in a snapshot that has them: read from its stream when they are wanted, and never all at once.

use crate::{Content, Error, contents};
use std::io::Read;

/// The characters of one string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// The string's address.
    pub address: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// How many characters it has (UTF-16 code units).
    pub characters: u64,
    /// The first of them, two bytes each, the lower first: all, unless it is very long.
    pub utf16: &'a [u8],
}

impl Text<'_> {
    /// Whether these are all of its characters.
    pub fn is_whole(&self) -> bool {
        self.utf16.len() as u64 == self.characters * 2
    }

    /// The characters that were told, as text; what is none is replaced.
    pub fn text(&self) -> String {
        let units = self.utf16.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
        char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

/// Shows every string of a snapshot. A file that ends early is read as far as it goes.
///
/// # Errors
/// As [`crate::read`].
pub fn texts(input: impl Read, mut visit: impl FnMut(Text<'_>)) -> Result<(), Error> {
    contents(input, |content| {
        if let Content::Text(text) = content {
            visit(text);
        }
    })
}
