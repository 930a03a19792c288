//! The heap snapshot file: written as fast as the heap is walked, readable when truncated.
//!
//! # Purpose
//! A `.remora-heap` file holds every object of a heap with type, size and references, and the types' names.
//! It is read into a [`HeapGraph`], from which everything else is derived.
//!
//! # Layout
//! Header and chunks are those of [`remora_chunks`]; the magic is `RMHEAP`. Chunks of version 2; version 1 was never released:
//! ```text
//! kind 1  stream  the next bytes of the stream of `remora_heap_stream`, as the forked copy sends it; cut anywhere
//! kind 2  types   JSON, a list of rows: name, assembly, flags, events; the first row of the first such chunk is class 0 of the stream
//! kind 3  state   JSON, see [`State`]; the last one holds
//! kind 4  end     nothing: the file is whole
//! kind 5  methods JSON, a list of rows: the FunctionIDs of methods whose locals hold objects, and their names
//! kind 6  layouts JSON, a list of rows: object layouts, in a snapshot with values
//! kind 7  statics JSON, a list of rows: static fields and their values; without values, only fields that can hold objects
//! ```
//! A file without the end chunk is a snapshot that ended early: its chunks can be read.
//! The stream is part of version 2. If the protocol of the two processes changes, this format stays, or becomes a version 3.
//! `tests/golden` has a file of each version, with everything that a version can express.
//!
//! # Design constraints
//! Chunks are stored as they arrive, and names when they are known: nothing in the file waits for the end of the walk.
//! Input is untrusted: [`Limits`] and the data actually present bound every claim in it.
//!
//! # Rejected
//! Columns by kind of number: smaller by a third, but each object would be taken apart and reassembled while the copy waits.
#![forbid(unsafe_code)]

mod chunks;
mod contents;
mod error;
mod graph;
mod identity;
mod layouts;
mod lineage;
mod read;
mod roots;
mod rows;
mod state;
mod statics;
mod texts;
mod write;

pub use contents::{Content, contents};
pub use error::Error;
pub use graph::GENERATIONS;
pub use identity::Identity;
pub use layouts::layouts;
pub use read::{Snapshot, is_snapshot, read};
pub use remora_heap::{HeapGraph, Limits};
pub use roots::MethodRow;
pub use state::State;
pub use texts::{Text, texts};
pub use write::{TypeRow, Writer};

use remora_chunks::{Codec, Format};

/// The format version that [`Writer`] writes, and the newest that [`read`] reads.
pub const VERSION: u16 = 2;

/// The file's container.
///
/// Many objects of one class in a row make a stream that compresses to the codec's maximum, a 255th. Rows of names do not.
pub const FORMAT: Format =
    Format { magic: b"RMHEAP", version: VERSION, codec: Codec::Lz4, ratio: 64, dense: &[kind::STREAM] };

/// Kinds of chunks.
mod kind {
    pub(crate) const STREAM: u32 = 1;
    pub(crate) const TYPES: u32 = 2;
    pub(crate) const STATE: u32 = 3;
    pub(crate) const END: u32 = 4;
    pub(crate) const METHODS: u32 = 5;
    pub(crate) const LAYOUTS: u32 = 6;
    pub(crate) const STATICS: u32 = 7;
}
