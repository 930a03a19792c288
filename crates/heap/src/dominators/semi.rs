//! Semidominators, by number.
//!
//! A reference from a lower to a higher number leads from an ancestor to a descendant, so that the lower number is a candidate as it is:
//! only references that lead back to a lower number are followed through the forest.

use super::by_target::for_each_bucket;
use super::search::Search;
use crate::graph::HeapGraph;
use std::hint::black_box;

/// Numbers whose references are read ahead.
const READ_AHEAD: usize = 32;

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
    let mut way = Vec::new();
    for_each_bucket(graph, search, |bucket, parents| {
        for (place, &ancestor) in bucket.least.iter().enumerate().rev() {
            if place % READ_AHEAD == READ_AHEAD - 1 {
                read_ahead(&cells, bucket.sources_of(place + 1 - READ_AHEAD..=place));
            }
            let number = bucket.begin + place as u32;
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

/// Brings the cells of `sources` into the cache. One after the other, each would be waited for; here they are on their way all at once.
fn read_ahead(cells: &[Cell], sources: &[u32]) {
    for source in sources {
        black_box(cells[*source as usize].link);
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
