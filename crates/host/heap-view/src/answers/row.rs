//! One node in a list.

use super::{NoAnswer, Page};
use crate::Index;
use crate::index::{Id, List, Record};
use remora_heap::{Allowance, RootKind};
use serde::Serialize;
use std::ops::Range;

/// The name of the root.
const ALL: &str = "all of the heap";
/// The name of the node above unreached objects.
const UNREACHED: &str = "what no root reaches";

/// One node.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) id: u32,
    /// `0x7f0012345678`; null for other nodes than objects.
    address: Option<String>,
    /// The index of its type; null for other nodes than objects.
    r#type: Option<u32>,
    name: String,
    /// The static fields with it, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<String>,
    /// The field or element of the reference: on a path and in a list of references, to this object; in one of referrers, of
    /// this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
    own: u64,
    pub(super) retained: u64,
    /// Retained objects, itself included.
    pub(super) count: u32,
    /// Number of its children.
    children: u64,
}

impl Row {
    pub(super) fn of(index: &Index, id: Id, record: &Record) -> Row {
        let name = match record.type_ix {
            Some(place) => index.types()[place as usize].shown(),
            None if id == index.all() => ALL.to_owned(),
            None => UNREACHED.to_owned(),
        };
        Row {
            id: id.0,
            address: record.type_ix.map(|_| format!("{:#x}", record.address)),
            r#type: record.type_ix,
            name,
            held_by: index
                .about
                .root_notes
                .get(&id.number())
                .and_then(|notes| notes.get(RootKind::Static.name()))
                .cloned(),
            field: None,
            own: record.own,
            retained: record.retained,
            count: record.retained_count,
            children: record.children.length,
        }
    }

    pub(super) fn at(index: &Index, id: Id) -> Result<Row, NoAnswer> {
        Ok(Row::of(index, id, &index.record(id)?))
    }
}

/// Objects that refer to an object, each with its field.
pub(super) fn referrers(index: &Index, to: (Id, &Record), places: Range<u64>) -> Result<Page<Row>, NoAnswer> {
    let (mut page, left) = (page(index, to.1.referrers, places)?, allowance());
    for row in &mut page.rows {
        let from = index.id(row.id).map(|id| index.record(id)).transpose()?;
        let fields = from.map(|from| index.fields(&from)).transpose()?.flatten();
        row.field = fields.and_then(|fields| fields.to(to.0, &left));
    }
    Ok(page)
}

/// Objects that an object refers to, each with the object's field.
pub(super) fn references(index: &Index, from: &Record, places: Range<u64>) -> Result<Page<Row>, NoAnswer> {
    let (mut page, left) = (page(index, from.references, places)?, allowance());
    if let Some(fields) = index.fields(from)? {
        for (place, row) in (page.from..).zip(&mut page.rows) {
            row.field = index.id(row.id).and_then(|to| fields.at(place, to, &left));
        }
    }
    Ok(page)
}

/// What one answer may compare to find fields, bytes.
pub(super) fn allowance() -> Allowance {
    Allowance::new(16 << 20)
}

/// A part of a list, in rows.
pub(super) fn page(index: &Index, list: List, places: Range<u64>) -> Result<Page<Row>, NoAnswer> {
    let from = places.start.min(list.length);
    let rows = index.part(list, places)?.into_iter().map(|id| Row::at(index, id)).collect::<Result<_, _>>()?;
    Ok(Page { total: list.length, from, rows })
}
