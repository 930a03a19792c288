//! Mostly empty arrays.

use super::Shown;
use crate::columns::Columns;
use remora_terminal::size::shown as size;
use remora_terminal::{Page, counted, grouped, line};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct ArraysJson {
    /// Bytes of all their empty slots.
    wasted: u64,
    types: Vec<TypeJson>,
    /// The arrays that waste most.
    worst: Vec<ArrayJson>,
}

#[derive(Debug, Serialize)]
struct TypeJson {
    r#type: String,
    count: u64,
    places: u64,
    empty: u64,
    wasted: u64,
}

#[derive(Debug, Serialize)]
struct ArrayJson {
    address: u64,
    r#type: String,
    places: u64,
    empty: u64,
}

pub(super) fn json(shown: &Shown<'_>) -> ArraysJson {
    let (arrays, graph) = (&shown.findings.arrays, shown.graph);
    let types = arrays.rows.iter().map(|row| TypeJson {
        r#type: shown.name(row.type_ix),
        count: row.count,
        places: row.places,
        empty: row.places - row.used,
        wasted: row.wasted,
    });
    let worst = arrays.worst.iter().take(shown.top).map(|array| ArrayJson {
        address: graph.address(array.object),
        r#type: graph.shown_type_of(array.object).into_owned(),
        places: array.places,
        empty: array.places - array.used,
    });
    ArraysJson { wasted: arrays.wasted, types: types.collect(), worst: worst.collect() }
}

pub(super) fn section(shown: &Shown<'_>) -> Option<Page> {
    let arrays = &shown.findings.arrays;
    if !shown.is_much(arrays.wasted) {
        return None;
    }
    let columns = Columns { numbers: &["wasted", "arrays", "places", "empty"], texts: &["type"] };
    let table = columns.top(&arrays.rows, shown.top, |row| {
        [
            size(row.wasted),
            grouped(row.count),
            grouped(row.places),
            grouped(row.places - row.used),
            shown.name(row.type_ix),
        ]
    });
    let worst = shown.named(arrays.worst.iter().map(|array| {
        let (empty, places) = (grouped(array.places - array.used), counted(array.places, "place"));
        (array.object, format!("{empty} of {places} empty"))
    }));
    let head =
        format!("arrays of references that are mostly empty: {} of places without an object", size(arrays.wasted));
    Some(line(head) + table + worst)
}
