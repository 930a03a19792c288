//! Text for the terminal, made of lines: the only printable type.
//!
//! Much of the text comes from a target or a file: names, paths, notes. Each line is escaped when added, so nothing in it can drive the
//! terminal, reorder the text around it, or start a new line.

use serde::Serialize;
use std::fmt::Write;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Deref};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Escaped lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    text: String,
    is_code: bool,
}

/// A page of one line. Characters that could drive a terminal, including line breaks, are escaped: `\u{1b}`.
pub fn line(text: impl AsRef<str>) -> Page {
    let mut line = plain(text.as_ref());
    line.push('\n');
    Page { text: line, is_code: false }
}

/// An empty line and the title.
pub fn titled(text: impl AsRef<str>) -> Page {
    line("") + line(text)
}

impl Page {
    /// JSON with line breaks, and one at its end; its strings are escaped for terminals, too.
    pub fn json(value: &impl Serialize) -> Page {
        // Strings and numbers always serialize.
        let mut text = harmless_json(&serde_json::to_string_pretty(value).unwrap_or_default());
        text.push('\n');
        Page { text, is_code: true }
    }

    /// The page as a program reads it: [`Page::wrapped`] leaves it as it is.
    pub fn code(self) -> Page {
        Page { is_code: true, ..self }
    }

    /// The text with lines of at most `width` characters, broken between words. The rest of a line is indented by two more characters.
    /// A longer word stays whole.
    pub fn wrapped(&self, width: usize) -> String {
        if self.is_code {
            return self.text.clone();
        }
        self.lines().map(|line| wrapped(line, width) + "\n").collect()
    }
}

impl Deref for Page {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl AddAssign for Page {
    fn add_assign(&mut self, other: Page) {
        self.text.push_str(&other.text);
        self.is_code = self.is_code || other.is_code;
    }
}

impl Add for Page {
    type Output = Page;

    fn add(mut self, other: Page) -> Page {
        self += other;
        self
    }
}

impl Sum for Page {
    fn sum<I: Iterator<Item = Page>>(pages: I) -> Page {
        pages.fold(Page::default(), Add::add)
    }
}

fn wrapped(line: &str, width: usize) -> String {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let (first, others) = (" ".repeat(indent), " ".repeat(indent + 2));
    let options = Options::new(width.max(indent + 2))
        .initial_indent(&first)
        .subsequent_indent(&others)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::fill(&unbroken(&line[indent..]), options).replace(INSIDE_COMMAND, " ")
}

/// Stands for a space inside a command. Unicode has no character here.
const INSIDE_COMMAND: char = '\u{fdd0}';

/// The line with commands as one word each: whatever is between backquotes is there to be copied.
fn unbroken(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let is_command = |at: usize| at % 2 == 1 && at + 1 < parts.len();
    let part = |(at, part): (usize, &&str)| match is_command(at) {
        true => part.replace(' ', INSIDE_COMMAND.encode_utf8(&mut [0; 4])),
        false => (*part).to_owned(),
    };
    parts.iter().enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// `text` with terminal control characters escaped: `\n`, `\u{1b}`.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_control() => plain.extend(letter.escape_default()),
            letter if turns_text(letter) => plain.extend(letter.escape_unicode()),
            letter => plain.push(letter),
        }
    }
    plain
}

/// Equivalent JSON that is safe for terminals. serde_json leaves characters above U+007E unescaped; they occur only in strings, where an
/// escape is equivalent.
pub fn harmless_json(json: &str) -> String {
    let mut harmless = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter != '\n' && letter.is_control() || turns_text(letter) {
            // Writing to a string never fails.
            let _ = write!(harmless, "\\u{:04x}", u32::from(letter));
        } else {
            harmless.push(letter);
        }
    }
    harmless
}

/// Marks that reorder the surrounding text, and separators that some terminals treat as line breaks.
fn turns_text(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "A\x1b[2J\r\nleft: nothing\u{9b}31m\u{7f}\u{202e}\u{2028}é\\n";

    #[test]
    fn a_line_is_one_line_and_drives_no_terminal() {
        let shown = "A\\u{1b}[2J\\r\\nleft: nothing\\u{9b}31m\\u{7f}\\u{202e}\\u{2028}é\\n";
        assert_eq!(&*line(HOSTILE), format!("{shown}\n"));
        assert_eq!(&*titled(HOSTILE), format!("\n{shown}\n"));
        assert_eq!(plain(shown), shown, "what is harmless stays as it is");
    }

    #[test]
    fn a_command_was_broken_over_two_lines_and_could_not_be_copied() {
        let shown = line("shown by `remora heap -p 7` as text").wrapped(20);
        assert_eq!(shown, "shown by\n  `remora heap -p 7`\n  as text\n");
        assert_eq!(line("a ` b c").wrapped(6), "a ` b\n  c\n", "one backquote is no command, and breaks nothing");
    }

    #[test]
    fn lines_were_broken_inside_words_at_the_edge_of_a_terminal() {
        let page =
            line("note: the thread had blocked again") + line("  ~ a thread that  waits") + line("") + line("end");
        let expected = "note: the\n  thread had\n  blocked\n  again\n  ~ a thread\n    that\n    waits\n\nend\n";
        assert_eq!(page.wrapped(12), expected);
        assert_eq!(page.wrapped(80), *page);
        assert_eq!(line("a /very/long/path b").wrapped(8), "a\n  /very/long/path\n  b\n");
        for narrow in 0..4 {
            assert!(page.wrapped(narrow).contains("blocked\n"), "{narrow}");
        }
        let json = Page::json(&["a b c d e f"]);
        assert_eq!(
            (json.wrapped(5), (line("a b") + line("c d").code()).wrapped(2)),
            (json.to_string(), "a b\nc d\n".to_owned())
        );
    }

    #[test]
    fn json_means_the_same_and_drives_no_terminal() {
        let json = Page::json(&[HOSTILE, "b"]);
        assert!(json.chars().all(|letter| letter == '\n' || !letter.is_control() && !turns_text(letter)), "{json:?}");
        let back: Vec<String> = serde_json::from_str(&json).expect("JSON");
        assert_eq!(back, [HOSTILE, "b"]);
    }
}
