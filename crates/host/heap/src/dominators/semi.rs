//! Semidominators, by number.
//!
//! A reference from a lower to a higher number leads from an ancestor to a descendant, so that the lower number is a candidate as it is:
//! only references that lead back to a lower number are followed through the forest.

use super::by_target::for_each_bucket;
use super::search::Search;
use crate::graph::HeapGraph;

/// Numbers whose references are read ahead.
const READ_AHEAD: usize = 64;
/// How far their ways up are read ahead. Most are shorter; a long one is shortened as soon as it has been gone once.
const STEPS_AHEAD: usize = 24;

/// What is known of a number that has been dealt with. One array for both, since they are needed together.
#[derive(Clone, Copy)]
struct Cell {
    /// The least semidominator on the compressed way up, its own included.
    least: u32,
    /// The next node on the compressed way up.
    link: u32,
}

/// For each number its semidominator. What the search knows of objects' numbers is given up on the way.
pub(super) fn semidominators(graph: &HeapGraph, search: &mut Search) -> Vec<u32> {
    let count = search.parents.len();
    let mut cells = vec![Cell { least: 0, link: 0 }; count];
    let mut semi = vec![0; count];
    let (mut way, mut ahead) = (Vec::new(), Vec::new());
    for_each_bucket(graph, search, |bucket, parents| {
        for (place, &ancestor) in bucket.least.iter().enumerate().rev() {
            let number = bucket.begin + place as u32;
            if place % READ_AHEAD == READ_AHEAD - 1 {
                ahead.clear();
                ahead.extend_from_slice(bucket.sources_of(place + 1 - READ_AHEAD..=place));
                read_ahead(&cells, &mut ahead, number);
            }
            let mut least = ancestor;
            for &source in bucket.sources(place) {
                least = least.min(least_above(&mut cells, source, number, &mut way));
            }
            semi[number as usize] = least;
            cells[number as usize] = Cell { least, link: parents[number as usize] };
        }
    });
    semi
}

/// Brings the cells on the ways up from `here` into the cache, as far as they are above `limit`. One way after the other, each step would be
/// waited for; here all take one step at a time, and the cells are on their way all at once.
fn read_ahead(cells: &[Cell], here: &mut Vec<u32>, limit: u32) {
    for _ in 0..STEPS_AHEAD {
        here.retain_mut(|here| {
            *here = cells[*here as usize].link;
            *here > limit
        });
        if here.is_empty() {
            break;
        }
    }
}

/// The least semidominator on the way up from `from` to the last node above `limit`. Shortens the way for those who come later.
#[inline]
fn least_above(cells: &mut [Cell], from: u32, limit: u32, way: &mut Vec<u32>) -> u32 {
    let Cell { least, link } = cells[from as usize];
    if link <= limit {
        return least;
    }
    way.push(from);
    let mut here = link;
    let mut top = cells[here as usize];
    while top.link > limit {
        way.push(here);
        here = top.link;
        top = cells[here as usize];
    }
    while let Some(below) = way.pop() {
        let cell = &mut cells[below as usize];
        top.least = top.least.min(cell.least);
        *cell = top;
    }
    top.least
}
