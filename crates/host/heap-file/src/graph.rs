//! Builds the graph from a snapshot's stream.

use crate::lineage::Lineage;
use crate::roots::Details;
use crate::write::TypeRow;
use remora_heap::{Builder, Error, HeapGraph, Limits, Object, RootKind, StaticField, Type, TypeFlags, TypeIx};
use remora_heap_stream::{ClassFacts, HeapVisitor};

/// Maximum static fields kept; more are counted.
const MOST_STATICS: usize = 1 << 20;

/// Generations of the GC, numbered as in `COR_PRF_GC_GENERATION`: 0, 1, 2, large objects, pinned objects.
pub const GENERATIONS: usize = 5;

/// Receives the stream's records.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    builder: Builder,
    /// The last object, whose references are still arriving.
    object: Option<Object>,
    references: Vec<u64>,
    lineage: Lineage,
    pub(crate) objects: u64,
    ranges_broken: u64,
    bytes_broken: u64,
    range_end: u64,
    pub(crate) free_bytes: u64,
    /// The part of that in each generation.
    pub(crate) free_in: [u64; GENERATIONS],
    /// The generation of the current range.
    generation: usize,
    pub(crate) details: Details,
    pub(crate) statics: Vec<StaticField>,
    pub(crate) statics_left_out: u64,
    pub(crate) failed: Option<Error>,
}

impl Assembly {
    pub(crate) fn new(limits: Limits) -> Assembly {
        Assembly { builder: Builder::with_limits(limits), ..Assembly::default() }
    }

    /// Adds the names of the next classes.
    pub(crate) fn types(&mut self, rows: Vec<TypeRow>) -> Result<(), Error> {
        for row in rows {
            // As our writer does. Another one may have left them long.
            let TypeRow { name, assembly, flags, events } = row.shortened();
            self.lineage.declares(events);
            self.builder.add_type(Type { name, assembly, flags: TypeFlags(flags) })?;
        }
        Ok(())
    }

    /// Adds static fields. The runtime reports their values as handles, too, or not at all.
    pub(crate) fn static_fields(&mut self, fields: Vec<StaticField>) {
        self.put();
        let room = MOST_STATICS - self.statics.len();
        self.statics_left_out += fields.len().saturating_sub(room) as u64;
        for field in fields.into_iter().take(room) {
            if let (Some(address), None) = (field.holds(), &self.failed) {
                self.failed = self.builder.add_root(address, RootKind::Static).err();
                self.details.static_field(address, field.whole_name());
            }
            self.statics.push(field);
        }
    }

    /// The graph, and the number of roots whose details exceeded the limits.
    pub(crate) fn finish(mut self, (ranges_unwalked, objects_unwalked): (u64, u64)) -> Result<(HeapGraph, u64), Error> {
        self.put();
        if let Some(error) = self.failed {
            return Err(error);
        }
        let account = self.builder.completeness_mut();
        account.ranges_unwalked += ranges_unwalked.max(self.ranges_broken);
        account.bytes_unwalked += self.bytes_broken;
        account.objects_unwalked += objects_unwalked;
        self.lineage.describe(&mut self.builder)?;
        let mut graph = self.builder.finish()?;
        let unnamed = self.details.note(&mut graph);
        Ok((graph, unnamed))
    }

    fn put(&mut self) {
        if let (Some(object), None) = (self.object.take(), &self.failed) {
            self.failed = self.builder.add_object(object, self.references.drain(..)).err();
        }
        self.references.clear();
    }
}

impl HeapVisitor for Assembly {
    fn range(&mut self, kind: u64, address: u64, length: u64) {
        self.put();
        self.generation = usize::try_from(kind).unwrap_or(usize::MAX);
        self.range_end = address.saturating_add(length);
    }

    fn class(&mut self, id: u64, facts: ClassFacts) {
        self.put();
        self.lineage.class(id, facts);
    }

    fn object(&mut self, address: u64, class: u32, size: u64) {
        self.put();
        self.objects += 1;
        self.object = Some(Object { address, type_ix: TypeIx(class), bytes: size });
    }

    fn reference(&mut self, target: u64) {
        self.references.push(target);
    }

    fn gap(&mut self, _address: u64, length: u64) {
        self.put();
        self.free_bytes = self.free_bytes.saturating_add(length);
        if let Some(free) = self.free_in.get_mut(self.generation) {
            *free = free.saturating_add(length);
        }
    }

    fn broken(&mut self, address: u64) {
        self.put();
        self.ranges_broken += 1;
        self.bytes_broken = self.bytes_broken.saturating_add(self.range_end.saturating_sub(address));
    }

    fn root(&mut self, kind: u64, address: u64, detail: u64) {
        self.put();
        let kind = u32::try_from(kind).ok().and_then(RootKind::from_id).unwrap_or(RootKind::Other);
        if self.failed.is_none() {
            self.failed = self.builder.add_root(address, kind).err();
            self.details.root(address, kind, detail);
        }
    }

    fn end(&mut self, _objects: u64) {
        self.put();
    }
}
