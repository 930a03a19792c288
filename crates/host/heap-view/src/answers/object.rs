//! One object: its properties, why it is alive, its neighbors; and the search for objects.

use super::map::above;
use super::query::Query;
use super::row::{self, Row};
use super::types::{self, TypeRow};
use super::{NoAnswer, Page};
use crate::Index;
use crate::index::{Id, Record};
use remora_heap::{RootKind, addresses, asked_address};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum objects of a path to a root, counted from the object.
const STEPS: usize = 40;

/// One object.
#[derive(Debug, Serialize)]
pub(super) struct Object {
    object: Row,
    assembly: String,
    /// Why it is alive; null if no root reaches it.
    path: Option<Path>,
    /// Its dominators, nearest last.
    above: Vec<Row>,
    /// Whether some of these are omitted.
    cut: bool,
    references: u64,
    referrers: u64,
}

/// A shortest path to it from a root.
#[derive(Debug, Serialize)]
struct Path {
    /// The roots of the first object.
    roots: Vec<HeldBy>,
    /// From the root's object to the queried one.
    objects: Vec<Row>,
    /// Number of objects omitted after the first.
    hidden: u32,
}

/// A root.
#[derive(Debug, Serialize)]
struct HeldBy {
    kind: &'static str,
    /// Its details.
    note: Option<String>,
}

/// The search result.
#[derive(Debug, Default, Serialize)]
pub(super) struct Found {
    object: Option<Row>,
    /// Why there is none, or no exact match.
    note: Option<String>,
    types: Option<Page<TypeRow>>,
    /// Objects in static fields whose names contain the text.
    held: Vec<Row>,
}

impl Found {
    fn nothing(why: String) -> Found {
        Found { note: Some(why), ..Found::default() }
    }
}

pub(super) fn object(index: &Index, id: Id) -> Result<Object, NoAnswer> {
    let record = index.record(id)?;
    let assembly = record.type_ix.map(|place| index.types()[place as usize].assembly.clone());
    let (above, cut) = above(index, &record)?;
    Ok(Object {
        object: Row::of(index, id, &record),
        assembly: assembly.unwrap_or_default(),
        path: path(index, id, &record)?,
        above,
        cut,
        references: record.references.length,
        referrers: record.referrers.length,
    })
}

fn path(index: &Index, id: Id, record: &Record) -> Result<Option<Path>, NoAnswer> {
    let Some(origin) = record.origin else { return Ok(None) };
    let mut objects = vec![Row::of(index, id, record)];
    let (mut next, mut from, left) = (record.step, id, row::allowance());
    while let Some(on) = next.filter(|_| objects.len() < STEPS) {
        let record = index.record(on)?;
        next = record.step;
        if let Some(last) = objects.last_mut() {
            last.field = index.fields(&record)?.and_then(|fields| fields.to(from, &left));
        }
        from = on;
        objects.push(Row::of(index, on, &record));
    }
    let notes = index.about.root_notes.get(&origin.number());
    let held =
        |kind: &RootKind| HeldBy { kind: kind.name(), note: notes.and_then(|notes| notes.get(kind.name())).cloned() };
    let roots = index.record(origin)?.roots.iter().map(held).collect();
    let mut hidden = 0;
    if next.is_some() {
        hidden = record.distance.saturating_sub(objects.len() as u32 + 1);
        objects.push(Row::at(index, origin)?);
    }
    objects.reverse();
    Ok(Some(Path { roots, objects, hidden }))
}

/// An address with `@` or `0x` finds an object; other text matches parts of type and static field names.
pub(super) fn search(index: &Index, query: &Query) -> Result<Found, NoAnswer> {
    let text = query.text("text").trim();
    let Some(address) = asked_address(text) else {
        let (types, held) = (Some(types::named(index, text, query.places()?)), held_by(index, text, query.places()?)?);
        return Ok(Found { types, held, ..Found::default() });
    };
    let meant = addresses(address);
    let Some(first) = meant.first() else {
        return Ok(Found::nothing(format!("{text} is no address: write it as @0x7f0012345678")));
    };
    let mut address = *first;
    for other in meant {
        // A decimal address, as in JSON: only at an object's start.
        if index.object_before(other)?.is_some_and(|(_, record)| record.address == other) {
            address = other;
            break;
        }
    }
    let Some((id, record)) = index.object_before(address)?.filter(|(_, record)| is_within(record, address)) else {
        return Ok(Found::nothing(format!("there is no object at {address:#x} in this snapshot")));
    };
    let note = format!("no object begins at {address:#x}: it lies within this one");
    Ok(Found {
        note: (record.address != address).then_some(note),
        object: Some(Row::of(index, id, &record)),
        ..Found::default()
    })
}

/// Objects in static fields whose names contain `text`.
fn held_by(index: &Index, text: &str, places: Range<u64>) -> Result<Vec<Row>, NoAnswer> {
    let lower = text.to_lowercase();
    let is_it = |notes: &BTreeMap<String, String>| {
        notes.get(RootKind::Static.name()).is_some_and(|field| field.to_lowercase().contains(&lower))
    };
    let held = index.about.root_notes.iter().filter(|(_, notes)| !lower.is_empty() && is_it(notes));
    let those = held.skip(places.start as usize).take((places.end - places.start) as usize);
    those.filter_map(|(object, _)| index.id(*object)).map(|id| Row::at(index, id)).collect()
}

/// An object of size 0 still contains its address.
fn is_within(record: &Record, address: u64) -> bool {
    record.address == address || address.saturating_sub(record.address) < record.own
}
