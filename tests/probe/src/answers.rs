//! The words of a question and the line of its answer: numbers, buffers of a given size, codes and strings.

use std::fmt::Write;
use std::ptr::null_mut;

/// Maximum buffer size of a test.
const MOST: usize = 512;

/// A buffer whose size is the first word after the question; `nowhere` after it makes it null.
pub struct Room<T> {
    /// The entries.
    pub list: Vec<T>,
    /// The size.
    pub room: u32,
    is_nowhere: bool,
}

impl<T: Copy> Room<T> {
    /// Parses the words after the question.
    pub fn of(words: &[&str], filler: T) -> Room<T> {
        let room = words.first().map_or(0, |word| number(word)).min(MOST as u64) as u32;
        Room { list: vec![filler; MOST], room, is_nowhere: words.get(1) == Some(&"nowhere") }
    }

    /// Its address; null if the size is zero.
    pub fn place(&mut self) -> *mut T {
        if self.room == 0 || self.is_nowhere { null_mut() } else { self.list.as_mut_ptr() }
    }
}

/// Parses a test's number: decimal, or hexadecimal with `0x`.
pub fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or(u64::MAX)
}

/// The line with a code and numbers.
pub fn answer(code: i32, numbers: &[usize]) -> String {
    let mut line = format!("{:#010x}", code as u32);
    for number in numbers {
        // Writing to a string does not fail.
        let _ = write!(line, " {number:#x}");
    }
    line
}

/// The same with a string; `-` if it was not written.
pub fn answer_text(code: i32, numbers: &[usize], room: &Room<u16>) -> String {
    let end = room.list.iter().position(|unit| *unit == 0).unwrap_or(MOST);
    let name = String::from_utf16_lossy(&room.list[..end]);
    format!("{} {}", answer(code, numbers), if name.is_empty() { "-" } else { &name })
}
