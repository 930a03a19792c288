//! The treemap: a node and its dominator subtree, as deep as boxes are visible.

use super::NoAnswer;
use super::groups::Groups;
use super::row::Row;
use crate::Index;
use crate::index::{Id, Record};
use serde::Serialize;

/// Maximum boxes on the outermost level and in all; maximum levels.
const OUTER: u64 = 120;
const BOXES: usize = 1_500;
const LEVELS: usize = 6;
/// A box within another box needs this fraction of the map: one of `SEEN` parts. A box that shows its content needs one of `OPENED`.
const SEEN: u64 = 600;
const OPENED: u64 = 100;
/// Children without a box are counted by type from all of them up to this number, otherwise from as many samples: those of the map, and those
/// of a box beside other boxes.
const COUNTED: u64 = 1_000;
const SAMPLES: u64 = 16;
/// Objects that are followed to group what is below boxes without boxes inside. A box has a part of them, by its size.
const FOLLOWED: u64 = 4_096;
/// A linked list: so many objects of one type in a row, each of which keeps nearly all of the one before, all but one of `LINK` parts.
/// Boxes inside boxes would only repeat it.
const LINKS: usize = 3;
const LINK: u64 = 16;
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
    /// The omitted children by retained size. Without a box inside: everything below by own size.
    #[serde(flatten)]
    groups: Groups,
}

#[derive(Debug, Default, Serialize)]
struct Rest {
    nodes: u64,
    count: u64,
    retained: u64,
    #[serde(flatten)]
    groups: Groups,
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
        groups: Groups::of_list(index, record.children, boxes.len() as u64, COUNTED)?,
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
            let is_opened = level < LEVELS && self.is_part(&below, OPENED) && !self.is_linked(&below)?;
            let inside = if is_opened { self.tiles(&below, level + 1)? } else { Vec::new() };
            let groups = if inside.is_empty() {
                let most = SAMPLES + FOLLOWED.saturating_mul(below.retained) / self.whole.max(1);
                Groups::below(self.index, &below, most as usize)?
            } else {
                Groups::of_list(self.index, below.children, inside.len() as u64, SAMPLES)?
            };
            Ok(Tile { row, inside, groups })
        });
        opened.collect()
    }

    /// Whether a linked list begins here.
    fn is_linked(&self, record: &Record) -> Result<bool, NoAnswer> {
        let mut record = record.clone();
        for _ in 0..LINKS {
            let Some(&next) = self.index.part(record.children, 0..1)?.first() else { return Ok(false) };
            let next = self.index.record(next)?;
            let keeps = next.retained.saturating_mul(LINK) >= record.retained.saturating_mul(LINK - 1);
            if next.type_ix != record.type_ix || !keeps {
                return Ok(false);
            }
            record = next;
        }
        Ok(true)
    }

    /// Whether it is at least a fraction of the whole: one of `parts`.
    fn is_part(&self, record: &Record, parts: u64) -> bool {
        record.retained.saturating_mul(parts) >= self.whole
    }
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
