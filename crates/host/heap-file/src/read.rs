//! Reading a snapshot.

use crate::chunks::{decoded, each_chunk};
use crate::graph::{Assembly, GENERATIONS};
use crate::statics::Rows;
use crate::{Error, FORMAT, State, kind};
use remora_chunks::Fault;
use remora_heap::{HeapGraph, Limits, StaticField};
use remora_heap_stream::HeapDecoder;
use std::io::Read;

/// A snapshot, as [`read`] returns it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// All objects with types and references.
    pub graph: HeapGraph,
    /// Static fields; none in a truncated file, since they are at its end.
    pub statics: Vec<StaticField>,
    /// Roots whose details exceeded the limits: only their kind is known.
    pub roots_unnamed: u64,
    /// Static fields beyond the limit.
    pub statics_left_out: u64,
    /// Bytes between objects, in the walked ranges.
    pub free_bytes: u64,
    /// The part of that in each generation of the GC.
    pub free_in: [u64; GENERATIONS],
    /// Properties of the whole snapshot.
    pub state: State,
    /// Whether the file was finished and has all data the agent sent.
    pub whole: bool,
    /// Skipped chunks of unknown kinds.
    pub unknown_chunks: u64,
    /// Bytes after the last whole chunk, left by an interrupted write.
    pub torn_bytes: u64,
}

impl Snapshot {
    /// Whether it is the whole heap.
    pub fn is_complete(&self) -> bool {
        self.whole && self.state.complete && self.graph.completeness().is_complete()
    }
}

/// Whether `start`, the first bytes of a file, begins a snapshot of any version.
pub fn is_snapshot(start: &[u8]) -> bool {
    FORMAT.begins(start)
}

/// The parts read so far.
#[derive(Default)]
struct Reading {
    assembly: Assembly,
    decoder: HeapDecoder,
    state: State,
    ended: bool,
    unknown_chunks: u64,
}

/// Reads a snapshot of any version up to [`crate::VERSION`], within `limits`.
///
/// A truncated file is no error if it has an object: see [`Snapshot::whole`].
///
/// # Errors
/// See [`Error`].
pub fn read(input: impl Read, limits: Limits) -> Result<Snapshot, Error> {
    let mut reading = Reading { assembly: Assembly::new(limits), ..Reading::default() };
    let objects = |reading: &Reading| reading.assembly.objects;
    let (offset, torn_bytes) = each_chunk(input, &mut reading, objects, |reading, chunk| {
        reading.chunk(chunk.kind, &chunk.plain)?;
        reading.assembly.failed.take().map_or(Ok(()), |error| Err(error.into()))
    })?;
    reading.finish(offset, torn_bytes)
}

impl Reading {
    fn chunk(&mut self, kind: u32, plain: &[u8]) -> Result<(), Fault> {
        if self.ended {
            return Err(Fault::Damaged("there is more after the end"));
        }
        match kind {
            kind::STREAM => {
                let read = self.decoder.push(plain.into(), &mut self.assembly);
                read.map_err(|_| Fault::Damaged("the stream of objects makes no sense"))?;
            }
            kind::TYPES => {
                let rows = decoded(plain, "a row of types makes no sense")?;
                self.assembly.failed = self.assembly.types(rows).err();
            }
            kind::STATE => self.state = decoded(plain, "the snapshot's state makes no sense")?,
            kind::METHODS => self.assembly.details.methods(decoded(plain, "a row of methods makes no sense")?),
            kind::STATICS => {
                let Rows(fields) = decoded(plain, "a row of static fields makes no sense")?;
                self.assembly.static_fields(fields);
            }
            kind::END => self.ended = true,
            // Read on demand.
            kind::LAYOUTS => {}
            _ => self.unknown_chunks += 1,
        }
        Ok(())
    }

    fn finish(self, offset: u64, torn_bytes: u64) -> Result<Snapshot, Error> {
        if self.assembly.objects == 0 && !self.ended {
            return Err(Error::Truncated { length: offset + torn_bytes });
        }
        let Reading { mut assembly, decoder, state, ended, unknown_chunks } = self;
        let (free_bytes, free_in) = (assembly.free_bytes, assembly.free_in);
        let statics = std::mem::take(&mut assembly.statics);
        let statics_left_out = assembly.statics_left_out;
        let (graph, roots_unnamed) = assembly.finish((state.ranges_unwalked, state.objects_unwalked))?;
        Ok(Snapshot {
            graph,
            statics,
            roots_unnamed,
            statics_left_out,
            free_bytes,
            free_in,
            state,
            whole: ended && decoder.has_ended(),
            unknown_chunks,
            torn_bytes,
        })
    }
}
