//! What fields of objects hold, where a snapshot has that.

use crate::graph::ObjectIx;
use crate::types::TypeIx;

/// A field whose number is wanted of all objects of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Of which objects.
    pub type_ix: TypeIx,
    /// The field's name, of the type itself or of what it derives from.
    pub field: &'static str,
}

/// Tells numbers in fields, see [`crate::findings::WantedFields`]. Whoever has them in a file reads it once for all that is wanted.
pub trait FieldValues {
    /// Whether there are any.
    fn are_known(&self) -> bool;

    /// What a place of an array of this type takes, where its elements are values whose size the graph does not know.
    fn place_bytes(&self, array: TypeIx) -> Option<u32>;

    /// Shows the number in each wanted field: which of `wanted` it is, the object, the number. A field that is not there, or holds no whole
    /// number, is passed over.
    fn integers(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, ObjectIx, i64));
}

/// Of a snapshot without values.
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

/// Which of the fields that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column(usize);

/// Fields that are wanted, before they are read.
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

/// What they hold.
#[derive(Debug)]
pub(super) struct Numbers {
    columns: Vec<Vec<(ObjectIx, i64)>>,
}

impl Numbers {
    /// What a field of an object holds.
    pub(super) fn at(&self, column: Column, object: ObjectIx) -> Option<i64> {
        let column = &self.columns[column.0];
        column.binary_search_by_key(&object, |found| found.0).ok().map(|place| column[place].1)
    }

    /// The same for a number of things, of which there are none below 0.
    pub(super) fn count(&self, column: Column, object: ObjectIx) -> Option<u64> {
        self.at(column, object).and_then(|number| u64::try_from(number).ok())
    }
}
