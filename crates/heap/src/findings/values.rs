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

/// Tells numbers in fields. Whoever has them in a file reads it once for all that is wanted.
pub trait FieldValues {
    /// Whether there are any.
    fn are_known(&self) -> bool;

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

    fn integers(&self, _: &[Wanted], _: &mut dyn FnMut(usize, ObjectIx, i64)) {}
}
