//! How large a recording may be. The writer refuses more rows than that, and cuts texts and times; the reader refuses all that is beyond.
//! So whatever is written can be read.
//!
//! A file of some kilobytes can claim billions of anything; these are the numbers at which belief ends.

/// How often the content of a file may be as long as the file, beyond the first 8 MiB. What would pack better is stored as it is. A sample takes 4 bytes of the content or more, and 32 in memory, and twice
/// that while an array grows: so a file takes at most some 2,000 times its length, and 128 MiB.
pub const RATIO: u64 = 128;
/// Items of one table that the writer puts into one chunk.
pub const CHUNK_ITEMS: usize = 1 << 16;
/// Threads that the writer puts into one chunk: fewer, since each may have a long name.
pub const CHUNK_THREADS: usize = 1 << 8;
/// Bytes of text that the writer puts into one chunk, beyond which it starts another.
pub const CHUNK_TEXT: usize = 4 << 20;
/// Longest text (a name, a path, a note), bytes. The writer cuts longer ones at a character, with `…` in place of the rest.
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
/// Deepest stack, frames.
pub const DEPTH: u32 = 1 << 14;
/// Largest time or duration, nanoseconds (146 years), so that sums of two stay in range. The writer clamps.
pub const NANOSECONDS: u64 = 1 << 62;
