//! Limits of a recording. The writer refuses rows beyond them, and cuts texts and times; the reader refuses everything beyond.
//! So every written file can be read.
//!
//! A file of some kilobytes can claim billions of anything; the reader stops at these limits.

use std::borrow::Cow;

/// Maximum ratio of unpacked content to file length, beyond the first 8 MiB. Content that would compress better is stored uncompressed.
/// A sample takes at least 4 bytes of content, and 32 in memory, and twice that while an array grows.
/// So a file takes at most some 2,000 times its length, and 128 MiB.
pub const RATIO: u64 = 128;
/// Items of one table that the writer puts into one chunk.
pub const CHUNK_ITEMS: usize = 1 << 16;
/// Threads that the writer puts into one chunk: fewer, since each may have a long name.
pub const CHUNK_THREADS: usize = 1 << 8;
/// Bytes of text in one chunk after which the writer starts another.
pub const CHUNK_TEXT: usize = 4 << 20;
/// Longest text (a name, a path, a note), bytes. The writer cuts longer ones at a character boundary and appends `…`.
pub const TEXT: usize = 16 << 10;
/// Most notes of a recording. The writer keeps the first ones.
pub const NOTES: usize = 64;
/// Most texts.
pub const STRINGS: usize = 1 << 24;
/// Most frames.
pub const FRAMES: usize = 1 << 24;
/// Most stack nodes.
pub const STACKS: usize = 1 << 26;
/// Most threads.
pub const THREADS: usize = 1 << 22;
/// Most samples.
pub const SAMPLES: usize = 1 << 28;
/// Most exceptions.
pub const THROWN: usize = 1 << 26;
/// Deepest stack, frames.
pub const DEPTH: u32 = 1 << 14;
/// Largest time or duration, nanoseconds (146 years), so that sums of two stay in range. The writer clamps.
pub const NANOSECONDS: u64 = 1 << 62;

/// The text, cut to a recording's limit with `…` at the end.
pub(crate) fn fitting(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT {
        return Cow::Borrowed(text);
    }
    let mut end = TEXT - '…'.len_utf8();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}…", &text[..end]))
}
