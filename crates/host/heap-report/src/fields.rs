//! Field values for findings: reads the snapshot's file once for all of them.

use crate::Error;
use crate::open::read_file;
use remora_heap::findings::{FieldValues, Wanted, WantedFields, place_bytes};
use remora_heap::layout::Layouts;
use remora_heap::{HeapGraph, ObjectIx, TypeIx};
use remora_heap_file::{Content, Snapshot, contents, layouts};
use std::cell::RefCell;
use std::path::Path;

/// The fields of one snapshot.
pub(crate) struct Fields<'a> {
    file: &'a Path,
    graph: &'a HeapGraph,
    layouts: Layouts,
    has_values: bool,
    /// Why the file could not be read, if it failed.
    failed: RefCell<Option<Error>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(file: &'a Path, snapshot: &'a Snapshot) -> Result<Fields<'a>, Error> {
        let has_values = snapshot.state.has_values;
        let layouts = if has_values { read_file(file, layouts)? } else { Layouts::default() };
        Ok(Fields { file, graph: &snapshot.graph, layouts, has_values, failed: RefCell::default() })
    }

    /// Returns a read error; call it after all reads.
    pub(crate) fn end(self) -> Result<(), Error> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }

    fn read(&self, fields: &WantedFields, found: &mut dyn FnMut(usize, ObjectIx, i64)) -> Result<(), Error> {
        let mut next = 0;
        let visit = |content: Content<'_>| {
            let Content::Values { address, bytes, .. } = content else { return };
            // Objects arrive in ranges of ascending addresses, the order of the graph.
            let ahead = Some(ObjectIx(next))
                .filter(|object| (next as usize) < self.graph.object_count() && self.graph.address(*object) == address);
            let Some(object) = ahead.or_else(|| self.graph.object_at(address)) else { return };
            next = object.0.saturating_add(1);
            fields.read(self.graph.type_ix(object), bytes, |which, number| found(which, object, number));
        };
        read_file(self.file, |input| contents(input, visit))
    }
}

impl FieldValues for Fields<'_> {
    fn are_known(&self) -> bool {
        self.has_values
    }

    fn place_bytes(&self, array: TypeIx) -> Option<u32> {
        place_bytes(&self.layouts, array)
    }

    fn integers(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, ObjectIx, i64)) {
        let fields = WantedFields::of(&self.layouts, wanted);
        if self.has_values && !fields.is_empty() {
            *self.failed.borrow_mut() = self.read(&fields, found).err();
        }
    }
}
