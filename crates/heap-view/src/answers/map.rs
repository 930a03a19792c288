//! The treemap: a node, what hangs under it, and what hangs under that.

use super::NoAnswer;
use super::row::Row;
use crate::Index;
use crate::index::{Id, Record};
use serde::Serialize;

/// Boxes of a picture, and boxes within one of them: more would be too small to see.
const BOXES: u64 = 120;
const INNER: u64 = 12;
/// Boxes that show what is in them.
const OPEN: usize = 24;
/// Nodes of the way up that are told.
const ABOVE: usize = 24;

/// What is drawn.
#[derive(Debug, Serialize)]
pub(super) struct Map {
    here: Row,
    /// What is above it, the nearest last; all of the heap is the first.
    above: Vec<Row>,
    /// Whether nodes between the first and the others are left out.
    cut: bool,
    boxes: Vec<Tile>,
    /// What hangs under the node and has no box.
    rest: Rest,
}

#[derive(Debug, Serialize)]
struct Tile {
    #[serde(flatten)]
    row: Row,
    inside: Vec<Row>,
}

#[derive(Debug, Default, Serialize)]
struct Rest {
    nodes: u64,
    count: u64,
    retained: u64,
}

pub(super) fn map(index: &Index, id: Id) -> Result<Map, NoAnswer> {
    let record = index.record(id)?;
    let mut boxes = Vec::new();
    let mut rest = Rest {
        nodes: record.children.length,
        count: record.retained_count.saturating_sub(u32::from(record.type_ix.is_some())).into(),
        retained: record.retained.saturating_sub(record.own),
    };
    for child in index.part(record.children, 0..BOXES)? {
        let inner = index.record(child)?;
        let row = Row::of(index, child, &inner);
        rest.nodes -= 1;
        rest.count = rest.count.saturating_sub(row.count.into());
        rest.retained = rest.retained.saturating_sub(row.retained);
        let shown = if boxes.len() < OPEN { INNER } else { 0 };
        let inside = index.part(inner.children, 0..shown)?.into_iter();
        boxes.push(Tile { inside: inside.map(|id| Row::at(index, id)).collect::<Result<_, _>>()?, row });
    }
    let (above, cut) = above(index, &record)?;
    Ok(Map { here: Row::of(index, id, &record), above, cut, boxes, rest })
}

/// The way from all of the heap down to a node, without it, cut where it is long; and whether it is.
pub(super) fn above(index: &Index, record: &Record) -> Result<(Vec<Row>, bool), NoAnswer> {
    let mut way = Vec::new();
    let mut next = record.dominator;
    while let Some(id) = next {
        if way.len() == ABOVE {
            way.push(Row::at(index, index.all())?);
            break;
        }
        let record = index.record(id)?;
        next = record.dominator;
        way.push(Row::of(index, id, &record));
    }
    way.reverse();
    Ok((way, next.is_some_and(|left| left != index.all())))
}
