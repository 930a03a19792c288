//! The treemap: a node and its dominator subtree, as deep as boxes are visible.

use super::NoAnswer;
use super::row::Row;
use crate::Index;
use crate::index::{Id, List, Record};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum boxes on the outermost level and in all; maximum levels.
const OUTER: u64 = 120;
const BOXES: usize = 1_500;
const LEVELS: usize = 6;
/// A box within another box needs this fraction of the map: one of `SEEN` parts. A box that shows its content needs one of `OPENED`.
const SEEN: u64 = 600;
const OPENED: u64 = 100;
/// Objects without a box that are sampled for their most frequent type.
const SAMPLES: u64 = 16;
/// Maximum nodes of the path up.
const ABOVE: usize = 24;

/// The treemap.
#[derive(Debug, Serialize)]
pub(super) struct Map {
    here: Row,
    /// Its dominators, nearest last; the whole heap is first.
    above: Vec<Row>,
    /// Whether nodes between the first and the others are omitted.
    cut: bool,
    boxes: Vec<Tile>,
    /// The node's children without a box.
    rest: Rest,
}

#[derive(Debug, Serialize)]
struct Tile {
    #[serde(flatten)]
    row: Row,
    inside: Vec<Tile>,
    /// The most frequent type of the omitted children; null if no type prevails, or if too little space is left for them.
    mostly: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Rest {
    nodes: u64,
    count: u64,
    retained: u64,
    /// Their most frequent type, if one prevails.
    mostly: Option<String>,
}

pub(super) fn map(index: &Index, id: Id) -> Result<Map, NoAnswer> {
    let record = index.record(id)?;
    let mut drawing = Drawing { index, whole: record.retained, left: BOXES };
    let boxes = drawing.tiles(&record, 1)?;
    let below = record.retained_count.saturating_sub(record.type_ix.is_some().into());
    let rest = Rest {
        nodes: record.children.length - boxes.len() as u64,
        count: boxes.iter().fold(u64::from(below), |count, tile| count.saturating_sub(tile.row.count.into())),
        retained: boxes
            .iter()
            .fold(record.retained.saturating_sub(record.own), |sum, tile| sum.saturating_sub(tile.row.retained)),
        mostly: mostly(index, record.children, boxes.len() as u64)?,
    };
    let (above, cut) = above(index, &record)?;
    Ok(Map { here: Row::of(index, id, &record), above, cut, boxes, rest })
}

/// The drawing of one treemap.
struct Drawing<'a> {
    index: &'a Index,
    /// Bytes of the whole map.
    whole: u64,
    /// Boxes that may still be added.
    left: usize,
}

impl Drawing<'_> {
    /// A node's visible children, largest retained size first.
    fn tiles(&mut self, record: &Record, level: usize) -> Result<Vec<Tile>, NoAnswer> {
        let mut tiles = Vec::new();
        for child in self.index.part(record.children, 0..OUTER)? {
            let below = self.index.record(child)?;
            let is_seen = level == 1 || self.is_part(&below, SEEN);
            if !is_seen || self.left == 0 {
                break;
            }
            self.left -= 1;
            tiles.push((Row::of(self.index, child, &below), below));
        }
        let opened = tiles.into_iter().map(|(row, below)| {
            let is_opened = level < LEVELS && self.is_part(&below, OPENED);
            if !is_opened {
                return Ok(Tile { row, inside: Vec::new(), mostly: None });
            }
            let inside = self.tiles(&below, level + 1)?;
            let mostly = mostly(self.index, below.children, inside.len() as u64)?;
            Ok(Tile { row, inside, mostly })
        });
        opened.collect()
    }

    /// Whether it is at least a fraction of the whole: one of `parts`.
    fn is_part(&self, record: &Record, parts: u64) -> bool {
        record.retained.saturating_mul(parts) >= self.whole
    }
}

/// The prevailing type of a list from an index on, from a sample.
fn mostly(index: &Index, list: List, from: u64) -> Result<Option<String>, NoAnswer> {
    let left = list.length.saturating_sub(from);
    let mut counts = BTreeMap::new();
    for sample in 0..SAMPLES.min(left) {
        let place = from + left * sample / SAMPLES.min(left);
        for id in index.part(list, place..place + 1)? {
            *counts.entry(index.record(id)?.type_ix).or_insert(0_u64) += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    let of = most.filter(|(_, count)| count * 3 >= SAMPLES.min(left) * 2).and_then(|(place, _)| place);
    Ok(of.map(|place| index.types()[place as usize].name.clone()))
}

/// The dominators from the whole heap down to a node, without it, shortened if long; and whether they were shortened.
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
