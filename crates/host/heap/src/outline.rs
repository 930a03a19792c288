//! What the objects of a type refer to: enough to find the field of a reference, without a graph and its layouts.
//!
//! References are in the order of their fields, but null fields have none. So a reference belongs to a field if all references of the
//! object fit into its fields in order, each by the type of its target. If several fields remain, all are named.

use crate::allowance::Allowance;
use crate::types::TypeIx;
use serde::{Deserialize, Serialize};

/// So many fields are named, if there is a doubt.
const NAMED: usize = 3;
/// Maximum depth of base classes: a longer chain is no real one.
const DEEPEST: usize = 64;
/// Bytes of an array with one dimension before its elements.
const ARRAY_HEAD: u64 = 24;
const REFERENCE: u64 = 8;

/// A type, as a search for a field needs it. In files, empty parts are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outline {
    /// Its name, as the types of fields have it; empty if it is unknown.
    #[serde(rename = "n", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its base class.
    #[serde(rename = "b", skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// Whether it is the string.
    #[serde(rename = "s", skip_serializing_if = "is_false")]
    pub is_string: bool,
    /// Whether it is an array of references.
    #[serde(rename = "a", skip_serializing_if = "is_false")]
    pub has_references: bool,
    /// What its objects refer to.
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    pub refers: Option<Refers>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What the objects of a type refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refers {
    /// An array of one dimension refers by its elements.
    #[serde(rename = "e")]
    Elements,
    /// An object refers by its fields, inherited ones and those of values included, by offset.
    #[serde(rename = "f")]
    Fields(Vec<ReferenceField>),
}

/// A field with a reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceField {
    /// `Next`, or `At.Owner` in a value.
    #[serde(rename = "n")]
    pub name: String,
    /// The objects that it can refer to.
    #[serde(rename = "h")]
    pub holds: Holds,
}

/// The objects that a field can refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holds {
    /// Any object: it is an interface or an unknown class, and no type lists its interfaces.
    #[serde(rename = "o")]
    Any,
    /// A string.
    #[serde(rename = "s")]
    String,
    /// An array of references, or one of this name.
    #[serde(rename = "a")]
    Array(String),
    /// A class of this name, or one that is derived from it.
    #[serde(rename = "c")]
    Class(String),
}

/// Types by their indexes.
pub trait Types {
    /// The name of a type, as the types of fields have it.
    fn name(&self, of: TypeIx) -> Option<&str>;
    /// Its base class.
    fn base(&self, of: TypeIx) -> Option<TypeIx>;
    /// Whether it is the string.
    fn is_string(&self, of: TypeIx) -> bool;
    /// Whether it is an array of references.
    fn has_references(&self, of: TypeIx) -> bool;
}

impl Types for [Outline] {
    fn name(&self, of: TypeIx) -> Option<&str> {
        self.get(of.0 as usize).map(|outline| outline.name.as_str()).filter(|name| !name.is_empty())
    }

    fn base(&self, of: TypeIx) -> Option<TypeIx> {
        self.get(of.0 as usize)?.base.map(TypeIx)
    }

    fn is_string(&self, of: TypeIx) -> bool {
        self.get(of.0 as usize).is_some_and(|outline| outline.is_string)
    }

    fn has_references(&self, of: TypeIx) -> bool {
        self.get(of.0 as usize).is_some_and(|outline| outline.has_references)
    }
}

impl Refers {
    /// More fields than this are not distinguished.
    pub const MOST_FIELDS: usize = 256;

    /// The field, or the fields in doubt, or the element by which an object of this size refers to the object `to`: `Next`, `At.Owner`,
    /// `first|last`, `[2]`. `targets` are the objects that it refers to, in order, with their types.
    pub fn field_of<T: Types + ?Sized>(
        &self,
        types: &T,
        (bytes, targets): (u64, &[(u32, TypeIx)]),
        to: u32,
        left: &Allowance,
    ) -> Option<String> {
        let fields = match self {
            Refers::Elements => {
                // Only a full array shows the indexes.
                let is_full = bytes.checked_sub(ARRAY_HEAD)? / REFERENCE == targets.len() as u64;
                let index = targets.iter().position(|(target, _)| *target == to)?;
                return is_full.then(|| format!("[{index}]"));
            }
            Refers::Fields(fields) => fields,
        };
        (fields.len() <= Refers::MOST_FIELDS && targets.len() <= fields.len()).then_some(())?;
        let meant = meant(types, targets, fields, to, left);
        // Otherwise fields were not compared any more.
        left.is_left().then_some(())?;
        (1..=NAMED).contains(&meant.len()).then(|| meant.join("|"))
    }
}

/// The names of the fields that may refer to `to`.
fn meant<'a, T: Types + ?Sized>(
    types: &T,
    targets: &[(u32, TypeIx)],
    fields: &'a [ReferenceField],
    to: u32,
    left: &Allowance,
) -> Vec<&'a str> {
    let (rows, columns) = (targets.len(), fields.len());
    let fits = |row: usize, column: usize| fits(types, &fields[column].holds, targets[row].1, left);
    // Whether the first `row` targets fit into the first `column` fields, and the targets and fields from there on.
    let mut begins = vec![vec![false; columns + 1]; rows + 1];
    let mut ends = begins.clone();
    for column in 0..=columns {
        begins[0][column] = true;
        ends[rows][column] = true;
    }
    for row in 0..rows {
        for column in 0..columns {
            begins[row + 1][column + 1] = begins[row + 1][column] || begins[row][column] && fits(row, column);
            let (row, column) = (rows - 1 - row, columns - 1 - column);
            ends[row][column] = ends[row][column + 1] || ends[row + 1][column + 1] && fits(row, column);
        }
    }
    let may_be = |column: &usize| {
        let is_way = |row: usize| begins[row][*column] && ends[row + 1][*column + 1] && fits(row, *column);
        (0..rows).any(|row| targets[row].0 == to && is_way(row))
    };
    (0..columns).filter(may_be).map(|column| fields[column].name.as_str()).collect()
}

/// Whether a field can refer to an object of this type.
fn fits<T: Types + ?Sized>(types: &T, holds: &Holds, of: TypeIx, left: &Allowance) -> bool {
    let (Holds::Array(name) | Holds::Class(name)) = holds else {
        return left.take(1) && (*holds == Holds::Any || types.is_string(of));
    };
    if !left.take(name.len() + 1) {
        return false;
    }
    let is_named = |of: TypeIx| types.name(of) == Some(name.as_str());
    match holds {
        Holds::Array(_) => types.has_references(of) || is_named(of),
        _ => std::iter::successors(Some(of), |of| types.base(*of)).take(DEEPEST).any(is_named),
    }
}
