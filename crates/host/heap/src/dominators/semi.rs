//! Semidominators, by number.
//!
//! A reference from a lower to a higher number leads from an ancestor to a descendant, so the lower number is a candidate without a walk.
//! Only references back to a lower number are followed through the forest.

use super::by_target::for_each_bucket;
use super::search::Search;
use crate::graph::HeapGraph;

/// Numbers whose references are prefetched.
const READ_AHEAD: usize = 64;
/// Prefetched steps of each walk up. Most walks are shorter; a long one is compressed once walked.
const STEPS_AHEAD: usize = 24;

/// The state of a processed number. One array for both fields, since they are needed together.
#[derive(Clone, Copy)]
struct Cell {
    /// The least semidominator on the compressed path up, its own included.
    least: u32,
    /// The next node on the compressed path up.
    link: u32,
}

/// For each number its semidominator. Frees the search's table of object numbers on the way.
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

/// Prefetches the cells on the paths up from `here`, as far as they are above `limit`.
/// Path after path would wait for each step. Here all paths take one step at a time, so the loads overlap.
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

/// The least semidominator on the path up from `from` to the last node above `limit`. Compresses the path for later walks.
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
