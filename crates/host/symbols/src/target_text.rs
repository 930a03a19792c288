//! Text that a target chose: its names, arguments and variables, and what its runtime says of it.
//!
//! It may hold anything: terminal escapes, a path of the target's file system, megabytes. So it is neither a `str` nor a path. It can be
//! compared, shown with its control characters escaped, searched as a path of the target, and taken as a text of limited length.
//!
//! ```compile_fail,E0277
//! let name = remora_symbols::TargetText::from("/etc/shadow");
//! std::fs::read(&name);
//! ```
//! ```compile_fail,E0308
//! fn parse(text: &str) {}
//! parse(&remora_symbols::TargetText::from("4711"));
//! ```
//! ```
//! let name = remora_symbols::TargetText::from("a\u{1b}[2J");
//! assert_eq!((name.to_string().as_str(), name.within(1).as_str()), ("a\\u{1b}[2J", "a"));
//! ```

use crate::TargetPath;
use remora_wire::floor_char_boundary;
use std::fmt::{self, Write};

/// Text of the target. What is no UTF-8 in it was replaced by U+FFFD.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetText(String);

impl TargetText {
    /// What is enough for any name, and for the arguments of a process.
    pub const LONGEST: usize = 256 << 10;

    /// The text of these bytes.
    pub fn from_bytes(bytes: &[u8]) -> TargetText {
        TargetText(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Some texts, with a space between each.
    pub fn joined(texts: &[TargetText]) -> TargetText {
        TargetText(texts.iter().map(|text| text.0.as_str()).collect::<Vec<_>>().join(" "))
    }

    /// Its length, bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no characters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it begins with `text`.
    pub fn starts_with(&self, text: &str) -> bool {
        self.0.starts_with(text)
    }

    /// Whether it ends with `text`.
    pub fn ends_with(&self, text: &str) -> bool {
        self.0.ends_with(text)
    }

    /// Whether it is one of `texts`.
    pub fn is_one_of(&self, texts: &[&str]) -> bool {
        texts.contains(&self.0.as_str())
    }

    /// Whether it is `text` but for case and surrounding spaces.
    pub fn resembles(&self, text: &str) -> bool {
        self.0.trim().to_lowercase() == text.to_lowercase()
    }

    /// As a path of the target.
    pub fn as_path(&self) -> TargetPath {
        TargetPath::from(self.0.as_str())
    }

    /// Its first `limit` bytes, or less: whole characters. They may be control characters.
    pub fn within(&self, limit: usize) -> String {
        self.0[..floor_char_boundary(&self.0, limit)].to_owned()
    }
}

impl<T: Into<String>> From<T> for TargetText {
    fn from(text: T) -> TargetText {
        TargetText(text.into())
    }
}

impl<T: AsRef<str> + ?Sized> PartialEq<T> for TargetText {
    fn eq(&self, text: &T) -> bool {
        self.0 == text.as_ref()
    }
}

impl fmt::Display for TargetText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter.is_control() {
            true => write!(formatter, "{}", letter.escape_default()),
            false => formatter.write_char(letter),
        })
    }
}

impl fmt::Debug for TargetText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_of_a_text_ends_with_a_whole_character_within_the_limit() {
        let text = TargetText::from_bytes(b"a\xc3\xb6\xff");
        for (limit, taken) in
            [(0, ""), (1, "a"), (2, "a"), (3, "aö"), (5, "aö"), (6, "aö\u{fffd}"), (usize::MAX, "aö\u{fffd}")]
        {
            assert_eq!(text.within(limit), taken, "{limit}");
        }
    }

    #[test]
    fn a_shown_text_drives_no_terminal() {
        let text = TargetText::from("a\u{1b}]0;\u{9b}\r\nb\u{7f}ö");
        assert_eq!(text.to_string(), "a\\u{1b}]0;\\u{9b}\\r\\nb\\u{7f}ö");
    }

    #[test]
    fn a_switch_is_off_in_any_case_and_with_spaces_around_it() {
        assert!(TargetText::from(" False ").resembles("false"));
        assert!(!TargetText::from("0 0").resembles("0"));
    }
}
