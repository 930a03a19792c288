//! Field values, for snapshots that have them.

use crate::object_ix::ObjectIx;
use crate::types::TypeIx;

/// A field wanted of all objects of a type: a number, or a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The type of the objects.
    pub type_ix: TypeIx,
    /// The field's name; the type or a base type declares it.
    pub field: &'static str,
}

/// Source of fields, see [`crate::findings::WantedFields`]. An implementation over a file reads it once for all wanted fields.
pub trait FieldValues {
    /// Whether values are known.
    fn are_known(&self) -> bool;

    /// Element size of an array of this type, if the elements are values whose size the graph lacks.
    fn place_bytes(&self, array: TypeIx) -> Option<u32>;

    /// Passes each wanted number to `found`: index in `wanted`, object, number. A reference is an address. Fields that are missing or neither
    /// are skipped.
    fn integers(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, ObjectIx, i64));
}

/// A snapshot without field values.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoValues;

impl FieldValues for NoValues {
    fn are_known(&self) -> bool {
        false
    }

    fn place_bytes(&self, _: TypeIx) -> Option<u32> {
        None
    }

    fn integers(&self, _: &[Wanted], _: &mut dyn FnMut(usize, ObjectIx, i64)) {}
}

/// Index of a wanted field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column(usize);

/// Wanted fields, before they are read.
#[derive(Debug, Default)]
pub(super) struct Wishes(Vec<Wanted>);

impl Wishes {
    /// Adds one.
    pub(super) fn add(&mut self, type_ix: TypeIx, field: &'static str) -> Column {
        self.0.push(Wanted { type_ix, field });
        Column(self.0.len() - 1)
    }

    /// Reads them all.
    pub(super) fn granted(&self, values: &dyn FieldValues) -> Numbers {
        let mut columns = vec![Vec::new(); self.0.len()];
        values.integers(&self.0, &mut |which, object, number| {
            if let Some(column) = columns.get_mut(which) {
                column.push((object, number));
            }
        });
        columns.iter_mut().for_each(|column: &mut Vec<_>| column.sort_unstable());
        Numbers { columns }
    }
}

/// The values of all wanted fields.
#[derive(Debug)]
pub(super) struct Numbers {
    columns: Vec<Vec<(ObjectIx, i64)>>,
}

impl Numbers {
    /// The value of an object's field.
    pub(super) fn at(&self, column: Column, object: ObjectIx) -> Option<i64> {
        let column = &self.columns[column.0];
        column.binary_search_by_key(&object, |found| found.0).ok().map(|place| column[place].1)
    }

    /// The value as a count, which cannot be negative.
    pub(super) fn count(&self, column: Column, object: ObjectIx) -> Option<u64> {
        self.at(column, object).and_then(|number| u64::try_from(number).ok())
    }
}
