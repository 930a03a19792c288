//! The table of types: sorted, filtered, a page of it.

use super::query::Query;
use super::row::{Row, page};
use super::{NoAnswer, Page};
use crate::Index;
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::ops::Range;

/// One type.
#[derive(Debug, Serialize)]
pub(super) struct TypeRow {
    r#type: usize,
    name: String,
    assembly: String,
    count: u64,
    own: u64,
    retained: u64,
}

impl TypeRow {
    fn at(index: &Index, place: usize) -> TypeRow {
        let known = &index.types()[place];
        TypeRow {
            r#type: place,
            name: known.name.clone(),
            assembly: known.assembly.clone(),
            count: known.count,
            own: known.own,
            retained: known.retained,
        }
    }
}

pub(super) fn one(index: &Index, place: usize) -> TypeRow {
    TypeRow::at(index, place)
}

/// Its objects, those that retain most first.
pub(super) fn objects(index: &Index, place: usize, places: Range<u64>) -> Result<Page<Row>, NoAnswer> {
    page(index, index.of_type(&index.types()[place])?, places)
}

/// Those whose name or assembly has `filter` in it, by `sort`, turned round by `turned`.
pub(super) fn types(index: &Index, query: &Query) -> Result<Page<TypeRow>, NoAnswer> {
    let order = order(query.text("sort"))?;
    let mut found = containing(index, query.text("filter"));
    found.sort_by(|one, other| order(index, *one, *other));
    match query.text("turned") {
        "" => {}
        "1" => found.reverse(),
        _ => return Err(NoAnswer::Senseless("turned makes no sense".to_owned())),
    }
    Ok(rows(index, &found, query.places()?))
}

/// Those whose name has `text` in it: the very name first, then those that retain most.
pub(super) fn named(index: &Index, text: &str, places: Range<u64>) -> Page<TypeRow> {
    let mut found = containing(index, text);
    found.sort_by_key(|place| (index.types()[*place].name != text, Reverse(index.types()[*place].retained)));
    rows(index, &found, places)
}

fn rows(index: &Index, found: &[usize], places: Range<u64>) -> Page<TypeRow> {
    let from = places.start.min(found.len() as u64);
    let to = places.end.min(found.len() as u64);
    let rows = found[from as usize..to as usize].iter().map(|place| TypeRow::at(index, *place)).collect();
    Page { total: found.len() as u64, from, rows }
}

/// The types with objects, by what is in their names.
fn containing(index: &Index, text: &str) -> Vec<usize> {
    let lower = text.trim().to_lowercase();
    let fits = |place: &usize| {
        let known = &index.types()[*place];
        let has = |name: &str| name.to_lowercase().contains(&lower);
        known.count > 0 && (lower.is_empty() || has(&known.name) || has(&known.assembly))
    };
    (0..index.types().len()).filter(fits).collect()
}

type Order = fn(&Index, usize, usize) -> Ordering;

/// Numbers from the greatest on, names from A on.
fn order(name: &str) -> Result<Order, NoAnswer> {
    Ok(match name {
        "" | "retained" => |index, one, other| index.types()[other].retained.cmp(&index.types()[one].retained),
        "own" => |index, one, other| index.types()[other].own.cmp(&index.types()[one].own),
        "count" => |index, one, other| index.types()[other].count.cmp(&index.types()[one].count),
        "name" => |index, one, other| index.types()[one].name.cmp(&index.types()[other].name),
        _ => return Err(NoAnswer::Senseless("sort makes no sense".to_owned())),
    })
}
