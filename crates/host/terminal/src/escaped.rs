//! A writer to a terminal, for formats that are not made of [`crate::Page`].

use crate::page::plain;
use std::io::{self, Write};

/// Writes text with control characters escaped as in [`crate::line`]. Line breaks and tabs stay; what is no UTF-8 is replaced.
#[derive(Debug)]
pub struct Escaped<W: Write> {
    out: W,
    /// The beginning of a character that is not complete yet.
    rest: Vec<u8>,
}

impl<W: Write> Escaped<W> {
    /// A writer to this terminal.
    pub fn new(out: W) -> Escaped<W> {
        Escaped { out, rest: Vec::new() }
    }

    fn put(&mut self, length: usize) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.rest[..length]);
        for part in text.split_inclusive(['\n', '\t']) {
            let kept = part.strip_suffix(['\n', '\t']).unwrap_or(part);
            self.out.write_all(plain(kept).as_bytes())?;
            self.out.write_all(&part.as_bytes()[kept.len()..])?;
        }
        self.rest.drain(..length);
        Ok(())
    }
}

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        self.put(whole)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put(self.rest.len())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_to_a_terminal_had_its_names_control_characters() {
        for piece in [1, 2, 3, 100] {
            let mut shown = Vec::new();
            let mut out = Escaped::new(&mut shown);
            let text = "{\"name\": \"X\u{9b}31mRED\u{202e}evil\u{1b}[2J é\"}\n\tb\r";
            text.as_bytes().chunks(piece).for_each(|bytes| out.write_all(bytes).expect("written"));
            out.write_all(&[0xc2]).expect("written");
            out.flush().expect("flushed");
            let expected = "{\"name\": \"X\\u{9b}31mRED\\u{202e}evil\\u{1b}[2J é\"}\n\tb\\r\u{fffd}";
            assert_eq!(String::from_utf8_lossy(&shown), expected, "in pieces of {piece}");
        }
    }
}
