//! The treemap: a node, what hangs under it, and what hangs under that, as deep as it can be seen.

use super::NoAnswer;
use super::row::Row;
use crate::Index;
use crate::index::{Id, List, Record};
use serde::Serialize;
use std::collections::BTreeMap;

/// Boxes side by side on the outermost level, and boxes in all; levels of boxes within each other.
const OUTER: u64 = 120;
const BOXES: usize = 1_500;
const LEVELS: usize = 6;
/// What is smaller than this part of the picture is too small to be seen within another box, and what is smaller than this to show what
/// is in it.
const SEEN: u64 = 600;
const OPENED: u64 = 100;
/// So many of those without a box are looked at to say what most of them are.
const SAMPLES: u64 = 16;
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
    inside: Vec<Tile>,
    /// Of what type most of those are that hang under it and are not told; null if of none, or if too little room is left for them.
    mostly: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Rest {
    nodes: u64,
    count: u64,
    retained: u64,
    /// Of what type most of them are, if of one.
    mostly: Option<String>,
}

pub(super) fn map(index: &Index, id: Id) -> Result<Map, NoAnswer> {
    let record = index.record(id)?;
    let mut drawing = Drawing { index, whole: record.retained, left: BOXES };
    let boxes = drawing.tiles(&record, 1)?;
    let told = |sum: u64, told: u64| sum.saturating_sub(told);
    let below = record.retained_count.saturating_sub(record.type_ix.is_some().into());
    let rest = Rest {
        nodes: record.children.length - boxes.len() as u64,
        count: boxes.iter().fold(below.into(), |count, tile| told(count, tile.row.count.into())),
        retained: boxes.iter().fold(told(record.retained, record.own), |sum, tile| told(sum, tile.row.retained)),
        mostly: mostly(index, record.children, boxes.len() as u64)?,
    };
    let (above, cut) = above(index, &record)?;
    Ok(Map { here: Row::of(index, id, &record), above, cut, boxes, rest })
}

/// One picture.
struct Drawing<'a> {
    index: &'a Index,
    /// What all of it stands for.
    whole: u64,
    /// Boxes that may still be added.
    left: usize,
}

impl Drawing<'_> {
    /// What hangs under a node, those that retain most first, as far as it can be seen.
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

    /// Whether it is at least one of so many parts of the whole.
    fn is_part(&self, record: &Record, parts: u64) -> bool {
        record.retained.saturating_mul(parts) >= self.whole
    }
}

/// The type that most of a list are of, from a place on, judged by some of them.
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
