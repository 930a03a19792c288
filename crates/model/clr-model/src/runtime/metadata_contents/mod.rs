//! What a compiler has written into the metadata of a module: its rows, texts and signatures.
//!
//! `contents.rs` has the rows, `example.rs` those of a program, `tokens.rs` their tokens, and `stored.rs` blobs as files have them.

mod contents;
mod example;
pub(in crate::runtime) mod stored;
pub(in crate::runtime) mod tokens;

pub(in crate::runtime) use contents::{Cell, Row};
pub use contents::{Contents, Value, in_signature};
pub use example::Framework;
